"""Suites of stored tasks with recorded tools: what they consist of, and how an episode is opened on one.

`stored_files` reads and writes them.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.suites.recorded import RecordedCall, RecordedEnvironment, RecordedTool, ToolDefinition
from hermes_lab.suites.splitting import drawn
from hermes_lab.tasks import Split, Task
from hermes_lab.tools.base import Toolbox


class StoredTask(Task, frozen=True, kw_only=True):
    """A task in a suite's file.

    Attributes:
        confirmed: whether a person has looked at its grader; a task that is not confirmed is not run.
        notes: what that person should know.
    """

    confirmed: bool = True
    notes: tuple[str, ...] = ()


class Content(NamedTuple):
    """What a suite consists of.

    Attributes:
        name: its name, letters, digits, `_`, `-` and `.`.
        description: a sentence.
        source: where it comes from.
        tasks: its tasks.
        tools: its tools by name.
    """

    name: str
    description: str
    source: str
    tasks: tuple[StoredTask, ...]
    tools: dict[str, ToolDefinition]


class Family(NamedTuple):
    """A family of tasks: its id, task type, split, and number of tasks."""

    id: str
    type: str
    split: Split | None
    tasks: int


class World(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The environment of a stored task: its recorded calls; None where every call is accepted."""

    recorded: tuple[RecordedCall, ...] | None = None


class StoredSuite:
    """A suite of recorded tools.

    Attributes:
        name: its name.
        content: what it consists of.
    """

    def __init__(self, content: Content) -> None:
        """Use `read_suite`, or make one of content that is in no file yet."""
        self.name = content.name
        self.content = content
        self._tools = {name: RecordedTool(tool) for name, tool in content.tools.items()}

    def __repr__(self) -> str:
        """Say its name and size."""
        return f"StoredSuite({self.name!r}, {len(self.content.tasks)} tasks)"

    def tasks(
        self,
        split: Split | str | None = None,
        *,
        limit: int | None = None,
        seed: int | None = None,
        unconfirmed: bool = False,
    ) -> list[Task]:
        """Return its tasks in the order of the file.

        Args:
            split: only those of one split; None or "all" for every one.
            limit: at most so many.
            seed: draws the order of the split `fresh`, so that a limit takes a sample; it changes nothing else.
            unconfirmed: also those that no person has confirmed.

        Raises:
            ConfigError: there is no such split.
        """
        wanted = None if split in (None, "all") else _split(str(split))
        chosen: list[Task] = [
            task
            for task in self.content.tasks
            if (unconfirmed or task.confirmed) and (wanted is None or task.split == wanted)
        ]
        if seed is not None and wanted is Split.FRESH:
            chosen.sort(key=lambda task: drawn(seed, task.id))
        return chosen if limit is None else chosen[: max(limit, 0)]

    def toolbox(self) -> Toolbox:
        """Return its tools by name."""
        return dict(self._tools)

    def open(self, task: Task) -> RecordedEnvironment:
        """Return a fresh world for an episode of `task`."""
        return RecordedEnvironment(world(task).recorded)

    def families(self) -> list[Family]:
        """Return its families, in the order in which they first come."""
        counts = Counter(task.family for task in self.content.tasks)
        first = {task.family: task for task in reversed(self.content.tasks)}
        return [Family(name, first[name].type, first[name].split, n) for name, n in counts.items()]


def _split(name: str) -> Split:
    try:
        return Split(name)
    except ValueError:
        raise ConfigError(f"there is no split {name!r}: there are all, {', '.join(Split)}") from None


def world(task: Task) -> World:
    """Return the environment of a stored task.

    Raises:
        msgspec.ValidationError: it is none.
    """
    return msgspec.convert(task.environment, World)
