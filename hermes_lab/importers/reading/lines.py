"""Reads the JSON lines of a file of any size, plain or gzip, one at a time, and names the bad ones by number.

Memory holds one line. A byte order mark, CRLF, empty lines, raw control characters and lone surrogates
are all read. What cannot be read is given back as a `SetAside` with its line number: a line that is not
JSON, one that is too long, a last line that was torn by a crash, the rest of a gzip file that was cut
off.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from hermes_lab.errors import ImportFormatError, MissingError, PermissionDeniedError
from hermes_lab.importers.base import SetAside, Source
from hermes_lab.importers.reading.common import parse_json, set_aside

MAX_LINE = 256 * 2**20
"""Bytes that a line may have."""

_CHUNK = 2**20
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_MEMBER = re.compile(r'[\s,]*"([^"\\]*)"\s*:\s*')


class JsonLine(NamedTuple):
    """A line of a file: its number (from 1), its parsed value, and its bytes without the line end."""

    number: int
    value: Any
    raw: bytes

    @property
    def where(self) -> str:
        """Where it stands, as reports say it."""
        return f"line {self.number}"


def open_file(path: Path) -> IO[bytes]:
    """Return the file, opened to be read.

    Raises:
        MissingError: no such file, or a folder.
        PermissionDeniedError: the system does not let us.
    """
    try:
        return path.open("rb")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise MissingError(f"{path}: {error.strerror}") from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{path}: {error.strerror}") from None


def first_value(path: Path, limit: int = 4 * 2**20) -> Any:
    """Return the value of the first line that holds JSON, for `sniff`; None where none does.

    Of an object that is too long, its first members are enough.
    """
    try:
        with open_file(path) as file:
            head = _head(file, limit)
    except (OSError, EOFError, zlib.error, MissingError, PermissionDeniedError):
        return None
    lines = [line for line in head.removeprefix(_BOM).split(b"\n") if line.strip()]
    for line in lines[:20]:
        try:
            return parse_json(line)
        except ValueError:
            continue
    return _begun_object(lines[0].decode("utf-8", "replace")) if len(lines) == 1 else None


def _begun_object(text: str) -> dict[str, Any] | None:
    """Return the whole members of an object that `text` only begins, and its last key with an empty value."""
    decode = json.JSONDecoder(strict=False).raw_decode
    found: dict[str, Any] = {}
    at = text.find("{") + 1 or len(text)
    while member := _MEMBER.match(text, at):
        try:
            found[member[1]], at = decode(text, member.end())
        except (ValueError, RecursionError):
            opening = text[member.end() : member.end() + 1]
            return found | {member[1]: {"[": [], "{": {}}.get(opening)}
    return found or None


def _head(file: IO[bytes], limit: int) -> bytes:
    start = file.read(2)
    file.seek(0)
    if start == _GZIP:
        head = b""
        with gzip.GzipFile(fileobj=file) as member:
            while len(head) < limit and (chunk := _read_or_end(member)):
                head += chunk
        return head
    return file.read(limit)


def _read_or_end(member: gzip.GzipFile) -> bytes:
    try:
        return member.read1(_CHUNK)
    except (EOFError, OSError, zlib.error):
        return b""


def json_lines(source: Source, max_line: int = MAX_LINE) -> Iterator[JsonLine | SetAside]:
    """Yield every line of the file that is not empty, parsed, or set aside where it cannot be.

    Args:
        source: the file; `source.advance` is told of the bytes read.
        max_line: the longest line that is read, in bytes.

    Raises:
        ImportFormatError: the file is UTF-16.
        MissingError: no such file.
        PermissionDeniedError: the system does not let us read it.
    """
    for number, line, whole in raw_lines(source, max_line):
        if isinstance(line, SetAside):
            yield line
            continue
        if not line.strip():
            continue
        try:
            yield JsonLine(number, parse_json(line), line)
        except ValueError as error:
            yield set_aside(f"line {number}", _reason(error, whole), line)


def _reason(error: ValueError, whole: bool) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the line is not UTF-8 text"
    if not whole:
        return f"the last line is torn: it has no line end, and is not whole JSON ({error})"
    return f"the line is not JSON: {error}"


class _Line(NamedTuple):
    number: int
    line: bytes | SetAside
    whole: bool


def raw_lines(source: Source, max_line: int = MAX_LINE) -> Iterator[_Line]:
    """Yield every line's number, its bytes without the line end, and whether it had one."""
    number, rest = 1, bytearray()
    skipping = False
    for chunk in _chunks(source):
        if isinstance(chunk, Exception):
            yield _Line(number, _cut_off(number, chunk, rest), True)
            return
        parts = chunk.split(b"\n")
        for part in parts[:-1]:
            rest += part
            if not skipping:
                yield _line(number, rest, max_line)
            number, rest, skipping = number + 1, bytearray(), False
        if not skipping:
            rest += parts[-1]
        if len(rest) > max_line:
            yield _line(number, rest, max_line)
            rest, skipping = bytearray(), True
    if rest:
        yield _line(number, rest, max_line)._replace(whole=False)


def _line(number: int, line: bytearray, max_line: int) -> _Line:
    if len(line) > max_line:
        reason = f"the line is longer than {max_line:,} bytes"
        return _Line(number, set_aside(f"line {number}", reason, bytes(line[:40_000])), True)
    raw = bytes(line)
    return _Line(number, raw[:-1] if raw.endswith(b"\r") else raw, True)


def _cut_off(number: int, error: Exception, rest: bytearray) -> SetAside:
    reason = f"the gzip file cannot be read from here on ({error}); the lines before are imported"
    return set_aside(f"line {number}", reason, bytes(rest[:40_000]))


def _chunks(source: Source) -> Iterator[bytes | Exception]:
    """Yield the file's bytes without a byte order mark; last comes the error that ends a gzip file."""
    with open_file(source.path) as file:
        total = source.path.stat().st_size
        start = file.read(3)
        file.seek(0)
        if start[:2] in _UTF16:
            raise ImportFormatError(f"{source.path} is UTF-16 text: save it as UTF-8")
        packed = start[:2] == _GZIP
        stream = gzip.GzipFile(fileobj=file) if packed else file
        first = True
        while True:
            try:
                chunk = stream.read1(_CHUNK) if isinstance(stream, gzip.GzipFile) else stream.read(_CHUNK)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                yield error
                return
            if not chunk:
                return
            yield chunk.removeprefix(_BOM) if first else chunk
            first = False
            source.advance(file.tell(), total)
