"""Bringing in what hermes-agent remembered: `MEMORY.md` and `USER.md`. Each entry becomes a proposal, none a memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ImportFormatError, MissingError
from hermes_lab.kinds import Action, Status
from hermes_lab.log import Log, files, new_id
from hermes_lab.log.redact import Redactor
from hermes_lab.memory.records import MOST_CHARS, Kind, memory_id, tells_of_outage
from hermes_lab.proposals.check import why_unclean
from hermes_lab.proposals.making import Draft, Origin
from hermes_lab.proposals.queue import Queue

NAME = "hermes-memory"
"""What the import is called in the log."""

KINDS = {"memory.md": Kind.FACT, "user.md": Kind.PREFERENCE}
"""The files that are read, and what kind their entries are taken for; news of an outage is a lesson, which expires."""

# "It fails when the lock file is old" is a rule that lasts, no outage.
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|without|until)\b|如果|的时候|当(?![前天时今下])|除非|只要|一旦", re.IGNORECASE
)
_DIVIDER = "§"
_MOST_BYTES = 8 << 20


class Entry(NamedTuple):
    """An entry of such a file: where it begins, and its text."""

    line: int
    text: str


class Aside(NamedTuple):
    """An entry that cannot become a memory, and why."""

    where: str
    reason: str
    text: str


class Imported(NamedTuple):
    """What an import did.

    Attributes:
        run_id: under which its events are; None where nothing was new.
        proposed: ids of the memories that wait for approval now.
        known: how many entries wait, stand or were refused already.
        set_aside: entries that cannot become memories.
    """

    run_id: str | None
    proposed: tuple[str, ...]
    known: int
    set_aside: tuple[Aside, ...]


def entries(text: str) -> Iterator[Entry]:
    r"""Yield the entries of a file's text, which lines divide that hold only the section sign.

    >>> list(entries("Likes tea.\n§\n\nLives in 杭州.\nMoved there in May.\n§\n"))
    [Entry(line=1, text='Likes tea.'), Entry(line=4, text='Lives in 杭州.\nMoved there in May.')]
    """
    gathered: list[str] = []
    begun = 1
    for number, line in enumerate([*text.splitlines(), _DIVIDER], start=1):
        if line.strip() != _DIVIDER:
            if not gathered and not line.strip():
                continue
            begun = begun if gathered else number
            gathered.append(line.rstrip())
            continue
        if gathered:
            yield Entry(begun, "\n".join(gathered).strip())
        gathered = []


def import_memories(log: Log, queue: Queue, path: Path, *, redactor: Redactor) -> Imported:
    """Propose the entries of a `MEMORY.md` or `USER.md`, or of those in a folder (also in its `memories`).

    A second import of the same file adds nothing.

    Args:
        log: where the import is recorded.
        queue: of the same log.
        path: the file or folder.
        redactor: takes secrets out.

    Raises:
        MissingError: there is no such file, and none in the folder.
        ImportFormatError: a file is no text, or nothing was found.
        BusyError: another process holds the queue.
    """
    found: list[Draft] = []
    aside: list[Aside] = []
    read = _files(path)
    for file in read:
        drafts, bad = _drafts(file, redactor)
        found.extend(drafts)
        aside.extend(bad)
    if not found and not aside:
        raise ImportFormatError(f"nothing was found in {path}: entries are divided by lines that hold only {_DIVIDER}")
    fresh = queue.unknown(found)
    if not fresh:
        return Imported(None, (), len(found), tuple(aside))
    run_id = f"import-{new_id()}"
    listed = [memory_id(one.text, one.kind) for one in fresh]
    with log.writer(redactor=redactor) as writer:
        event = writer.record(
            Action.IMPORTED,
            name=NAME,
            run_id=run_id,
            input={"paths": [str(file.absolute()) for file in read], "sha256": [files.sha256(file) for file in read]},
            output={"memories": listed, "known": len(found) - len(fresh), "set_aside": len(aside)},
            status=Status.OK,
        )
    made = queue.propose_memories(fresh, Origin([event.event_id], "import", None, run_id))
    proposed = tuple(one.name for one in made if one.new)
    return Imported(run_id, proposed, len(found) - len(proposed), tuple(aside))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        places = [path, path / "memories"]
        inside = [file for place in places if place.is_dir() for file in sorted(place.iterdir())]
        found = [file for file in inside if file.name.casefold() in KINDS and file.is_file()]
        if not found:
            raise MissingError(f"there is no MEMORY.md or USER.md in {path} or {path / 'memories'}: name the file")
        return found
    if not path.exists():
        raise MissingError(f"there is no file {path}: check the name")
    return [path]


def _drafts(file: Path, redactor: Redactor) -> tuple[list[Draft], list[Aside]]:
    with files.disk_errors(f"reading {file}"):
        if file.stat().st_size > _MOST_BYTES:
            raise ImportFormatError(f"{file} is larger than {_MOST_BYTES >> 20} MiB: this is no file of memories")
        data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFormatError(f"{file} is no UTF-8 text: {error}") from None
    usual = KINDS.get(file.name.casefold(), Kind.FACT)
    drafts: list[Draft] = []
    aside: list[Aside] = []
    for entry in entries(text):
        clean = redactor.text(entry.text)
        wrong = why_unclean(clean, most_chars=MOST_CHARS)
        if wrong:
            aside.append(Aside(f"{file.name} line {entry.line}", wrong, clean[:200]))
        else:
            drafts.append(Draft(clean, str(_kind(clean, usual))))
    return list(dict.fromkeys(drafts)), aside


def _kind(text: str, usual: Kind) -> Kind:
    """Return what an entry is taken for: a fact that something is broken may pass, as only lessons do."""
    passing = usual is Kind.FACT and tells_of_outage(Kind.LESSON, text) and not _CONDITION.search(text)
    return Kind.LESSON if passing else usual
