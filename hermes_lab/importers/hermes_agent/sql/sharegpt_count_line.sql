-- Count a line, and say how often it came by now.
INSERT INTO seen (line, times) VALUES (?, 1) ON CONFLICT (line) DO UPDATE SET times = times + 1 RETURNING times
