"""Imports ShareGPT trajectories (`trajectory_samples.jsonl`, batch runs and their like), plain or gzip.

A line is an episode. It has no id, so it is known by a hash of its text and by how many lines with the
same text came before it. Calls and responses are tags inside the text and are paired by position, since
calls have no ids there and a response's name can be wrong. The one time of a line, when it was saved, is
given to all of its events.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.events import Action, ErrorKind, Status
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent import rows
from hermes_lab.importers.reading.common import (
    content_text,
    infer_status,
    known,
    observation_text,
    parse_result,
    read_arguments,
    set_aside,
    too_deep,
)
from hermes_lab.importers.reading.lines import JsonLine, first_value, json_lines
from hermes_lab.importers.reading.values import when
from hermes_lab.models.hermes import Call, CallError, Parsed, parse, parse_responses
from hermes_lab.sql_files import read_sql

NAME = "sharegpt"
LABEL = "ShareGPT trajectories, such as hermes-agent's trajectory_samples.jsonl"

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
}
_TOLD_AT_START = ("prompt_index", "metadata", "toolsets_used")
_TOLD_AT_END = ("completed", "partial", "api_calls", "error")
_TOOL_COUNTS = ("tool_stats", "tool_error_counts")


def sniff(path: Path) -> bool:
    """Return whether the file's first JSON line holds a conversation in ShareGPT's form."""
    value = first_value(path) if path.is_file() else None
    return isinstance(value, dict) and isinstance(value.get("conversations"), list)


def read(source: Source) -> Iterator[Draft | SetAside]:
    """Yield the events of the file.

    Raises:
        MissingError: no such file.
        PermissionDeniedError: the system does not let us read it.
        ImportFormatError: the file is UTF-16.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as connection:
        connection.execute(read_sql(__package__, "sharegpt_tables"))
        connection.execute("BEGIN")
        for line in json_lines(source):
            if isinstance(line, SetAside):
                yield line
            elif not isinstance(line.value, dict) or not isinstance(line.value.get("conversations"), list):
                yield set_aside(line.where, "the line holds no conversation", line.raw)
            else:
                yield from _Trajectory(line, _episode(connection, line.raw), source.naive_times).read()


def _episode(connection: sqlite3.Connection, raw: bytes) -> str:
    line = hashlib.blake2b(raw.strip(), digest_size=12).digest()
    insert = "INSERT INTO seen VALUES (?, 1) ON CONFLICT (line) DO UPDATE SET times = times + 1 RETURNING times"
    times = connection.execute(insert, (line,)).fetchone()[0]
    return f"sharegpt-{line.hex()}" + ("" if times == 1 else f"#{times}")


class _Asked(NamedTuple):
    """A call that a turn makes, readable or not: the columns that it gives its event."""

    columns: dict[str, Any]
    readable: bool


@dataclass(slots=True)
class _Waiting:
    """The calls of the latest model turn, and the responses that came so far."""

    key: str = ""
    asked: list[_Asked] = field(default_factory=list)
    answers: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class _Trajectory:
    """Gives the events of one line."""

    def __init__(self, line: JsonLine, episode: str, naive: dt.tzinfo) -> None:
        self._where = line.where
        self._record: dict[str, Any] = line.value
        self._turns: list[Any] = line.value["conversations"]
        self._episode = episode
        metadata = self._record.get("metadata")
        self._metadata: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        self._ts = when(self._record.get("timestamp") or self._metadata.get("timestamp"), naive)
        model = self._record.get("model") or self._metadata.get("model")
        self._model = model if isinstance(model, str) and model else None
        self._waiting = _Waiting()

    def read(self) -> Iterator[Draft | SetAside]:
        yield self._started()
        for number, turn in enumerate(self._turns, 1):
            role, value = _read_turn(turn)
            if role is None:
                where = f"{self._where}, turn {number}"
                yield set_aside(where, "the turn has no speaker or no text", turn)
            elif role == "tool":
                answers = enumerate(_answers(value))
                self._waiting.answers += [(f"turn:{number}:result:{k}", answer) for k, answer in answers]
            else:
                yield from self._calls()
                yield from self._turn(f"turn:{number}", number, role, value, turn)
        yield from self._calls()
        yield self._ended()

    def _draft(self, key: str, action: Action, parent: str | None = None, **columns: Any) -> Draft:
        return Draft(self._episode, key, action, self._ts, known(**columns), parent)

    def _started(self) -> Draft:
        told = {name: self._record[name] for name in _TOLD_AT_START if self._record.get(name) is not None}
        for name, wanted in (("system_prompt", "system"), ("prompt", "user")):
            found = next((value for role, value in map(_read_turn, self._turns) if role == wanted), None)
            if found is not None:
                told[name] = content_text(found)
        return self._draft("started", Action.TASK_STARTED, input=told | known(model=self._model))

    def _ended(self) -> Draft:
        told = {name: self._record[name] for name in _TOLD_AT_END if self._record.get(name) is not None}
        for name in _TOOL_COUNTS:
            counts = self._record.get(name)
            if isinstance(counts, dict) and (used := {k: v for k, v in counts.items() if _is_used(v)}):
                told[name] = used
        completed, partial = self._record.get("completed"), self._record.get("partial")
        status = None
        if completed is False or partial is True:
            status = Status.ERROR
        elif completed is True:
            status = Status.OK
        return self._draft("ended", Action.TASK_ENDED, output=told, status=status)

    def _turn(self, key: str, number: int, role: str, value: Any, turn: dict[str, Any]) -> Iterator[Draft]:
        if role == "system" and number == 1:
            return
        if role != "assistant":
            yield self._draft(key, Action.MESSAGE_RECEIVED, name=role, input={"content": value})
            return
        found = _parse_turn(value, turn)
        self._waiting = _Waiting(key, _asked(value, found, turn))
        told = _told(value, found, self._waiting.asked)
        yield self._draft(key, Action.GENERATION, name=self._model, output=told, status=Status.OK)

    def _calls(self) -> Iterator[Draft]:
        """Yield the calls of the latest model turn with the responses that came after it."""
        waiting, self._waiting = self._waiting, _Waiting(self._waiting.key)
        all_answered = len(waiting.answers) == len(waiting.asked)
        answers = iter(waiting.answers)
        parent = waiting.key or None
        for number, asked in enumerate(waiting.asked):
            answered = asked.readable or all_answered
            columns = (next(answers, ("", {}))[1] if answered else {}) | asked.columns
            if not asked.readable or "error_kind" in asked.columns:
                columns.pop("confidence", None)
            yield self._draft(f"{waiting.key}:call:{number}", Action.TOOL_CALLED, parent, **columns)
        for key, answer in answers:
            columns = answer | {"confidence": min(answer.get("confidence", 0.5), 0.5)}
            yield self._draft(key, Action.TOOL_CALLED, parent, **columns)


