"""Questions about a line of versions, which need no disk: which one a name means, and whether two lines agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.versions import content, record
from hermes_lab.versions.errors import DamagedHistoryError, StaleParentError
from hermes_lab.versions.record import Version

LATEST = "latest"
"""Stands for the last version."""


def is_version_name(text: str) -> bool:
    """Return whether `text` can only be the name of a version: `v1.3`, `c-` and a hash, or `latest`.

    >>> [is_version_name(text) for text in ("v1.3", "c-32e26f91f601", "latest", "agent.toml")]
    [True, True, True, False]
    """
    return text == LATEST or record.number_of(text) is not None or content.is_hash_name(text)


def is_line_name(text: str) -> bool:
    """Return whether `text` names a place in the history: `v1.3` or `latest`."""
    return text == LATEST or record.number_of(text) is not None


def find(versions: tuple[Version, ...], name: str) -> Version:
    """Return the version of `versions`, which go from the first to the last, that a name means.

    Raises:
        MissingError: none.
    """
    if not is_version_name(name):
        raise MissingError(f"{name!r} names no version: write v1.3, c- and 12 hex digits, or {LATEST}")
    for version in reversed(versions):
        if name in (version.name, version.config, LATEST):
            return version
    there = f"the last is {versions[-1].name}" if versions else "nothing was committed yet"
    raise MissingError(f"there is no version {name}: {there}; `hermes-lab config log` lists them")


def stale(base: str | None, last: Version | None) -> StaleParentError:
    """Return the error for a change that was made on `base` while the history ends with `last`."""
    if last is None:
        return StaleParentError(f"there is no version {base} yet: the first one has no parent")
    return StaleParentError(
        f"this change was made on {base or 'an empty history'}, and {last.name} came meanwhile (by {last.by}, "
        f"{last.ts:%Y-%m-%d %H:%M:%S} UTC): look at it with `hermes-lab config show {last.name}`, and make the change "
        f"on that"
    )


def check_tags(tags: Mapping[str, str], versions: tuple[Version, ...]) -> None:
    """Hold the tags against the branch: a branch that was set back, or a tag that was moved, is found so.

    Raises:
        DamagedHistoryError: they are not of one history.
    """
    for name, commit in tags.items():
        number = record.number_of(name)
        if number is None:
            continue
        if number >= len(versions):
            last = versions[-1].name if versions else "nothing"
            raise DamagedHistoryError(f"there is a tag {name}, and the branch main ends with {last}: it was set back")
        if versions[number].commit != commit:
            raise DamagedHistoryError(f"the tag {name} was moved: it is not the commit that the branch has as {name}")


def check_same_history(ours: tuple[Version, ...], theirs: tuple[Version, ...], source: Path) -> None:
    """Refuse versions of another history: as far as both go, they must be the same commits.

    Raises:
        ConfigError: they are not.
    """
    for mine, other in zip(ours, theirs, strict=False):
        if mine.commit != other.commit:
            raise ConfigError(
                f"{source} holds another history: its {other.name} is {other.config} by {other.by}, and this lab's is "
                f"{mine.config} by {mine.by}. A history is never written over: import it into a new lab (--lab DIR)"
            )
