"""Suites as files of a lab: `suites/NAME/` with `suite.json`, `tasks.jsonl` and `tools.json`.

The files are for people, too: a task's grader may be edited in `tasks.jsonl`. Everything is checked when it is read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.errors import ConfigError, EventError, ImportFormatError, MissingError, WriteError
from hermes_lab.log import files
from hermes_lab.suites.recorded import ToolDefinition
from hermes_lab.suites.splitting import split_sizes
from hermes_lab.suites.stored import Content, StoredSuite, StoredTask, world
from hermes_lab.suites.tool_names import merge_tools, with_tool_names
from hermes_lab.tasks import Task

BUILT_IN = ("desk",)
"""Names of the suites that come with hermes-lab; a stored one of the same name would not be reached."""

FORMAT = 1
"""Version of a suite's files; a newer one is refused."""

_NAME = re.compile(r"[\w][\w.-]{0,63}\Z")


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """`suite.json`; what it counts is for people to read."""

    format: int
    name: str
    description: str = ""
    source: str = ""
    tasks: int = 0
    splits: dict[str, int] = {}
    written: str = ""


def suites_folder(lab: Path) -> Path:
    """Return the folder of a lab's suites."""
    return lab / "suites"


def stored_names(lab: Path) -> list[str]:
    """Return the names of the suites that a lab holds, sorted."""
    return sorted(path.parent.name for path in suites_folder(lab).glob("*/suite.json"))


def read_suite(lab: Path, name: str) -> StoredSuite:
    """Return the suite `name` of a lab.

    Raises:
        MissingError: there is none.
        ImportFormatError: one of its files is not what it should be; the message has the file and the line.
        ConfigError: it was written by a newer hermes-lab.
    """
    folder = suites_folder(lab) / _checked_name(name)
    with files.disk_errors(f"reading the suite {name}"):
        header = _decode(folder / "suite.json", _Header)
        if header.format > FORMAT:
            raise ConfigError(
                f"{folder} was written by a newer hermes-lab (format {header.format}): upgrade hermes-lab"
            )
        tools = _decode(folder / "tools.json", dict[str, ToolDefinition])
        tasks = tuple(_read_tasks(folder / "tasks.jsonl", name, tools))
    return StoredSuite(Content(name, header.description, header.source, tasks, tools))


def write_suite(lab: Path, content: Content, *, replace: bool = False) -> StoredSuite:
    """Write a suite into a lab.

    Raises:
        WriteError: there is one of that name already and it is not to be replaced, or the disk is full.
        ConfigError: the name is none for a folder, or that of a built-in suite.
        EventError: a task holds what JSON cannot.
    """
    folder = suites_folder(lab) / _new_name(content.name)
    with _lock(lab):
        if (folder / "suite.json").exists() and not replace:
            raise WriteError(f"there is a suite {content.name!r} in {folder}: replace it, or choose another name")
        return _write(folder, content)


def add_tasks(lab: Path, content: Content) -> int:
    """Add tasks and their tools to a suite, which is made if there is none, and return how many were new.

    A task whose id is there stays as it is, so that nothing that a person edited is lost.

    Raises:
        WriteError, ConfigError, EventError: as `write_suite`.
        ImportFormatError: the files that are there cannot be read.
    """
    folder = suites_folder(lab) / _new_name(content.name)
    with _lock(lab):
        if not (folder / "suite.json").exists():
            return len(_write(folder, content).content.tasks)
        old = read_suite(lab, content.name).content
        known = {task.id for task in old.tasks}
        tools = dict(old.tools)
        names = merge_tools(tools, content.tools.values())
        new = [with_tool_names(task, names) for task in content.tasks if task.id not in known]
        _write(folder, old._replace(tasks=(*old.tasks, *new), tools=tools))
        return len(new)


