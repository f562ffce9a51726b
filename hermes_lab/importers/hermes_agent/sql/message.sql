-- One message.
SELECT * FROM lab_messages WHERE _handle = ?
