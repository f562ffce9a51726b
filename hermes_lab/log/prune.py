"""Leaving out segments that a query cannot need: bounds on `ts`, `task_id` and `episode_id` in its WHERE.

DuckDB's own parser gives the query as a tree. Each place that reads `events` is looked at by itself, and only the
top-level AND of its own WHERE counts, so a bound is never taken for more than it says. What is not understood bounds
nothing: the worst that can happen is a query that reads everything.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from hermes_lab import payload
from hermes_lab.log import idindex
from hermes_lab.log.manifest import Segment

Params = Sequence[object] | Mapping[str, object]
"""Values of a query's parameters, by position or by name."""

_TABLE_NAME = re.compile(rb'events|"events"', re.IGNORECASE)
_FLIPPED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}


@dataclass
class Bounds:
    """What the rows that a query reads must satisfy: a time range (both ends included), and sets of ids."""

    first: dt.datetime | None = None
    last: dt.datetime | None = None
    ids: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def not_before(self, time: dt.datetime) -> None:
        """Narrow to rows at `time` or later."""
        self.first = time if self.first is None else max(self.first, time)

    def not_after(self, time: dt.datetime) -> None:
        """Narrow to rows at `time` or earlier."""
        self.last = time if self.last is None else min(self.last, time)

    def admit(self, segment: Segment) -> bool:
        """Return False only where no row of `segment` can satisfy the bounds."""
        if self.first is not None and segment.last_ts < self.first:
            return False
        if self.last is not None and segment.first_ts > self.last:
            return False
        if not self.ids:
            return True
        index = idindex.Index(segment.ids)
        return all(any(index.may_hold(column, value) for value in values) for column, values in self.ids)


def prune(
    sql: str,
    tree: dict[str, Any],
    params: Params,
    connection: duckdb.DuckDBPyConnection,
    segments: list[Segment],
    view_of: Callable[[list[Segment]], str],
) -> str:
    """Return `sql` with each bounded reading of `events` turned to a view over the segments that it can need.

    Nothing but the name of the table changes in the text.

    Args:
        sql: one SELECT.
        tree: its tree, as DuckDB's `json_serialize_sql` gives it.
        params: values of its parameters, by position or by name.
        connection: parses SQL and evaluates constant bounds.
        segments: all sealed segments.
        view_of: makes a view over some segments and returns its name.
    """
    if _names_a_cte_events(tree):
        return sql
    constants = _Constants(connection, params)
    source = sql.encode()
    # From the last to the first, so that a change does not move the places of those still to come.
    for table, where in sorted(_readings(tree), key=lambda pair: -pair[0]["query_location"]):
        bounds = _bounds(where, table["alias"] or "events", constants)
        kept = [s for s in segments if bounds.admit(s)]
        if len(kept) < len(segments):
            source = _renamed(source, table, view_of(kept))
    return source.decode()


def _renamed(source: bytes, table: dict[str, Any], name: str) -> bytes:
    start, end = table["query_location"], table["query_location"] + table["query_location_length"]
    written = _TABLE_NAME.match(source, start, end)
    if written is None:
        return source
    alias = b"" if table["alias"] else b" as events"
    return source[:start] + name.encode() + alias + source[written.end() :]


def _names_a_cte_events(tree: Any) -> bool:
    return any(
        str(entry["key"]).lower() == "events"
        for node in nodes(tree)
        if "cte_map" in node
        for entry in node["cte_map"]["map"]
    )


