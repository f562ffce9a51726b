-- Notes the result of a call; later requests repeat it, and the earliest tells when it came.
INSERT INTO result VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET start = min(start, excluded.start)
