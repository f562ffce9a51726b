-- A message that comes again is the newer one.
INSERT OR REPLACE INTO messages (id, session_id, place, body) VALUES (?, ?, ?, ?)
