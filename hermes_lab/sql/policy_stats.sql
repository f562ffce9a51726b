-- How each tool did on tasks of each type: hits, recent misses that do not pass by themselves, the last good arguments.
-- Parameter: misses before this time are forgotten.
select
    coalesce(task_type, '') as task_type,
    name as tool,
    cast(coalesce(sum(weight) filter (status = 'ok'), 0) as bigint) as hits,
    cast(coalesce(sum(weight) filter (
        status in ('error', 'invalid')
        and coalesce(error_kind, '') not in ('timeout', 'rate_limited', 'connection', 'server_error', 'tool_unavailable')
        and ts >= ?
    ), 0) as bigint) as misses,
    arg_max(input, ts) filter (status = 'ok') as last_good
from events
where action in ('tool_called', 'code_executed', 'retrieval') and name is not null
group by all
order by all
