-- When each memory was last recalled by an agent.
select memory->>'$.id' as id, max(ts) as last_used
from (
    select ts, unnest(cast(json_extract(output, '$.memories[*]') as json[])) as memory
    from events
    where action in ('retrieval', 'tool_called') and name = 'recall' and status = 'ok'
)
group by all
order by all
