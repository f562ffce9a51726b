-- Plain means and counts of each version on each task type, over all of its episodes that count. What is unknown is null.
-- Reads: episodes; settings (one row).
select
    config_version,
    task_type,
    min(began) as first_began,
    min(began) filter (counts) as began,
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
    -- What a success of late took, for the baseline.
    count(*) filter (is_recent) as recent_successes,
    count(tokens) filter (is_recent) as recent_with_tokens,
    sum(tokens) filter (is_recent) as recent_tokens,
    count(seconds) filter (is_recent) as recent_with_seconds,
    sum(seconds) filter (is_recent) as recent_seconds,
    -- What tells whether a version plays the score.
    sum(tokens) filter (counts) as all_tokens,
    avg(attempted_calls) filter (counts) as calls,
    avg(searches) filter (counts) as searches,
    sum(ineffective_searches) filter (counts)
        / nullif(sum(searches - unknown_searches) filter (counts), 0) as ineffective_share,
    avg(cast(attempted_calls + unknown_calls = 0 as integer)) filter (counts) as no_call_share,
    avg(cast(outcome in ('gave_up', 'denied') as integer)) filter (counts) as refusal_share,
    -- Proofs of growth.
    avg(cast(
        is_success and tool_errors + refused_calls + fixes + failed_model_calls = 0 as integer
    )) filter (counts) as first_attempt_success,
    avg(coalesce(steps, model_calls)) filter (counts and is_success) as turns_to_success
from (
    select
        *,
        counts and is_success and coalesce(ended, active_ts) between as_of - to_seconds(baseline_s) and as_of as is_recent
    from episodes, settings
)
group by config_version, task_type
