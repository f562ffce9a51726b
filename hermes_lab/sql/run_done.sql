-- The attempts of a run: each episode that began, with what it was for, whether it ended by itself, and was graded.
select
    episode_id,
    any_value(task_id) as task_id,
    any_value(task_type) as task_type,
    any_value(try_cast(input->>'$.seed' as bigint)) filter (action = 'task_started') as seed,
    any_value(input->>'$.run.suite') filter (action = 'task_started') as suite,
    any_value(config_version) as config_version,
    max(step) + 1 as next_step,
    bool_or(status is distinct from 'cancelled') filter (action = 'task_ended') as finished,
    count(*) filter (action = 'graded') > 0 as graded
from events
where run_id = ? and episode_id is not null
group by episode_id
having count(*) filter (action = 'task_started') > 0
order by episode_id
