-- How many events a task takes, for the tasks that began last, and which kind of event takes the most room.
with last_tasks as (
    select task_id, events from events_per_task order by first_ts desc limit 200
),
kinds as (
    select action, sum(weight) as events
    from events
    where task_id in (select task_id from last_tasks)
    group by action
)
select
    (select count(*) from last_tasks) as tasks,
    (select median(events) from last_tasks) as median_events,
    (select max(events) from last_tasks) as most_events,
    (select max_by(task_id, events) from last_tasks) as most_task,
    (select max_by(action, events) from kinds) as most_action,
    (select max(events) / nullif(sum(events), 0) from kinds) as most_action_share
