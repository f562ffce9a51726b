"""One `SKILL.md`, as Agent Skills and hermes-agent write them, read and written without loss.

It is YAML front matter and a Markdown body. A file keeps its exact text; a change replaces only what it is about, so
that unknown fields, comments, order, quoting, byte-order mark and line ends of everything else stay as they are. Front
matter that is no YAML (most often a description with `: ` in it) is read as far as it goes, and `notes` says so.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_lab.log import files
from hermes_lab.skills.front_matter import Node, SkillError, quoted, read, render

FILE_NAME = "SKILL.md"

MAX_BYTES = 1 << 20
"""Size of a file at most, as hermes-agent has it."""

_BOM = "\ufeff"
_OPENING = re.compile(r"(?:\s*\n)?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][\w.-]*):(?:[ \t]+|$)")
_MOST_MENDED = 50


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A `SKILL.md`.

    Attributes:
        text: the whole file, to the last character; `write` gives back the very bytes that were read.
        front: what the front matter says: text or None, lists and tables of these, by key.
        body: the Markdown after it.
        notes: what had to be overlooked in reading it, a sentence each.
    """

    text: str
    front: Mapping[str, Any]
    body: str
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self.text.encode("utf-8", "surrogatepass")

    def write(self, path: Path) -> None:
        """Write the file whole or not at all.

        Raises:
            WriteError, PermissionDeniedError: the disk did not take it.
        """
        with files.disk_errors(f"writing {path}"):
            files.atomic_write(path, self.data)

    def with_body(self, body: str) -> SkillFile:
        """Return the file with another body, its line ends those of the file."""
        newline = _newline(self.text)
        plain = body.replace("\r\n", "\n")
        head = self.text[: len(self.text) - len(self.body)]
        return parse(head + plain.replace("\n", newline))

    def with_field(self, path: Sequence[str], value: Any) -> SkillFile:
        """Return the file with one field of its front matter set, and everything else as it was.

        Args:
            path: keys from the top, such as `("metadata", "hermes", "tags")`.
            value: text, None, a list or a table.

        Raises:
            SkillError: the front matter is no YAML, or the path leads through a text or list.
        """
        if any("no YAML" in note for note in self.notes):
            raise SkillError(f"the front matter is no YAML, so it cannot be changed in place: {self.notes[0]}")
        start, end, _ = _fences(self.text, FILE_NAME)
        source = self.text[start:end]
        top, _ = read(source, FILE_NAME)
        changed = _set(source, top, list(path), value, _newline(self.text))
        made = parse(self.text[:start] + changed + self.text[end:])
        if made.body != self.body or _at(made.front, path) != _as_read(value):
            raise SkillError(f"{'.'.join(path)} cannot be set in this front matter: edit the file by hand")
        return made


def parse(text: str, where: str = FILE_NAME) -> SkillFile:
    r"""Return the file that `text` is.

    >>> file = parse("---\nname: tea\ndescription: Make tea.\n---\n# Tea\n")
    >>> file.front["name"], file.with_field(["version"], "1.10").text.splitlines()[3]
    ('tea', 'version: "1.10"')

    Args:
        text: the whole file, perhaps with a byte-order mark.
        where: the file, for messages.

    Raises:
        SkillError: it has no front matter, or none that can be read.
    """
    start, end, body = _fences(text, where)
    first_line = text.count("\n", 0, start) + 1
    source = text[start:end]
    try:
        top, notes = read(source, where, first_line)
    except SkillError as error:
        top, notes = _read_mended(source, where, first_line, error)
    return SkillFile(text, top.plain(), text[body:], tuple(notes))


