-- The score of each version on each task type: means over all of its episodes that count, the cost beside the baseline,
-- the penalty for it, and the composite. What is unknown is null.
-- Reads: episodes; baseline (by task type); settings (one row).
with means as (
    select
        config_version,
        task_type,
        count(*) filter (counts) as episodes,
        count(*) filter (counts and completion is null) as unscored,
        count(*) filter (counts and outcome = 'error') as errors,
        count(*) filter (counts and outcome = 'timeout') as timeouts,
        count(*) filter (counts and outcome = 'denied') as denied_ends,
        count(*) filter (counts and outcome = 'gave_up') as gave_up,
        count(*) filter (counts and outcome = 'diverged') as diverged,
        count(*) filter (counts and outcome = 'budget') as over_budget,
        count(*) filter (counts and outcome = 'unfinished') as unfinished,
        count(*) filter (outcome = 'at work') as at_work,
        count(*) filter (outcome = 'cancelled' or is_made_again) as left_out,
        -- Of all episodes: one of which nothing is known adds nothing, and stays in the denominator.
        sum(base) filter (counts) / count(*) filter (counts) as base,
        sum(completion) filter (counts) / count(*) filter (counts) as completion,
        avg(effectiveness) filter (counts) as effectiveness,
        avg(safety) filter (counts) as safety,
        avg(feedback) filter (counts) as feedback,
        count(*) filter (counts and effectiveness is null) as without_effectiveness,
        count(*) filter (counts and feedback is null) as without_feedback,
        count(*) filter (counts and is_success) as successes,
        avg(tokens) filter (counts) as tokens,
        avg(seconds) filter (counts) as seconds,
        sum(usd) filter (counts) as usd,
        count(*) filter (counts and tokens is null) as without_tokens,
        count(*) filter (counts and seconds is null) as without_seconds,
        min(began) as first_began
    from episodes
    group by config_version, task_type
),
costed as (
    select
        means.*,
        baseline.tokens as baseline_tokens,
        baseline.seconds as baseline_seconds,
        means.tokens / nullif(baseline.tokens, 0) as token_ratio,
        means.seconds / nullif(baseline.seconds, 0) as second_ratio
    from means left join baseline on baseline.task_type is not distinct from means.task_type
),
rated as (
    select
        costed.*,
        -- A missing half drops out; with both missing r is unknown.
        (coalesce(token_share * token_ratio, 0) + coalesce((1 - token_share) * second_ratio, 0))
        / nullif(
            case when token_ratio is null then 0 else token_share end
            + case when second_ratio is null then 0 else 1 - token_share end, 0) as r
    from costed, settings
),
penalised as (
    select
        rated.*,
        -- (`least` and `greatest` pass over a null, and so would make nothing of an unknown cost.)
        case when r is not null then least(
            most_penalty,
            greatest(least(r, steep_from) - mild_from, 0) * mild_slope + greatest(r - steep_from, 0) * steep_slope
        ) end as penalty
    from rated, settings
)
select *, base - penalty as composite
from penalised
order by config_version, task_type
