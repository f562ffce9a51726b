-- Three proofs that versions grow stronger: success at the first attempt, planning turns to a success, and how often an
-- error comes back that was seen before the version began. A version before which nothing was seen has no third proof.
-- Reads: means (of score_means.sql); episodes.
with versions as (
    select
        config_version,
        min(began) as began,
        cast(sum(episodes) as bigint) as episodes,
        sum(first_attempt_success * episodes) / sum(episodes) as first_attempt_success,
        sum(turns_to_success * successes) / nullif(sum(successes), 0) as turns_to_success
    from means
    where episodes > 0
    group by config_version
),
met as (
    select config_version, episode_id, task_type, coalesce(ended, active_ts) as ts, unnest(errors) as error
    from episodes
    where counts and len(errors) > 0
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
    versions.config_version,
    versions.episodes,
    first_attempt_success,
    turns_to_success,
    case when versions.began > (select min(ts) from first_met)
        then coalesce(known.episodes, 0) / versions.episodes end as known_error_share
from versions
left join known on known.config_version is not distinct from versions.config_version
order by versions.began, versions.config_version
