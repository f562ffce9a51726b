r"""Read one JSON value out of a model's text, with the few repairs that leave no doubt.

`read` starts anywhere in a text, stops after one value and forgives only slips that can be meant in one way:
single quotes, Python's `True`/`False`/`None`, a comma before a closing bracket, raw line breaks in strings,
odd blanks, a key written twice with the same value and, where the caller names the text that must follow,
closing braces missing at the end. All else is a `JsonError`: a missing comma, a bare word, an unknown escape,
NaN, a value that is cut.

>>> read("{'on': True, 'q': 'a \"b\"',} and more")
Reading(value={'on': True, 'q': 'a "b"'}, end=27, repaired=True, completed=False)
>>> read('{"q": "cut he')
Traceback (most recent call last):
hermes_lab.models.exact_json.JsonError: the text ends inside a string that began at character 6

Time is linear in what is read. The reader goes forward only, one token at a time, and its patterns are single
character classes with possessive repeats (`*+`), which never step back. It keeps its own stack, so nesting
costs no recursion.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any, NamedTuple

from hermes_lab.models.exact_json import MAX_DEPTH, JsonError, read_exact

MAX_DIGITS = 4300
"""Digits in one whole number: Python's own limit, since turning digits into a number takes quadratic time."""

_JSON_BLANKS = re.compile(r"[ \t\n\r]*+")
_ANY_BLANKS = re.compile(r"\s*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_NUMBER_GOES_ON = re.compile(r"[\w.+-]")
_WORD = re.compile(r"[+-]?[A-Za-z_][A-Za-z_0-9]*+")
_HEX = re.compile(r"[0-9a-fA-F]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f]")
_PLAIN = {'"': re.compile(r'[^"\\]*+'), "'": re.compile(r"[^'\\]*+")}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_ESCAPES = {"x": 2, "U": 8}  # in single quotes only: in JSON, "C:\\x64" is more likely a path
_JSON_WORDS = {"true": True, "false": False, "null": None}
_PYTHON_WORDS = {"True": True, "False": False, "None": None}
_NOT_JSON = {"nan", "inf", "infinity"}
_OPENED = object()  # stands for "a bracket was opened, its value is not there yet"


class Reading(NamedTuple):
    """A value, the position after it, and whether it was repaired, in particular by adding braces."""

    value: Any
    end: int
    repaired: bool
    completed: bool = False


def read(text: str, position: int = 0, closer: re.Pattern[str] | None = None) -> Reading:
    """Return the first value at or after `position`, blanks skipped; what follows it is not looked at.

    Args:
        text: the text, of which only the part from `position` matters.
        position: where to start.
        closer: if this matches where a comma or a closing brace should be, the braces still missing are taken
            as written. Only braces: a list that was not closed may lack elements.

    Raises:
        JsonError: there is no value there, or not one that can be read without doubt.
    """
    reader = _Reader(text, position, closer)
    value = reader.read()
    return Reading(value, reader.position, reader.repaired, reader.completed)


def read_whole(text: str) -> Reading:
    """Return the value that `text` is, exactly or else with repairs; nothing but blanks may follow it.

    Raises:
        JsonError: as `read`, or there is more text after the value.
    """
    try:
        return Reading(read_exact(text), len(text), False)
    except JsonError:
        reading = read(text)
    rest = _ANY_BLANKS.match(text, reading.end)
    if rest is not None and rest.end() < len(text):
        raise JsonError(f"more text after the value, at character {rest.end()}", rest.end())
    return reading


class _Frame:
    """An object or list that is open: its values so far, and the key whose value comes next."""

    __slots__ = ("closing", "fresh", "key", "value")

    def __init__(self, value: dict[str, Any] | list[Any]) -> None:
        self.value = value
        self.closing = "}" if isinstance(value, dict) else "]"
        self.key = ""
        self.fresh = True


class _Reader:
    def __init__(self, text: str, position: int, closer: re.Pattern[str] | None) -> None:
        self.text = text
        self.position = position
        self.repaired = False
        self.completed = False
        self.closer = closer
        self.frames: list[_Frame] = []

    def read(self) -> Any:
        value = self._begin()
        while self.frames:
            frame = self.frames[-1]
            if value is not _OPENED:
                self._store(frame, value)
            value = self._advance(frame)
        return value

    def _store(self, frame: _Frame, value: Any) -> None:
        if isinstance(frame.value, list):
            frame.value.append(value)
            return
        if frame.key in frame.value:
            # By repr, since True, 1 and 1.0 are equal in Python and are not the same JSON.
            if repr(frame.value[frame.key]) != repr(value):
                raise self._error(f"the key {frame.key[:40]!r} stands twice with different values")
            self.repaired = True
        frame.value[frame.key] = value

    def _advance(self, frame: _Frame) -> Any:
        """Go from one value of `frame` to the next, or return the finished object or list."""
        char = self._peek()
        if char == frame.closing:
            return self._close(1)
        if not frame.fresh:
            if char != ",":
                return self._close_early(frame)
            self.position += 1
            char = self._peek()
            if char == frame.closing:
                self.repaired = True
                return self._close(1)
        frame.fresh = False
        if isinstance(frame.value, dict):
            if char not in ('"', "'"):
                raise self._error("expected a key in quotes")
            frame.key = self._string(char)
            if self._peek() != ":":
                raise self._error("expected a colon after a key")
            self.position += 1
        return self._begin()

    def _close(self, width: int) -> Any:
        self.position += width
        return self.frames.pop().value

    def _close_early(self, frame: _Frame) -> Any:
        if frame.closing == "}" and self.closer and self.closer.match(self.text, self.position):
            self.repaired = self.completed = True
            return self._close(0)
        raise self._error(f"expected a comma or '{frame.closing}'")

    def _begin(self) -> Any:
        """Read a plain value, or open an object or list and return `_OPENED`."""
        char = self._peek()
        if char in ("{", "["):
            if len(self.frames) >= MAX_DEPTH:
                raise self._error(f"more than {MAX_DEPTH} levels deep")
            self.position += 1
            self.frames.append(_Frame({} if char == "{" else []))
            return _OPENED
        if char in ('"', "'"):
            return self._string(char)
        number = _NUMBER.match(self.text, self.position)
        return self._number(number) if number else self._word()

    def _number(self, match: re.Match[str]) -> int | float:
        if _NUMBER_GOES_ON.match(self.text, match.end()):
            raise self._error("a number that JSON does not have")
        digits = match.group()
        if match.group(1) or match.group(2):
            number: int | float = float(digits)
            if math.isinf(number):
                raise self._error("a number too large for a float")
        elif len(digits.lstrip("-")) > MAX_DIGITS:
            raise self._error(f"a whole number of more than {MAX_DIGITS} digits")
        else:
            number = int(digits)
        self.position = match.end()
        return number

    def _word(self) -> bool | None:
        match = _WORD.match(self.text, self.position)
        word = match.group() if match else ""
        if word in _JSON_WORDS or word in _PYTHON_WORDS:
            self.repaired = self.repaired or word in _PYTHON_WORDS
            self.position += len(word)
            return _JSON_WORDS[word] if word in _JSON_WORDS else _PYTHON_WORDS[word]
        if word.lstrip("+-").lower() in _NOT_JSON:
            raise self._error(f"{word} is not JSON")
        raise self._error("expected a value")

    def _string(self, quote: str) -> str:
        start = self.position
        self.repaired = self.repaired or quote == "'"
        parts: list[str] = []
        self.position += 1
        while True:
            match = _PLAIN[quote].match(self.text, self.position)
            plain = match.group() if match else ""
            if _CONTROL.search(plain):
                self.repaired = True
            parts.append(plain)
            self.position += len(plain)
            if self.position >= len(self.text):
                raise JsonError(f"the text ends inside a string that began at character {start}", start, start)
            if self.text[self.position] == quote:
                self.position += 1
                return "".join(parts)
            parts.append(self._escape(quote, start))

    def _escape(self, quote: str, start: int) -> str:
        char = self.text[self.position + 1 : self.position + 2]
        if not char:
            raise JsonError(f"the text ends inside a string that began at character {start}", start, start)
        if char in _ESCAPES:
            self.position += 2
            return _ESCAPES[char]
        if char == "u":
            return self._unicode()
        if char == "'":
            self.repaired = True
            self.position += 2
            return "'"
        if quote == "'" and char in _PYTHON_ESCAPES:
            return self._python_escape(_PYTHON_ESCAPES[char])
        raise self._error(f"an escape that JSON does not have: {chr(92)}{char}")

    def _unicode(self) -> str:
        code = self._hex(4)
        self.position += 6
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.position):
            low = self._hex(4)
            if 0xDC00 <= low < 0xE000:
                self.position += 6
                return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)
        return chr(code)

    def _python_escape(self, width: int) -> str:
        code = self._hex(width)
        if code > sys.maxunicode:
            raise self._error("an escape beyond the last character")
        self.position += 2 + width
        return chr(code)

    def _hex(self, width: int) -> int:
        digits = self.text[self.position + 2 : self.position + 2 + width]
        if len(digits) != width or not _HEX.match(digits):
            raise self._error("an escape without its hexadecimal digits")
        return int(digits, 16)

    def _peek(self) -> str:
        """Skip blanks and return the next character, or "" at the end of the text."""
        match = _JSON_BLANKS.match(self.text, self.position)
        self.position = match.end() if match else self.position
        char = self.text[self.position : self.position + 1]
        if char.isspace():
            self.repaired = True
            match = _ANY_BLANKS.match(self.text, self.position)
            self.position = match.end() if match else self.position
            char = self.text[self.position : self.position + 1]
        return char

    def _error(self, reason: str) -> JsonError:
        if self.position >= len(self.text):
            return JsonError("the text ends before the value is complete", self.position)
        return JsonError(f"{reason}, at character {self.position}", self.position)
