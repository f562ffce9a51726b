-- Adds a span. The same span again (an exporter's retry) changes nothing, unless the first one had not ended yet
-- or was known from log records only.
INSERT INTO span (trace, span, parent, kind, start, finish, conversation, session, resource, from_log, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
ON CONFLICT (trace, span) DO UPDATE SET
    parent = excluded.parent,
    kind = CASE WHEN excluded.kind = '' AND from_log THEN kind ELSE excluded.kind END,
    start = excluded.start,
    finish = excluded.finish,
    conversation = coalesce(excluded.conversation, conversation),
    session = coalesce(excluded.session, session),
    resource = excluded.resource,
    from_log = 0,
    body = excluded.body
WHERE from_log OR (finish IS NULL AND excluded.finish IS NOT NULL)
