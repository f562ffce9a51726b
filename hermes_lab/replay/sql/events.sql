-- What happened in some episodes, episode by episode in order, with what replay looks at.
-- Formatted with one placeholder for each episode id, so that files which hold none of them are left out.
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
    case when action = 'generation' then input->>'$.purpose' end as purpose
from events
where episode_id in ({ids})
order by episode_id, step nulls last, event_id
