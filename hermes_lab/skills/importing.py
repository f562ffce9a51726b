"""Bringing in skills that others wrote, such as `~/.hermes/skills`. Each becomes a proposal, none a skill.

How often a skill was used (`.usage.json`) stands in the event of the import, which is the evidence of every proposal
made by it. A text that waits, stands or was refused already is not proposed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab import payload
from hermes_lab.errors import ImportFormatError
from hermes_lab.importers.base import SetAside
from hermes_lab.kinds import Action, Status
from hermes_lab.log import Log, files, new_id
from hermes_lab.log.redact import Redactor
from hermes_lab.proposals import Origin, ProposalError, Queue, SkillDraft
from hermes_lab.proposals.standing import Standing
from hermes_lab.proposals.steps import SkillText
from hermes_lab.skills.folders import Found, read_folder
from hermes_lab.skills.skill import Skill

NAME = "hermes-skills"
"""What the import is called in the log."""

USAGE_FILE = ".usage.json"

_COUNTS = ("use_count", "view_count", "patch_count")
_MOST_USAGE_BYTES = 16 << 20


class SkillImport(NamedTuple):
    """What an import of skills did.

    Attributes:
        path: what was read.
        run_id: under which its events are; None where nothing was new.
        proposed: names of the skills that wait for approval now.
        known: how many wait, stand or were refused already.
        set_aside: skills that could not be read or proposed, with the reasons.
        set_aside_file: where these stand as JSON lines; None where there are none.
        usage: by name, what `.usage.json` says of the skills that were found.
    """

    path: str
    run_id: str | None
    proposed: tuple[str, ...]
    known: int
    set_aside: tuple[SetAside, ...]
    set_aside_file: str | None
    usage: Mapping[str, Mapping[str, Any]]


def import_skills(log: Log, queue: Queue, path: Path, *, redactor: Redactor) -> SkillImport:
    """Propose the skills in a folder: a `~/.hermes`, its `skills`, any other, or one SKILL.md.

    Args:
        log: where the import is recorded.
        queue: of the same log.
        path: what to read.
        redactor: takes secrets out.

    Raises:
        MissingError: there is nothing at `path`.
        ImportFormatError: no skill was found.
        BusyError: another process holds the queue.
    """
    root = path / "skills" if path.is_dir() and (path / "skills").is_dir() else path
    folder = read_folder(root)
    if not folder.found and not folder.set_aside:
        raise ImportFormatError(f"nothing was found in {path}: a skill is a folder with a SKILL.md in it")
    usage, aside = _usage(root)
    aside = [*folder.set_aside, *aside]
    standing = queue.standing()
    cleaned = {one.skill.name: _clean(one.skill, redactor) for one in folder.found}
    fresh = [one for one in folder.found if not _is_known(standing, one.skill.name, cleaned[one.skill.name])]
    used = {one.skill.name: usage[one.skill.name] for one in folder.found if one.skill.name in usage}
    proposed: list[str] = []
    known = len(folder.found) - len(fresh)
    run_id = None
    if fresh:
        run_id = f"import-{new_id()}"
        event = _record(log, redactor, path, run_id, fresh, usage=used, known=known)
        drafts = [_draft(standing, one.skill.name, cleaned[one.skill.name]) for one in fresh]
        done = queue.propose_skills(drafts, Origin([event], "import", None, run_id))
        for one, draft, made in zip(fresh, drafts, done, strict=True):
            if isinstance(made, ProposalError):
                aside.append(SetAside(str(one.path), str(made), draft.text))
            elif made.new:
                proposed.append(one.skill.name)
            else:  # another import was quicker
                known += 1
    written = _write_aside(log, path, aside, redactor)
    return SkillImport(str(path), run_id, tuple(proposed), known, tuple(aside), written, used)


def _clean(skill: Skill, redactor: Redactor) -> SkillText:
    """Return a skill's texts without secrets, and without a byte-order mark, which is no part of the text."""
    texts = {path: redactor.text(text) for path, text in skill.files.items()}
    return SkillText(text=redactor.text(skill.text.removeprefix("\ufeff")), files=texts)


def _is_known(standing: Standing, name: str, skill: SkillText) -> bool:
    stands = standing.skills.get(name)
    if stands is not None and stands.text == skill.text and dict(stands.files) == skill.files:
        return True
    proposed = (one.skill for one in standing.proposals if one.name == name)
    return any(one is not None and one.text == skill.text and one.files == skill.files for one in proposed)


def _draft(standing: Standing, name: str, skill: SkillText) -> SkillDraft:
    stands = standing.skills.get(name)
    return SkillDraft(name, skill.text, skill.files, stands.sha256 if stands else None)


def _record(
    log: Log,
    redactor: Redactor,
    path: Path,
    run_id: str,
    fresh: Sequence[Found],
    *,
    usage: Mapping[str, Any],
    known: int,
) -> str:
    """Record the import and return the event's id."""
    with log.writer(redactor=redactor) as writer:
        event = writer.record(
            Action.IMPORTED,
            name=NAME,
            run_id=run_id,
            input={
                "path": str(path.absolute()),
                "usage": usage,
                "left_out": {one.skill.name: one.left_out for one in fresh if one.left_out},
            },
            output={"skills": [one.skill.name for one in fresh], "known": known},
            status=Status.OK,
        )
    return event.event_id


def _usage(root: Path) -> tuple[dict[str, dict[str, Any]], list[SetAside]]:
    """Return what `.usage.json` says by skill; it lies in the folder of all skills, at most two above one of them."""
    for folder in (root, *list(root.absolute().parents)[:3]):
        file = folder / USAGE_FILE
        if file.is_file():
            break
    else:
        return {}, []
    with files.disk_errors(f"reading {file}"):
        data = file.read_bytes() if file.stat().st_size <= _MOST_USAGE_BYTES else b""
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return {}, [SetAside(str(file), f"how often the skills were used cannot be read: {error}", "")]
    if not isinstance(values, dict):
        return {}, [SetAside(str(file), "how often the skills were used cannot be read: it is no JSON object", "")]
    return {name: _known_usage(value) for name, value in values.items() if isinstance(value, dict)}, []


def _known_usage(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts (None where unknown), state, pinning and last use of a skill."""
    counts = {key: value if type(value := values.get(key)) is int and value >= 0 else None for key in _COUNTS}
    state, pinned, last = values.get("state"), values.get("pinned"), values.get("last_used_at")
    return {
        **counts,
        "state": state if isinstance(state, str) else None,
        "pinned": pinned if isinstance(pinned, bool) else None,
        "last_used_at": last if isinstance(last, str) else None,
    }


def _write_aside(log: Log, source: Path, aside: Sequence[SetAside], redactor: Redactor) -> str | None:
    """Keep what was set aside as a file of the lab, one a source, written anew by each import of it."""
    if not aside:
        return None
    name = hashlib.sha256(str(source.absolute()).encode(errors="surrogateescape")).hexdigest()[:16]
    path = log.layout.rejected / f"import-skills-{name}.jsonl"
    lines = [
        payload.dumps({key: payload.store_text(redactor.text(text)) for key, text in one._asdict().items()}) + "\n"
        for one in aside
    ]
    with files.disk_errors(f"writing {path}"):
        log.layout.create()
        path.parent.mkdir(exist_ok=True)
        files.atomic_write(path, "".join(lines).encode())
    return str(path)
