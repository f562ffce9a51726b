-- Notes that a log record tells of a span: one of no known kind is a model call after all.
INSERT INTO span (trace, span, parent, kind, start, conversation, session, from_log)
VALUES (?, ?, '', 'llm', ?, ?, ?, 1)
ON CONFLICT (trace, span) DO UPDATE SET
    kind = CASE WHEN kind = '' THEN 'llm' ELSE kind END,
    start = CASE
        WHEN from_log THEN min(coalesce(start, excluded.start), coalesce(excluded.start, start))
        ELSE start
    END,
    conversation = coalesce(conversation, excluded.conversation),
    session = coalesce(session, excluded.session)
