"""A window over the text of a file of any size, from which JSON values are decoded one at a time."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from hermes_lab.importers.reading import common

LINE_LIMIT = 1 << 23
"""Longer lines (in characters) are not given whole."""
PIECE_LIMIT = 1 << 26
"""A value of more characters than this cannot be decoded."""

_CHUNK = 1 << 20
_OVERLAP = 200
_NUMBER_ENDS = 4  # characters within which a number that seems to have ended may go on: 1, 1e, 1e-, 1e-5
_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SPACE = re.compile(r"[ \t\r\n\x1e\ufeff]*")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*("?)|[\[\]{}]', re.DOTALL)
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_scan = json.JSONDecoder().raw_decode


class Unreadable(Exception):
    """The value at the window's position cannot be decoded; the message says why."""


class _Mark(NamedTuple):
    pos: int
    line: int
    column: int


class TextWindow:
    """Shows the text of an open file from a position onwards; what lies behind is forgotten.

    Args:
        file: the file; UTF-8 with or without a byte order mark, or UTF-16 with one; plain or gzip.
        total: its size.
        advance: called with the bytes read and their total.
    """

    _stream: IO[bytes] | gzip.GzipFile

    def __init__(self, file: IO[bytes], total: int, advance: Callable[[int, int], None]) -> None:
        """Begin at the file's first character."""
        start = file.read(2)
        file.seek(0)
        self._file = file
        self._stream = gzip.GzipFile(fileobj=file) if start == _GZIP else file
        self._total = total
        self._advance = advance
        self._decoder = codecs.getincrementaldecoder(_encoding(start))(errors="surrogateescape")
        self._text = ""
        self._pos = 0
        self._line = 1
        self._column = 0
        self._counted = 0
        self._eof = False
        self._mark: _Mark | None = None
        self.cut_off = ""
        """Why a gzip file could not be read to its end."""

    # ---------------------------------------------------------------- looking and going on

    def peek(self) -> str:
        """Go over white space and return the next character, or "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._pos)
            self._pos = match.end() if match else self._pos
            if self._pos < len(self._text):
                return self._text[self._pos]
            if not self._grow():
                return ""

    def skip(self, characters: int) -> None:
        """Go on by that many of the characters that were seen."""
        self._pos += characters

    def expect(self, char: str) -> None:
        """Go over white space and then over `char`.

        Raises:
            Unreadable: something else is there.
        """
        found = self.peek()
        if found != char:
            raise Unreadable(f"{char!r} is missing" if found else "the file ends in the middle")
        self._pos += 1

    def where(self) -> str:
        """Return the place of the position in the file."""
        self._count_lines()
        return f"line {self._line}" + (f", character {self._column + 1}" if self._column else "")

    def rest_of_line(self) -> str | None:
        """Return the text from the position to the end of its line, or None where it is too long."""
        searched = 0
        while (end := self._text.find("\n", self._pos + searched)) < 0:
            searched = len(self._text) - self._pos
            if searched > LINE_LIMIT:
                return None
            if not self._grow():
                return self._text[self._pos :]
        return self._text[self._pos : end]

    def value(self) -> Any:
        """Decode the value at the position and go behind it.

        Raises:
            Unreadable: it is no JSON, or none that can be kept.
        """
        while True:
            try:
                value, end = _scan(self._text, self._pos)
            except json.JSONDecodeError as error:
                if _is_early(error, len(self._text)) and self._grow():
                    continue
                raise Unreadable(_plain(error, self._eof)) from None
            except RecursionError:
                raise Unreadable("nested too deeply") from None
            except ValueError:
                raise Unreadable("a number of too many digits") from None
            if end + _NUMBER_ENDS < len(self._text) or not self._grow():
                break
        if self._text.count("[", self._pos, end) > 100 and common.too_deep(value):
            raise Unreadable("nested too deeply")
        self._pos = end
        return value

    # ---------------------------------------------------------------- going over what is broken

    def set_mark(self) -> None:
        """Keep the position, so that `back_to_mark` can return to it."""
        self._count_lines()
        self._mark = _Mark(self._pos, self._line, self._column)

    def drop_mark(self) -> None:
        """Forget the mark."""
        self._mark = None

    def back_to_mark(self) -> bool:
        """Return to the mark and drop it; return whether there was one."""
        if self._mark is None:
            return False
        self._pos, self._line, self._column = self._mark
        self._counted, self._mark = self._pos, None
        return True

    def skip_brackets(self) -> str | None:
        """Go over the object or array at the position by its brackets; return its text, None where they never close."""
        depth, at = 0, 0
        while True:
            token = _TOKEN.search(self._text, self._pos + at)
            if token is None or token[1] == "" or (token.end() == len(self._text) and not self._eof):
                if not self._grow():
                    return None
                continue
            at = token.end() - self._pos
            depth += _STEPS.get(token[0], 0)
            if depth <= 0:
                break
        if depth < 0:
            return None
        raw = self._text[self._pos : self._pos + at]
        self._pos += at
        return raw

    def skip_to(self, pattern: re.Pattern[str], behind: int) -> str:
        """Go to where `pattern` comes next, at least `behind` characters on; return the start of what lies between."""
        while len(self._text) - self._pos < common.RAW_CHARS and self._grow():
            pass
        raw = self._text[self._pos : self._pos + common.RAW_CHARS]
        found = pattern.search(self._text, self._pos + behind)
        if found is not None:
            raw = raw[: found.start() - self._pos]
        while found is None:
            self._pos = max(self._pos, len(self._text) - _OVERLAP)
            if not self._grow():
                self._pos = len(self._text)
                return raw
            found = pattern.search(self._text, self._pos)
        self._pos = found.start()
        return raw

    # ---------------------------------------------------------------- the text

    def _grow(self) -> bool:
        """Read on, at least doubling what lies before us; return whether there was more, else change nothing."""
        ahead = len(self._text) - self._pos
        if self._eof or ahead > PIECE_LIMIT:
            return False
        more = ""
        while not (more or self._eof):  # a few bytes may be no character yet
            chunk = self._read(max(_CHUNK, ahead))
            self._eof = not chunk
            more = self._decoder.decode(chunk, final=self._eof)
        self._advance(self._file.tell(), self._total)
        if not more:
            return False
        self._count_lines()
        if self._mark is not None and self._pos - self._mark.pos > PIECE_LIMIT:
            self._mark = None
        kept = self._pos if self._mark is None else self._mark.pos
        if self._mark is not None:
            self._mark = self._mark._replace(pos=0)
        self._text = self._text[kept:] + more
        self._pos = self._counted = self._pos - kept
        return True

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read1(size) if isinstance(self._stream, gzip.GzipFile) else self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.cut_off = str(error)
            return b""

    def _count_lines(self) -> None:
        lines = self._text.count("\n", self._counted, self._pos)
        if lines:
            self._line += lines
            self._column = self._pos - self._text.rfind("\n", self._counted, self._pos) - 1
        else:
            self._column += self._pos - self._counted
        self._counted = self._pos


def read_start(path: Path, size: int) -> str:
    """Return about the first `size` bytes of a file as text, for `sniff`; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            raw = gzip.GzipFile(fileobj=file).read1(size) if start == _GZIP else file.read(size)
    except (OSError, EOFError, zlib.error):
        return ""
    return codecs.getincrementaldecoder(_encoding(start))(errors="replace").decode(raw)


def _encoding(start: bytes) -> str:
    return "utf-16" if start in _UTF16 else "utf-8-sig"


def _is_early(error: json.JSONDecodeError, length: int) -> bool:
    """Return whether `error` may come only from the text having been cut off."""
    return error.pos >= length - 16 or error.msg.startswith("Unterminated string")


def _plain(error: json.JSONDecodeError, eof: bool) -> str:
    if eof and _is_early(error, len(error.doc)):
        return "the file ends in the middle"
    return f"not JSON: {error.msg[0].lower()}{error.msg[1:]}"
