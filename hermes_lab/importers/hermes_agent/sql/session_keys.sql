-- The key of every session, the oldest first.
SELECT id FROM lab_sessions ORDER BY started_at, id
