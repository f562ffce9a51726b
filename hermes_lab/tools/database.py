"""The tool `query_database`: one SELECT over tables that it can read and nothing else, within limits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import duckdb
import msgspec

from hermes_lab.errors import QueryError
from hermes_lab.kinds import ErrorKind

# The log's own guard of SQL; it deserves a public name there.
from hermes_lab.log.query import _parse_reading as parse_reading
from hermes_lab.tools.base import Environment, Level, Problem, ToolError
from hermes_lab.tools.decorator import FunctionTool, tool
from hermes_lab.tools.limits import time_left
from hermes_lab.tools.tables import Table, Tables, add_temporary, check_locked, empty, from_path, from_tables, listing

__all__ = ["Source", "Table", "Tables", "check_select", "database"]

Source = Path | str | Tables | duckdb.DuckDBPyConnection | Callable[[Any], Tables]
"""A .duckdb file, a folder of .csv and .parquet files, tables by name, a connection that was barred from reaching
outside (see `tables.check_locked`), or a function that gives the tables of an episode's environment."""

ROWS = 200
SECONDS = 10.0
MEMORY_LIMIT = "512MB"

_ABOUT_CHARS = 2_000
_Sql = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
_parser = duckdb.connect(":memory:")


def check_select(arguments: Mapping[str, Any]) -> Problem | None:
    """Return what is wrong with `arguments["sql"]` where it is not one statement that only reads; the precheck.

    >>> check_select({"sql": "select 1"}) is None
    True
    >>> check_select({"sql": "drop table orders"}).kind.value
    'out_of_scope'
    """
    sql = arguments.get("sql")
    if not isinstance(sql, str):
        return None  # the schema says what is wrong
    try:
        parse_reading(_parser.cursor(), sql)
    except QueryError as error:
        return Problem(ErrorKind.OUT_OF_SCOPE, f"sql: {error}")
    except duckdb.Error as error:
        return Problem(ErrorKind.PRECHECK_FAILED, f"sql: {error}")
    return None


def database(
    source: Source,
    name: str = "query_database",
    *,
    about: str | None = None,
    rows: int = ROWS,
    seconds: float = SECONDS,
    memory_limit: str = MEMORY_LIMIT,
) -> FunctionTool[..., dict[str, Any]]:
    """Return a tool that answers one SELECT.

    >>> query = database({"cities": Table(["name", "people"], [["北京", 22], ["Oslo", 1]])})
    >>> query.run(None, {"sql": "select name from cities where people > 5"}).output
    {'columns': ['name'], 'rows': [['北京']]}
    >>> query.spec.description
    'Run one SQL SELECT (DuckDB). Tables: cities(name, people).'

    Args:
        source: see `Source`. Tables and environments are copied: those of an environment at each call.
        name: the tool's name.
        about: what the description says of the tables; None lists them and their columns.
        rows: so many rows at most; a longer answer is cut, and says so.
        seconds: time that a query may take; it is interrupted then.
        memory_limit: memory that a query may take, as DuckDB writes it.

    Raises:
        MissingError: there is nothing at the path.
        QueryError: what is there cannot be read, or a connection is not locked.
    """
    if callable(source):
        return _environment_tool(source, name, about or "", rows, seconds, memory_limit)
    connection = _connect(source, memory_limit)
    text = _listed(connection) if about is None else about

    @tool(name=name, level=Level.READ_ONLY, precheck=check_select, seconds=seconds)
    def query(sql: _Sql) -> dict[str, Any]:
        """Run one SQL SELECT (DuckDB).

        Args:
            sql: one SELECT statement.
        """
        with connection.cursor() as cursor:
            return _answer(cursor, sql, rows)

    return query.described(text)


def _environment_tool(
    tables_of: Callable[[Any], Tables], name: str, about: str, rows: int, seconds: float, memory_limit: str
) -> FunctionTool[..., dict[str, Any]]:
    connection = empty(memory_limit)

    @tool(name=name, level=Level.READ_ONLY, precheck=check_select, seconds=seconds)
    def query(env: Environment, sql: _Sql) -> dict[str, Any]:
        """Run one SQL SELECT (DuckDB).

        Args:
            env: the episode's environment.
            sql: one SELECT statement.
        """
        cursor = connection.cursor()
        try:
            add_temporary(cursor, tables_of(env))
            return _answer(cursor, sql, rows)
        finally:
            cursor.close()

    return query.described(about)


def _connect(source: Path | str | Tables | duckdb.DuckDBPyConnection, memory_limit: str) -> duckdb.DuckDBPyConnection:
    if isinstance(source, duckdb.DuckDBPyConnection):
        check_locked(source)
        return source
    if isinstance(source, Mapping):
        return from_tables(source, memory_limit)
    return from_path(Path(source).expanduser(), memory_limit)


def _listed(connection: duckdb.DuckDBPyConnection) -> str:
    tables = [f"{table}({', '.join(column for column, _ in columns)})" for table, columns in listing(connection)]
    text = f"Tables: {', '.join(tables)}."
    return text if len(text) <= _ABOUT_CHARS else text[:_ABOUT_CHARS] + "… (more: select * from duckdb_columns())"


def _answer(cursor: duckdb.DuckDBPyConnection, sql: str, rows: int) -> dict[str, Any]:
    problem = check_select({"sql": sql})
    if problem is not None:
        raise ToolError(problem.message, problem.kind)
    # Interrupted somewhat before the call is given up, so that no query goes on that nobody waits for.
    timer = threading.Timer(min(time_left() * 0.9, threading.TIMEOUT_MAX), _interrupt, [cursor])
    timer.daemon = True
    timer.start()
    try:
        cursor.execute("begin transaction read only")
        cursor.execute(sql)
        columns = [column[0] for column in cursor.description or ()]
        found = cursor.fetchmany(rows + 1)
    except duckdb.Error as error:
        raise _failure(error) from None
    finally:
        timer.cancel()
    answer: dict[str, Any] = {"columns": columns, "rows": [list(row) for row in found[:rows]]}
    if len(found) > rows:
        answer["cut"] = f"only the first {rows} rows: count or aggregate in SQL"
    return answer


def _interrupt(cursor: duckdb.DuckDBPyConnection) -> None:
    with contextlib.suppress(duckdb.Error):  # it may be closed by now
        cursor.interrupt()


def _failure(error: duckdb.Error) -> ToolError:
    if isinstance(error, duckdb.InterruptException):
        return ToolError("the query took longer than it may: ask for less", ErrorKind.TIMEOUT)
    if isinstance(error, duckdb.OutOfMemoryException):
        return ToolError(f"the query took more memory than it may: {error}", ErrorKind.MEMORY_LIMIT)
    if isinstance(error, duckdb.PermissionException):
        return ToolError(f"{error}: only the tables can be read", ErrorKind.OUT_OF_SCOPE)
    if isinstance(error, duckdb.CatalogException):
        return ToolError(str(error), ErrorKind.NOT_FOUND)
    return ToolError(str(error))
