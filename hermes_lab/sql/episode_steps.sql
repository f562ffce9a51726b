-- What an episode did, in order.
select
    step,
    action,
    name,
    status,
    coalesce(
        observation,
        case action
            when 'generation' then output->>'$.text'
            when 'routed' then output->>'$.candidates'
            when 'context_assembled' then output->>'$.tokens'
            when 'reflection' then concat_ws(': ', output->>'$.status', output->>'$.corrected_instruction')
            when 'permission_requested' then input->>'$.reason'
            when 'permission_decided' then output->>'$.reason'
            when 'tool_called' then concat(input, ' -> ', output)
            when 'code_executed' then concat(input, ' -> ', output)
            when 'retrieval' then concat(input, ' -> ', output)
            when 'message_received' then input->>'$.text'
            else output
        end
    ) as seen
from events
where episode_id = ?
order by step, event_id
