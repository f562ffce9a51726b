-- The calls that ran, and where that counts those that were refused, episode by episode in order, with what the episode
-- was asked and a hash of the list of its tools (null: not recorded).
-- Formatted with a condition, whose parameters are the query's, and one that says which refused calls come along.
with told as (
    select episode_id, input->>['$.task.prompt', '$.prompt', '$.task.tools'] as told
    from events
    where action = 'task_started'
      and episode_id in (select episode_id from events where action in ('tool_called', 'code_executed', 'retrieval'))
),
started as (
    select
        episode_id,
        any_value(coalesce(told[1], told[2], '')) as request,
        any_value(case when told[3] is not null then hash(told[3])::varchar end) as tools
    from told
    group by episode_id
)
select
    episode_id,
    event_id,
    coalesce(task_type, '') as task_type,
    coalesce(name, '') as tool,
    coalesce(status, 'ok') as status,
    coalesce(error_kind, '') as error_kind,
    action <> 'tool_checked' as ran,
    coalesce(request, '') as request,
    tools
from events left join started using (episode_id)
where (action in ('tool_called', 'code_executed', 'retrieval') or ({refused}))
  and episode_id is not null
  -- `recall` stands beside any shortlist, and takes no place on it.
  and not (action = 'retrieval' and name = 'recall')
  and ({where}
  )
order by episode_id, step, event_id
