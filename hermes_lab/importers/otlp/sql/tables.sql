-- The temporary database of one import of OTLP JSON; it is never shared and never outlives the import.
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -32768;

-- Spans of all kinds (kind '' is neither GenAI nor OpenInference: kept only for its place in the tree, without body).
-- from_log: only log records told of it so far.
CREATE TABLE span (
    id INTEGER PRIMARY KEY,
    trace TEXT NOT NULL,
    span TEXT NOT NULL,
    parent TEXT NOT NULL,
    kind TEXT NOT NULL,
    start INTEGER,
    finish INTEGER,
    conversation TEXT,
    session TEXT,
    resource TEXT,
    from_log INTEGER NOT NULL,
    body TEXT,
    episode TEXT,
    UNIQUE (trace, span)
);

-- Each message once, whoever repeats it.
CREATE TABLE message (digest TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE log (id INTEGER PRIMARY KEY, trace TEXT NOT NULL, span TEXT NOT NULL, time INTEGER, body TEXT NOT NULL);
CREATE INDEX log_span ON log (trace, span, time);
CREATE TABLE seen_log (digest TEXT PRIMARY KEY) WITHOUT ROWID;

-- Results of tool calls as later requests tell them.
CREATE TABLE result (
    trace TEXT NOT NULL,
    call TEXT NOT NULL,
    digest TEXT NOT NULL,
    span TEXT NOT NULL,
    start INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (trace, call, digest)
) WITHOUT ROWID;

CREATE TABLE resource (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
