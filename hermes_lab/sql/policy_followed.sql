-- How often a tool came out ok right after another one did, in episodes of each type.
with calls as (
    select
        coalesce(task_type, '') as task_type,
        name as tool,
        status,
        lag(name) over in_order as before,
        lag(status) over in_order as status_before
    from events
    where action in ('tool_called', 'code_executed', 'retrieval') and name is not null and episode_id is not null
    window in_order as (partition by episode_id order by step, event_id)
)
select task_type, before, tool, count(*) as times
from calls
where status = 'ok' and status_before = 'ok'
group by all
order by all
