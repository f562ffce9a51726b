-- The cost baseline: what a success took of late, by task type. Reads: means (of score_means.sql).
select
    task_type,
    sum(recent_tokens) / nullif(sum(recent_with_tokens), 0) as tokens,
    sum(recent_seconds) / nullif(sum(recent_with_seconds), 0) as seconds,
    cast(sum(recent_successes) as bigint) as successes
from means
where recent_successes > 0
group by task_type
order by task_type
