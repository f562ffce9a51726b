-- The score of each version over its task types, each weighted by its share of the version's episodes. The composite is
-- unknown where that of one of its types is.
-- Reads: types (of score_types).
select
    config_version,
    cast(sum(episodes) as bigint) as episodes,
    count(*) filter (episodes > 0) as task_types,
    cast(sum(unscored) as bigint) as unscored,
    cast(sum(errors) as bigint) as errors,
    cast(sum(timeouts) as bigint) as timeouts,
    cast(sum(denied_ends) as bigint) as denied_ends,
    cast(sum(gave_up) as bigint) as gave_up,
    cast(sum(diverged) as bigint) as diverged,
    cast(sum(over_budget) as bigint) as over_budget,
    cast(sum(unfinished) as bigint) as unfinished,
    cast(sum(at_work) as bigint) as at_work,
    cast(sum(left_out) as bigint) as left_out,
    cast(sum(successes) as bigint) as successes,
    sum(base * episodes) / sum(episodes) as base,
    -- A type of which no completion is known adds nothing, and stays in the denominator.
    sum(completion * episodes) / sum(episodes) as completion,
    sum(effectiveness * (episodes - without_effectiveness))
        / nullif(sum(episodes - without_effectiveness), 0) as effectiveness,
    sum(safety * episodes) / sum(episodes) as safety,
    sum(feedback * (episodes - without_feedback)) / nullif(sum(episodes - without_feedback), 0) as feedback,
    cast(sum(without_effectiveness) as bigint) as without_effectiveness,
    cast(sum(without_feedback) as bigint) as without_feedback,
    sum(tokens * (episodes - without_tokens)) / nullif(sum(episodes - without_tokens), 0) as tokens,
    sum(seconds * (episodes - without_seconds)) / nullif(sum(episodes - without_seconds), 0) as seconds,
    sum(usd) as usd,
    case when count(*) filter (episodes > 0 and penalty is null) = 0
        then sum(penalty * episodes) / sum(episodes) end as penalty,
    case when count(*) filter (episodes > 0 and composite is null) = 0
        then sum(composite * episodes) / sum(episodes) end as composite,
    coalesce(list(task_type order by task_type) filter (episodes > 0 and composite is null), []) as unknown_types,
    min(first_began) as first_began
from types
group by config_version
order by first_began, config_version
