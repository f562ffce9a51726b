"""What is different between two configurations: in words, one change a line, and as a unified diff of their files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from hermes_lab.config import AgentConfig, Example, Rule
from hermes_lab.tasks import ANY_TYPE
from hermes_lab.versions import content

Kind = Literal["added", "removed", "changed", "moved"]

_MOST_SHOWN = 200


class Change(NamedTuple):
    """One thing that is different.

    Attributes:
        kind: what became of it.
        what: `setting`, `rule`, `example`, `tool` or `system text`.
        name: of it: a dotted setting, a rule's id, an example's request, a tool, a section.
        before: its value before; None where it was not there.
        after: its value after; None where it is gone.
        words: the change in words.
    """

    kind: Kind
    what: str
    name: str
    before: Any
    after: Any
    words: str


class Difference(NamedTuple):
    """What is different between two configurations.

    Attributes:
        old: name of the one, as it was asked for.
        new: name of the other.
        changes: one for each setting, rule, example, tool and section of the system text.
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
    """Return what is different between two configurations.

    >>> print(between(AgentConfig(), AgentConfig(rules=(Rule(id="r1", text="先查订单。", scope="refund"),))).words)
    rule r1 added for refund: 先查订单。
    """
    changes = [
        *_mappings("system text", old.system, new.system),
        *_settings(old, new),
        *_rules(old.rules, new.rules),
        *_examples(old.examples, new.examples),
        *_tools(old, new),
    ]
    before, after = (content.encode(one).decode().splitlines() for one in (old, new))
    text = "\n".join(difflib.unified_diff(before, after, *names, lineterm=""))
    return Difference(*names, tuple(changes), text)


def _settings(old: AgentConfig, new: AgentConfig) -> list[Change]:
    """Compare every section but those that have a comparison of their own."""
    own = {"system", "rules", "examples", "tools"}
    before, after = (
        dict(_flat({key: value for key, value in msgspec.to_builtins(one).items() if key not in own}))
        for one in (old, new)
    )
    return [
        Change(
            "changed",
            "setting",
            name,
            before.get(name),
            after.get(name),
            _from_to(name, before.get(name), after.get(name)),
        )
        for name in {**before, **after}
        if content.is_different(before.get(name), after.get(name))
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _rules(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> list[Change]:
    before, after = {rule.id: rule for rule in old}, {rule.id: rule for rule in new}
    changes = []
    for name, rule in before.items():
        if name not in after:
            words = f"rule {name} removed{_scope(rule.scope)}: {_short(rule.text)}"
            changes.append(Change("removed", "rule", name, msgspec.to_builtins(rule), None, words))
    for name, rule in after.items():
        if name not in before:
            words = f"rule {name} added{_scope(rule.scope)}: {_short(rule.text)}"
            changes.append(Change("added", "rule", name, None, msgspec.to_builtins(rule), words))
        elif rule != before[name]:
            changes.append(_changed_parts("rule", name, f"rule {name}", before[name], rule))
    changes.extend(_moved("rule", list(before), list(after)))
    return changes


def _examples(old: tuple[Example, ...], new: tuple[Example, ...]) -> list[Change]:
    """Compare examples by what they show: the request, the tool and the scope."""
    before, after = _numbered(old), _numbered(new)
    changes = []
    for key, example in before.items():
        if key not in after:
            words = f"example removed{_scope(example.scope)}: {_shown(example)}"
            changes.append(Change("removed", "example", example.request, msgspec.to_builtins(example), None, words))
    for key, example in after.items():
        if key not in before:
            words = f"example added{_scope(example.scope)}: {_shown(example)}"
            changes.append(Change("added", "example", example.request, None, msgspec.to_builtins(example), words))
        elif content.is_different(msgspec.to_builtins(before[key]), msgspec.to_builtins(example)):
            what = f"example {_short(example.request)} -> {example.tool}"
            changes.append(_changed_parts("example", example.request, what, before[key], example))
    changes.extend(_moved("example", list(before), list(after)))
    return changes


def _numbered(examples: tuple[Example, ...]) -> dict[tuple[str, str, str, int], Example]:
    """Return examples by what they show and, where several show the same, by their number among those."""
    found: dict[tuple[str, str, str, int], Example] = {}
    for example in examples:
        number = 0
        while (example.request, example.tool, example.scope, number) in found:
            number += 1
        found[example.request, example.tool, example.scope, number] = example
    return found


def _tools(old: AgentConfig, new: AgentConfig) -> list[Change]:
    before, after = (
        {name: msgspec.to_builtins(settings) for name, settings in one.tools.items()} for one in (old, new)
    )
    changes = _mappings("tool", before, after, ordered=False)
    return [change._replace(words=change.words.replace("tool ", "settings of the tool ", 1)) for change in changes]


def _mappings(what: str, before: Mapping[str, Any], after: Mapping[str, Any], *, ordered: bool = True) -> list[Change]:
    changes = []
    for name in before:
        if name not in after:
            words = f"{what} {name} removed: {_short(before[name])}"
            changes.append(Change("removed", what, name, before[name], None, words))
    for name, value in after.items():
        if name not in before:
            changes.append(Change("added", what, name, None, value, f"{what} {name} added: {_short(value)}"))
        elif content.is_different(before[name], value):
            words = _from_to(f"{what} {name}", before[name], value)
            changes.append(Change("changed", what, name, before[name], value, words))
    return changes + (_moved(what, list(before), list(after)) if ordered else [])


def _moved(what: str, before: list[Any], after: list[Any]) -> list[Change]:
    """Return one change where what both have stands in another order."""
    old = [name for name in before if name in set(after)]
    new = [name for name in after if name in set(before)]
    if old == new:
        return []
    first = next(name for was, name in zip(old, new, strict=True) if was != name)
    name = first if isinstance(first, str) else first[0]
    return [Change("moved", what, name, old, new, f"the order of the {what}s changed, from {_short(name)} on")]


def _changed_parts(what: str, name: str, shown: str, old: Rule | Example, new: Rule | Example) -> Change:
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    parts = [
        _from_to(part, before[part], after[part]) for part in after if content.is_different(before[part], after[part])
    ]
    return Change("changed", what, name, before, after, f"{shown}: " + "; ".join(parts))


def _from_to(name: str, before: Any, after: Any) -> str:
    return f"{name}: {_short(before)} -> {_short(after)}"


def _scope(scope: str) -> str:
    return "" if scope == ANY_TYPE else f" for {scope}"


def _shown(example: Example) -> str:
    return f"{_short(example.request)} -> {example.tool} {_short(example.arguments)}"


def _short(value: Any) -> str:
    """Return a value as text on one line, cut where it is long; the whole of it stands in the unified diff."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else line[: _MOST_SHOWN - 1] + "…"
