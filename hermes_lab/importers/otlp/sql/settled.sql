-- Finishes what otlp_settle began, with the episodes of the spans of mixed traces.
UPDATE span SET episode = (SELECT s.episode FROM settled AS s WHERE s.id = span.id)
WHERE kind <> '' AND episode IS NULL;

CREATE INDEX span_episode ON span (episode, start, id) WHERE kind <> '';

CREATE TABLE answer AS
SELECT s.episode, r.call, r.start, r.place, r.digest
FROM result AS r
JOIN span AS s ON s.trace = r.trace AND s.span = r.span;

CREATE INDEX answer_call ON answer (episode, call, start);
