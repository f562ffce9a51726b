-- Three proofs that versions grow stronger: success at the first attempt, planning turns to a success, and how often an
-- error comes back that was seen before the version began. A version before which nothing was seen has no third proof.
-- Reads: episodes.
with versions as (
    select config_version, min(began) as began from episodes where counts group by config_version
),
met as (
    select config_version, episode_id, task_type, coalesce(ended, active_ts) as ts, unnest(errors) as error
    from episodes
    where counts
),
first_met as (
    select task_type, error, min(ts) as ts from met group by task_type, error
),
known as (
    select met.config_version, count(distinct episode_id) as episodes
    from met
    join versions on versions.config_version is not distinct from met.config_version
    join first_met on first_met.task_type is not distinct from met.task_type and first_met.error = met.error
    where first_met.ts < versions.began
    group by met.config_version
)
select
    episodes.config_version,
    count(*) as episodes,
    avg(cast(
        is_success and tool_errors + refused_calls + fixes + failed_model_calls = 0 as integer
    )) as first_attempt_success,
    avg(coalesce(steps, model_calls)) filter (is_success) as turns_to_success,
    case when any_value(versions.began) > (select min(ts) from first_met)
        then coalesce(any_value(known.episodes), 0) / count(*) end as known_error_share
from episodes
join versions on versions.config_version is not distinct from episodes.config_version
left join known on known.config_version is not distinct from episodes.config_version
where counts
group by episodes.config_version
order by min(episodes.began), episodes.config_version
