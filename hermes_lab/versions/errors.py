"""What can be wrong with a configuration history, beside what `hermes_lab.errors` names already."""

from __future__ import annotations

from hermes_lab.errors import BusyError, CorruptLogError


class StaleParentError(BusyError):
    """Another version came meanwhile: what was to be committed rests on a parent that is no longer the last one."""


class DamagedHistoryError(CorruptLogError):
    """The Git repository of the configurations contradicts itself, or something other than hermes-lab wrote to it."""
