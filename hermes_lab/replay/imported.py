"""Takes the decisions of somebody else's agent through our rules: routing, checks, permissions and budgets.

What that agent decided is taken as given; each call with its result is looked at with what came before it in its turn.
No policy memory is used. A tool whose level nobody recorded counts as read_only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_lab import checks, permissions, routing
from hermes_lab.checks import Past
from hermes_lab.config import AgentConfig
from hermes_lab.episode_state import State, observation
from hermes_lab.events import Event
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.permissions import PermissionRule, Verdict
from hermes_lab.recorder import passes
from hermes_lab.replay.changes import Change, ChangeKind, shown
from hermes_lab.replay.decisions import CALLED, Decided
from hermes_lab.replay.entries import TOOL_ACTIONS, Row, row_tokens
from hermes_lab.replay.recording import Recording
from hermes_lab.suites.log_episode import LoggedEpisode, read_episode
from hermes_lab.tools.base import Spec


class ImportedReplay(msgspec.Struct, frozen=True):
    """What our rules say to an imported episode.

    Attributes:
        calls: how many calls there are.
        kept: how many come before the first change.
        change: the first call that our rules change; None where they let all pass.
        remarks: what was inferred.
    """

    calls: int
    kept: int
    change: Change | None
    remarks: tuple[str, ...] = ()


def replay_imported(
    recording: Recording, config: AgentConfig, rules: tuple[PermissionRule, ...]
) -> ImportedReplay | str:
    """Return what our rules say to an imported episode, or why it cannot be told."""
    episode = read_episode([_event(row) for row in recording.rows])
    specs = {name: Spec(name, tool.description, tool.parameters, tool.level) for name, tool in episode.tools.items()}
    calls = [row for row in recording.rows if _is_call(row)]
    if not calls:
        return "it is an import without a tool call: there is no decision that a rule could change"
    for row in calls:  # those that came before the user said anything
        specs.setdefault(str(row.name), Spec(str(row.name), "", {"type": "object"}))
    turn = _Turn(config, rules, specs, recording.task_type or "")
    retracted = {row.parent_id for row in recording.rows if row.status == Status.RETRACTED}
    kept = 0
    for row in recording.rows:
        if row.event_id in retracted or row.status == Status.RETRACTED:
            continue
        change = turn.take(row)
        if change is not None:
            return ImportedReplay(len(calls), kept, change, _remarks(episode))
        kept += _is_call(row)
    return ImportedReplay(len(calls), kept, None, _remarks(episode))


class _Turn:
    """What the agent was asked and did since the user last spoke."""

    def __init__(
        self, config: AgentConfig, rules: tuple[PermissionRule, ...], specs: dict[str, Spec], task_type: str
    ) -> None:
        self._config = config
        self._rules = rules
        self._specs = specs
        self._task_type = task_type
        self._request = ""
        self._state = State(config.budgets)

    def take(self, row: Row) -> Change | None:
        """Take one event, and return what our rules change about it."""
        if row.action == Action.MESSAGE_RECEIVED and row.name in (None, "user"):
            self._request = _said(row.given())
            self._state = State(self._config.budgets)
        elif row.action == Action.TASK_STARTED and not self._request:
            given = row.given()
            self._request = str(given.get("prompt") or "") if isinstance(given, dict) else ""
        elif row.action == Action.GENERATION:
            return self._generation(row)
        elif _is_call(row):
            return self._call(row)
        return None

    def _generation(self, row: Row) -> Change | None:
        stop = self._state.over_budget()
        if stop is not None:
            return _change(ChangeKind.ENDED_EARLIER, row, "went on", f"ended ({stop.reason})")
        self._state.turns += 1
        self._state.tokens += row_tokens(row) or 0
        self._state.seconds += (row.latency_ms or 0.0) / 1000
        self._state.usd = (self._state.usd or 0.0) + row.cost_usd if row.cost_usd is not None else self._state.usd
        return None

    def _call(self, row: Row) -> Change | None:
        arguments: dict[str, Any] = row.given()
        tool, state = str(row.name), self._state
        old = str(Decided(CALLED, tool, arguments))
        routed = routing.route(
            self._request,
            self._task_type,
            list(self._specs.values()),
            self._config.routing,
            missed_now=state.missed(),
            before=state.last_hit(),
        )
        if tool in self._specs and tool not in routed.candidates:
            return _change(ChangeKind.LOST_TOOL, row, old, f"it is not offered: {', '.join(routed.candidates)}")
        problem = checks.check_call(tool, arguments, self._specs, state.past)
        if problem is not None:
            return _change(ChangeKind.BLOCKED_BY_CHECK, row, old, f"refused ({problem.kind}): {problem.message}")
        ruling = permissions.decide(self._rules, self._specs[tool], arguments, self._task_type)
        if ruling.verdict is not Verdict.ALLOW:
            return _change(ChangeKind.OTHER_PERMISSION, row, old, f"{ruling.verdict} by {ruling.by}: {ruling.reason}")
        state.past.append(_past(row, arguments, self._specs[tool]))
        state.seconds += (row.latency_ms or 0.0) / 1000
        return None


def _past(row: Row, arguments: dict[str, Any], spec: Spec) -> Past:
    status = Status(row.status or Status.OK)
    kind = None if row.error_kind is None else ErrorKind(row.error_kind)
    error = "" if status is Status.OK else observation(row.came())
    return Past(spec.name, arguments, status, kind, error, passes(kind), writes=checks.writes(spec))


def _is_call(row: Row) -> bool:
    """Tell whether this is a call that ran, and can be read."""
    if row.action not in TOOL_ACTIONS or row.status in (Status.INVALID, Status.RETRACTED) or not row.name:
        return False
    return row.input is not None and row.input.startswith("{") and (row.output is not None or row.status is not None)


def _said(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    said = given.get("text", given.get("content"))
    return said if isinstance(said, str) else shown(said)


def _change(kind: ChangeKind, row: Row, old: str, new: str) -> Change:
    return Change(kind=kind, step=-1 if row.step is None else row.step, old=old, new=shown(new))


def _remarks(episode: LoggedEpisode) -> tuple[str, ...]:
    inferred = [name for name, tool in episode.tools.items() if tool.inferred]
    remarks = []
    if inferred:
        remarks.append("tools that the log does not describe are known by the calls made of them alone")
    if episode.guessed:
        remarks.append("which calls came out ok was inferred from their results when the log was imported")
    return tuple(remarks)


def _event(row: Row) -> Event:
    """Return the event of a row, as far as `read_episode` looks at it."""
    return Event(
        event_id=row.event_id,
        ts=row.ts,
        episode_id=row.episode_id,
        task_id=row.task_id,
        task_type=row.task_type,
        step=row.step,
        action=Action(row.action),
        name=row.name,
        input=row.input,
        output=row.output,
        status=None if row.status is None else Status(row.status),
        error_kind=None if row.error_kind is None else ErrorKind(row.error_kind),
        confidence=row.confidence,
        parent_id=row.parent_id,
    )