def _readings(tree: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each reference to `events` that stands alone in a FROM, with the WHERE beside it.

    A table within a join is left alone: an outer join keeps rows that its WHERE has yet to see, and a name without a
    table before it could be the other's. So is a sampled one.
    """
    for node in nodes(tree):
        table, where = node.get("from_table"), node.get("where_clause")
        if isinstance(table, dict) and _is_events(table) and isinstance(where, dict) and not node.get("sample"):
            yield table, where


def _is_events(table: dict[str, Any]) -> bool:
    return (
        table.get("type") == "BASE_TABLE"
        and str(table.get("table_name")).lower() == "events"
        and not table.get("schema_name")
        and not table.get("catalog_name")
        and isinstance(table.get("alias"), str)
        and not table.get("column_name_alias")
        and not table.get("sample")
    )


def _bounds(where: dict[str, Any], alias: str, constants: _Constants) -> Bounds:
    bounds = Bounds()
    for part in _conjuncts(where):
        _narrow(bounds, part, alias, constants)
    return bounds


def _conjuncts(where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if where.get("type") == "CONJUNCTION_AND":
        for child in where["children"]:
            yield from _conjuncts(child)
    else:
        yield where


def _narrow(bounds: Bounds, part: dict[str, Any], alias: str, constants: _Constants) -> None:
    """Narrow `bounds` by one condition, where it is one of a column and constants."""
    kind = part.get("type")
    if kind == "COMPARE_BETWEEN" and _column(part["input"], alias) == "ts":
        _bound_time(bounds, "COMPARE_GREATERTHANOREQUALTO", part["lower"], constants)
        _bound_time(bounds, "COMPARE_LESSTHANOREQUALTO", part["upper"], constants)
    elif kind == "COMPARE_IN":
        first, *rest = part["children"]
        _bound_ids(bounds, _column(first, alias), [constants.text(child) for child in rest])
    elif kind in _FLIPPED:
        column, other = _column(part["left"], alias), part["right"]
        if column is None:
            column, other, kind = _column(part["right"], alias), part["left"], _FLIPPED[kind]
        if column == "ts":
            _bound_time(bounds, kind, other, constants)
        elif kind == "COMPARE_EQUAL":
            _bound_ids(bounds, column, [constants.text(other)])


def _bound_time(bounds: Bounds, kind: str, node: dict[str, Any], constants: _Constants) -> None:
    time = constants.time(node)
    if time is None:
        return
    if kind in ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_EQUAL"):
        bounds.not_before(time)
    # A relation can be run again later, when `now()` lies further on: it must not bound from above what it reads.
    if kind in ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL") and not _moves(node):
        bounds.not_after(time)


def _bound_ids(bounds: Bounds, column: str | None, values: list[str | None]) -> None:
    known = frozenset(value for value in values if value is not None)
    if column in idindex.KINDS and len(known) == len(set(values)):
        bounds.ids.append((column, known))


def _column(node: dict[str, Any], alias: str) -> str | None:
    if node.get("type") != "COLUMN_REF":
        return None
    names = [str(name).lower() for name in node["column_names"]]
    if len(names) == 2 and names[0] == alias.lower():
        names = names[1:]
    return names[0] if len(names) == 1 else None


class _Constants:
    """Values of expressions that read no row."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, params: Params) -> None:
        self._connection = connection
        self._params = params

    def text(self, node: dict[str, Any]) -> str | None:
        """Return the text of a string literal or parameter; None for anything else."""
        value = self._parameter(node)
        if value is not None:
            # A lone surrogate is in no stored id: DuckDB says so of the parameter when the query runs.
            return value if isinstance(value, str) and payload.store_text(value) == value else None
        literal = node.get("literal") or {}
        if node.get("type") == "VALUE_CONSTANT" and literal.get("kind") == "STRING":
            return str(literal["text"])
        return None

    def time(self, node: dict[str, Any]) -> dt.datetime | None:
        """Return a time, worked out by DuckDB so that its rules hold; None for what is not a constant time."""
        value = self._parameter(node)
        try:
            if value is not None:
                return self._as_time("?", [value])
            if not all(_is_constant(part) for part in nodes(node)):
                return None
            tree = {
                "error": False,
                "statements": [{"node": {**_EMPTY_SELECT, "select_list": [node]}, "named_param_map": []}],
            }
            sql = self._connection.execute("select json_deserialize_sql(?::json)", [json.dumps(tree)]).fetchall()[0][0]
            return self._as_time(f"({sql})", [])
        except (duckdb.Error, ValueError, TypeError):
            return None

    def _as_time(self, expression: str, params: list[object]) -> dt.datetime:
        # By way of text, since DuckDB has times (infinity, the year 290000) that Python's datetime has not.
        rows = self._connection.execute(f"select ({expression})::timestamptz::varchar", params).fetchall()
        return dt.datetime.fromisoformat(rows[0][0])

    def _parameter(self, node: dict[str, Any]) -> object | None:
        if node.get("type") != "VALUE_PARAMETER":
            return None
        name = str(node["identifier"])
        if isinstance(self._params, Mapping):
            return self._params.get(name)
        index = int(name) - 1 if name.isdigit() else -1
        return self._params[index] if 0 <= index < len(self._params) else None


# Functions that give the same value for every row of a query and no earlier one later on.
_STEADY_NAMES = """
+ - * / trunc date_trunc make_date make_timestamp make_timestamptz to_timestamp to_years to_quarters to_months to_weeks
to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
"""
_MOVING_NAMES = "now today current_date current_timestamp get_current_timestamp transaction_timestamp"
_MOVING = frozenset(_MOVING_NAMES.split())
_STEADY = frozenset(_STEADY_NAMES.split()) | _MOVING


def _moves(node: dict[str, Any]) -> bool:
    return any(part.get("function_name") in _MOVING for part in nodes(node))


def _is_constant(node: dict[str, Any]) -> bool:
    kind = node.get("class")
    if kind == "FUNCTION":
        return node.get("function_name") in _STEADY
    return kind in ("CONSTANT", "CAST", "TYPE", None)


_EMPTY_SELECT: dict[str, Any] = {
    "type": "SELECT_NODE",
    "modifiers": [],
    "cte_map": {"map": []},
    "from_table": {"type": "EMPTY", "alias": "", "sample": None, "query_location": 0},
    "where_clause": None,
    "group_expressions": [],
    "group_sets": [],
    "aggregate_handling": "STANDARD_HANDLING",
    "having": None,
    "sample": None,
    "qualify": None,
}


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a tree, parents before children."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from nodes(value)
    elif isinstance(node, list):
        for item in node:
            yield from nodes(item)
