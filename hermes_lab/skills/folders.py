"""Folders of skills: reading whatever lies in one, and writing a library out as one."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hermes_lab.errors import HermesLabError, MissingError, WriteError
from hermes_lab.importers.base import SetAside
from hermes_lab.log import files
from hermes_lab.proposals.check import MOST_FILE_CHARS, MOST_FILES
from hermes_lab.skills.file import FILE_NAME, read_file, read_plain
from hermes_lab.skills.front_matter import SkillError
from hermes_lab.skills.skill import Skill, read_skill

_MARK = ".hermes-lab-export"
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_SPELLED = re.compile(rf"{_UNSAFE.pattern}|[. ]+\Z")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_PASSED_OVER = frozenset(("node_modules", "__pycache__"))


class Found(NamedTuple):
    """A skill in a folder.

    Attributes:
        path: of its SKILL.md.
        skill: what it says; `files` holds its other files that are text.
        left_out: the other files that were not taken, with the reason.
    """

    path: Path
    skill: Skill
    left_out: dict[str, str]


class Folder(NamedTuple):
    """What was found in a folder: skills in order of their paths, and what could not be read."""

    found: tuple[Found, ...]
    set_aside: tuple[SetAside, ...]


def read_folder(path: Path) -> Folder:
    """Return the skills in a folder and below it, or the one that `path` is.

    Links and hidden folders are not followed. Where two skills have one name the first one is taken.

    Raises:
        MissingError: there is nothing at `path`.
        PermissionDeniedError: it cannot be read.
    """
    if not path.exists():
        raise MissingError(f"there is no {path}: name a folder with skills, or a {FILE_NAME}")
    found: dict[str, Found] = {}
    aside: list[SetAside] = []
    for file in _skill_files(path, aside):
        try:
            one = _read(file)
        except HermesLabError as error:
            aside.append(SetAside(str(file), _without_path(str(error), file), ""))
            continue
        first = found.setdefault(one.skill.name, one)
        if first is not one:
            reason = f"the name {one.skill.name!r} is taken by {first.path}: rename one of them"
            aside.append(SetAside(str(file), reason, one.skill.text))
    return Folder(tuple(found.values()), tuple(aside))


def safe_path(text: str) -> bool:
    """Return whether a relative path stays below its folder and works on every system.

    >>> safe_path("references/说明.md"), safe_path("../x"), safe_path("/etc/passwd"), safe_path("a/nul.txt")
    (True, False, False, False)
    """
    parts = text.split("/")
    return all(
        part not in ("", ".", "..")
        and not _UNSAFE.search(part)
        and not _RESERVED.fullmatch(part)
        and part == part.rstrip(". ")
        for part in parts
    )


def folder_name(name: str) -> str:
    """Return the name of a skill's folder: its own name where that is safe, else spelled out behind a percent sign.

    >>> folder_name("请假申请"), folder_name("../etc"), folder_name("nul")
    ('请假申请', '%..%2Fetc', '%nul')
    """
    if safe_path(name) and not name.startswith("."):
        return name
    return "%" + _SPELLED.sub(lambda match: "".join(f"%{ord(char):02X}" for char in match.group()), name)


def export(skills: Iterable[Skill], folder: Path) -> int:
    """Write skills as a folder, `NAME/SKILL.md` each, and return how many.

    The folder appears whole. One that an earlier export wrote is replaced, by two renames: whoever looks between them
    finds none.

    Raises:
        WriteError: the folder holds something else, or the disk did not take it.
        SkillError: a skill's file has a path that leads out of the skill's folder.
    """
    target = folder.absolute()
    if target.exists() and not (target / _MARK).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise WriteError(f"{target} holds other files: export to a new folder")
    with files.disk_errors(f"exporting skills to {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.parent / f".{target.name}-{secrets.token_hex(4)}"
        try:
            made.mkdir()
            count = _write_all(skills, made)
            _put_in_place(made, target)
        except (OSError, HermesLabError):
            shutil.rmtree(made, ignore_errors=True)
            raise
    return count


def _write_all(skills: Iterable[Skill], folder: Path) -> int:
    taken: set[str] = set()
    for skill in skills:
        name = folder_name(skill.name)
        while name.casefold() in taken:  # some file systems take `Tea` and `tea` for one
            name += "~"
        taken.add(name.casefold())
        _write(folder / name / FILE_NAME, skill.text)
        for path, text in sorted(skill.files.items()):
            if not safe_path(path):
                raise SkillError(
                    f"the skill {skill.name!r} has a file {path!r}, which leads elsewhere or has no safe name"
                )
            _write(folder / name / PurePosixPath(path), text)
    _write(folder / _MARK, "Written by hermes-lab; the next export replaces this folder.\n")
    return len(taken)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(made: Path, target: Path) -> None:
    old = made.with_name(f"{made.name}-old")
    if target.exists():
        os.replace(target, old)
    os.replace(made, target)
    files.fsync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _skill_files(path: Path, aside: list[SetAside]) -> Iterator[Path]:
    if path.is_file():
        yield path
        return

    def set_aside(error: OSError) -> None:
        """Let one folder that cannot be read, or is gone by now, not take the others along."""
        if error.filename == str(path):
            _raise(error)
        reason = "it is gone by now" if isinstance(error, FileNotFoundError) else f"it cannot be read: {error.strerror}"
        aside.append(SetAside(str(error.filename), reason, ""))

    for folder, below, names in os.walk(path, onerror=set_aside):
        here = Path(folder)
        below[:] = sorted(_entered(here, below, aside))
        for name in sorted(names):
            if name.lower() != FILE_NAME.lower():
                continue
            if (here / name).is_symlink():
                aside.append(SetAside(str(here / name), "it is a link: import what it leads to", ""))
            else:
                yield here / name
            break


def _entered(here: Path, below: list[str], aside: list[SetAside]) -> Iterator[str]:
    for name in below:
        if name.startswith(".") or name in _PASSED_OVER:
            continue
        if (here / name).is_symlink():
            if (here / name / FILE_NAME).is_file():
                aside.append(SetAside(str(here / name), "it is a link: import what it leads to", ""))
            continue
        yield name


def _without_path(message: str, path: Path) -> str:
    """Return a message that begins with the path, which stands beside it, without that."""
    rest = message.removeprefix(str(path))
    return rest.lstrip(":, ") if rest != message else message


def _raise(error: OSError) -> None:
    raise files.explain(error, "looking for skills")


def _read(path: Path) -> Found:
    text = read_file(path).text
    taken: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for file in _other_files(path):
        name = file.relative_to(path.parent).as_posix()
        with files.disk_errors(f"looking at {file}"):
            reason = _why_not(file, name, taken)
        if reason is None:
            try:
                taken[name] = read_plain(file, MOST_FILE_CHARS).decode("utf-8")
            except (UnicodeDecodeError, HermesLabError) as error:
                reason = "it is no text" if isinstance(error, UnicodeDecodeError) else f"it cannot be read: {error}"
        if reason is not None:
            left_out[name] = reason
    skill = read_skill(text, str(path), name=path.parent.name, files=taken, source=str(path))
    return Found(path, skill, left_out)


def _other_files(path: Path) -> Iterator[Path]:
    """Yield the other files of a skill; a folder below with a SKILL.md of its own is another skill's."""
    for folder, below, names in os.walk(path.parent, onerror=_raise):
        here = Path(folder)
        if here != path.parent and any(name.lower() == FILE_NAME.lower() for name in names):
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _PASSED_OVER)
        yield from (here / name for name in sorted(names) if here / name != path and not name.startswith("."))


def _why_not(file: Path, name: str, taken: Mapping[str, str]) -> str | None:
    if file.is_symlink() or not file.is_file():
        return "it is a link or no plain file"
    if not safe_path(name):
        return "its name does not work on every system"
    if len(taken) >= MOST_FILES:
        return f"the skill has more than {MOST_FILES} files"
    if file.stat().st_size + sum(map(len, taken.values())) > MOST_FILE_CHARS:
        return f"the skill's files have more than {MOST_FILE_CHARS:,} characters"
    return None
