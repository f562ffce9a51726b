-- The lists of tools of some episodes, with their hashes.
-- Formatted with one placeholder for each episode id.
select distinct hash(tools)::varchar, tools
from (
    select input->>'$.task.tools' as tools
    from events
    where action = 'task_started' and episode_id in ({ids})
) as listed
where tools is not null
