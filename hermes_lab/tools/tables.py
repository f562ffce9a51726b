"""The tables of the tool `query_database`, brought into a DuckDB connection that can do nothing but read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from hermes_lab.errors import MissingError, QueryError

TABLE_SUFFIXES = {".csv": "read_csv", ".parquet": "read_parquet"}


class Table(NamedTuple):
    """A table as plain Python: the names of its columns, and its rows."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


Tables = Mapping[str, Any]
"""Tables by name, each a `Table`, a pandas DataFrame or a pyarrow Table."""


def from_path(path: Path, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """Return a locked connection to a .duckdb file, or to the .csv and .parquet files of a folder, a table each.

    CSV files are read now; Parquet files at each query.

    Raises:
        MissingError: there is neither, or no table in it.
        QueryError: a file cannot be read as what its name says.
    """
    try:
        if path.is_dir():
            return _from_folder(path, memory_limit)
        if path.is_file():
            connection = duckdb.connect(str(path), read_only=True)
            _lock(connection, memory_limit, [])
            return connection
    except duckdb.Error as error:
        raise QueryError(f"{path} cannot be read: {error}") from None
    raise MissingError(f"there is no {path}: name a .duckdb file, or a folder of .csv and .parquet files")


def _from_folder(folder: Path, memory_limit: str) -> duckdb.DuckDBPyConnection:
    root = folder.resolve()
    files = sorted(file for file in root.iterdir() if file.suffix.lower() in TABLE_SUFFIXES and file.is_file())
    inside = [file for file in files if file.resolve().is_relative_to(root)]
    if not inside:
        raise MissingError(f"{folder} holds no .csv or .parquet file")
    connection = duckdb.connect(":memory:")
    parquet = []
    for file in inside:
        reader = TABLE_SUFFIXES[file.suffix.lower()]
        kind = "view" if reader == "read_parquet" else "table"
        if kind == "view":
            parquet.append(str(file))
        # A view takes no parameters, so the path is written into the text, as SQL writes a string.
        path = str(file).replace("'", "''")
        connection.execute(f"create {kind} {quoted(file.stem)} as select * from {reader}('{path}')")
    _lock(connection, memory_limit, parquet)
    return connection


def from_tables(tables: Tables, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """Return a locked in-memory connection with a copy of `tables`.

    Raises:
        QueryError: one of them is no table.
    """
    connection = duckdb.connect(":memory:")
    _copy(connection, tables, "table")
    _lock(connection, memory_limit, [])
    return connection


def empty(memory_limit: str) -> duckdb.DuckDBPyConnection:
    """Return a locked in-memory connection without tables, whose cursors can be given some by `add_temporary`."""
    return from_tables({}, memory_limit)


def add_temporary(cursor: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    """Copy `tables` to where this cursor alone sees them; they go when it is closed.

    This takes a tenth of the time that a new in-memory database takes to start.

    Raises:
        QueryError: one of them is no table.
    """
    _copy(cursor, tables, "temp table")


def _copy(connection: duckdb.DuckDBPyConnection, tables: Tables, kind: str) -> None:
    for name, table in tables.items():
        try:
            connection.register("_incoming", _arrow(table) if isinstance(table, Table) else table)
            connection.execute(f"create {kind} {quoted(name)} as select * from _incoming")
            connection.unregister("_incoming")
        except (duckdb.Error, pa.ArrowException, TypeError, ValueError) as error:
            raise QueryError(f"the table {name!r} cannot be taken in: {error}") from None


def _arrow(table: Table) -> pa.Table:
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.columns)
    if len(columns) != len(table.columns):
        raise ValueError(f"rows of {len(columns)} values stand under {len(table.columns)} columns")
    return pa.table({name: _column(values) for name, values in zip(table.columns, columns, strict=True)})


def _column(values: Sequence[Any]) -> pa.Array:
    """Return the values as one type; SQLite lets a column hold several, which then become text."""
    try:
        column = pa.array(values)
    except pa.ArrowInvalid:
        column = pa.array([None if value is None else str(value) for value in values])
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def _lock(connection: duckdb.DuckDBPyConnection, memory_limit: str, paths: list[str]) -> None:
    """Leave nothing to SQL but the tables and the files of `paths`, for good."""
    for statement in (
        "set global python_enable_replacements = false",
        "set autoinstall_known_extensions = false",
        "set autoload_known_extensions = false",
        "set threads = 2",
    ):
        connection.execute(statement)
    connection.execute("set memory_limit = ?", [memory_limit])
    connection.execute("set temp_directory = ''")
    if paths:
        connection.execute("set allowed_paths = ?", [paths])
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def check_locked(connection: duckdb.DuckDBPyConnection) -> None:
    """Make sure that SQL on somebody else's connection cannot reach outside of it: files, network, Python's variables.

    Raises:
        QueryError: it can.
    """
    rows = connection.cursor().execute("select current_setting('enable_external_access')").fetchall()
    if rows != [(False,)]:
        raise QueryError(
            "SQL on this connection can reach outside: first run `set enable_external_access = false` on it"
        )


def quoted(name: str) -> str:
    """Return `name` as SQL writes a name that may hold anything."""
    return '"' + name.replace('"', '""') + '"'


def listing(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each table with its columns, as (table, [(column, type), ...]), in the order of their names."""
    rows = connection.cursor().execute(
        "select table_name, column_name, data_type from duckdb_columns() where not internal"
        " order by table_name, column_index"
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in rows.fetchall():
        found.setdefault(table, []).append((column, kind))
    return list(found.items())
