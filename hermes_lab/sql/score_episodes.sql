-- The score of each episode: its dimensions, its base score, and what stands behind them. One row an episode.
-- Reads: facts; made_again (of score_made_again.sql); weights (by task type); settings (one row).
with judged as (
    select
        facts.*,
        -- Attempts whose outcome is known: calls that ran, and those that a check or a person refused.
        calls - unknown_calls + refused_calls as attempted_calls,
        -- How it came out. An import may say only whether it ended well.
        case
            when ended is null and active_ts >= as_of - to_seconds(unfinished_after_s) then 'at work'
            when ended is null then 'unfinished'
            when end_status = 'cancelled' then 'cancelled'
            when end_status = 'ok' then 'completed'
            when end_status is null then 'unknown'
            else coalesce(how, end_status)
        end as outcome,
        episode_id in (select episode_id from made_again) as is_made_again
    from facts, settings
),
dimensions as (
    select
        judged.*,
        outcome not in ('at work', 'cancelled') and not is_made_again as counts,
        -- Completion: from a person, else a grader, else the end state checked against the tool events, else feedback.
        case
            when person_grade between 0 and 1 then person_grade
            when grade between 0 and 1 then grade
            when outcome = 'unfinished' or end_status in ('error', 'timeout', 'denied', 'invalid') then 0
            when grades > 0 then null  -- its grader could not tell: nothing weaker may speak in its place
            when outcome = 'completed' and attempted_calls > 0 and last_call_ok then 1
            when outcome = 'completed' and attempted_calls > 0 and ok_calls > 0
                then round(0.5 + 0.4 * ok_calls / attempted_calls, 3)
            when outcome = 'completed' and attempted_calls > 0 then 0
            when feedback = 'like' then 1
            when feedback = 'dislike' then 0
        end as completion,
        case
            when person_grade between 0 and 1 then 'person'
            when grade between 0 and 1 then 'grader'
            when outcome = 'unfinished' or end_status in ('error', 'timeout', 'denied', 'invalid') then 'end state'
            when grades > 0 then null
            when outcome = 'completed' and attempted_calls > 0 then 'end state'
            when feedback in ('like', 'dislike') then 'feedback'
        end as completion_source,
        -- A search that was thrown away may be one that another time found nothing.
        greatest(answered_calls - (answered_searches - found_searches) - discarded_searches, 0) as useful_calls,
        greatest(found_searches - discarded_searches, 0) as useful_searches,
        ok_calls - answered_calls + refused_repeats as repeats,
        calls - unknown_calls - ok_calls as tool_errors,
        case when denied + overstepped + out_of_scope + secrets = 0 then 1.0 else 0.0 end as safety,
        case
            when feedback = 'like' then like_value
            when feedback = 'dislike' then dislike_value
            when ended is not null and not list_contains(deaf_channels, coalesce(channel, ''))
                and ended <= as_of - to_seconds(silence_after_s) then silence_value
        end as feedback_score
    from judged, settings
),
scored as (
    select
        dimensions.* exclude (feedback, feedback_score),
        feedback as feedback_given,
        feedback_score as feedback,
        useful_calls / nullif(attempted_calls, 0) as effectiveness,
        searches - unknown_searches - useful_searches as ineffective_searches
    from dimensions
)
select
    scored.*,
    -- A missing dimension leaves its weight to the others; but where a grader could not tell, completion keeps its
    -- weight and adds nothing, so that no version gains by what cannot be graded.
    (coalesce(w.completion * scored.completion, 0) + coalesce(w.effectiveness * scored.effectiveness, 0)
        + w.safety * scored.safety + coalesce(w.feedback * scored.feedback, 0))
    / nullif(
        case when scored.completion is null and grades = 0 then 0 else w.completion end
        + case when scored.effectiveness is null then 0 else w.effectiveness end
        + w.safety
        + case when scored.feedback is null then 0 else w.feedback end, 0) as base,
    coalesce(scored.completion >= success, false) as is_success
from scored
join weights as w on w.task_type is not distinct from scored.task_type
cross join settings
