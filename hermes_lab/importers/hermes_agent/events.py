"""Turns hermes-agent's sessions and messages into events, for the database and the export alike.

A session is an episode; sessions that continue one another after a compression are one task. What is
still going on is left for the next import, since an event cannot be changed later: a call without its
result as the last thing that happened, and the totals of a session that is open and was used within a day
before the file was last written.

A row that was taken back (rewound) gives its event as it was, and a second one with the status
`retracted`, weight 0 and no tokens, whose parent is the first. So an import before and an import after
the rewind come to the same.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hermes_lab.events import Action, ErrorKind, Status
from hermes_lab.importers.base import Draft, SetAside
from hermes_lab.importers.hermes_agent.copies import Mark
from hermes_lab.importers.hermes_agent.history import Fate, PlannedCall, Step
from hermes_lab.importers.hermes_agent.rows import Call, Row, read_row, split_summary
from hermes_lab.importers.hermes_agent.store import Store
from hermes_lab.importers.hermes_agent.usage import usage_drafts
from hermes_lab.importers.reading.common import (
    content_text,
    infer_status,
    known,
    observation_text,
    parse_result,
    read_arguments,
    set_aside,
)
from hermes_lab.importers.reading.values import count, when

_TURNS = (Fate.MESSAGE, Fate.GENERATION)
_STILL_GOING = dt.timedelta(days=1)
_CUT_OFF = {"length", "max_tokens", "max_output_tokens"}
_ENDED_WELL = ("complete", "done", "finished", "success")
_ENDED_BADLY = ("error", "fail", "crash", "exception", "killed")


@dataclass(slots=True)
class Session:
    """A session of a conversation, as it is being read."""

    key: object
    fields: dict[str, Any]
    parent: int | None
    episode: str
    task: str
    rows: list[int] = field(default_factory=list)
    last: dt.datetime | None = None
    is_open: bool = False


class Plans(NamedTuple):
    """What becomes of each row of a conversation, its marks, where it is stored, and as many rows as fit."""

    steps: list[Step]
    marks: list[Mark]
    handles: list[int]
    kept: dict[int, Row]


class Episode:
    """Gives the events of one session."""

    def __init__(self, store: Store, naive: dt.tzinfo, modified: dt.datetime, session: Session, plans: Plans) -> None:
        self._store = store
        self._naive = naive
        self._session = session
        self._plans = plans
        last = session.last or when(session.fields.get("started_at"), naive)
        self._going_on = session.is_open and last is not None and modified - last < _STILL_GOING
        self._usage = store.usage(session.key)
        self._model = self._only_model()
        self._latest = max((i for i in session.rows if plans.steps[i].fate in _TURNS), default=None)
        self._retracted: list[Draft] = []

    def read(self) -> Iterator[Draft | SetAside]:
        """Yield the session's events in its own order, retractions behind the rest, then usage and the end."""
        session = self._session
        if self._going_on and not session.rows:
            return
        yield self._started()
        for i in session.rows:
            try:
                yield from self._row(i)
            except sqlite3.DatabaseError as error:
                reason = f"the database is damaged here ({error})"
                yield set_aside(f"session {session.episode}", reason, "")
        yield from self._retracted
        if not self._going_on:
            yield from usage_drafts(session.episode, session.fields, self._usage)
        if not session.is_open:
            yield self._ended()

    def _only_model(self) -> str | None:
        """Return the model of the main conversation; None where it changed on the way."""
        models = {row.get("model") for row in self._usage if not row.get("task")}
        model = _text(self._session.fields.get("model"))
        return model if len(models | {model}) == 1 else None

    def _draft(
        self, key: str, action: Action, ts: dt.datetime | None, parent: str | None = None, **columns: Any
    ) -> Draft:
        return Draft(self._session.episode, key, action, ts, known(**columns), parent)

    def _load(self, i: int) -> Row:
        if i in self._plans.kept:
            return self._plans.kept[i]
        stored = self._store.message(self._plans.handles[i])
        return read_row(stored, self._naive)

    # -- the ends of the session -------------------------------------------------------------------------

    def _started(self) -> Draft:
        fields = self._session.fields
        steps, marks = self._plans.steps, self._plans.marks
        rows = self._session.rows
        asked = next((i for i in rows if steps[i].fate is Fate.MESSAGE and marks[i].role == "user"), None)
        texts = {name: fields.get(name) for name in ("title", "system_prompt", "model", "cwd")}
        parent = fields.get("parent_session_id")
        told: dict[str, Any] = {name: text for name, text in texts.items() if isinstance(text, str) and text}
        told |= known(parent_session_id=str(parent) if parent else None)
        if asked is not None:
            told["prompt"] = content_text(_said(self._load(asked), steps[asked]))
        ts = when(fields.get("started_at"), self._naive)
        return self._draft(
            "started",
            Action.TASK_STARTED,
            ts,
            task_id=self._session.task,
            channel=_text(fields.get("source")),
            input=told,
        )

    def _ended(self) -> Draft:
        fields = self._session.fields
        reason = fields.get("end_reason")
        told = known(
            end_reason=_text(reason),
            message_count=count(fields.get("message_count")) or None,
            tool_call_count=count(fields.get("tool_call_count")) or None,
        )
        ts = when(fields.get("ended_at"), self._naive)
        return self._draft("ended", Action.TASK_ENDED, ts, output=told, status=_end_status(reason))

    # -- its rows ----------------------------------------------------------------------------------------

    def _row(self, i: int) -> Iterator[Draft | SetAside]:
        step = self._plans.steps[i]
        if step.fate in (Fate.COPY, Fate.ANSWER):
            return
        row = self._load(i)
        if step.fate is Fate.EXTRA:
            yield set_aside(row.where, f"the call {row.answers} has a result already", content_text(row.content))
            return
        if step.fate is Fate.SUMMARY or step.summary is not None:
            parted = split_summary(row.content)
            told = {"summary": row.content if parted is None else parted.summary}
            yield self._draft(step.summary or step.key, Action.COMPRESSED, row.ts, output=told)
        if step.fate is Fate.MESSAGE:
            told = known(content=_said(row, step), display_kind=_text(row.fields.get("display_kind")))
            yield self._event(step, Action.MESSAGE_RECEIVED, row.ts, name=row.role, input=told)
        elif step.fate is Fate.ORPHAN:
            columns = self._result_columns(row)
            columns["confidence"] = min(columns.get("confidence", 0.5), 0.5)
            yield self._event(step, Action.TOOL_CALLED, row.ts, **columns)
        elif step.fate is Fate.GENERATION:
            yield from self._generation(i, row, step)

    def _event(self, step: Step, action: Action, ts: dt.datetime | None, **columns: Any) -> Draft:
        draft = self._draft(step.key, action, ts, **columns)
        if step.retracted:
            self._retract(draft)
        return draft

    def _retract(self, draft: Draft) -> None:
        name = draft.columns.get("name")
        self._retracted.append(
            self._draft(
                f"{draft.key}:retracted",
                draft.action,
                None,
                draft.key,
                name=name,
                status=Status.RETRACTED,
                weight=0.0,
            )
        )

    def _generation(self, i: int, row: Row, step: Step) -> Iterator[Draft]:
        reason = _text(row.fields.get("finish_reason"))
        told = known(
            content=_said(row, step),
            tool_calls=[_told_call(call) for call in row.calls] or None,
            reasoning=_reasoning(row),
            finish_reason=reason,
            token_count=count(row.fields.get("token_count")) or None,
        )
        outcome: dict[str, Any] = {"status": Status.OK}
        if reason in _CUT_OFF:
            outcome["error_kind"] = ErrorKind.CUT_OFF
        elif reason == "content_filter":
            outcome = {"status": Status.ERROR, "error_kind": ErrorKind.CONTENT_FILTER}
        yield self._event(step, Action.GENERATION, row.ts, name=self._model, output=told, **outcome)
        for planned in step.calls:
            if planned.answer is None and i == self._latest and self._going_on:
                continue
            draft = self._call(row, row.calls[planned.place], planned, step.key)
            if step.retracted:
                self._retract(draft)
            yield draft

    def _call(self, row: Row, call: Call, planned: PlannedCall, parent: str) -> Draft:
        answer = None if planned.answer is None else self._load(planned.answer)
        columns = {} if answer is None else self._result_columns(answer)
        arguments = read_arguments(call.arguments)
        columns["input"] = arguments.value
        if call.name is None:
            columns |= {"input": call.raw, "status": Status.INVALID, "error_kind": ErrorKind.UNREADABLE_CALL}
            columns.pop("confidence", None)
        elif not arguments.valid:
            columns |= {"status": Status.INVALID, "error_kind": ErrorKind.BAD_ARGUMENTS}
            columns.pop("confidence", None)
        columns["name"] = call.name or columns.get("name")
        ts = row.ts if answer is None or answer.ts is None else answer.ts
        return self._draft(planned.key, Action.TOOL_CALLED, ts, parent, **columns)

    def _result_columns(self, row: Row) -> dict[str, Any]:
        return known(
            name=_text(row.fields.get("tool_name")),
            output=parse_result(row.content),
            observation=observation_text(row.content),
            **infer_status(row.content).columns(),
        )


def _said(row: Row, step: Step) -> Any:
    """Return the content of a row's event, without a summary that it was merged with."""
    parted = split_summary(row.content) if step.summary is not None else None
    return row.content if parted is None else parted.message


def _told_call(call: Call) -> Any:
    if call.name is None:
        return call.raw
    return known(id=next(iter(call.ids), None), name=call.name, arguments=read_arguments(call.arguments).value)


def _reasoning(row: Row) -> Any:
    """Return what the model thought: its text, else the provider's details."""
    text = _text(row.fields.get("reasoning")) or _text(row.fields.get("reasoning_content"))
    details = row.fields.get("reasoning_details")
    return text or (parse_result(details) if isinstance(details, str | list | dict) else None) or None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _end_status(reason: object) -> Status | None:
    text = reason.lower() if isinstance(reason, str) else ""
    if any(word in text for word in _ENDED_BADLY):
        return Status.ERROR
    return Status.OK if any(word in text for word in _ENDED_WELL) else None
