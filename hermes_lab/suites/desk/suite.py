"""The suite `desk` as the runner sees it: families, tasks, tools, and a fresh shop for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.suites.desk.drawing import COMMITTED, committed, fresh, plans
from hermes_lab.suites.desk.environment import Desk, open_desk
from hermes_lab.suites.desk.families import templates
from hermes_lab.suites.desk.toolbox import toolbox
from hermes_lab.tasks import Split, Task
from hermes_lab.tools.base import Tool

FRESH_TASKS = 100


class Family(NamedTuple):
    """A family of tasks.

    Attributes:
        id: `type.name`.
        type: its task type.
        split: the one split that it belongs to.
        tasks: how many committed tasks it has.
        difficulty: 1 (one step) to 3.
        languages: those it is drawn in.
        tempting: whether it tempts the agent to overstep.
        description: what must be understood, in one line.
    """

    id: str
    type: str
    split: Split
    tasks: int
    difficulty: int
    languages: tuple[str, ...]
    tempting: bool
    description: str


class DeskSuite:
    """The service desk of a small online shop.

    Attributes:
        name: `desk`.
    """

    name = "desk"

    def __repr__(self) -> str:
        """Say its size."""
        return f"DeskSuite({len(templates())} families, {len(self.tasks())} tasks, {len(toolbox())} tools)"

    def families(self) -> list[Family]:
        """Return its families, by split and in their order."""
        rows = []
        for split in COMMITTED:
            counts = [task.family for task in committed(split)]
            for name in plans()[split].families:
                template = templates()[name]
                rows.append(
                    Family(
                        id=name,
                        type=template.type,
                        split=split,
                        tasks=counts.count(name),
                        difficulty=template.difficulty,
                        languages=template.languages,
                        tempting=template.tempting,
                        description=template.about,
                    )
                )
        return rows

    def tasks(
        self, split: Split | str | None = None, *, limit: int | None = None, seed: int | None = None
    ) -> list[Task]:
        """Return tasks in a stable order whose first part, of any length, is spread over types and families.

        Args:
            split: one split; None or "all" for the three committed ones, in turns.
            limit: at most so many; for `fresh`, how many are drawn (100 where it is left out).
            seed: of the draw of `fresh` (0 where it is left out); the committed splits have seeds of their own.

        Raises:
            ConfigError: there is no such split.
        """
        if split in (None, "all"):
            chosen = _in_turns([committed(part) for part in COMMITTED])
        else:
            wanted = _split(str(split))
            if wanted is Split.FRESH:
                return self.fresh(FRESH_TASKS if limit is None else limit, 0 if seed is None else seed)
            chosen = list(committed(wanted))
        return chosen if limit is None else chosen[: max(limit, 0)]

    def fresh(self, n: int, seed: int, split: Split | str = Split.TRAFFIC) -> list[Task]:
        """Return `n` new tasks of the families of `traffic` or `regression`; see `drawing.fresh`.

        Raises:
            ConfigError: `split` is another, or so many different requests cannot be drawn.
        """
        return fresh(n, seed, _split(str(split)))

    def toolbox(self) -> Mapping[str, Tool]:
        """Return its tools by name, in the order in which every task offers them."""
        return toolbox()

    def open(self, task: Task) -> Desk:
        """Return a fresh shop for one episode of `task`."""
        return open_desk(task.environment)


def suite() -> DeskSuite:
    """Return the suite.

    >>> desk = suite()
    >>> [task.type for task in desk.tasks("traffic", limit=3)]
    ['order_status', 'returns', 'tickets']
    """
    return DeskSuite()


def _split(name: str) -> Split:
    try:
        return Split(name)
    except ValueError:
        raise ConfigError(f"there is no split {name!r}: there are all, {', '.join(Split)}") from None


def _in_turns(groups: Sequence[Sequence[Task]]) -> list[Task]:
    longest = max(len(group) for group in groups)
    return [group[place] for place in range(longest) for group in groups if place < len(group)]
