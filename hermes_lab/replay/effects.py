"""Effects on their way through a replay: their kind, their hash as the recorder makes it, their recorded outcome."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hermes_lab import payload
from hermes_lab.effects import Act, Ask, Effect, Ending, Note, Permit, effect_hash
from hermes_lab.log.redact import Redactor
from hermes_lab.recorder import act_content, ask_content
from hermes_lab.replay.changes import shown
from hermes_lab.replay.entries import Entry, Kind
from hermes_lab.suites.foreign import attempt

KINDS: dict[type[Any], Kind] = {Ask: "ask", Act: "act", Permit: "permit", Note: "note"}
"""The kind of entry that an effect is recorded as."""


class Keys:
    """Makes what the log holds of an effect, with secrets taken out, and its hash."""

    def __init__(self, redactor: Redactor) -> None:
        """Use the secrets that `redactor` knows."""
        self._redactor = redactor

    def content(self, effect: Ask | Act | Permit) -> dict[str, Any]:
        """Return what the hash of an effect is made of."""
        if isinstance(effect, Ask):
            given = ask_content(effect)
        elif isinstance(effect, Act):
            given = act_content(effect.tool, effect.arguments)
        else:
            given = {
                "tool": effect.tool,
                "arguments": effect.arguments,
                "level": effect.level,
                "reason": effect.reason,
            }
        clean: dict[str, Any] = self.clean(given)
        return clean

    def of(self, effect: Ask | Act | Permit) -> str:
        """Return the hash of an effect, as the recorder makes it."""
        return effect_hash(KINDS[type(effect)], self.content(effect))

    def clean(self, value: Any) -> Any:
        """Return a JSON value without its secrets."""
        return self._redactor.value(value) if self._redactor.suspects(payload.canonical(value)) else value


def next_effect(steps: Generator[Effect, Any, Ending], outcome: Any) -> tuple[Effect | Ending, None] | tuple[None, str]:
    """Send an outcome; return the next effect or the ending, or None and why the loop failed."""

    def send() -> Effect | Ending:
        try:
            return steps.send(outcome)
        except StopIteration as stop:
            ending: Ending = stop.value
            return ending

    return attempt(send)


def outcome_of(entry: Entry) -> Any:
    """Return the recorded outcome of an effect; None for a note, and for a permission that was never answered."""
    if entry.kind == "ask":
        return entry.reply()
    if entry.kind == "act":
        return entry.result()
    if entry.kind == "permit":
        return entry.decision()
    return None


def title(effect: Effect) -> str:
    """Return what kind of effect it is."""
    return str(effect.action) if isinstance(effect, Note) else KINDS[type(effect)]


def said(effect: Effect) -> str:
    """Return an effect as a short text."""
    if isinstance(effect, Note):
        return f"{effect.action} {effect.name or ''}".strip()
    if isinstance(effect, Ask):
        return f"a question to the model ({effect.purpose})"
    what = "call" if isinstance(effect, Act) else "permission for"
    return shown(f"{what} {effect.tool} {payload.dumps(effect.arguments)}")
