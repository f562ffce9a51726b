-- How often a tool came out ok right after another one did, in episodes of each type, as of a moment.
-- Parameter: as_of.
with imports as (
    -- When what an import brought began to count: at its end, or, where it was killed, at the end of the next one.
    select brought.run_id, min(ended.ts) as over_at
    from (select distinct run_id from events where starts_with(run_id, 'import-')) as brought
    join (select run_id, ts from events where action = 'imported') as ended on ended.run_id >= brought.run_id
    group by all
),
calls as (
    select
        coalesce(task_type, '') as task_type,
        name as tool,
        status,
        lag(name) over in_order as before,
        lag(status) over in_order as status_before
    from events
    where action in ('tool_called', 'code_executed', 'retrieval')
      and name is not null
      and episode_id is not null
      and ts <= $as_of
      and (
          run_id is null
          or not starts_with(run_id, 'import-')
          or run_id in (select run_id from imports where over_at <= $as_of)
      )
    window in_order as (partition by episode_id order by step, event_id)
)
select task_type, before, tool, count(*) as times
from calls
where status = 'ok' and status_before = 'ok'
group by all
order by all
