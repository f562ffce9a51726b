"""Puts tools of several sources into one suite, where each name stands for one tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hermes_lab.suites.recorded import ToolDefinition
from hermes_lab.suites.schemas import joined
from hermes_lab.suites.stored import StoredTask
from hermes_lab.tasks import AllOf, Calls, Grader


def merge_tools(tools: dict[str, ToolDefinition], more: Iterable[ToolDefinition]) -> dict[str, str]:
    """Add tools to `tools`, and return the name that each of `more` got by its own.

    A tool that is there keeps its name; one that differs from its namesake is called `name_2`, `name_3` and so on.
    An inferred schema gives way to one that is known; two inferred ones become one, which accepts what either does.
    """
    names: dict[str, str] = {}
    for tool in more:
        known = tools.get(tool.name)
        if known is not None and (known.inferred or tool.inferred):
            names[tool.name] = tool.name
            tools[tool.name] = _better(known, tool)
            continue
        names[tool.name] = _name_for(tool, tools)
        tools[names[tool.name]] = msgspec.structs.replace(tool, name=names[tool.name])
    return names


def _better(one: ToolDefinition, other: ToolDefinition) -> ToolDefinition:
    if one.inferred and other.inferred:
        return msgspec.structs.replace(one, parameters=joined(one.parameters, other.parameters))
    return other if one.inferred else one


def _name_for(tool: ToolDefinition, tools: Mapping[str, ToolDefinition]) -> str:
    """Return the first name that is free or stands for the same tool."""
    name, number = tool.name, 1
    while name in tools and tools[name] != msgspec.structs.replace(tool, name=name):
        number += 1
        name = f"{tool.name}_{number}"
    return name


def with_tool_names(task: StoredTask, names: Mapping[str, str]) -> StoredTask:
    """Return `task` with its tools called by other names: where they are offered, graded and recorded."""
    if all(old == new for old, new in names.items()):
        return task
    settings: dict[str, Any] = dict(task.environment)
    if settings.get("recorded"):
        settings["recorded"] = [call | {"tool": names.get(call["tool"], call["tool"])} for call in settings["recorded"]]
    grader = None if task.grader is None else _renamed(task.grader, names)
    tools = tuple(names.get(name, name) for name in task.tools)
    return msgspec.structs.replace(task, tools=tools, environment=settings, grader=grader)


def _renamed(grader: Grader, names: Mapping[str, str]) -> Grader:
    if isinstance(grader, AllOf):
        parts = [msgspec.structs.replace(part, grader=_renamed(part.grader, names)) for part in grader.parts]
        return msgspec.structs.replace(grader, parts=tuple(parts))
    if isinstance(grader, Calls):
        wanted = [msgspec.structs.replace(call, tool=names.get(call.tool, call.tool)) for call in grader.wanted]
        return msgspec.structs.replace(grader, wanted=tuple(wanted))
    return grader
