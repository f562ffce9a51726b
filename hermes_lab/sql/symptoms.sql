-- What the last episodes that the agent finished here show, in one row of counts. Parameter: how many episodes.
with mine as (
    select episode_id, json_array_length(input, '$.task.tools') as tools
    from events
    where action = 'task_started' and input->>'$.run.suite' is not null
),
last_ones as (
    select episode_id, tools, events.name as how, observation as reason, json_array_length(output, '$.calls') as calls
    from events join mine using (episode_id)
    where action = 'task_ended' and status is distinct from 'cancelled'
    order by event_id desc
    limit ?
),
here as (
    select * from events
    where episode_id in (select episode_id from last_ones)
      and action in ('generation', 'tool_checked', 'graded')
),
grades as (
    select episode_id, arg_max(cast(output->>'$.score' as double), event_id) as score
    from here where action = 'graded' group by all
),
episodes as (
    select
        count(*) as episodes,
        count(*) filter (how = 'budget') as out_of_budget,
        mode(reason) filter (how = 'budget') as budget_reason,
        count(*) filter (how = 'diverged') as diverged,
        mode(reason) filter (how = 'diverged') as diverged_reason,
        count(*) filter (tools > 0 and score is not null) as graded_with_tools,
        count(*) filter (tools > 0 and score < 1 and calls = 0 and how = 'completed') as wrong_without_call
    from last_ones left join grades using (episode_id)
),
replies as (
    select *, input->>'$.purpose' as purpose, output->>'$.finish' as finish
    from here
    where action = 'generation' and error_kind is distinct from 'budget'
),
generations as (
    select
        count(*) as replies,
        count(*) filter (purpose = 'plan' and status = 'ok') as plans,
        count(*) filter (status in ('error', 'timeout')) as failed_replies,
        mode(error_kind) filter (status in ('error', 'timeout')) as failure_kind,
        count(*) filter (finish = 'length') as cut_off,
        count(*) filter (from_cache) as cached_replies
    from replies
),
checked as (
    select
        count(*) filter (error_kind = 'unreadable_call') as unreadable,
        count(*) filter (error_kind in ('bad_arguments', 'unknown_tool')) as bad_calls,
        mode(name) filter (error_kind in ('bad_arguments', 'unknown_tool')) as bad_call_tool,
        count(*) filter (status = 'denied') as denials,
        mode(name) filter (status = 'denied') as denied_tool,
        mode(output->>'$.by') filter (status = 'denied') as denied_by
    from here
    where action = 'tool_checked'
),
graded as (
    select
        count(*) as grades,
        count(*) filter (status = 'error') as ungraded,
        mode(output->>'$.reasons[0]') filter (status = 'error') as ungraded_reason
    from here
    where action = 'graded'
)
select * from episodes, generations, checked, graded
