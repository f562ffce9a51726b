-- Signs that a version plays the score rather than does the work: completion bought with cost, searches that spread and
-- miss, and an agent that stops calling tools (over-cautious). Each version is held, on each task type, against the one
-- before it on that type, so that another mixture of tasks is no sign of anything.
-- Reads: means (of score_means.sql); settings (one row).
with beside as (
    select
        *,
        lag(episodes) over in_order is not null as has_before,
        coalesce(tokens / nullif(lag(tokens) over in_order, 0), seconds / nullif(lag(seconds) over in_order, 0)) as cost_ratio,
        -- From no search at all a rise has no ratio: it is held against one search an episode.
        searches / coalesce(nullif(lag(searches) over in_order, 0), 1) as search_ratio,
        coalesce(ineffective_share, 0) - coalesce(lag(ineffective_share) over in_order, 0) as ineffective_rise,
        no_call_share - lag(no_call_share) over in_order as no_call_rise,
        completion - lag(completion) over in_order as completion_rise
    from (select * replace (coalesce(completion, 0) as completion) from means where episodes > 0)
    window in_order as (partition by task_type order by began, config_version)
),
summed as (
    select
        config_version,
        min(began) as began,
        sum(episodes) as episodes,
        sum(completion * episodes) / sum(episodes) as completion,
        sum(tokens * episodes) / sum(episodes) filter (tokens is not null) as tokens,
        sum(all_tokens) / nullif(sum(successes), 0) as tokens_a_success,
        sum(seconds * episodes) / sum(episodes) filter (seconds is not null) as seconds,
        sum(calls * episodes) / sum(episodes) as calls,
        sum(searches * episodes) / sum(episodes) as searches,
        sum(ineffective_share * episodes) / sum(episodes) filter (ineffective_share is not null) as ineffective_share,
        sum(no_call_share * episodes) / sum(episodes) as no_call_share,
        sum(refusal_share * episodes) / sum(episodes) as refusal_share,
        sum(cost_ratio * episodes) / sum(episodes) filter (cost_ratio is not null) as cost_ratio,
        sum(search_ratio * episodes) filter (has_before) / sum(episodes) filter (has_before) as search_ratio,
        sum(ineffective_rise * episodes) filter (has_before) / sum(episodes) filter (has_before) as ineffective_rise,
        sum(no_call_rise * episodes) / sum(episodes) filter (has_before) as no_call_rise,
        sum(completion_rise * episodes) / sum(episodes) filter (has_before) as completion_rise
    from beside
    group by config_version
)
select
    summed.* exclude (began) replace (cast(episodes as bigint) as episodes),
    coalesce(completion_rise > 0 and summed.cost_ratio >= cost_ratio_alarm, false) as is_bought,
    coalesce(summed.search_ratio >= search_ratio_alarm and ineffective_rise > 0, false) as is_spraying,
    coalesce(summed.no_call_rise >= no_call_rise_alarm and completion_rise <= 0, false) as is_over_cautious
from summed, settings
order by began, config_version
