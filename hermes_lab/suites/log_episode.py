"""Reads a logged episode, ours or an imported one, as turns: what was said, what was called, what was answered."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.context import FINAL_ANSWER
from hermes_lab.events import Event
from hermes_lab.importers.reading.common import content_text
from hermes_lab.kinds import Action, Status
from hermes_lab.suites.recorded import RecordedCall, ToolDefinition
from hermes_lab.suites.schemas import inferred
from hermes_lab.tasks import Exchange

_CALLS = (Action.TOOL_CALLED, Action.CODE_EXECUTED, Action.RETRIEVAL)
_NOT_USERS = ("system", "developer", "assistant", "tool")
_LISTED = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)


@dataclass(slots=True)
class LoggedTurn:
    """What the user said, the calls that ran because of it, and the last thing that the agent said.

    Attributes:
        user: the text.
        calls: in order, with what came of them.
        answer: "" where the agent said nothing.
    """

    user: str
    calls: list[RecordedCall] = field(default_factory=list)
    answer: str = ""


@dataclass(slots=True)
class LoggedEpisode:
    """An episode as the log has it.

    Attributes:
        id: its episode_id.
        task_id: of its task.
        task_type: of its task; None where nobody said.
        family: of its task; None for imported ones.
        answer_by: of its task.
        history: earlier turns that its task came with.
        turns: in order.
        tools: the tools that it was offered or called, by name.
        end: how it ended, as far as the log says.
        scores: the grades that it got.
        guessed: whether it was inferred which calls came out ok.
    """

    id: str
    task_id: str | None = None
    task_type: str | None = None
    family: str | None = None
    answer_by: str = "text"
    history: tuple[Exchange, ...] = ()
    turns: list[LoggedTurn] = field(default_factory=list)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    end: str = ""
    scores: list[float] = field(default_factory=list)
    guessed: bool = False


def read_episode(events: Sequence[Event]) -> LoggedEpisode:
    """Return the episode of `events`, which are all of one episode, in order; what was taken back is left out."""
    retracted = {event.parent_id for event in events if event.status == Status.RETRACTED}
    episode = LoggedEpisode(events[0].episode_id or "")
    for event in events:
        if event.event_id not in retracted and event.status != Status.RETRACTED:
            _take(episode, event)
    _infer_schemas(episode)
    return episode


def _take(episode: LoggedEpisode, event: Event) -> None:
    episode.task_id = episode.task_id or event.task_id
    episode.task_type = episode.task_type or event.task_type
    given = None if event.input is None else payload.loads(event.input)
    came = None if event.output is None else payload.loads(event.output)
    if event.action is Action.TASK_STARTED:
        _take_start(episode, given)
    elif event.action is Action.MESSAGE_RECEIVED and event.name not in _NOT_USERS:
        text = _said(given)
        if text:
            episode.turns.append(LoggedTurn(text))
    elif event.action is Action.GENERATION:
        _take_generation(episode, given, came)
    elif event.action in _CALLS:
        _take_call(episode, event, given, came)
    elif event.action is Action.TASK_ENDED:
        _take_end(episode, event, came)
    elif event.action is Action.GRADED and isinstance(came, dict) and isinstance(came.get("score"), int | float):
        episode.scores.append(came["score"])


def _said(given: Any) -> str:
    """Return the text of a message: ours has `text`, an imported one `content`."""
    if not isinstance(given, dict):
        return ""
    text = given.get("text")
    return text if isinstance(text, str) else content_text(given.get("content"))


def _take_start(episode: LoggedEpisode, given: Any) -> None:
    if not isinstance(given, dict):
        return
    task = given.get("task")
    if isinstance(task, dict):
        episode.family = str(task.get("family") or "") or None
        episode.answer_by = "call" if task.get("answer_by") == "call" else "text"
        episode.history = _history(task.get("history"))
    _add_tools(episode, given.get("tools"))
    for key in ("system_prompt", "system"):
        for listed in _LISTED.findall(given[key]) if isinstance(given.get(key), str) else ():
            _add_tools(episode, _json_or_none(listed))


def _history(value: Any) -> tuple[Exchange, ...]:
    try:
        return msgspec.convert(value or (), tuple[Exchange, ...])
    except msgspec.ValidationError:
        return ()


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _add_tools(episode: LoggedEpisode, tools: Any) -> None:
    """Take the signatures of tools, bare or in OpenAI's form."""
    for item in tools if isinstance(tools, list) else ():
        told = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(told, dict) or not isinstance(told.get("name"), str) or told["name"] == FINAL_ANSWER:
            continue
        schema = told.get("parameters")
        if isinstance(schema, dict) and told["name"] not in episode.tools:
            about = told.get("description")
            episode.tools[told["name"]] = ToolDefinition(
                name=told["name"], description=about if isinstance(about, str) else "", parameters=schema
            )


def _take_generation(episode: LoggedEpisode, given: Any, came: Any) -> None:
    if isinstance(given, dict):
        _add_tools(episode, given.get("tools"))
    if isinstance(came, dict) and came.get("content") and episode.turns:
        episode.turns[-1].answer = content_text(came["content"])


def _take_call(episode: LoggedEpisode, event: Event, given: Any, came: Any) -> None:
    """Take a call that ran; one that could not be read, or never got a result, is none."""
    unread = event.status == Status.INVALID or not isinstance(given, dict) or not event.name
    if unread or (came is None and event.status is None) or not episode.turns:
        return
    episode.guessed = episode.guessed or (event.confidence is not None and event.confidence < 1)
    episode.turns[-1].calls.append(
        RecordedCall(
            tool=str(event.name),
            arguments=given,
            output=came,
            status=event.status or Status.OK,
            error_kind=event.error_kind,
        )
    )


def _take_end(episode: LoggedEpisode, event: Event, came: Any) -> None:
    if not isinstance(came, dict):
        return
    if event.status is not None and event.status != Status.OK:
        episode.end = str(came.get("end") or came.get("end_reason") or event.status)
    answer = came.get("answer")
    if isinstance(answer, str) and answer and episode.turns:
        episode.turns[-1].answer = answer


def _infer_schemas(episode: LoggedEpisode) -> None:
    calls = [call for turn in episode.turns for call in turn.calls]
    for name in dict.fromkeys(call.tool for call in calls):
        if name not in episode.tools:
            schema = inferred([call.arguments for call in calls if call.tool == name])
            episode.tools[name] = ToolDefinition(name=name, parameters=schema, inferred=True)
