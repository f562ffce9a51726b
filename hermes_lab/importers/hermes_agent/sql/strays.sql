-- Keys of sessions that only messages name.
SELECT DISTINCT session_id FROM messages
WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM lab_sessions WHERE id IS NOT NULL)
ORDER BY session_id
