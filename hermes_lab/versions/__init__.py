"""The history of the agent's configuration, in Git: v1.0, v1.1 ..., each with who, why, on what evidence and scores.

>>> from hermes_lab.versions import Versions
>>> Versions("data/lab").commit(config, parent="v1.3", by="miner", approver="Li Wei", message="...")  # doctest: +SKIP
"""

from __future__ import annotations

from hermes_lab.versions.errors import DamagedHistoryError, StaleParentError
from hermes_lab.versions.history import Shown, Versions
from hermes_lab.versions.lookup import LATEST, is_version_name
from hermes_lab.versions.record import Version

__all__ = [
    "LATEST",
    "DamagedHistoryError",
    "Shown",
    "StaleParentError",
    "Version",
    "Versions",
    "is_version_name",
]
