"""Pure rules over millions of recorded calls: routing, permissions and the check of arguments, each without the loop.

A rule is judged once for each different input, and every call is counted. What depends on a whole episode (repeats,
budgets, a tool that rests for a turn) is left to `replay.replay`, which drives the loop itself.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import msgspec
import numpy as np
import pyarrow as pa

from hermes_lab import checks as checking
from hermes_lab import payload
from hermes_lab import permissions as permitting
from hermes_lab.permissions import PermissionRule, Ruling
from hermes_lab.replay.bulk_calls import Bulk, Finding, Judged, Tally, arguments_of, batches
from hermes_lab.replay.bulk_routing import routing as routing
from hermes_lab.tools.base import Problem, Spec

if TYPE_CHECKING:
    from hermes_lab.replay.bulk_calls import Source

_CALL_COLUMNS = ("episode_id", "event_id", "task_type", "tool", "arguments")


def permissions(
    source: Source,
    rules: Sequence[PermissionRule],
    *,
    against: Sequence[PermissionRule] = (),
    specs: Mapping[str, Spec] | None = None,
    where: str = "true",
    params: Sequence[Any] = (),
) -> Bulk:
    """Return which recorded calls `rules` treat otherwise than the rules `against`.

    Args:
        source: a lab, or a table with the columns episode_id, event_id, task_type, tool and arguments (JSON text).
        rules: permission rules.
        against: those that they are held against; none: the permission level alone.
        specs: the tools, for their levels; a tool that is not among them counts as read_only.
        where: of a lab, SQL condition over the columns of `events`.
        params: values for its parameters.

    Raises:
        QueryError: the condition does not run, or the table lacks a column.
    """
    began = time.perf_counter()
    known = dict(specs or {})
    sides = [_Rules(tuple(rules), known), _Rules(tuple(against), known)]
    by_name = Judged(lambda tool, task_type: tuple(side.without_arguments(tool, task_type) for side in sides))
    by_call = Judged(functools.partial(_judged, sides))
    tally = Tally()
    for batch in batches(source, "calls", _CALL_COLUMNS, params, where=where):
        tally.calls += batch.num_rows
        pairs, places = by_name.of([batch["tool"], batch["task_type"]])
        tally.add(batch, [None if None in pair else _differing(*pair) for pair in pairs], places)
        rows = np.flatnonzero(np.array([None in pair for pair in pairs], dtype=bool)[places])
        if len(rows):
            part = batch.take(pa.array(rows))
            tally.add(part, *by_call.of([part["tool"], part["task_type"], part["arguments"]]))
    return tally.result("permissions", by_name.count + by_call.count, time.perf_counter() - began)


def _judged(sides: Sequence[_Rules], tool: str, task_type: str, text: str) -> Finding | None:
    arguments = arguments_of(text)
    return _differing(*(side.decide(tool, task_type, arguments) for side in sides))


def _differing(new: Ruling, old: Ruling) -> Finding | None:
    if new.verdict is old.verdict:
        return None
    return str(new.verdict), f"{new.verdict} by {new.by}: {new.reason}"


class _Rules:
    """Permission rules, those that can apply to a tool and task type picked out once."""

    def __init__(self, rules: tuple[PermissionRule, ...], specs: Mapping[str, Spec]) -> None:
        # A rule without a name is called by its place, which picking some out would change.
        named = [msgspec.structs.replace(rule, name=rule.name or f"rules[{i}]") for i, rule in enumerate(rules)]
        self._rules = tuple(named)
        self._specs = specs
        self._picked: dict[tuple[str, str], tuple[PermissionRule, ...]] = {}
        self._fixed = functools.lru_cache(maxsize=4096)(self.without_arguments)

    def without_arguments(self, tool: str, task_type: str) -> Ruling | None:
        """Return the ruling where it does not depend on the arguments; None where it does."""
        picked = self._pick(tool, task_type)
        if any(rule.pattern or rule.argument is not None for rule in picked):
            return None
        return permitting.decide(picked, self._spec(tool), {}, task_type)

    def decide(self, tool: str, task_type: str, arguments: Any) -> Ruling:
        """Return the ruling of one call."""
        fixed = self._fixed(tool, task_type)
        if fixed is not None:
            return fixed
        return permitting.decide(self._pick(tool, task_type), self._spec(tool), arguments, task_type)

    def _pick(self, tool: str, task_type: str) -> tuple[PermissionRule, ...]:
        key = tool, task_type
        if key not in self._picked:
            self._picked[key] = tuple(rule for rule in self._rules if _is_about(rule, self._spec(tool), task_type))
        return self._picked[key]

    def _spec(self, tool: str) -> Spec:
        return self._specs.get(tool) or Spec(tool, "", {})


def _is_about(rule: PermissionRule, spec: Spec, task_type: str) -> bool:
    """Tell whether a rule can apply to a tool and task type, whatever the arguments are."""
    anything = msgspec.structs.replace(rule, argument=None, pattern="")
    return permitting.decide([anything], spec, {}, task_type).by == rule.name


def checks(
    source: Source,
    specs: Mapping[str, Spec],
    *,
    prechecks: bool = True,
    where: str = "true",
    params: Sequence[Any] = (),
) -> Bulk:
    """Return which recorded calls a check of the arguments would refuse: unknown tool, bad arguments, its precheck.

    Args:
        source: a lab, or a table with the columns episode_id, event_id, task_type, tool and arguments (JSON text).
        specs: the tools by name.
        prechecks: whether the tools' own prechecks count.
        where: of a lab, SQL condition over the columns of `events`.
        params: values for its parameters.

    Raises:
        QueryError: the condition does not run, or the table lacks a column.
    """
    began = time.perf_counter()
    checker = _Checker(specs, prechecks)
    judged = Judged(checker.finding)
    tally = Tally()
    for batch in batches(source, "calls", _CALL_COLUMNS, params, where=where):
        tally.calls += batch.num_rows
        tally.add(batch, *judged.of([batch["tool"], batch["arguments"]]))
    return tally.result("checks", judged.count, time.perf_counter() - began)


class _Checker:
    """The checks of one call alone, with each tool's schema compiled once."""

    def __init__(self, specs: Mapping[str, Spec], prechecks: bool) -> None:
        self._specs = specs
        self._prechecks = prechecks
        self._names = list(specs)
        self._valid = {name: _validator(spec) for name, spec in specs.items()}

    def finding(self, tool: str, text: str) -> Finding | None:
        """Return what is wrong with a call."""
        problem = self._problem(tool, text)
        return None if problem is None else (str(problem.kind), problem.message)

    def _problem(self, tool: str, text: str) -> Problem | None:
        spec = self._specs.get(tool)
        if spec is None:
            return checking.unknown_tool(tool, self._names)
        arguments = arguments_of(text)
        # A yes is certain; for a no, and for what it does not take, the check itself says what is wrong.
        problem = None if self._is_valid(tool, arguments) else checking.bad_arguments(spec, arguments)
        if problem is None and self._prechecks:
            problem = checking.failed_precheck(spec, arguments)
        return problem

    def _is_valid(self, tool: str, arguments: Any) -> bool:
        validator = self._valid[tool]
        try:
            return validator is not None and bool(validator.is_valid(arguments))
        except (ValueError, TypeError, RecursionError):  # ValueError: a lone surrogate, too
            return False


def _validator(spec: Spec) -> Any | None:
    schema = payload.canonical(spec.parameters).decode()
    try:
        return jsonschema_rs.validator_for(schema, retriever=checking.refuse_reference)
    except (ValueError, TypeError):
        return None
