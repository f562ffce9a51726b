-- The seed of each episode, as its first event says. Parameter ids: the episodes.
select episode_id, min(try_cast(input->>'$.seed' as bigint)) as seed
from events
where action = 'task_started' and episode_id in (select unnest($ids))
group by episode_id
