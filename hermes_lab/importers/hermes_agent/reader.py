"""Reads hermes-agent's conversations one after another: sessions that continue each other, and what stands alone."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent.events import Episode, Plans, Session
from hermes_lab.importers.hermes_agent.history import plan
from hermes_lab.importers.hermes_agent.rows import has_role, read_row
from hermes_lab.importers.hermes_agent.store import Store
from hermes_lab.importers.reading.common import set_aside

# Rows of a conversation that are kept while it is planned; the others are read twice.
_KEPT_CHARS = 8 * 2**20
_ROW_CHARS = 1_000


class Reader:
    """Gives the events of one store.

    Args:
        store: where sessions and messages are.
        source: what is imported; for its time zone and progress.
        modified: when the source was last written.
    """

    def __init__(self, store: Store, source: Source, modified: dt.datetime) -> None:
        """Note what is needed; nothing is read yet."""
        self._store = store
        self._source = source
        self._modified = modified
        self._total = store.count_messages()
        self._done = 0

    def read(self) -> Iterator[Draft | SetAside]:
        """Yield all events and bad rows, conversation after conversation."""
        links = self._store.continued()
        children: dict[object, list[object]] = {}
        for child, parent in links.items():
            children.setdefault(parent, []).append(child)
        for key in self._store.session_keys():
            if key is None:
                yield set_aside("sessions", "a session has no id", "")
            elif key not in links:
                yield from self._conversation(key, children)
        try:
            for key in self._store.strays():
                yield from self._conversation(key, children)
            for stored in self._store.homeless():
                yield set_aside(stored.where, "the message names no session", dict(stored.fields))
        except sqlite3.DatabaseError as error:
            yield set_aside("messages", f"the database is damaged here ({error})", "")

    def _conversation(self, root: object, children: dict[object, list[object]]) -> Iterator[Draft | SetAside]:
        sessions: list[Session] = []
        plans = Plans([], [], [], {})
        try:
            sessions += self._sessions(root, children)
            for number, session in enumerate(sessions):
                yield from self._rows(number, session, plans)
        except sqlite3.DatabaseError as error:
            yield set_aside(f"session {root}", f"the database is damaged here ({error})", "")
        plans.steps.extend(plan(plans.marks, [session.parent for session in sessions]))
        for session in sessions:
            yield from Episode(self._store, self._source.naive_times, self._modified, session, plans).read()
            self._done += len(session.rows)
            self._source.advance(self._done, self._total)

    def _rows(self, number: int, session: Session, plans: Plans) -> Iterator[SetAside]:
        """Read a session's rows into `plans`, and yield those that cannot be read."""
        room = _KEPT_CHARS - sum(_ROW_CHARS + row.size for row in plans.kept.values())
        for stored in self._store.messages(session.key):
            if not has_role(stored.fields):
                yield set_aside(stored.where, "the message has no role", dict(stored.fields))
                continue
            row = read_row(stored, self._source.naive_times)
            room -= _ROW_CHARS + row.size
            if room > 0:
                plans.kept[len(plans.marks)] = row
            session.rows.append(len(plans.marks))
            session.last = max(filter(None, (session.last, row.ts)), default=None)
            plans.marks.append(row.mark(number))
            plans.handles.append(stored.handle)

    def _sessions(self, root: object, children: dict[object, list[object]]) -> Iterator[Session]:
        """Yield a session and those that continue it, each after the one that it continues."""
        waiting: list[tuple[object, int | None]] = [(root, None)]
        task = None
        seen = set()
        number = 0
        while waiting:
            key, parent = waiting.pop(0)
            if key in seen:
                continue
            seen.add(key)
            fields = self._store.session(key)
            episode = str(fields["id"])
            task = episode if task is None else task
            is_open = fields.get("ended_at") is None and not fields.get("end_reason")
            yield Session(key, fields, parent, episode, task, is_open=is_open)
            waiting += [(child, number) for child in children.get(key, ())]
            number += 1
