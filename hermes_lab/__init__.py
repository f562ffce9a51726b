"""hermes-lab: a workbench for self-evolving tool-calling agents.

>>> import hermes_lab
>>> lab = hermes_lab.open("data/lab")            # doctest: +SKIP
>>> lab.import_log("~/.hermes")                  # doctest: +SKIP
>>> lab.log.sql("select action, count(*) from events group by 1").df()  # doctest: +SKIP

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "open": ("hermes_lab.lab", "open_lab"),
    "Lab": ("hermes_lab.lab", "Lab"),
    "Event": ("hermes_lab.events", "Event"),
    "Action": ("hermes_lab.events", "Action"),
    "Status": ("hermes_lab.events", "Status"),
}

__all__ = ["Action", "Event", "Lab", "Status", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """Load a public name on its first use."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("hermes-lab")
    if name not in _LAZY:
        raise AttributeError(f"module 'hermes_lab' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
