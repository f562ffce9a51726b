-- The turns of a session, in order: what the user said, what the agent called, and how it came out. Parameter: the run.
with messages as (
    select
        run_id,
        episode_id,
        arg_min(event_id, event_id) as message_id,
        arg_min(coalesce(input->>'$.text', input->>'$.content'), event_id) as said
    from events
    where run_id = ? and action = 'message_received' and episode_id is not null
    group by run_id, episode_id
),
doings as (
    select
        episode_id,
        any_value(task_type) as task_type,
        any_value(config_version) as config_version,
        min(event_id) as first_event,
        arg_max(coalesce(status, ''), event_id) filter (action = 'task_ended') as ended,
        arg_max(coalesce(observation, ''), event_id) filter (action = 'task_ended') as answer,
        arg_max(name, event_id) filter (action = 'feedback') as feedback,
        coalesce(list({
            'event_id': event_id, 'tool': name, 'status': coalesce(status, ''), 'arguments': coalesce(input, '{}'),
            'output': left(coalesce(output, ''), 2000), 'chars': coalesce(strlen(output), 0)
        } order by step, event_id) filter (action in ('tool_called', 'code_executed', 'retrieval')), []) as calls
    from events
    where run_id = ? and episode_id is not null
    group by episode_id
)
select episode_id, task_type, config_version, message_id, said, ended, answer, feedback, calls
from doings left join messages using (episode_id)
order by first_event