def read_file(path: Path) -> SkillFile:
    """Return the file at `path`.

    Raises:
        SkillError: it is too long, no plain file, no UTF-8, or no skill.
        MissingError, PermissionDeniedError: it cannot be read.
    """
    data = read_plain(path, MAX_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillError(f"{path} is no UTF-8 (byte {error.start:,}): save it as UTF-8") from None
    return parse(text, str(path))


def read_plain(path: Path, most: int) -> bytes:
    """Return the bytes of a plain file, never waiting for a pipe and never taking more than `most`.

    Raises:
        SkillError: it is a pipe or device, or has more than `most` bytes.
        MissingError, PermissionDeniedError: it cannot be read.
    """
    # Opening a pipe waits for somebody to write to it, unless told not to.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with files.disk_errors(f"reading {path}"):
        if not stat.S_ISREG(path.stat().st_mode):  # opening some devices does something
            raise SkillError(f"{path} is no plain file, but a pipe, device or folder: put a file in its place")
        with open(os.open(path, flags), "rb") as file:
            known = os.fstat(file.fileno())
            # What is at the path, or how long it is, may have changed since.
            data = file.read(most + 1) if stat.S_ISREG(known.st_mode) and known.st_size <= most else b""
    size = max(known.st_size, len(data))
    if not stat.S_ISREG(known.st_mode) or size > most:
        raise SkillError(f"{path} has {size:,} bytes, and {most:,} are the most: move parts to other files")
    return data


def compose(front: Mapping[str, Any], body: str) -> SkillFile:
    r"""Return a new file.

    >>> print(compose({"name": "tea", "metadata": {"hermes": {"tags": ["tea"]}}}, "# Tea\n").text, end="")
    ---
    name: tea
    metadata:
      hermes:
        tags: [tea]
    ---
    <BLANKLINE>
    # Tea
    """
    lines = _block(front, 0)
    return parse("---\n" + "".join(f"{line}\n" for line in lines) + "---\n\n" + body)


def _block(table: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in table.items():
        begin = f"{'  ' * depth}{render(key)}:"
        if isinstance(value, Mapping) and value:
            lines += [begin, *_block(value, depth + 1)]
        else:
            lines.append(f"{begin} {render(value)}")
    return lines


def _fences(text: str, where: str) -> tuple[int, int, int]:
    """Return where the front matter begins and ends, and where the body begins."""
    opening = _OPENING.match(text, 1 if text.startswith(_BOM) else 0)
    if opening is None:
        raise SkillError(
            f"{where}: line 1 is not `---`: put the lines `---`, `name: ...`, `description: ...`, `---` before it"
        )
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise SkillError(f"{where}: the front matter has no end: put a line `---` behind it")
    return opening.end(), closing.start(), closing.end()


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _read_mended(source: str, where: str, first_line: int, error: SkillError) -> tuple[Node, list[str]]:
    """Read front matter whose YAML is broken, taking the entries that break it as plain text."""
    notes = [f"{error}; read as plain text"]
    lines = source.replace("\r\n", "\n").split("\n")
    taken: set[int] = set()
    for _ in range(_MOST_MENDED):
        at = _entry_of(str(error), lines, first_line)
        if at is None or at in taken:
            break
        taken.add(at)
        _quote_entry(lines, at)
        try:
            top, more = read("\n".join(lines), where, first_line)
        except SkillError as again:
            error = again
            continue
        return top, notes + more
    raise SkillError(notes[0].removesuffix("; read as plain text"))


def _entry_of(message: str, lines: list[str], first_line: int) -> int | None:
    """Return the place of the entry at the top level that an error is about."""
    named = re.search(r", line (\d+): the front matter is no YAML", message)
    if named is None:
        return None
    last = min(int(named.group(1)) - first_line, len(lines) - 1)
    return next((at for at in range(last, -1, -1) if _ENTRY.match(lines[at])), None)


def _quote_entry(lines: list[str], at: int) -> None:
    """Put an entry's value, with the lines that go on with it, in quotes; the number of lines stays."""
    entry = _ENTRY.match(lines[at])
    assert entry is not None  # noqa: S101 - `_entry_of` looked for it
    parts = [lines[at][entry.end() :].strip()]
    below = at + 1
    while below < len(lines) and not _ENTRY.match(lines[below]):
        parts.append(lines[below].strip())
        lines[below] = ""
        below += 1
    lines[at] = f"{entry.group(1)}: {quoted(' '.join(part for part in parts if part))}"


def _set(source: str, top: Node, path: list[str], value: Any, newline: str) -> str:
    """Return front matter with one value replaced or added."""
    if not path:
        raise SkillError("name the field that is to be set")
    node = top
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise SkillError(f"{'.'.join(path[:depth])} is no table, so {'.'.join(path)} cannot be set")
        if key not in node.value:
            return _add(source, node, path[depth:], value, newline)
        node = node.value[key]
    written = render(value)
    if node.value is None and node.start == node.end:
        written = f" {written}"
    elif source[node.start : node.end].endswith("\n"):
        written += newline
    return source[: node.start] + written + source[node.end :]


def _add(source: str, table: Node, path: list[str], value: Any, newline: str) -> str:
    for key in reversed(path[1:]):
        value = {key: value}
    entry = f"{render(path[0])}: {render(value)}"
    if table.flow:
        inside = f"{entry}, " if table.value else entry
        return source[: table.start + 1] + inside + source[table.start + 1 :]
    # Behind the table's last line, with a comment that it may end in.
    line_end = source.find("\n", table.end)
    at = line_end + 1 if line_end >= 0 else len(source)
    if source[: table.end].endswith("\n"):  # a block of text ends behind its last line
        at = table.end
    before = source[:at]
    if before and not before.endswith("\n"):
        before += newline
    return before + " " * table.column + entry + newline + source[at:]


def _at(front: Any, path: Sequence[str]) -> Any:
    for key in path:
        front = front.get(key) if isinstance(front, Mapping) else None
    return front


def _as_read(value: Any) -> Any:
    """Return a value as reading it back gives it: scalars as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_read(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_read(item) for item in value]
    return None if value is None else str(value)
