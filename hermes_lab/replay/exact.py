"""Replays an episode under its own configuration: every effect must be the recorded one, and every mismatch is named.

Nothing outside is asked: each outcome comes from the log.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from hermes_lab import loop, payload
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Effect, Ending, Note
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.log import spill
from hermes_lab.loop_acts import View
from hermes_lab.recorder import act_content, passes
from hermes_lab.replay.changes import ABSENT, Mismatch, MismatchKind, first_difference, shown
from hermes_lab.replay.effects import KINDS, Keys, next_effect, outcome_of, said, title
from hermes_lab.replay.entries import TOOL_ACTIONS, Entry
from hermes_lab.replay.recording import Recording

_MOST_MISMATCHES = 20
_SECONDS_OFF = 2e-6  # the log holds the time of a call's last try apart from the ones before, and sums are rounded
_REDACTED = "secrets were taken out of this episode, so that texts which were cut to a length may differ"
_MISMATCHES = {
    "ask": MismatchKind.PROMPT,
    "act": MismatchKind.CALL,
    "permit": MismatchKind.PERMISSION,
    "note": MismatchKind.NOTE,
}


class Reproduction(NamedTuple):
    """What a replay under the same configuration came to.

    Attributes:
        effects: how many effects were held against the log.
        mismatches: those that are not what was recorded; empty where the episode was reproduced.
        ending: what the loop returned; None where the log ends before.
        inferred: whether it was found out by trying what the log does not say (whether a failure was transient).
    """

    effects: int
    mismatches: tuple[Mismatch, ...]
    ending: Ending | None
    inferred: bool = False


def reproduce(recording: Recording, config: AgentConfig, view: View, keys: Keys) -> Reproduction:
    """Drive the loop from the log, and return what differs.

    Args:
        recording: an episode that has no `problem`.
        config: that it ran under.
        view: that it had.
        keys: makes the hashes.
    """
    first = _Match(recording, config, view, keys).run()
    if not first.mismatches or recording.about.policy_as_of is not None:
        return first
    # An older log does not say which failures were transient where their kind does not tell.
    unsure = [entry for entry in recording.entries if entry.kind == "act" and _may_be_otherwise(entry)]
    if not unsure:
        return first
    for entry in unsure:
        kind = entry.row.error_kind
        entry.transient = not passes(None if kind is None else ErrorKind(kind))
    second = _Match(recording, config, view, keys).run()
    if second.mismatches:
        for entry in unsure:
            entry.transient = None
        return first
    return second._replace(inferred=True)


def _may_be_otherwise(entry: Entry) -> bool:
    return entry.transient is None and entry.row.status != Status.OK


class _Match:
    """One episode, held against the log."""

    def __init__(self, recording: Recording, config: AgentConfig, view: View, keys: Keys) -> None:
        self._recording = recording
        self._steps = loop.episode(_task(recording), config, dataclasses.replace(view, seed=recording.seed))
        self._tools = view.tools
        self._keys = keys
        self._place = 0
        self._matched = 0
        self._mismatches: list[Mismatch] = []
        self._because = _REDACTED if recording.redacted else ""

    def run(self) -> Reproduction:
        outcome: Any = None
        while len(self._mismatches) < _MOST_MISMATCHES:
            effect, failure = next_effect(self._steps, outcome)
            if failure is not None:
                return self._crashed(failure)
            if isinstance(effect, Ending):
                return self._ended(effect)
            assert effect is not None  # noqa: S101 - `next_effect` gives one of the two
            entry = self._entry()
            if entry is None or entry.kind == "stopped":
                if entry is None and not self._recording.stopped:
                    self._note(MismatchKind.EXTRA_EFFECT, -1, title(effect), ABSENT, said(effect))
                break
            if entry.kind != KINDS[type(effect)]:
                self._other_effect(entry, effect)
                break
            self._hold(entry, effect)
            self._place += 1
            outcome = outcome_of(entry)
            if entry.kind == "permit" and outcome is None:
                break  # the log ends before the answer
        return self._done(None)

    def _entry(self) -> Entry | None:
        entries = self._recording.entries
        return entries[self._place] if self._place < len(entries) else None

    def _hold(self, entry: Entry, effect: Effect) -> None:
        self._matched += 1
        if isinstance(effect, Note):
            self._hold_note(entry, effect)
            return
        if isinstance(effect, Act):
            self._hold_action(entry, effect)
        if self._keys.of(effect) == entry.row.request_hash:
            return
        old, new = _recorded(entry), self._keys.content(effect)
        found = first_difference(old, payload.loads(payload.dumps(new)))
        kind = _MISMATCHES[entry.kind]
        if found is None:
            self._note(kind, entry.step, "request_hash", str(entry.row.request_hash), self._keys.of(effect))
        else:
            self._note(kind, entry.step, found.field, found.old, found.new)

    def _hold_action(self, entry: Entry, effect: Act) -> None:
        """Look at the kind of event, which is no part of the hash."""
        action = self._action_of(effect.tool)
        if action is not None and action != entry.row.action:
            self._note(MismatchKind.CALL, entry.step, "action", entry.row.action, str(action))

    def _action_of(self, tool: str) -> Action | None:
        spec = self._tools.get(tool)
        return None if spec is None else spec.action

    def _hold_note(self, entry: Entry, note: Note) -> None:
        old, new = _note_recorded(entry), self._keys.clean(_note_plain(note))
        if payload.canonical(old) == payload.canonical(new):
            return
        if note.action is Action.TASK_ENDED and _same_but_for_rounding(old, new):
            return
        found = first_difference(old, payload.loads(payload.dumps(new)))
        if found is not None:
            self._note(MismatchKind.NOTE, entry.step, f"{note.action}.{found.field}", found.old, found.new)

    def _other_effect(self, entry: Entry, effect: Effect) -> None:
        if entry.kind == "crashed":
            self._note(MismatchKind.CRASH, entry.step, "", shown(entry.row.observation or ""), said(effect))
        else:
            was = f"{entry.row.action} {entry.row.name or ''}".strip()
            self._note(MismatchKind.OTHER_EFFECT, entry.step, "", was, said(effect))

    def _ended(self, ending: Ending) -> Reproduction:
        entry = self._entry()
        if entry is not None:
            was = f"{entry.row.action} {entry.row.name or ''}".strip()
            self._note(MismatchKind.MISSING_EFFECT, entry.step, "", was, f"the episode is over ({ending.end})")
        return self._done(ending)

    def _crashed(self, failure: str) -> Reproduction:
        entry = self._entry()
        if entry is not None and entry.kind == "crashed":
            self._place += 1
            self._matched += 1
            if not _same_failure(entry.row.observation or "", failure):
                self._note(MismatchKind.CRASH, entry.step, "", shown(entry.row.observation or ""), failure)
            return self._done(None)
        step = -1 if entry is None else entry.step
        was = ABSENT if entry is None else f"{entry.row.action} {entry.row.name or ''}".strip()
        self._note(MismatchKind.CRASH, step, "", was, f"the loop failed: {failure}")
        return self._done(None)

    def _done(self, ending: Ending | None) -> Reproduction:
        self._steps.close()
        return Reproduction(self._matched, tuple(self._mismatches), ending)

    def _note(self, kind: MismatchKind, step: int, field: str, expected: str, got: str) -> None:
        self._mismatches.append(
            Mismatch(
                episode_id=self._recording.episode_id,
                step=step,
                kind=kind,
                field=field,
                expected=expected,
                got=got,
                because=self._because,
            )
        )


def _task(recording: Recording) -> Any:
    assert recording.task is not None  # noqa: S101 - a recording without a task has a problem
    return recording.task


def _recorded(entry: Entry) -> Any:
    """Return what the log holds of an effect, in the form that its hash is made of."""
    given = entry.row.given()
    return act_content(entry.row.name or "", given) if entry.row.action in TOOL_ACTIONS else given


def _note_recorded(entry: Entry) -> dict[str, Any]:
    row = entry.row
    given = row.given()
    if row.action == Action.TASK_STARTED and isinstance(given, dict):
        given = {key: value for key, value in given.items() if key != "run"}
    seen = None if row.observation is None else spill.unguard(row.observation)
    return _without_none(
        {
            "action": row.action,
            "name": row.name,
            "input": given,
            "output": row.came(),
            "observation": seen,
            "status": row.status,
            "error_kind": row.error_kind,
            "confidence": row.confidence,
        }
    )


def _note_plain(note: Note) -> dict[str, Any]:
    return _without_none(
        {
            "action": str(note.action),
            "name": note.name,
            "input": note.input,
            "output": note.output,
            "observation": note.observation,
            "status": note.status,
            "error_kind": note.error_kind,
            "confidence": note.confidence,
        }
    )


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _same_but_for_rounding(old: dict[str, Any], new: dict[str, Any]) -> bool:
    before, now = old.get("output"), new.get("output")
    if not isinstance(before, dict) or not isinstance(now, dict):
        return False
    then, again = before.get("seconds"), now.get("seconds")
    if not isinstance(then, int | float) or not isinstance(again, int | float) or abs(then - again) > _SECONDS_OFF:
        return False
    mended = {**new, "output": {**now, "seconds": then}}
    return payload.canonical(old) == payload.canonical(mended)


def _same_failure(recorded: str, failure: str) -> bool:
    """Tell whether a crash is the recorded one; of that the runner wrote the last line of the traceback."""
    last_line = recorded.partition(" failed: ")[2][:200]
    return failure in recorded or (bool(last_line) and last_line in failure)
