-- The calls that ran, as they come: what rules about single calls look at.
select
    coalesce(episode_id, '') as episode_id,
    event_id,
    coalesce(task_type, '') as task_type,
    name as tool,
    input as arguments
from events
where action in ('tool_called', 'code_executed', 'retrieval')
  and name is not null
  and starts_with(input, '{{')
  and ({where}
  )
