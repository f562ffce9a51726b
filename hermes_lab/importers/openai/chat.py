"""Imports OpenAI chat JSONL: fine-tuning files, request and response logs, batch API files.

A line is a conversation, or one request with its response. Lines with the same conversation id are one episode, and
the history that each request repeats is counted once; a line without an id is an episode of its own, known by its
content. A JSON array of such values is read, too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.openai.episode import Episode
from hermes_lab.importers.openai.record import Record, read_record
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.json_stream import Broken, JsonReader, Piece
from hermes_lab.importers.reading.json_window import read_start
from hermes_lab.importers.reading.lines import JsonLine, first_value, json_lines

NAME = "openai-chat"
LABEL = "OpenAI chat messages, JSON lines"

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE same (digest TEXT PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE line (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, place TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX line_conversation ON line (conversation, id);
"""


def sniff(path: Path) -> bool:
    """Return whether the file looks like this format."""
    if read_start(path, 4096).lstrip()[:1] == "[":
        pieces = _array(Source(path)).pieces()
        value = next((piece.value for piece in pieces if isinstance(piece, Piece)), None)
    else:
        value = first_value(path)
    record = read_record(value)
    if not isinstance(record, Record):
        return False
    said = [item for item in record.messages if isinstance(item, dict) and isinstance(item.get("role"), str)]
    return bool(said or record.choices)


def read(source: Source) -> Iterator[Draft | SetAside]:
    """Yield the file's events and bad rows, in order."""
    with closing(sqlite3.connect("")) as database:  # a temporary file: memory stays the same for any size
        database.executescript(_TABLES)
        for row in _rows(source):
            if isinstance(row, SetAside):
                yield row
                continue
            where, value = row
            record = read_record(value)
            if not isinstance(record, Record):
                yield common.set_aside(where, record, _text(value))
            elif record.conversation is None:
                yield from _alone(database, where, value, record, source)
            else:
                row_values = (record.conversation, where, json.dumps(value))
                database.execute("INSERT INTO line (conversation, place, body) VALUES (?, ?, ?)", row_values)
        yield from _grouped(database, source)


def _rows(source: Source) -> Iterator[tuple[str, Any] | SetAside]:
    """Yield every value of the file with its place."""
    if read_start(source.path, 4096).lstrip()[:1] != "[":
        for line in json_lines(source):
            yield (line.where, line.value) if isinstance(line, JsonLine) else line
        return
    for piece in _array(source).pieces():
        if isinstance(piece, Broken):
            yield common.set_aside(piece.where, piece.reason, piece.raw)
        else:
            yield piece.where, piece.value


def _array(source: Source) -> JsonReader:
    return JsonReader(source.path, frozenset(), frozenset(), r'\{\s*"(?:messages|id)"', source.advance)


def _alone(
    database: sqlite3.Connection, where: str, value: Any, record: Record, source: Source
) -> Iterator[Draft | SetAside]:
    """Yield the episode of a line without an id, named after its content and its number among identical lines."""
    digest = common.digest(value)
    count = "INSERT INTO same VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"
    times: int = database.execute(count, (digest,)).fetchone()[0]
    episode = Episode(digest if times == 1 else f"{digest}#{times}", source.naive_times)
    episode.add(where, record)
    yield from episode.drafts()


def _grouped(database: sqlite3.Connection, source: Source) -> Iterator[Draft | SetAside]:
    """Yield the episodes of the lines that have an id, each whole, in the order in which they began."""
    first = "SELECT conversation, min(id) FROM line GROUP BY conversation ORDER BY min(id)"
    for conversation, start in database.execute(first):
        lines = "SELECT place, body FROM line WHERE conversation = ? AND id >= ? ORDER BY id"
        episode: Episode | None = None
        bodies: set[str] = set()
        for where, body in database.execute(lines, (conversation, start)):
            value = json.loads(body)
            digest = common.digest(value)
            record = read_record(value)
            if digest in bodies or not isinstance(record, Record):
                continue  # logged twice
            bodies.add(digest)
            if episode is None:
                name = f"{conversation}~{digest}" if record.is_weak else conversation
                episode = Episode(name, source.naive_times)
            episode.add(where, record)
        if episode is not None:
            yield from episode.drafts()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[: common.RAW_CHARS]
