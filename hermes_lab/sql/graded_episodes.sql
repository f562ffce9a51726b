-- The episodes that a grader marked, with its last mark and the last one of a person. Parameter: the episode; null for all.
select
    episode_id,
    any_value(task_id) as task_id,
    any_value(task_type) as task_type,
    any_value(run_id) as run_id,
    any_value(config_version) as config_version,
    arg_max(event_id, event_id) filter (name is distinct from 'person' and score is not null) as graded_by_event,
    arg_max(name, event_id) filter (name is distinct from 'person' and score is not null) as grader,
    arg_max(score, event_id) filter (name is distinct from 'person') as grade,
    arg_max(score, event_id) filter (name = 'person') as person_grade,
    arg_max(sampled, event_id) filter (name = 'person') as sampled
from (
    select
        *,
        case when action = 'graded' then try_cast(output->>'$.score' as double) end as score,
        case when action = 'graded' then coalesce(output->>'$.sampled', 'false') = 'true' end as sampled
    from events
    where action = 'graded' and episode_id is not null and ($episode is null or episode_id = $episode)
)
group by episode_id
having grade is not null or person_grade is not null
order by episode_id
