"""The suite `desk`: the service desk of a small online shop, with a real database, tools, policies and tasks."""

from __future__ import annotations

from hermes_lab.suites.desk.suite import DeskSuite, Family, suite

__all__ = ["DeskSuite", "Family", "suite"]
