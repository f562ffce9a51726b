-- Messages that name no session.
SELECT * FROM lab_messages WHERE session_id IS NULL ORDER BY _order, _handle
