-- What of an export is needed to tell how its sessions hang together, and each row as the JSON text that it was.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    parent_session_id TEXT,
    end_reason TEXT,
    started_at REAL,
    ended_at REAL,
    source TEXT,
    model_config TEXT,
    body TEXT NOT NULL
);
CREATE TABLE messages (
    id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    place TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (session_id, id)
);
