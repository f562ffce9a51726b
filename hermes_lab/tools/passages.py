"""The text files of a folder, read whatever their encoding and split into passages by headings and paragraphs."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUFFIXES = {".md", ".markdown", ".txt"}
PASSAGE_CHARS = 800
"""Paragraphs are put together up to this length, and a longer one is split."""
MOST_BYTES = 5_000_000
"""A larger file is left out: it is data rather than a text."""

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")


class Passage(NamedTuple):
    """A piece of a file.

    Attributes:
        file: path within the folder, with `/`.
        heading: the headings that it stands under, outermost first, joined by ` > `; "" where there are none.
        line: the line that it begins in, from 1.
        text: the piece.
    """

    file: str
    heading: str
    line: int
    text: str


Stamp = tuple[int, int]
"""Time of change (nanoseconds) and size of a file."""


def text_files(folder: Path) -> dict[str, Stamp]:
    """Return the text files under `folder` by their path in it, sorted; hidden ones and links out of it left out."""
    found: dict[str, Stamp] = {}
    root = folder.resolve()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                continue
            stamp = _stamp(path, root)
            if stamp is not None:
                found[path.relative_to(root).as_posix()] = stamp
    return found


def _stamp(path: Path, root: Path) -> Stamp | None:
    try:
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(root):
            return None
        status = path.stat()
    except (OSError, RuntimeError):  # gone meanwhile, no right to look, or links in a circle
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        return None
    return status.st_mtime_ns, status.st_size


def read_passages(folder: Path, file: str) -> list[Passage]:
    """Return the passages of a file of `text_files`; none where it cannot be read."""
    try:
        text = _decode((folder / file).read_bytes())
    except OSError:
        return []
    marked_up = not file.lower().endswith(".txt")
    return list(_split(file, text.splitlines(), marked_up=marked_up))


def _decode(data: bytes) -> str:
    """Return the text of `data`: UTF-8, UTF-16 with its mark, or else GB 18030 or Latin-1."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def _split(file: str, lines: list[str], *, marked_up: bool) -> Iterator[Passage]:
    heading, first, kept = "", 1, ""
    for number, block in _blocks(lines):
        title = _HEADING.match(block) if marked_up else None
        if kept and (title or len(kept) + len(block) > PASSAGE_CHARS):
            yield from _pieces(Passage(file, heading, first, kept))
            kept = ""
        if title:
            heading = _under(heading, len(title.group(1)), title.group(2))
            continue
        first = first if kept else number
        kept = f"{kept}\n\n{block}" if kept else block
    if kept:
        yield from _pieces(Passage(file, heading, first, kept))


def _blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Give each paragraph, heading line and fenced block, with the number of its first line."""
    block: list[str] = []
    fenced = False
    for number, line in enumerate([*lines, ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        apart = not fenced and (not line.strip() or _HEADING.match(line) is not None)
        if not apart:
            block.append(line.rstrip())
            continue
        if block:
            yield number - len(block), "\n".join(block)
            block = []
        if line.strip():
            yield number, line.strip()
    if block:
        yield len(lines) + 2 - len(block), "\n".join(block)


def _under(heading: str, depth: int, title: str) -> str:
    outer = heading.split(" > ")[: depth - 1] if heading else []
    return " > ".join([*outer, title.replace(" > ", " ")])


def _pieces(passage: Passage) -> Iterator[Passage]:
    """Split a passage that is too long at the ends of sentences, or anywhere where a sentence is too long itself."""
    if len(passage.text) <= PASSAGE_CHARS:
        yield passage
        return
    start = 0
    while start < len(passage.text):
        end = start + PASSAGE_CHARS
        if end < len(passage.text):
            ends = [match.end() for match in _SENTENCE_END.finditer(passage.text, start + 1, end)]
            end = ends[-1] if ends else end
        text = passage.text[start:end].strip()
        if text:
            line = passage.line + passage.text.count("\n", 0, start)
            yield passage._replace(text=text, line=line)
        start = end
