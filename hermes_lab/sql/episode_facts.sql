-- What each episode did and took, in plain counts: what every score is made of. One row an episode; nothing is judged here.
-- To fill in: events, the view to read; among, a condition that keeps some episodes only; call, what tells one call of a
-- tool from another (to read `input` costs much, and is needed only where a call has no request_hash); is_empty, whether
-- a search found nothing; is_taken_back and is_judging, see the queries of these names ("false" where there are none).
-- Two passes: what nearly every episode has, and what few events are, which need no payload. (One pass took twice as long,
-- for a count costs time on each row that it does not count; more passes took longer again, for they have to be joined.)
with usual as (
    select
        episode_id,
        any_value(run_id) as run_id,
        any_value(task_id) as task_id,
        any_value(task_type) as task_type,
        any_value(config_version) as config_version,
        any_value(channel) as channel,
        any_value(name) filter (action = 'task_started') as family,
        min(ts) as began,
        max(ts) as last_ts,
        -- What others say of it later is no work on it.
        max(ts) filter (action not in ('graded', 'feedback')) as active_ts,
        -- The last word counts: a session that was taken up again ends more than once, and a grade may be corrected.
        arg_max({{'ts': ts, 'how': name, 'status': status, 'steps': told}}, place) filter (is_end) as ending,
        sum(input_tokens) as input_sum,
        sum(cached_tokens) as cached_sum,
        sum(output_tokens) as output_sum,
        sum(latency_ms) / 1000 as second_sum,
        sum(cost_usd) as usd,
        sum(weight) filter (action = 'generation') as reply_sum,
        list(call) filter (call is not null) as ok_list,
        max(step) filter (call is not null) as last_ok_step,
        count(*) filter (leaked) as secrets,
        count(*) filter (is_grade) as grades,
        try_cast(arg_max(told, place) filter (is_grade) as double) as grade,
        try_cast(arg_max(told, place) filter (action = 'graded' and not is_grade) as double) as person_grade,
        count(*) filter (action = 'reflection' and told = 'needs_fix') as fixes
    from (
        select
            episode_id, run_id, task_id, task_type, config_version, channel, ts, step, action, name, status,
            input_tokens, cached_tokens, output_tokens, cost_usd, weight,
            -- What stands for no event of its own was clocked as part of another.
            case when weight > 0 then latency_ms end as latency_ms,
            action = 'task_ended' as is_end,
            action = 'graded' and name is distinct from 'person' as is_grade,
            -- The order of what is told more than once: time, then step.
            case when action in ('task_ended', 'graded')
                then greatest(least(epoch_us(ts), 8000000000000000), -8000000000000000) * 1024
                    + least(coalesce(step, 1023), 1023) end as place,
            case action when 'graded' then output->>'$.score' when 'task_ended' then output->>'$.steps'
                when 'reflection' then output->>'$.status' end as told,
            -- A call that came out well. The last bits say whether it is a search, and whether that found nothing.
            case when action in ('tool_called', 'code_executed', 'retrieval') and status = 'ok' and weight > 0
                and not {is_taken_back}
                then cast(hash(name, {call}) >> 3 as bigint) * 4
                    + case when action <> 'retrieval' then 0 when {is_empty} then 3 else 1 end end as call,
            case when action in ('tool_called', 'code_executed', 'retrieval')
                then contains(output, '[redacted:') end as leaked
        from {events}
        -- Notes by the way tell nothing here, and are many.
        where episode_id is not null and action not in ('routed', 'context_assembled', 'compressed', 'task_recorded')
            and not {is_judging} {among}
    )
    group by episode_id
),
seldom as (
    select
        episode_id,
        count(*) filter (
            action = 'generation' and weight > 0 and status = 'ok'
            and (output_tokens is null or (input_tokens is null and cached_tokens is null))
        ) as uncounted_replies,
        count(*) filter (action = 'generation' and weight = 0 and output_tokens is not null) as session_totals,
        count(*) filter (weight > 0 and status = 'ok' and latency_ms is null and (is_act or action = 'generation')) as unclocked,
        count(*) filter (action = 'generation' and has_failed) as failed_model_calls,
        count(*) filter (is_call and status is null) as unknown_calls,
        count(*) filter (is_call and status is null and action = 'retrieval') as unknown_searches,
        count(*) filter (is_call and status <> 'ok') as failed_calls,
        count(*) filter (is_call and status <> 'ok' and action = 'retrieval') as failed_searches,
        max(step) filter ((is_call and status <> 'ok') or is_refusal) as last_failed_step,
        count(*) filter (action = 'reflection') as reflections,
        count(*) filter (action = 'escalated') as escalations,
        count(*) filter (is_refusal) as refused_calls,
        count(*) filter (is_refusal and error_kind = 'repeated_call') as refused_repeats,
        count(*) filter (action = 'permission_decided' and status = 'denied') as overstepped,
        count(*) filter (status = 'denied' and (is_act or is_refusal)) as denied_calls,
        count(*) filter (error_kind = 'out_of_scope') as out_of_scope,
        list(distinct concat_ws(':', name, error_kind)) filter (has_failed and (is_call or is_refusal)) as errors,
        arg_max(name, place) filter (action = 'feedback') as feedback
    from (
        select
            episode_id, ts, step, action, name, status, error_kind, weight,
            input_tokens, cached_tokens, output_tokens, latency_ms,
            action in ('tool_called', 'code_executed', 'retrieval') as is_act,
            -- What an agent took back was paid for all the same, but is none of its calls; weight 0 stands for no call.
            action in ('tool_called', 'code_executed', 'retrieval') and weight > 0
                and status is distinct from 'retracted' and not {is_taken_back} as is_call,
            action = 'tool_checked' and status in ('invalid', 'denied') as is_refusal,
            status in ('error', 'timeout', 'invalid', 'denied') as has_failed,
            -- What has no step came after all that has.
            greatest(least(epoch_us(ts), 8000000000000000), -8000000000000000) * 1024
                + least(coalesce(step, 1023), 1023) as place
        from {events}
        where episode_id is not null and (
            action in ('reflection', 'escalated', 'feedback')
            or (action in ('tool_checked', 'permission_decided') and status is distinct from 'ok')
            or (action in ('generation', 'tool_called', 'code_executed', 'retrieval')
                and (status is distinct from 'ok' or weight = 0 or latency_ms is null))
            or (action = 'generation' and (output_tokens is null or input_tokens is null))
            or error_kind = 'out_of_scope'
        ) and not {is_judging} {among}
    )
    group by episode_id
)
select
    usual.* exclude (ending, input_sum, cached_sum, output_sum, second_sum, reply_sum, ok_list, last_ok_step),
    ending.ts as ended,
    ending.how as how,
    ending.status as end_status,
    try_cast(ending.steps as integer) as steps,
    -- Where the usage of one reply is unknown, so is the sum, unless the session's total is known.
    case when coalesce(uncounted_replies, 0) = 0 or session_totals > 0
        then try_cast(coalesce(input_sum + cached_sum, input_sum, cached_sum) as bigint) end as input_tokens,
    case when coalesce(uncounted_replies, 0) = 0 or session_totals > 0
        then try_cast(coalesce(input_sum + cached_sum, input_sum, cached_sum) + output_sum as bigint) end as tokens,
    case when coalesce(unclocked, 0) = 0 then second_sum end as seconds,
    try_cast(coalesce(reply_sum, 0) as bigint) as model_calls,
    coalesce(failed_model_calls, 0) as failed_model_calls,
    coalesce(len(ok_list), 0) + coalesce(failed_calls, 0) + coalesce(unknown_calls, 0) as calls,
    coalesce(len(ok_list), 0) as ok_calls,
    coalesce(failed_calls, 0) as failed_calls,
    coalesce(unknown_calls, 0) as unknown_calls,
    coalesce(len(list_distinct(list_transform(ok_list, lambda call: call >> 2))), 0) as answered_calls,
    coalesce(len(list_filter(ok_list, lambda call: call % 2 = 1)), 0)
        + coalesce(failed_searches, 0) + coalesce(unknown_searches, 0) as searches,
    coalesce(unknown_searches, 0) as unknown_searches,
    -- Different ones; and of these, the ones that found something at least once.
    coalesce(len(list_distinct(
        list_transform(list_filter(ok_list, lambda call: call % 2 = 1), lambda call: call >> 2)
    )), 0) as answered_searches,
    coalesce(len(list_distinct(list_filter(ok_list, lambda call: call % 4 = 1))), 0) as found_searches,
    coalesce(last_ok_step > coalesce(last_failed_step, -1), false) as last_call_ok,
    coalesce(reflections, 0) as reflections,
    coalesce(escalations, 0) as escalations,
    coalesce(refused_calls, 0) as refused_calls,
    coalesce(refused_repeats, 0) as refused_repeats,
    coalesce(overstepped, 0) as overstepped,
    -- A call that a person refused is written twice: the answer, and the refusal that follows.
    coalesce(greatest(denied_calls - overstepped, 0), 0) as denied,
    coalesce(out_of_scope, 0) as out_of_scope,
    coalesce(list_sort(errors), []) as errors,
    feedback
from usual left join seldom using (episode_id)