def _read_turn(turn: object) -> tuple[str | None, Any]:
    """Return who speaks and what, (None, None) where that cannot be told."""
    if not isinstance(turn, dict):
        return None, None
    speaker = turn.get("from", turn.get("role"))
    value = turn.get("value", turn.get("content"))
    if not isinstance(speaker, str) or not speaker or not (isinstance(value, str | list) or value is None):
        return None, None
    role = _ROLES.get(speaker.lower(), speaker)
    if value is None:
        return (role, "") if role == "assistant" and turn.get("tool_calls") else (None, None)
    return role, value


def _parse_turn(value: Any, turn: dict[str, Any]) -> Parsed:
    text = content_text(value)
    if str(turn.get("from", "")).lower() == "function_call" and "<tool_call>" not in text:
        text = f"<tool_call>\n{text}\n</tool_call>"
    return parse(text)


def _asked(value: Any, found: Parsed, turn: dict[str, Any]) -> list[_Asked]:
    """Return the calls of a model turn, and what was meant as one, in the order of the text."""
    text = content_text(value)
    last: dict[str, int] = {}
    attempts: list[tuple[int, _Asked]] = []
    tagged: tuple[Call | CallError, ...] = (*found.calls, *found.errors)
    for attempt in tagged:
        before = last.get(attempt.raw, -1)
        last[attempt.raw] = at = max(before, text.find(attempt.raw, before + 1))
        attempts.append((at, _tagged(attempt)))
    attempts.sort(key=lambda attempt: attempt[0])
    return [asked for _, asked in attempts] + [_native(call) for call in rows.read_calls(turn.get("tool_calls"))]


def _tagged(attempt: Call | CallError) -> _Asked:
    if isinstance(attempt, Call):
        return _Asked({"name": attempt.name, "input": _storable(attempt.arguments, attempt.raw)}, True)
    return _Asked({"input": attempt.raw, "status": Status.INVALID, "error_kind": ErrorKind.UNREADABLE_CALL}, False)


def _native(call: rows.Call) -> _Asked:
    """Return a call that stands beside the text in OpenAI's form, as some converters write it."""
    if call.name is None:
        told = {"input": call.raw, "status": Status.INVALID, "error_kind": ErrorKind.UNREADABLE_CALL}
        return _Asked(told, False)
    arguments = read_arguments(call.arguments)
    told = {"name": call.name, "input": arguments.value}
    if not arguments.valid:
        told |= {"status": Status.INVALID, "error_kind": ErrorKind.BAD_ARGUMENTS}
    return _Asked(told, True)


def _told(value: Any, found: Parsed, asked: list[_Asked]) -> dict[str, Any]:
    """Return what a model turn said; its very text, too, where reading it took a repair or failed."""
    calls = [{"name": a.columns["name"], "arguments": a.columns["input"]} for a in asked if a.readable]
    thoughts = [{"name": t.name, "arguments": _storable(t.arguments, t.raw)} for t in found.thoughts]
    doubtful = bool(found.errors) or any(call.repaired for call in found.calls)
    return known(
        content=found.text or None,
        tool_calls=calls or None,
        reasoning=found.reasoning or None,
        calls_in_reasoning=thoughts or None,
        raw=value if doubtful else None,
    )


def _answers(value: Any) -> list[dict[str, Any]]:
    """Return the columns that each response of a tool turn gives its event."""
    text = content_text(value)
    found: list[tuple[str | None, Any]] = [
        (response.name, _storable(response.content, response.raw)) for response in parse_responses(text)
    ]
    return [
        known(
            name=name,
            output=parse_result(content),
            observation=None if content is None else observation_text(content),
            **infer_status(content).columns(),
        )
        for name, content in found or [(None, text)]
    ]


def _storable(value: Any, raw: str) -> Any:
    return raw if too_deep(value) else value


def _is_used(counts: object) -> bool:
    return any(counts.values()) if isinstance(counts, dict) else bool(counts)
