-- The cost baseline: what a success took of late, by task type. Reads: episodes; settings (one row).
select
    task_type,
    avg(tokens) as tokens,
    avg(seconds) as seconds,
    count(*) as successes
from episodes, settings
where counts and is_success and coalesce(ended, active_ts) between as_of - to_seconds(baseline_s) and as_of
group by task_type
order by task_type
