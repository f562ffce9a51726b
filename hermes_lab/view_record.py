"""What every `task_started` says of the view of its episode, so that a replay sees what the episode saw.

`runs` and `conversation` write it; `replay.view` reads it back. What an older log lacks is None here.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_lab import payload, policy
from hermes_lab.checks import ALL_GUARDS, Guards
from hermes_lab.errors import ConfigError
from hermes_lab.loop_acts import View
from hermes_lab.permissions import PermissionRule
from hermes_lab.tools.base import Spec


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the view of an episode.

    Attributes:
        suite: that it ran on.
        tools_of: the suite whose tools a conversation used, where that was named.
        guards: the checks at work.
        rules: the permission rules at work.
        policy_as_of: when policy memory was made.
        policy: its digest (`policy.digest`).
        knowledge: digest of the memories and skills of that moment (`layers.Knowledge`); None where there were none.
        specs: digest of the tools' specs (`specs_digest`).
    """

    suite: str = ""
    tools_of: str | None = None
    guards: Guards = ALL_GUARDS
    rules: tuple[PermissionRule, ...] | None = None
    policy_as_of: dt.datetime | None = None
    policy: str | None = None
    knowledge: str | None = None
    specs: str | None = None


def about_view(view: View, as_of: dt.datetime) -> dict[str, Any]:
    """Return what is to be recorded of `view`, which shows what was known as of `as_of`, an aware time."""
    known = {} if view.knowledge.is_empty else {"knowledge": view.knowledge.digest}
    return {
        **known,
        "guards": view.guards._asdict(),
        "rules": msgspec.to_builtins(view.rules),
        "policy_as_of": as_of.astimezone(dt.UTC).isoformat(),
        "policy": policy.digest(view.policy),
        "specs": specs_digest(view.tools),
    }


def read_about(recorded: Any) -> About | str:
    """Return what a `task_started` says under `run`, or why it cannot be read.

    >>> read_about({"suite": "desk", "models": {}}).suite
    'desk'
    """
    if not isinstance(recorded, Mapping):
        return "its start does not say what it ran on"
    values = dict(recorded)
    guards = values.pop("guards", None)
    try:
        about = msgspec.convert(values, About)
        if isinstance(guards, Mapping):
            about = msgspec.structs.replace(about, guards=Guards(**guards))
    except (msgspec.ValidationError, ConfigError, TypeError) as error:
        return f"what its start says of the run cannot be read: {str(error).replace('$.', '')}"
    return about


def specs_digest(specs: Mapping[str, Spec]) -> str:
    """Return 12 hex digits that change with what the loop can see of the tools (a precheck's code it cannot)."""
    plain = {name: spec_plain(spec) for name, spec in specs.items()}
    return hashlib.sha256(payload.canonical(plain)).hexdigest()[:12]


def spec_plain(spec: Spec) -> dict[str, Any]:
    """Return a spec as plain values."""
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "level": str(spec.level),
        "action": str(spec.action),
        "precheck": spec.precheck is not None,
    }
