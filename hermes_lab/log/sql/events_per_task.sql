-- How many events each task took, counting what each event stands for, and how much text they hold.
create view events_per_task as
select
    task_id,
    min(task_type) as task_type,
    count(distinct episode_id) as episodes,
    sum(weight) as events,
    count(*) as stored,
    min(ts) as first_ts,
    max(ts) as last_ts,
    sum(coalesce(strlen(input), 0) + coalesce(strlen(output), 0) + coalesce(strlen(observation), 0)) as payload_bytes
from events
where task_id is not null
group by task_id
