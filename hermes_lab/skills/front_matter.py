"""The YAML of front matter, read as text, lists and tables and nothing else, each with its place in the source.

Scalars stay the text that was written (`version: 1.10` is "1.10", `on` is "on"), as in the reference reader of Agent
Skills; only an empty value, `~` and `null` are None. Nothing is constructed: aliases and tags of other types are
refused, so that no text can call code or unfold to gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hermes_lab.errors import HermesLabError

MAX_CHARS = 65_536
"""Length of front matter at most."""

MAX_DEPTH = 20
"""Levels of nesting that it may have."""

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_PLAIN = re.compile(r"[^\W\d_](?:[\w .,()/+-]*[\w.)])?")  # safe without quotes; no number, no sign, no ": " or " #"
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]')


class SkillError(HermesLabError, ValueError):
    """A skill that cannot be read or written as asked; the message says where and what to do."""

    exit_code = 65


class Node(NamedTuple):
    """A value with its place.

    Attributes:
        value: text or None; a list of nodes; or a dict of nodes by key.
        start: of its text, in characters.
        end: of its text, without comments that follow.
        line: from 1.
        column: from 0.
        flow: whether it is written in brackets or braces.
    """

    value: Any
    start: int
    end: int
    line: int
    column: int
    flow: bool

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class _Open:
    """A list or table whose end has not come yet."""

    def __init__(self, event: Any, table: bool) -> None:
        self.event = event
        self.table = table
        self.items: list[Node] = []


def read(text: str, where: str, first_line: int = 1) -> tuple[Node, list[str]]:
    """Return the table that `text` holds, and notes on keys that stand twice (the last one counts).

    Args:
        text: the YAML.
        where: the file, for messages.
        first_line: the line of the file that `text` begins on.

    Raises:
        SkillError: it is no YAML, no table, too long or deep, or holds aliases or objects.
    """
    if len(text) > MAX_CHARS:
        raise SkillError(f"{where}: the front matter has {len(text):,} characters, and {MAX_CHARS:,} are the most")
    place = _Place(where, first_line)
    notes: list[str] = []
    stack: list[_Open] = []
    top: Node | None = None
    for event in _events(text, place):
        kind = type(event).__name__
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            place.check_tag(event)
            if len(stack) >= MAX_DEPTH:
                raise place.error(event, f"it nests more than {MAX_DEPTH} levels")
            stack.append(_Open(event, kind == "MappingStartEvent"))
            continue
        node = _finished(event, kind, stack, place, notes)
        if node is None:
            continue
        if stack:
            stack[-1].items.append(node)
        elif top is None:
            top = node
        else:
            raise place.error(event, "it holds a second document")
    if top is None or not isinstance(top.value, dict):
        raise SkillError(f"{where}: the front matter holds no `key: value` lines")
    return top, notes


class _Place:
    """Says where in the file something stands."""

    def __init__(self, where: str, first_line: int) -> None:
        self.where = where
        self._first = first_line

    def line(self, mark: Any) -> int:
        return int(mark.line) + self._first

    def error(self, event: Any, what: str) -> SkillError:
        return SkillError(f"{self.where}, line {self.line(event.start_mark)}: {what}")

    def check_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in _TAGS and event.tag != "!":
            raise self.error(
                event, f"the tag {event.tag} stands for an object, and only text, lists and tables are read"
            )

    def broken(self, error: Any) -> SkillError:
        mark = getattr(error, "problem_mark", None)
        # A quote that is never closed ends far below the line that is wrong.
        if str(getattr(error, "context", None)).startswith("while scanning"):
            mark = getattr(error, "context_mark", None) or mark
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        at = "" if mark is None else f", line {self.line(mark)}"
        return SkillError(
            f"{self.where}{at}: the front matter is no YAML ({problem}): put texts with `: ` or `#` in quotes"
        )


def _events(text: str, place: _Place) -> Iterator[Any]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise place.broken(error) from None


def _finished(event: Any, kind: str, stack: list[_Open], place: _Place, notes: list[str]) -> Node | None:
    """Return the node that is complete with this event, if one is."""
    if kind == "AliasEvent":
        raise place.error(event, "aliases (`*name`) are not read: write the value out")
    if kind == "ScalarEvent":
        place.check_tag(event)
        value = None if not event.style and event.value in _NULLS else event.value
        return _node(event, value, event.end_mark.index, place, flow=False)
    if kind == "SequenceEndEvent":
        done = stack.pop()
        return _node(done.event, done.items, _end(done, event), place, flow=done.event.flow_style)
    if kind == "MappingEndEvent":
        done = stack.pop()
        value = _table(done.items, place, notes)
        return _node(done.event, value, _end(done, event), place, flow=done.event.flow_style)
    return None


def _node(first: Any, value: Any, end: int, place: _Place, *, flow: bool) -> Node:
    mark = first.start_mark
    return Node(value, mark.index, end, place.line(mark), mark.column, bool(flow))


def _end(done: _Open, event: Any) -> int:
    """Return where a list or table ends; a block's own mark lies behind the comments that follow it."""
    if done.event.flow_style or not done.items:
        return int(event.end_mark.index)
    return done.items[-1].end


def _table(items: list[Node], place: _Place, notes: list[str]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key.value, str | None):
            raise SkillError(f"{place.where}, line {key.line}: a key is a text, not a list or table")
        name = key.value or ""
        if name in found:
            notes.append(f"`{name}` stands twice, on lines {found[name].line} and {value.line}: the last one counts")
        found[name] = value
    return found


def render(value: Any) -> str:
    r"""Return YAML on one line for text, None, lists and tables, which `read` takes back.

    >>> render({"tags": ["git", "a: b", "yes", "中文"]})
    '{tags: [git, "a: b", "yes", 中文]}'
    """
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(key)}: {render(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(render(item) for item in value) + "]"
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and "," not in text:
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Return a text in double quotes, on one line."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in '"\\':
        return "\\" + char
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or f"\\u{ord(char):04x}"
