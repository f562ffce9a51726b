"""Grades the environment as an episode left it: queries, and the rows that they must return.

Rows are compared in order where the query has an ORDER BY of its own, and as a bag where it has none. A date, a
decimal or an id in a row equals its text; numbers may be off by what binary floats lose.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from hermes_lab.suites.foreign import attempt, shown
from hermes_lab.tasks import Grade, State, StateCheck, partial_score
from hermes_lab.tools.base import Environment

# Texts, quoted names, comments and brackets of a query: what stands in them is not the query's own ORDER BY.
_INNER = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|[()]|\border\s+by\b", re.IGNORECASE | re.DOTALL
)


def grade_state(spec: State, environment: Environment | None) -> Grade:
    """Return 1.0 where every check holds, 0 where a required one or all fail, else 0.5 to 0.9.

    A query that does not run leaves the grade unknown, unless a required check has failed.
    """
    if environment is None:
        return Grade(score=None, grader="state", reasons=("there is no environment to look at",))
    if not spec.checks:
        return Grade(score=None, grader="state", reasons=("the grader checks nothing: give it a query",))
    failed: list[tuple[StateCheck, str]] = []
    broken: list[str] = []
    for check in spec.checks:
        looked, error = attempt(_look, environment, check)
        if looked is None:
            broken.append(f"the check {_name(check)} could not be run ({error}): mend the grader")
        elif not looked.holds:
            failed.append((check, f"the check {_name(check)} does not hold: it found {shown(looked.rows)}"))
    reasons = tuple([reason for _, reason in failed] + broken)
    if any(check.required for check, _ in failed):
        return Grade(score=0.0, grader="state", reasons=reasons)
    if broken:
        return Grade(score=None, grader="state", reasons=reasons)
    passed = len(spec.checks) - len(failed)
    return Grade(score=partial_score(passed, len(spec.checks)), grader="state", reasons=reasons)


class _Look(NamedTuple):
    rows: list[list[Any]]
    holds: bool


def _look(environment: Environment, check: StateCheck) -> _Look:
    rows = environment.query(check.sql)
    return _Look(rows, rows_match(rows, check.rows, ordered=has_order(check.sql)))


def has_order(sql: str) -> bool:
    """Say whether a query orders its own rows, and not only those of a part of it.

    >>> has_order("select a from t order by a"), has_order("select * from (select a from t order by a)")
    (True, False)
    """
    depth = 0
    for match in _INNER.finditer(sql):
        mark = match.group()
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif depth == 0 and mark[0] in "oO":
            return True
    return False


def rows_match(found: Sequence[Any], wanted: Sequence[Any], *, ordered: bool) -> bool:
    """Say whether the rows that were found are the wanted ones.

    >>> rows_match([(2, "b"), (1.0, "a")], [[1, "a"], [2, "b"]], ordered=False)
    True
    """
    if len(found) != len(wanted):
        return False
    if ordered:
        return all(_row_matches(a, b) for a, b in zip(found, wanted, strict=True))
    left = list(wanted)
    for row in found:
        place = next((i for i, other in enumerate(left) if _row_matches(row, other)), None)
        if place is None:
            return False
        del left[place]
    return True


def _row_matches(found: Any, wanted: Any) -> bool:
    if not isinstance(found, list | tuple) or not isinstance(wanted, list | tuple) or len(found) != len(wanted):
        return False
    return all(_same(a, b) for a, b in zip(found, wanted, strict=True))


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, decimal.Decimal):
        found = float(found)
    if isinstance(found, dt.datetime) and isinstance(wanted, str):
        return wanted in (found.isoformat(), str(found))
    if isinstance(found, dt.date | dt.time | uuid.UUID) and isinstance(wanted, str):
        return str(found) == wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return found == wanted or math.isclose(found, wanted, rel_tol=1e-12, abs_tol=1e-12)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return _row_matches(found, wanted)
    return bool(found == wanted)


def _name(check: StateCheck) -> str:
    return repr(check.note or check.sql[:80])
