"""The desk's task families, a module a task type."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from hermes_lab.suites.desk.case import Template
from hermes_lab.suites.desk.families import (
    appointments,
    customers,
    inventory,
    orders,
    policies,
    reporting,
    returns,
    tickets,
)

_MODULES = (orders, returns, tickets, inventory, appointments, customers, policies, reporting)

TYPES = tuple(module.TEMPLATES[0].type for module in _MODULES)
"""The task types, in their order."""


@functools.cache
def templates() -> Mapping[str, Template]:
    """Return all families by id."""
    return MappingProxyType({template.id: template for module in _MODULES for template in module.TEMPLATES})
