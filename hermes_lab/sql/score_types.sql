-- The score of each version on each task type: means over all of its episodes that count, the cost beside the baseline,
-- the penalty for it, and the composite. What is unknown is null.
-- Reads: means (of score_means.sql); baseline (by task type); settings (one row).
with costed as (
    select
        means.* exclude (
            began, recent_successes, recent_with_tokens, recent_tokens, recent_with_seconds, recent_seconds,
            all_tokens, calls, searches, ineffective_share, no_call_share, refusal_share,
            first_attempt_success, turns_to_success
        ),
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
