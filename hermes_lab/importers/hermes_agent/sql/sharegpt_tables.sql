-- How often each line came, by a hash of its text.
CREATE TABLE seen (line BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID
