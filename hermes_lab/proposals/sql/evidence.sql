-- What the events that proposals rest on were, in order. Parameter: a list of event ids.
select
    event_id,
    ts,
    action,
    name,
    episode_id,
    task_type,
    case
        when action = 'imported' then coalesce(input->>'$.path', input->>'$.paths', input)
        else coalesce(observation, input->>'$.text', input->>'$.content', input->>'$.note', output, input)
    end as seen
from events
where event_id in (select unnest(?))
order by event_id
