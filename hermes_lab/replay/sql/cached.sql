-- Recorded answers to effects, by the hash of the effect: of several the earliest that came out ok, else the earliest.
-- Formatted with one placeholder for each hash. The columns are those of replay_events.sql.
select
    episode_id,
    step,
    event_id,
    parent_id,
    ts,
    run_id,
    task_id,
    task_type,
    config_version,
    action,
    name,
    input,
    output,
    observation,
    status,
    error_kind,
    input_tokens,
    cached_tokens,
    output_tokens,
    latency_ms,
    cost_usd,
    from_cache,
    tier,
    confidence,
    request_hash,
    null as purpose
from events
where request_hash in ({keys})
  and action in ('generation', 'tool_called', 'code_executed', 'retrieval', 'permission_decided')
qualify row_number() over (partition by request_hash order by coalesce(status, '') = 'ok' desc, event_id) = 1
