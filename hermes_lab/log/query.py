"""Running somebody's SQL over a snapshot: one reading statement, in plain errors, over as few files as it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import duckdb

from hermes_lab.errors import QueryError
from hermes_lab.log.prune import Params, nodes, prune
from hermes_lab.log.snapshot import DAMAGED, Snapshot

# Words and commas only: a comment in there could hide the end of the options, and with it what really runs.
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?(?:\([\w\s,]*\)\s*)?", re.IGNORECASE)
T = TypeVar("T")
_READING = "only one reading statement is allowed (SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, EXPLAIN of these)"


def run(snapshot: Snapshot, query: str, params: Params = ()) -> duckdb.DuckDBPyRelation:
    """Return the relation of `query` over `snapshot`; see `Log.sql`.

    Raises:
        QueryError: it does not parse or bind, is no reading statement, or reaches outside the lab.
    """
    cursor, pruned, values = _prepare(snapshot, query, params)

    def bind(sql: str) -> duckdb.DuckDBPyRelation:
        relation = cursor.sql(sql, params=values)
        relation.columns  # noqa: B018 - binds the query now, so that what is wrong with it is said here
        return relation

    return _first_that_runs(cursor, bind, [pruned, query])


def rows(snapshot: Snapshot, query: str, params: Params = ()) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Run `query` and return the names of its columns and its rows, which are fetched as they are taken.

    Raises:
        QueryError: as `run`, or, while rows are taken, a value that cannot be worked out.
    """
    cursor, pruned, values = _prepare(snapshot, query, params)
    result = _first_that_runs(cursor, lambda sql: cursor.execute(sql, values), [pruned, query])
    return [column[0] for column in result.description or ()], _fetch(result)


def _first_that_runs(cursor: duckdb.DuckDBPyConnection, attempt: Callable[[str], T], texts: list[str]) -> T:
    """Return what `attempt` makes of the first text that runs, within a transaction that cannot write.

    There is a second text because pruning renames a table, and a query may spell out its full old name.
    """
    for sql in dict.fromkeys(texts):
        cursor.execute("begin transaction read only")
        try:
            return attempt(sql)
        except duckdb.Error as caught:
            cursor.rollback()
            error = caught
    raise explain_error(error) from None


def _fetch(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    try:
        while batch := result.fetchmany(10_000):
            yield from batch
    except duckdb.Error as error:
        raise explain_error(error) from None


def _prepare(snapshot: Snapshot, query: str, params: Params) -> tuple[duckdb.DuckDBPyConnection, str, Any]:
    """Return a cursor that can only read, the query over as few files as it needs, and its parameters."""
    cursor = snapshot.connection.cursor()
    try:
        explain, select = _split_explain(cursor, query)
        tree = _parse_reading(cursor, select)
        pruned = prune(select, tree, params, cursor, list(snapshot.segments.values()), snapshot.view_of)
    except duckdb.Error as error:
        raise explain_error(error) from None
    values = dict(params) if isinstance(params, Mapping) else list(params)
    return cursor, explain + pruned, values or None


def explain_error(error: duckdb.Error) -> QueryError:
    """Return our error for DuckDB's, with a word on what the log holds where a name was not found."""
    text = str(error)
    if "file system operations are disabled" in text:
        return QueryError(f"{text}: SQL can read this lab's folder only; import the file or copy it into the lab")
    if isinstance(error, duckdb.CatalogException):
        return QueryError(f"{text}\nThe views are `events` and `events_per_task`; `describe events` lists the columns.")
    if ".parquet" in text and isinstance(error, duckdb.IOException | duckdb.InvalidInputException):
        return QueryError(f"{text}\n{DAMAGED}")
    return QueryError(text)


def _split_explain(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[str, str]:
    """Return the EXPLAIN in front of a statement ("" where there is none) and the statement."""
    kinds = [statement.type for statement in _statements(connection, query)]
    if kinds != [duckdb.StatementType.EXPLAIN]:
        return "", query
    match = _EXPLAIN.match(query)
    if match is None:
        raise QueryError("write EXPLAIN first, without a comment before it or among its options")
    return match.group(), query[match.end() :]


def _statements(connection: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    try:
        query.encode()
    except UnicodeEncodeError:
        raise QueryError(
            "this SQL holds a lone surrogate, which no SQL text can: compare with its stored form"
        ) from None
    return connection.extract_statements(query)


# DuckDB lets a WITH clause insert, delete and copy to files, so looking at the kind of statement is not enough. And
# some table functions run SQL that they are given as text, or call another by name: those not listed are refused.
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLE_FUNCTION_NAMES = """
query_table range generate_series unnest repeat repeat_row summary json_each json_tree glob read_text read_blob read_csv
read_csv_auto read_json read_json_auto read_json_objects read_ndjson read_ndjson_auto read_ndjson_objects read_parquet
parquet_scan parquet_schema parquet_metadata parquet_file_metadata parquet_kv_metadata parquet_bloom_probe
duckdb_columns duckdb_functions duckdb_keywords duckdb_settings duckdb_tables duckdb_types duckdb_views
pragma_table_info pg_timezone_names
"""
_TABLE_FUNCTIONS = frozenset(_TABLE_FUNCTION_NAMES.split())


def _parse_reading(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    """Return the tree of `query` when it is one statement that does nothing but read."""
    statements = _statements(connection, query)
    if len(statements) != 1:
        raise QueryError(f"{len(statements)} statements were given; {_READING}")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        hint = "; PIVOT needs its values listed: PIVOT ... ON column IN (...)" if kind.name == "MULTI" else ""
        raise QueryError(f"{kind.name} is not allowed here; {_READING}{hint}")
    tree: dict[str, Any] = json.loads(
        connection.execute("select json_serialize_sql(?::varchar)", [query]).fetchall()[0][0]
    )
    if tree["error"]:
        raise QueryError(f"{tree['error_message']}; {_READING}")
    for node in nodes(tree):
        name = str(node.get("type", ""))
        if name.endswith("_NODE") and name not in _READING_NODES:
            raise QueryError(f"{name.split('_')[0]} within WITH is not allowed here; {_READING}")
        if name == "TABLE_FUNCTION":
            _check_table_function(node)
    return tree


def _check_table_function(node: dict[str, Any]) -> None:
    function = str(node["function"].get("function_name", "")).lower()
    if function not in _TABLE_FUNCTIONS:
        allowed = " ".join(sorted(_TABLE_FUNCTIONS))
        raise QueryError(f"the table function {function!r} is not allowed here; these are: {allowed}")
