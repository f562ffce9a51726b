-- A call of a tool that has no hash, where there is one: imports have none. To fill in: events, the view to read.
select 1
from {events}
where action in ('tool_called', 'code_executed', 'retrieval') and request_hash is null and episode_id is not null
