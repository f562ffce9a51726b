-- Recorded answers to effects, by the hash of the effect: of several the earliest that came out ok, else the earliest.
-- Formatted with the columns, and one placeholder for each hash.
select
    {columns},
    null as purpose
from events
where request_hash in ({keys})
  and action in ('generation', 'tool_called', 'code_executed', 'retrieval', 'permission_decided')
qualify row_number() over (partition by request_hash order by coalesce(status, '') = 'ok' desc, event_id) = 1
