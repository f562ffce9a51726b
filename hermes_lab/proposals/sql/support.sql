-- The events that a proposal names as its evidence, in order. Parameter: a list of event ids.
select event_id, action, name, run_id, episode_id, task_type, status, input, output
from events
where event_id in (select unnest(?))
order by event_id
