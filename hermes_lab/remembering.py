"""A suite with the tool `recall` beside its own tools, where there is something to recall."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_lab.layers import Knowledge
from hermes_lab.runner import World
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Environment, Tool
from hermes_lab.tools.recall import RECALL, recall_tool


def with_recall(world: World, knowledge: Knowledge) -> World:
    """Return the world with `recall`, or as it is where nothing is remembered; a suite's own such tool stays."""
    return _Remembering(world, knowledge) if knowledge.memories else world


class _Remembering:
    def __init__(self, world: World, knowledge: Knowledge) -> None:
        self._world = world
        self._recall: Tool = recall_tool(knowledge.memories)

    @property
    def name(self) -> str:
        return self._world.name

    def toolbox(self) -> Mapping[str, Tool]:
        return {RECALL.name: self._recall, **self._world.toolbox()}

    def open(self, task: Task) -> Environment | None:
        return self._world.open(task)
