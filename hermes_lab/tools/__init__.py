"""Tools: what they are to the agent (`base`), how a typed function becomes one, and the built-in ones."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hermes_lab.tools.base import Environment, Level, Limits, Problem, Result, Spec, Tool, Toolbox, ToolError

if TYPE_CHECKING:
    from hermes_lab.tools.decorator import FunctionTool, tool

__all__ = [
    "Environment",
    "FunctionTool",
    "Level",
    "Limits",
    "Problem",
    "Result",
    "Spec",
    "Tool",
    "ToolError",
    "Toolbox",
    "tool",
]

_LAZY = ("FunctionTool", "tool")


def __getattr__(name: str) -> Any:
    """Load the decorator on its first use: whatever only names tools (permissions, the loop) starts without it."""
    if name in _LAZY:
        return getattr(importlib.import_module("hermes_lab.tools.decorator"), name)
    raise AttributeError(f"module 'hermes_lab.tools' has no attribute {name!r}")
