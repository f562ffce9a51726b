"""Finds a suite by its name: `desk`, which is built in, and those that a lab holds as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hermes_lab.errors import HermesLabError, MissingError
from hermes_lab.suites.splitting import split_sizes
from hermes_lab.suites.stored_files import BUILT_IN, read_suite, stored_names
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Environment, Toolbox


class Suite(Protocol):
    """Tasks, the tools that they use, and the worlds that they are worked on in."""

    name: str

    def tasks(self, split: Any = None, *, limit: int | None = None, seed: int | None = None) -> list[Task]:
        """Return its tasks: of one split, at most so many, drawn by a seed."""

    def toolbox(self) -> Toolbox:
        """Return its tools by name."""

    def open(self, task: Task) -> Environment:
        """Return a fresh world for one episode of `task`."""

    def families(self) -> Sequence[Any]:
        """Return its families; each has at least `id`, `type` and `split`."""


class SuiteRow(NamedTuple):
    """A line of `hermes-lab suite list`.

    Attributes:
        name: of the suite.
        kind: "built in" or "stored".
        tasks: how many can be run.
        splits: how many in each split.
        unconfirmed: how many wait for a person.
        note: a description, or why the suite cannot be read.
    """

    name: str
    kind: str
    tasks: int
    splits: dict[str, int]
    unconfirmed: int = 0
    note: str = ""


def open_suite(name: str, lab: Path) -> Suite:
    """Return the suite `name`.

    Args:
        name: `desk`, or that of a suite in the lab.
        lab: the lab's folder.

    Raises:
        MissingError: there is no such suite; the message lists those that there are.
        ImportFormatError, ConfigError: its files are not what they should be.
    """
    if name == "desk":
        from hermes_lab.suites import desk

        suite: Suite = desk.suite()
        return suite
    names = stored_names(lab)
    if name not in names:
        known = ", ".join([*BUILT_IN, *names])
        raise MissingError(f"there is no suite {name!r}: there are {known}; `hermes-lab suite import` brings others in")
    return read_suite(lab, name)


def list_suites(lab: Path) -> list[SuiteRow]:
    """Return a row for each suite: the built-in ones, then those of the lab; one that cannot be read says why."""
    rows = []
    for name in BUILT_IN:
        tasks = open_suite(name, lab).tasks()
        rows.append(SuiteRow(name, "built in", len(tasks), split_sizes(tasks)))
    for name in stored_names(lab):
        try:
            suite = read_suite(lab, name)
        except HermesLabError as error:
            rows.append(SuiteRow(name, "stored", 0, {}, note=str(error)))
            continue
        tasks = suite.tasks()
        waiting = len(suite.content.tasks) - len(tasks)
        rows.append(SuiteRow(name, "stored", len(tasks), split_sizes(tasks), waiting, suite.content.description))
    return rows
