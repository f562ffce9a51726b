"""What is different between two configurations: in words, one change a line, and as a unified diff of their files.

It knows no setting by name. Tables are compared key by key; lists whose items have an `id`, or are pairs of a name and
a value, by that name; other lists of tables by what they hold; and everything else as one value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from hermes_lab.config import AgentConfig, to_json
from hermes_lab.versions import content

Kind = Literal["added", "removed", "changed", "moved"]

_MOST_SHOWN = 200


class Change(NamedTuple):
    """One thing that is different.

    Attributes:
        kind: what became of it.
        name: of it, dotted: `routing.shortlist`, `rules.r1`.
        before: its value before; None where it was not there.
        after: its value after; None where it is gone.
        words: the change in words.
    """

    kind: Kind
    name: str
    before: Any
    after: Any
    words: str


class Difference(NamedTuple):
    """What is different between two configurations.

    Attributes:
        old: name of the one, as it was asked for.
        new: name of the other.
        changes: one for each setting, and each item of a table or list.
        text: a unified diff of the files; empty where they are the same.
    """

    old: str
    new: str
    changes: tuple[Change, ...]
    text: str

    @property
    def words(self) -> str:
        """The changes in words, one a line."""
        return "\n".join(change.words for change in self.changes) or f"{self.old} and {self.new} are the same"


def between(old: AgentConfig, new: AgentConfig, names: tuple[str, str] = ("old", "new")) -> Difference:
    """Return what is different between two configurations; there is a change exactly where their hashes differ.

    >>> from hermes_lab.config import Rule
    >>> print(between(AgentConfig(), AgentConfig(rules=(Rule(id="r1", text="先查订单。", scope="refund"),))).words)
    rules.r1 added: scope refund; text 先查订单。
    """
    changes = tuple(_changes("", _hashed(old), _hashed(new)))
    before, after = (content.encode(one).decode().splitlines() for one in (old, new))
    return Difference(*names, changes, "\n".join(difflib.unified_diff(before, after, *names, lineterm="")))


def _hashed(config: AgentConfig) -> dict[str, Any]:
    """Return what is hashed of a configuration, and the later parts that are as before."""
    values: dict[str, Any] = msgspec.json.decode(to_json(config))
    return {**content.LATER, **values}


class _Key(NamedTuple):
    """What an item of a table or list is known by.

    Attributes:
        name: of it; empty where it has none.
        text: the whole of an item without a name: changed, it is another item.
        number: among several with the same name and text.
    """

    name: str
    text: str = ""
    number: int = 0


def _changes(name: str, before: Any, after: Any) -> Iterator[Change]:
    if not content.is_different(before, after):
        return
    old, new = _items(before), _items(after)
    if old is None or new is None:
        yield Change("changed", name, before, after, f"{name}: {_short(before)} -> {_short(after)}")
        return
    for key in {**old, **new}:
        place = ".".join(part for part in (name, key.name) if part)
        if key not in new:
            yield Change("removed", place, old[key], None, f"{place} removed: {_shown(key, old[key])}")
        elif key not in old:
            yield Change("added", place, None, new[key], f"{place} added: {_shown(key, new[key])}")
        else:
            yield from _changes(place, old[key], new[key])
    were, are = [key for key in old if key in new], [key for key in new if key in old]
    if isinstance(before, list) and were != are:
        first = next(key for was, key in zip(were, are, strict=True) if was != key)
        words = f"the order of {name} changed, from {_short(first.name or first.text)} on"
        yield Change("moved", name, before, after, words)


def _items(value: Any) -> dict[_Key, Any] | None:
    """Return the items of a table or list by key, in order; None where it is to be compared as one value."""
    if isinstance(value, dict):
        return {_Key(name): item for name, item in value.items()}
    if not isinstance(value, list):
        return None
    if all(isinstance(item, dict) for item in value):
        return _numbered([(_key(item), item) for item in value])
    if all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value):
        return _numbered([(_Key(item[0]), item[1]) for item in value])
    return None


def _key(item: dict[str, Any]) -> _Key:
    name = item.get("id")
    return _Key(name) if isinstance(name, str) else _Key("", msgspec.json.encode(item, order="sorted").decode())


def _numbered(items: list[tuple[_Key, Any]]) -> dict[_Key, Any]:
    found: dict[_Key, Any] = {}
    for key, item in items:
        while key in found:
            key = key._replace(number=key.number + 1)
        found[key] = item
    return found


def _shown(key: _Key, value: Any) -> str:
    """Return an item as text beside its name, which is not said again, nor what is empty."""
    if not isinstance(value, dict):
        return _short(value)
    said = {part: one for part, one in value.items() if one not in ("", [], {}, key.name)}
    return "; ".join(f"{part} {_short(one)}" for part, one in said.items()) or _short(value)


def _short(value: Any) -> str:
    """Return a value as text on one line, cut where it is long; the whole of it stands in the unified diff."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else line[: _MOST_SHOWN - 1] + "…"
