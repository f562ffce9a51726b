-- A session that comes again is the newer one.
INSERT OR REPLACE INTO sessions (id, parent_session_id, end_reason, started_at, ended_at, source, model_config, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
