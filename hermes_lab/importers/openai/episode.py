"""One conversation of OpenAI chat logs: its records put together, and given as drafts of events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.events import Action
from hermes_lab.importers.base import Draft, SetAside
from hermes_lab.importers.openai.record import Record
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_history import History
from hermes_lab.importers.reading.chat_messages import Message, read_message
from hermes_lab.importers.reading.chat_outcomes import (
    failure_columns,
    finish_columns,
    pair_results,
    token_columns,
    tool_columns,
)

_SYSTEM = ("system", "developer")


@dataclass(slots=True)
class _Turn:
    """A message of the conversation, or a model call of which only the error or the usage is known."""

    message: Message
    time: dt.datetime | None
    columns: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)


class Episode:
    """Takes the records of a conversation in order; `drafts` gives its events."""

    def __init__(self, name: str, naive_times: dt.tzinfo) -> None:
        """Start with a conversation of no record."""
        self._name = name
        self._naive = naive_times
        self._turns: list[_Turn] = []
        self._bad: list[SetAside] = []
        self._history = History()
        self._last: list[str] = []
        self._system: list[str] = []
        self._first: Record | None = None
        self._time: dt.datetime | None = None
        self._end: Record | None = None

    def add(self, where: str, record: Record) -> None:
        """Take a record: what of it is not known from the records before becomes part of the episode."""
        time = self._when(record.time)
        if self._first is None:
            self._first, self._time = record, time
        self._end = record
        messages = self._read(where, record.messages, time)
        while messages and messages[0].message.role in _SYSTEM:
            self._add_system(messages.pop(0))
        digests = [turn.message.digest() for turn in messages]
        has_history = any(turn.message.role in ("assistant", "tool") for turn in messages)
        new = self._history.fresh(digests, continued=has_history or digests == self._last)
        self._last = digests
        fresh = [messages[i] for i in new]
        self._turns += fresh
        if record.choices is None and record.error is None:
            self._add_usage(record, [turn for turn in fresh if turn.message.role == "assistant"], time)
        else:
            self._add_response(where, record, digests, time)

    def _read(self, where: str, items: list[Any], time: dt.datetime | None) -> list[_Turn]:
        turns = []
        for number, item in enumerate(items, 1):
            if not isinstance(item, dict) or not isinstance(item.get("role"), str):
                self._bad.append(common.set_aside(f"{where}, message {number}", "it has no role", repr(item)))
                continue
            own = self._when(next((item[k] for k in ("timestamp", "created_at", "created") if k in item), None))
            model = item.get("model")
            columns = {"name": model} if isinstance(model, str) and model else {}
            turns += [_Turn(message, own or time, dict(columns)) for message in read_message(item)]
        return turns

    def _add_system(self, turn: _Turn) -> None:
        """Keep a system prompt: the first request's is the episode's, a later one came in the middle."""
        text = turn.message.text()
        if self._turns and text not in self._system:
            self._turns.append(turn)
        self._system.append(text) if text not in self._system else None

    def _add_response(self, where: str, record: Record, before: list[str], time: dt.datetime | None) -> None:
        answers = [
            answer for i, choice in enumerate(record.choices or [], 1) for answer in self._choice(where, i, choice)
        ]
        columns = self._call_columns(record)
        if record.error is not None:
            error = record.error
            output = {"error": error}
            columns |= failure_columns(error if isinstance(error, str) else repr(error))
            self._turns.append(_Turn(Message("assistant"), time, columns, output))
            return
        if not answers:
            self._turns.append(_Turn(Message("assistant"), time, columns))
            return
        others = [answer.answered() for answer in answers[1:]]
        output = {"choices": [answers[0].answered(), *others]} if others else {}
        self._turns.append(_Turn(answers[0], time, columns, output))
        self._history.fresh([*before, answers[0].digest()], continued=True)

    def _choice(self, where: str, number: int, choice: Any) -> list[Message]:
        item = choice.get("message", choice) if isinstance(choice, dict) else None
        if isinstance(item, dict) and isinstance(choice.get("text"), str) and item is choice:
            item = {"content": choice["text"]}
        if not isinstance(item, dict):
            self._bad.append(common.set_aside(f"{where}, choice {number}", "it has no message", repr(choice)))
            return []
        messages = read_message({"role": "assistant", **item}, "assistant")
        finish = choice.get("finish_reason")
        for message in messages:
            message.finish_reason = finish if isinstance(finish, str) else message.finish_reason
        return messages

    def _add_usage(self, record: Record, answers: list[_Turn], time: dt.datetime | None) -> None:
        """Give the line's usage to its one answer, or to nobody where it has several."""
        if len(answers) == 1:
            answers[0].columns = self._call_columns(record) | answers[0].columns
            return
        for turn in answers:
            turn.columns = common.known(name=record.model) | turn.columns
        columns = self._call_columns(record)
        columns.pop("name", None)
        if columns:
            output = {"usage": "total of the line, not attributed to single calls"}
            columns |= common.known(name=record.model) | {"weight": 0.0 if answers else 1.0}
            self._turns.append(_Turn(Message("usage"), time, columns, output))

    def _call_columns(self, record: Record) -> dict[str, Any]:
        usage = record.usage or {}
        details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if cached is None:
            cached = usage.get("prompt_cache_hit_tokens", usage.get("cache_read_input_tokens"))
        tokens = token_columns(
            usage.get("prompt_tokens", usage.get("input_tokens")),
            cached,
            usage.get("completion_tokens", usage.get("output_tokens")),
        )
        cost = record.cost_usd if record.cost_usd is not None else common.amount(usage.get("cost"))
        parameters = {"parameters": record.parameters} if record.parameters else None
        return common.known(name=record.model, input=parameters, latency_ms=record.latency_ms, cost_usd=cost, **tokens)

    def _when(self, value: object) -> dt.datetime | None:
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 1e11:
            value = value / 1000  # milliseconds
        return common.when(value, self._naive)

    # ---------------------------------------------------------------- events

    def drafts(self) -> Iterator[Draft | SetAside]:
        """Yield the bad parts of the records, then the events of the conversation, in order."""
        yield from self._bad
        if not self._turns and not self._system:
            return
        yield self._draft("started", Action.TASK_STARTED, self._time, self._started())
        results, orphans = pair_results(turn.message for turn in self._turns)
        times = {id(turn.message): turn.time for turn in self._turns}
        keys: dict[str, int] = {}
        for i, turn in enumerate(self._turns):
            yield from self._turn_drafts(i, turn)
            for j, call in enumerate(turn.message.calls):
                result = results.get((i, j))
                key = common.unique(f"tool:{call.id or f'{i}.{j}'}", keys)
                time = turn.time if result is None else times[id(result)]
                columns = tool_columns(call, result)
                yield self._draft(key, Action.TOOL_CALLED, time, columns, f"generation:{i}")
            if i in orphans:
                key = common.unique(f"result:{turn.message.call_id or i}", keys)
                yield self._draft(key, Action.TOOL_CALLED, turn.time, tool_columns(None, turn.message))
        if self._end is not None and self._end.completed is not None:
            status = "ok" if self._end.completed else "error"
            output = {"end_reason": "completed" if self._end.completed else "not completed"}
            yield self._draft("ended", Action.TASK_ENDED, None, {"status": status, "output": output})

    def _turn_drafts(self, i: int, turn: _Turn) -> Iterator[Draft]:
        message = turn.message
        if message.role == "tool" and not message.calls:
            return  # told with its call, or as an orphan
        if message.role in ("assistant", "usage") or message.calls:
            columns = dict(turn.columns)
            output = message.answered() | turn.output
            if message.role != "usage" and "status" not in columns:
                columns |= finish_columns(message.finish_reason)
            if output:
                columns["output"] = output
            yield self._draft(f"generation:{i}", Action.GENERATION, turn.time, columns)
        else:
            columns = {"name": message.role, "input": message.received()}
            yield self._draft(f"message:{i}", Action.MESSAGE_RECEIVED, turn.time, columns)
        if message.compaction is not None:
            columns = {"output": {"summary": message.compaction}}
            yield self._draft(f"compressed:{i}", Action.COMPRESSED, turn.time, columns)

    def _started(self) -> dict[str, Any]:
        first = self._first
        prompt = next((t.message.text() for t in self._turns if t.message.role == "user"), None)
        about = common.known(
            prompt=prompt,
            system="\n\n".join(self._system) or None,
            tools=first.tools if first else None,
            metadata=first.metadata if first else None,
        )
        return {"task_id": self._name, "input": about} | common.known(channel=first.channel if first else None)

    def _draft(
        self, key: str, action: Action, time: dt.datetime | None, columns: dict[str, Any], parent: str | None = None
    ) -> Draft:
        return Draft(self._name, key, action, time, columns, parent)
