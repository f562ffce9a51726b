-- Gives each span its episode where its trace belongs to one conversation, to one session, or to neither.
CREATE TABLE trace AS
SELECT
    trace,
    count(DISTINCT conversation) AS conversations,
    max(conversation) AS conversation,
    count(DISTINCT session) AS sessions,
    max(session) AS session
FROM span
GROUP BY trace;

CREATE UNIQUE INDEX trace_id ON trace (trace);

UPDATE span SET episode = (
    SELECT CASE
        WHEN t.conversations = 1 THEN t.conversation
        WHEN t.conversations = 0 AND t.sessions = 1 THEN t.session
        WHEN t.conversations + t.sessions = 0 THEN t.trace
    END
    FROM trace AS t
    WHERE t.trace = span.trace
)
WHERE kind <> '';

CREATE TABLE settled (id INTEGER PRIMARY KEY, episode TEXT NOT NULL);
