"""A temporary database of a file's spans and messages, so that memory stays the same for a file of any size.

Spans come in any order, twice, and apart from their messages. Here each is known by its ids, a message is stored once
however many requests repeat it, and each span gets the episode that it belongs to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from hermes_lab.importers.otlp.messages import Conversation
from hermes_lab.importers.otlp.spans import Row
from hermes_lab.importers.otlp.values import storable
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_messages import Call, Message
from hermes_lab.importers.reading.chat_outcomes import pair_results
from hermes_lab.sql_files import read_sql

_MAX_ANCESTORS = 200
_REMEMBERED = 50_000
_ROLES = ("user", "assistant", "system", "developer", "tool")
_Key = TypeVar("_Key")


class Span(NamedTuple):
    """A span of an episode, without what it says."""

    id: int
    trace: str
    span: str
    parent: str
    kind: str
    start: int | None
    finish: int | None


class Body(NamedTuple):
    """What a span says; the messages are digests, for `Store.message` and `is_said_by`."""

    name: str | None
    attributes: dict[str, Any]
    status: Any
    exception: str
    input: list[str]
    output: list[str]


class Store:
    """The database; use as a context manager, add everything, then `settle`, then read."""

    def __init__(self) -> None:
        """Open an empty one, in a file that nobody else sees and that goes away with it."""
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(read_sql(__package__, "tables"))
        self._database.execute("BEGIN")
        self._run = self._database.execute
        self._kept: dict[str, int] = {}
        self._told: dict[tuple[str, str, str], int] = {}
        self._add_span = read_sql(__package__, "add_span")
        self._add_log = read_sql(__package__, "add_log")
        self._add_result = read_sql(__package__, "add_result")

    def __enter__(self) -> Store:
        """Return itself."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close, and so remove, the database."""
        self._database.close()

    # ---------------------------------------------------------------- adding

    def add_resource(self, number: int, attributes: dict[str, Any]) -> None:
        """Keep the attributes of a resource by the number of its object in the file."""
        self._run("INSERT OR IGNORE INTO resource VALUES (?, ?)", (number, json.dumps(attributes)))

    def add_span(self, row: Row, parents: tuple[int, ...]) -> None:
        """Add a span; one that is there already is replaced only if it had no end."""
        resource = ",".join(map(str, parents))
        known = (row.start, row.finish, row.conversation, row.session)
        body = self._body(row) if row.kind else None
        self._run(self._add_span, (row.trace, row.span, row.parent, row.kind, *known, resource, body))
        self._add_results(row)

    def add_log(self, row: Row) -> None:
        """Add a log record of a model call, whose span may come before, later or never."""
        digests = (message.digest() for message in row.messages.input + row.messages.output)
        seen = common.digest(row.trace, row.span, row.name, row.start, *digests)
        if not self._run("INSERT OR IGNORE INTO seen_log VALUES (?)", (seen,)).rowcount:
            return
        body = self._body(row)
        self._run(
            "INSERT INTO log (trace, span, time, body) VALUES (?, ?, ?, ?)", (row.trace, row.span, row.start, body)
        )
        self._run(self._add_log, (row.trace, row.span, row.start, row.conversation, row.session))
        self._add_results(row)

    def _body(self, row: Row) -> str:
        inputs = [self._keep(message) for message in row.messages.input]
        outputs = [self._keep(message) for message in row.messages.output]
        return json.dumps(Body(row.name, row.attributes, row.status, row.exception, inputs, outputs))

    def _keep(self, message: Message) -> str:
        """Keep a message, and return its digest with the first letter of its role before it."""
        digest = message.digest()
        if message.finish_reason is not None:
            digest = common.digest(digest, message.finish_reason)
        digest = _role_letter(message.role) + digest
        if digest not in self._kept:
            self._run("INSERT OR IGNORE INTO message VALUES (?, ?)", (digest, _dump(message)))
            _remember(self._kept, digest, 0)
        return digest

    def _add_results(self, row: Row) -> None:
        """Note which result each call got, as a request's messages tell it."""
        messages = row.messages.input
        if not any(message.role == "tool" for message in messages):
            return
        results, orphans = pair_results(messages)
        told = [(messages[i].calls[j].id or result.call_id, result) for (i, j), result in results.items()]
        told += [(messages[i].call_id, messages[i]) for i in sorted(orphans)]
        for place, (call, result) in enumerate(told):
            if call:
                start, key = row.start or 0, (row.trace, storable(call), self._keep(result))
                if self._told.get(key, start + 1) > start:
                    self._run(self._add_result, (*key, row.span, start, place))
                    _remember(self._told, key, start)

    # ---------------------------------------------------------------- episodes

    def settle(self) -> None:
        """Give each span its episode: the id of its trace's conversation or session, or else of the trace."""
        self._run("COMMIT")
        self._database.executescript(read_sql(__package__, "settle"))
        self._run("BEGIN")
        for (number,) in self._run("SELECT id FROM span WHERE kind <> '' AND episode IS NULL ORDER BY id"):
            self._run("INSERT INTO settled VALUES (?, ?)", (number, self._inherited(number)))
        self._run("COMMIT")
        self._database.executescript(read_sql(__package__, "settled"))

    def _inherited(self, number: int) -> str:
        """Return the id of the conversation or session of a span or of the nearest span around it, else its trace's."""
        sql = "SELECT trace, parent, coalesce(conversation, session) FROM span WHERE "
        trace, parent, found = self._run(sql + "id = ?", (number,)).fetchone()
        for _ in range(_MAX_ANCESTORS):
            if found is not None:
                return str(found)
            row = self._run(sql + "trace = ? AND span = ?", (trace, parent)).fetchone()
            if row is None:
                break
            _, parent, found = row
        return str(trace)

    def episodes(self) -> Iterator[str]:
        """Yield the episodes in the order in which they come in the file."""
        sql = "SELECT episode FROM span WHERE kind <> '' GROUP BY episode ORDER BY min(id)"
        for (episode,) in self._run(sql):
            yield episode

    # ---------------------------------------------------------------- reading

    def spans(self, episode: str) -> list[Span]:
        """Return the spans of an episode by their start."""
        sql = "SELECT id, trace, span, parent, kind, start, finish FROM span WHERE episode = ? AND kind <> '' "
        order = "ORDER BY start IS NULL, start, kind NOT IN ('agent', 'chain'), id"
        return [Span(*row) for row in self._run(sql + order, (episode,))]

    def body(self, span: Span) -> Body:
        """Return what a span says, with what log records say of it."""
        text = self._run("SELECT body FROM span WHERE id = ?", (span.id,)).fetchone()[0]
        body = Body(*json.loads(text)) if text else Body(None, {}, None, "", [], [])
        logs = self._run("SELECT body FROM log WHERE trace = ? AND span = ? ORDER BY time, id", (span.trace, span.span))
        told = [Body(*json.loads(text)) for (text,) in logs]
        for log in told:
            body = body._replace(attributes=log.attributes | body.attributes)
        inputs = body.input or [digest for log in told for digest in log.input]
        outputs = body.output or [digest for log in told for digest in log.output]
        return body._replace(input=inputs, output=outputs)

    def message(self, digest: str) -> Message:
        """Return a message by its digest."""
        body = self._run("SELECT body FROM message WHERE digest = ?", (digest,)).fetchone()[0]
        return _load(body)

    def messages(self, body: Body) -> Conversation:
        """Return all the messages of a span."""
        return Conversation([*map(self.message, body.input)], [*map(self.message, body.output)])

    def ancestors(self, span: Span) -> Iterator[tuple[str, str]]:
        """Yield (span id, kind) of the spans around one, the nearest first."""
        parent = span.parent
        for _ in range(_MAX_ANCESTORS):
            sql = "SELECT span, kind, parent FROM span WHERE trace = ? AND span = ?"
            row = self._run(sql, (span.trace, parent)).fetchone()
            if row is None:
                return
            yield row[0], row[1]
            parent = row[2]

    def result(self, episode: str, call: str, start: int) -> Message | None:
        """Return the result of a call that a request which began at `start` gave: the first one told afterwards."""
        sql = "SELECT digest FROM answer WHERE episode = ? AND call = ? ORDER BY start <= ?, start, place DESC LIMIT 1"
        row = self._run(sql, (episode, storable(call), start)).fetchone()
        return None if row is None else self.message(row[0])

    def resource(self, span: Span) -> dict[str, Any]:
        """Return the attributes of the resource that a span came from."""
        numbers = self._run("SELECT resource FROM span WHERE id = ?", (span.id,)).fetchone()[0] or ""
        for number in filter(None, numbers.split(",")):
            row = self._run("SELECT body FROM resource WHERE id = ?", (int(number),)).fetchone()
            if row is not None:
                return dict(json.loads(row[0]))
        return {}

    def others(self, trace: str) -> int:
        """Return how many spans of a trace are neither GenAI nor OpenInference."""
        count: int = self._run("SELECT count(*) FROM span WHERE trace = ? AND kind = ''", (trace,)).fetchone()[0]
        return count


def is_said_by(digest: str, *roles: str) -> bool:
    """Return whether a kept message was said by one of the roles, without looking it up."""
    return digest[0] in map(_role_letter, roles)


def _role_letter(role: str) -> str:
    return role[0] if role in _ROLES else "o"


def _remember(known: dict[_Key, int], key: _Key, value: int) -> None:
    """Remember what the database has already; not for ever, as memory is to stay the same."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value


def _dump(message: Message) -> str:
    fields = {name: getattr(message, name) for name in Message.__slots__}
    return json.dumps({name: value for name, value in fields.items() if value not in (None, "", [])})


def _load(body: str) -> Message:
    fields = json.loads(body)
    fields["calls"] = [Call(*call) for call in fields.get("calls", ())]
    return Message(**fields)
