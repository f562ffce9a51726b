-- How each tool did on tasks of each type, as of a moment: hits, recent misses that do not pass by themselves, the
-- last good arguments.
-- Parameters: as_of; forget_before: misses before this time are forgotten.
with imports as (
    -- When what an import brought began to count: at its end, or, where it was killed, at the end of the next one.
    select brought.run_id, min(ended.ts) as over_at
    from (select distinct run_id from events where starts_with(run_id, 'import-')) as brought
    join (select run_id, ts from events where action = 'imported') as ended on ended.run_id >= brought.run_id
    group by all
)
select
    coalesce(task_type, '') as task_type,
    name as tool,
    cast(coalesce(sum(weight) filter (status = 'ok'), 0) as bigint) as hits,
    cast(coalesce(sum(weight) filter (
        status in ('error', 'invalid')
        and coalesce(error_kind, '') not in ('timeout', 'rate_limited', 'connection', 'server_error', 'tool_unavailable')
        and ts >= $forget_before
    ), 0) as bigint) as misses,
    arg_max(input, event_id) filter (status = 'ok') as last_good
from events
where action in ('tool_called', 'code_executed', 'retrieval')
  and name is not null
  and ts <= $as_of
  and (
      run_id is null
      or not starts_with(run_id, 'import-')
      or run_id in (select run_id from imports where over_at <= $as_of)
  )
group by all
order by all
