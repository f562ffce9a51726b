-- Sessions whose parent ended by a compression; which of them really continue it is for `Store.continued` to say.
SELECT
    child.id,
    child.source,
    child.model_config,
    child.started_at,
    parent.id AS parent,
    parent.ended_at AS parent_ended
FROM lab_sessions AS child
JOIN lab_sessions AS parent ON parent.id = child.parent_session_id
WHERE parent.end_reason = 'compression' AND child.id IS NOT NULL
ORDER BY child.started_at, child.id
