-- Records of finished tasks that hold any of some words, those that hold the most first, then the newest.
-- Parameters: words (a list in lower case; empty for any), task_type, tool, outcome (null for any), and how many.
with records as (
    select
        event_id, ts, episode_id, task_id, task_type, config_version, output,
        lower(concat_ws(' ', output->>'$.request', output->>'$.result', output->>'$.failure_points',
            output->>'$.key_decisions', output->>'$.tools')) as haystack
    from events
    where action = 'task_recorded'
        and ($task_type is null or task_type = $task_type)
        and ($outcome is null or name = $outcome)
        and ($tool is null or list_contains(cast(json_extract(output, '$.tools') as varchar[]), $tool))
),
counted as (
    select *, len(list_filter($words, lambda word: contains(haystack, word))) as held
    from records
)
select event_id, ts, episode_id, task_id, task_type, config_version, output, held
from counted
where held > 0 or len($words) = 0
order by held desc, ts desc, event_id desc
limit $most
