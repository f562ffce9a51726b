"""What a kept configuration's file holds, and the name that follows from it: `c-` and the hash of what is written.

Two promises. The name is the hash of what the *file* says, so a file that was edited is found. And a setting that
hermes-lab gains later is left out of the file where it has the value that means "as before", so a configuration that
was kept before the setting existed still loads, does what it did, and keeps its name; see `LATER`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_lab.config import ADDED_LATER, AgentConfig, from_values
from hermes_lab.errors import ConfigError
from hermes_lab.log.redact import Redactor

LATER: Mapping[str, Any] = {name: msgspec.to_builtins(part) for name, part in ADDED_LATER.items()}
"""Parts that came after the first configurations, each with the values that mean "as before".

They need not be the part's defaults: a new configuration may well begin with something better.
"""

_HASH_NAME = re.compile(r"c-[0-9a-f]{12}\Z")


def is_hash_name(text: str) -> bool:
    """Return whether `text` has the form of a configuration's hash.

    >>> is_hash_name("c-32e26f91f601"), is_hash_name("v1.3")
    (True, False)
    """
    return _HASH_NAME.match(text) is not None


def hash_name(config: AgentConfig) -> str:
    """Return the configuration's name by content.

    >>> hash_name(AgentConfig()) == AgentConfig().version
    True
    """
    return config.version


def plain(config: AgentConfig) -> dict[str, Any]:
    """Return what is written of a configuration: every setting, but for later ones that are as before."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    for name, as_before in LATER.items():
        if not is_different(values[name], as_before):
            del values[name]
    return values


def encode(config: AgentConfig) -> bytes:
    """Return the file of a configuration: JSON for people, a setting a line, the same bytes every time.

    JSON and not TOML, for arguments and defaults may hold null, which TOML has no form for.
    """
    return msgspec.json.format(msgspec.json.encode(plain(config)), indent=2) + b"\n"


def decode(data: bytes, where: str, *, name: str | None = None) -> AgentConfig:
    """Return the configuration that a kept file holds.

    Args:
        data: the file.
        where: to be named in an error.
        name: that it is kept under; None where it has none yet.

    Raises:
        ConfigError: it is no such file, it is not what had this name, or a newer hermes-lab wrote it.
    """
    values = _table(data, where)
    found = _name_of(values)
    if name is not None and found != name:
        raise ConfigError(
            f"{where} was edited: it holds {found}, not {name}. To use it as it is, copy it to another place and "
            f"name that file (--config FILE); then delete it here, and run once more what made {name}"
        )
    for later, as_before in LATER.items():
        values.setdefault(later, as_before)
    config = from_values(values, f"{where} (if a newer hermes-lab wrote it, upgrade)")
    if hash_name(config) != found:
        raise ConfigError(
            f"{where} is not written as hermes-lab keeps a configuration, with every setting: "
            "name the file itself (--config FILE) to have what it leaves out filled in with the defaults"
        )
    return config


def name_in(data: bytes) -> str | None:
    """Return the name of what a file holds; None where it holds no JSON table."""
    try:
        return _name_of(_table(data, ""))
    except ConfigError:
        return None


def refuse_secrets(value: Any, what: str) -> None:
    """Refuse what holds a secret, for it is kept as it is.

    Raises:
        ConfigError: it does; `what` is named, the secret is not.
    """
    if Redactor(os.environ).value(value) != value:
        raise ConfigError(f"{what} holds what looks like a secret, and the lab keeps it: take it out")


def _table(data: bytes, where: str) -> dict[str, Any]:
    try:
        values = msgspec.json.decode(data)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: a configuration is a table, not a {type(values).__name__}")
    return values


def _name_of(values: dict[str, Any]) -> str:
    """Return the hash of what is written. The sections of the system text count in their order, so as pairs."""
    hashed = dict(values)
    if isinstance(values.get("system"), dict):
        hashed["system"] = list(values["system"].items())
    return "c-" + hashlib.sha256(msgspec.json.encode(hashed, order="sorted")).hexdigest()[:12]


def is_different(one: Any, other: Any) -> bool:
    """Return whether two values are written differently; 0, 0.0 and false are equal in Python, and not in a file."""
    return msgspec.json.encode(one, order="sorted") != msgspec.json.encode(other, order="sorted")
