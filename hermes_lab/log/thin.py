"""Merging, before writing, of events that are no effect of an episode, so that counts stay right.

Only the kinds marked `Action.thinnable` may be merged, and of these only events without cost and without an error:
never a decision, a call, a cost or a matter of safety. A group is all events that agree in every column that people
count by, and in the hour; its last event is written with the group's size as weight, so `sum(weight)` by any of those
columns, or by hour or day, gives what `count(*)` would have given without thinning.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import msgspec

from hermes_lab.events import Action, Event, Status

# What people count by: everything short that is not a measure, an id of the event itself or a payload.
_GROUP_BY = (
    "action",
    "name",
    "status",
    "error_kind",
    "step",
    "from_cache",
    "run_id",
    "episode_id",
    "task_id",
    "task_type",
    "tier",
    "config_version",
    "channel",
    "parent_id",
)
_COSTS = ("input_tokens", "cached_tokens", "output_tokens", "latency_ms", "cost_usd", "quota")
_MOST_GROUPS = 1_000


def check_policy(policy: Mapping[str, int]) -> dict[Action, int]:
    """Return the policy (kind of event -> how many are merged into one) by `Action`.

    Raises:
        ValueError: a kind that may not be thinned, or a number below 1.
    """
    allowed = [str(a) for a in Action if a.thinnable]
    checked = {}
    for name, size in policy.items():
        if name not in allowed:
            raise ValueError(f"log.thin: {name!r} may not be thinned; only {', '.join(allowed)} may")
        if size < 1:
            raise ValueError(f"log.thin: {name} = {size}; give how many events become one, 1 or more")
        checked[Action(name)] = size
    return checked


class Thinner:
    """Holds back thinnable events until a group is full. Not thread-safe: the writer's lock guards it."""

    def __init__(self, policy: Mapping[Action, int]) -> None:
        """Take a policy as `check_policy` returns it."""
        self._policy = {action: size for action, size in policy.items() if size > 1}
        self._held: dict[tuple[object, ...], Event] = {}
        self._counts: dict[tuple[object, ...], int] = {}

    def takes(self, event: Event) -> bool:
        """Return whether `event` may be merged with others."""
        return bool(self._policy) and Action(event.action) in self._policy and _mergeable(event)

    def add(self, event: Event) -> list[Event]:
        """Return the events to write now: `event` itself, a full group's one, or none yet."""
        if not self.takes(event):
            return [event]
        size = self._policy[Action(event.action)]
        hour = event.ts.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
        key = (hour, *(getattr(event, column) for column in _GROUP_BY))
        held = self._held.get(key)
        weight = event.weight + (held.weight if held else 0.0)
        self._held[key] = msgspec.structs.replace(event, weight=weight)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] >= size:
            del self._counts[key]
            return [self._held.pop(key)]
        return self.drain() if len(self._held) > _MOST_GROUPS else []

    def drain(self) -> list[Event]:
        """Return what is held, in order of time, and hold nothing any more."""
        events = self.held()
        self.clear()
        return events

    def held(self) -> list[Event]:
        """Return what is held, in order of time."""
        return sorted(self._held.values(), key=lambda event: event.event_id)

    def clear(self) -> None:
        """Hold nothing any more."""
        self._held.clear()
        self._counts.clear()


def _mergeable(event: Event) -> bool:
    return event.status in (None, Status.OK) and all(getattr(event, column) is None for column in _COSTS)
