"""Reads a file of JSON values of any layout piece by piece, in memory that does not grow with the file.

One value a line, one value for the whole file (on a single line or pretty-printed), an array of values or values
one after another: all come out as the same pieces. Named arrays (`containers`) are entered instead of being decoded
whole, and a broken piece is given as such while its neighbours are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.importers.base import ignore_progress
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.json_window import TextWindow, Unreadable
from hermes_lab.importers.reading.lines import open_file

_MAX_CONTAINERS = 12


class Piece(NamedTuple):
    """A value of the file.

    Attributes:
        key: the container that it was found in, or None at the top.
        value: the decoded value; of an entered object, what is left of it without its containers.
        parents: numbers of the entered objects around it, outermost first, itself included if it was entered.
        where: its place in the file.
    """

    key: str | None
    value: Any
    parents: tuple[int, ...]
    where: str


class Broken(NamedTuple):
    """A part of the file that is not JSON, or no JSON that can be kept."""

    where: str
    reason: str
    raw: str


class JsonReader:
    """Gives the pieces of one file; use once.

    Args:
        path: the file; UTF-8 with or without a byte order mark, or UTF-16 with one; plain or gzip.
        containers: keys whose arrays (or objects) are entered.
        leaves: those containers whose elements are decoded whole.
        restart: pattern of the beginning of a piece, used to find the next one behind a broken one.
        advance: called with the bytes read and their total.
    """

    _window: TextWindow

    def __init__(
        self,
        path: Path,
        containers: frozenset[str],
        leaves: frozenset[str],
        restart: str,
        advance: Callable[[int, int], None] = ignore_progress,
    ) -> None:
        """Prepare; nothing is opened yet."""
        self._path = path
        self._containers = containers
        self._leaves = leaves
        self._restart = re.compile(rf"\n(?=\{{)|(?:{restart})")
        self._advance = advance
        self._objects = 0
        self._loose = False

    def pieces(self) -> Iterator[Piece | Broken]:
        """Yield the pieces of the file in order."""
        with open_file(self._path) as file:
            self._window = window = TextWindow(file, self._path.stat().st_size, self._advance)
            while char := window.peek():
                if self._loose and char in ",]}":
                    window.skip(1)
                else:
                    yield from self._next_value()
            if window.cut_off:
                yield Broken(window.where(), f"the gzip file cannot be read from here on ({window.cut_off})", "")

    def _next_value(self) -> Iterator[Piece | Broken]:
        """Yield the pieces of one value at the top: of a line at once, or of what is longer or broken bit by bit."""
        window = self._window
        where = window.where()
        line = window.rest_of_line()
        if line is not None and (value := _loads(line)) is not _NOT_JSON:
            window.skip(len(line))
            yield from self._walk(None, value, (), where)
            return
        if line is not None and line[0] not in "{[":
            window.skip(len(line))
            yield Broken(where, "not JSON", line[: common.RAW_CHARS])
            return
        window.set_mark()
        try:
            for piece in self._object(None, ()) if window.peek() == "{" else self._array(None, ()):
                window.drop_mark()
                yield piece
        except Unreadable as error:
            yield from self._skip_to_restart(str(error))
        window.drop_mark()

    def _walk(self, key: str | None, value: Any, parents: tuple[int, ...], where: str) -> Iterator[Piece]:
        """Yield the pieces of a value that is in memory already, as `_object` and `_array` would."""
        if isinstance(value, list) and (key is None or key not in self._leaves):
            for item in value:
                if isinstance(item, list):
                    yield Piece(key, item, parents, where)
                else:
                    yield from self._walk(key, item, parents, where)
            return
        if not isinstance(value, dict) or len(parents) >= _MAX_CONTAINERS:
            yield Piece(key, value, parents, where)
            return
        parents = self._enter(parents)
        rest: dict[str, Any] = {}
        for name, item in value.items():
            if name not in self._containers or not isinstance(item, list | dict):
                rest[name] = item
            elif name in self._leaves and isinstance(item, list):
                yield from (Piece(name, element, parents, where) for element in item)
            else:
                yield from self._walk(name, item, parents, where)
        if rest:
            yield Piece(key, rest, parents, where)

    def _object(self, key: str | None, parents: tuple[int, ...]) -> Iterator[Piece | Broken]:
        window = self._window
        where = window.where()
        parents = self._enter(parents)
        rest: dict[str, Any] = {}
        for _ in self._items("}"):
            if window.peek() != '"':
                raise Unreadable("a key is missing" if window.peek() else "the file ends in the middle")
            name = window.value()
            window.expect(":")
            opening = window.peek()
            if name not in self._containers or opening not in "[{" or len(parents) >= _MAX_CONTAINERS:
                rest[name] = window.value()
            elif opening == "[":
                yield from self._array(name, parents)
            else:
                yield from self._object(name, parents)
        if rest:
            yield Piece(key, rest, parents, where)

    def _array(self, key: str | None, parents: tuple[int, ...]) -> Iterator[Piece | Broken]:
        window = self._window
        for _ in self._items("]"):
            if window.peek() == "{" and key not in self._leaves:
                yield from self._object(key, parents)
                continue
            where = window.where()
            try:
                piece: Piece | Broken = Piece(key, window.value(), parents, where)
            except Unreadable as error:
                raw = window.skip_brackets()
                if raw is None:
                    raise
                piece = Broken(where, str(error), raw[: common.RAW_CHARS])
            yield piece

    def _items(self, end: str) -> Iterator[None]:
        """Go through an object or array; each time this yields, its next item is to be read."""
        window = self._window
        window.skip(1)
        first = True
        while window.peek() != end:
            if not first:
                window.expect(",")
            first = False
            yield
        window.skip(1)

    def _enter(self, parents: tuple[int, ...]) -> tuple[int, ...]:
        self._objects += 1
        return (*parents, self._objects)

    def _skip_to_restart(self, reason: str) -> Iterator[Broken]:
        """Pass over everything up to where the next piece seems to begin, and give it as broken."""
        self._loose = True  # the ends of what was left in the middle are still to come
        behind = 1 if self._window.back_to_mark() else 0
        where = self._window.where()
        raw = self._window.skip_to(self._restart, behind)
        if raw.strip() or not self._window.peek():
            yield Broken(where, reason, raw.rstrip())


_NOT_JSON = object()


def _loads(text: str) -> Any:
    try:
        return common.parse_json(text)
    except ValueError:
        return _NOT_JSON
