-- A session's messages in the order of their ids; times are no order.
SELECT * FROM lab_messages WHERE session_id = CAST(? AS TEXT) ORDER BY _order, _handle