def confirm(lab: Path, name: str, ids: Iterable[str]) -> int:
    """Mark tasks as confirmed by a person, and return how many were not before.

    Raises:
        MissingError: no such suite, or no such task in it.
    """
    wanted = set(ids)
    with _lock(lab):
        content = read_suite(lab, name).content
        unknown = sorted(wanted - {task.id for task in content.tasks})
        if unknown:
            raise MissingError(f"the suite {name!r} has no task {unknown[0]!r}")
        waiting = [task for task in content.tasks if task.id in wanted and not task.confirmed]
        tasks = tuple(
            msgspec.structs.replace(task, confirmed=True) if task.id in wanted else task for task in content.tasks
        )
        _write(suites_folder(lab) / name, content._replace(tasks=tasks))
    return len(waiting)


def _lock(lab: Path) -> AbstractContextManager[None]:
    folder = suites_folder(lab)
    with files.disk_errors(f"making {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    return files.locked(folder / ".lock", "another process is writing a suite")


def _write(folder: Path, content: Content) -> StoredSuite:
    """Write the files, `suite.json` last: a folder without it is no suite."""
    tasks = tuple(msgspec.structs.replace(task, suite=content.name) for task in content.tasks)
    _check(tasks, content.tools)
    header = _Header(
        format=FORMAT,
        name=content.name,
        description=content.description,
        source=content.source,
        tasks=len(tasks),
        splits=split_sizes(tasks),
        written=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    lines = "".join(_json(task) + "\n" for task in tasks)
    with files.disk_errors(f"writing the suite {content.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        files.atomic_write(folder / "tools.json", _pretty(content.tools))
        files.atomic_write(folder / "tasks.jsonl", lines.encode())
        files.atomic_write(folder / "suite.json", _pretty(header))
    return StoredSuite(content._replace(tasks=tasks))


def _json(value: Any) -> str:
    """Return JSON that holds whatever a log can, lone surrogates and NaN among it; `_value` takes it back."""
    return payload.store_text(payload.dumps(msgspec.to_builtins(value)))


def _value(data: bytes) -> Any:
    return payload.loads(payload.restore_text(data.decode("utf-8-sig")))


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(_json(value).encode(), indent=2) + b"\n"


def _check(tasks: Sequence[Task], tools: Mapping[str, Any]) -> None:
    twice = [task_id for task_id, n in Counter(task.id for task in tasks).items() if n > 1]
    if twice:
        raise ConfigError(f"the task id {twice[0]!r} stands more than once: ids are unique within a suite")
    for task in tasks:
        _check_tools(task, tools, f"the task {task.id!r}")


def _check_tools(task: Task, tools: Mapping[str, Any], where: str) -> None:
    try:
        world(task)
    except msgspec.ValidationError as error:
        raise ImportFormatError(f"{where}: its environment is wrong: {str(error).replace('$.', '')}") from None
    unknown = [name for name in task.tools if name not in tools]
    if unknown:
        raise ImportFormatError(f"{where} offers the tool {unknown[0]!r}, which the suite does not describe")


def _read_tasks(path: Path, suite: str, tools: Mapping[str, ToolDefinition]) -> Iterator[StoredTask]:
    seen: dict[str, int] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            task = msgspec.convert(_value(line), StoredTask)
        except (EventError, ValueError) as error:
            raise ImportFormatError(f"{where}: not a task: {str(error).replace('$.', '')}") from None
        if task.id in seen:
            raise ImportFormatError(f"{where}: the id {task.id!r} stands on line {seen[task.id]} already")
        seen[task.id] = number
        _check_tools(task, tools, where)
        yield msgspec.structs.replace(task, suite=suite)


def _decode(path: Path, kind: Any) -> Any:
    try:
        return msgspec.convert(_value(path.read_bytes()), kind)
    except (EventError, ValueError) as error:
        raise ImportFormatError(f"{path}: {str(error).replace('$.', '')}") from None


def _new_name(name: str) -> str:
    if name in BUILT_IN:
        raise ConfigError(f"the suite {name!r} is built in: choose another name")
    return _checked_name(name)


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ConfigError(f"{name!r} is no name for a suite: use letters, digits, `_`, `-` and `.`, 64 at most")
    return name
