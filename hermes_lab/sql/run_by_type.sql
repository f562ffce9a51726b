-- What became of a run, by task type: completion (mean grade), and what an episode took on average.
-- Where an attempt was made again (its run was killed before it was graded), the last one counts.
-- (try_cast, for a cast is made before the filter looks at the action.)
with episodes as (
    select
        episode_id,
        any_value(task_id) as task_id,
        any_value(task_type) as task_type,
        any_value(input->>'$.seed') filter (action = 'task_started') as seed,
        any_value(name) filter (action = 'task_ended') as how,
        any_value(try_cast(output->>'$.tokens' as bigint)) filter (action = 'task_ended') as tokens,
        any_value(try_cast(output->>'$.seconds' as double)) filter (action = 'task_ended') as seconds,
        any_value(try_cast(output->>'$.usd' as double)) filter (action = 'task_ended') as usd,
        any_value(json_array_length(output, '$.calls')) filter (action = 'task_ended') as calls,
        arg_max(try_cast(output->>'$.score' as double), event_id) filter (action = 'graded') as score
    from events
    where run_id = ? and episode_id is not null
    group by episode_id
    having bool_or(action = 'task_ended' and status is distinct from 'cancelled')
),
last_attempts as (
    select *
    from episodes
    qualify row_number() over (partition by task_id, seed order by score is not null desc, episode_id desc) = 1
)
select
    coalesce(task_type, 'all') as task_type,
    count(*) as episodes,
    avg(score) as completion,
    count(*) filter (score = 1) as full_marks,
    avg(calls) as calls,
    avg(tokens) as tokens,
    avg(seconds) as seconds,
    sum(usd) as usd,
    count(*) filter (how = 'completed') as completed,
    count(*) filter (how not in ('completed')) as not_completed
from last_attempts
group by grouping sets ((task_type), ())
order by grouping(task_type), task_type
