"""The database tool: sources, one SELECT, and nothing outside of the tables."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.errors import MissingError, QueryError
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.tools import FunctionTool, Level, Result
from hermes_lab.tools.database import Table, Tables, check_select, database

ORDERS = Table(["id", "客户", "total"], [["SO-1", "李雷", 12.5], ["SO-2", "韩梅梅", 80.0], ["SO-3", None, None]])


@pytest.fixture
def orders() -> FunctionTool[..., dict[str, Any]]:
    return database({"orders": ORDERS})


def ask(tool: FunctionTool[..., Any], sql: str, env: Any = None, seconds: float | None = None) -> Result:
    return tool.run(env, {"sql": sql}, seconds=seconds)


def test_the_spec(orders: FunctionTool[..., Any]) -> None:
    spec = orders.spec
    assert (spec.name, spec.level, spec.action) == ("query_database", Level.READ_ONLY, Action.TOOL_CALLED)
    assert spec.description == "Run one SQL SELECT (DuckDB). Tables: orders(id, 客户, total)."
    assert spec.precheck is check_select
    assert spec.parameters["required"] == ["sql"]
    assert database({"orders": ORDERS}, "ask", about="Sales.").spec.description == "Run one SQL SELECT (DuckDB). Sales."


def test_a_select_gives_columns_and_rows(orders: FunctionTool[..., Any]) -> None:
    result = ask(orders, "select 客户, total, date '2025-01-31' as day from orders where total > 20 -- 评论")
    assert result.status is Status.OK
    assert result.output == {"columns": ["客户", "total", "day"], "rows": [["韩梅梅", 80.0, "2025-01-31"]]}


def test_rows_are_bounded_and_the_cut_is_said(orders: FunctionTool[..., Any]) -> None:
    output = ask(orders, "select * from range(201)").output
    assert len(output["rows"]) == 200
    assert "first 200 rows" in output["cut"]
    assert "cut" not in ask(orders, "select * from range(200)").output
    few = database({"orders": ORDERS}, rows=2)
    assert len(ask(few, "from orders").output["rows"]) == 2


# Sources


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "数据 'quoted'"
    place.mkdir()
    (place / "订单.csv").write_text("id,price\n1,2.5\n2,3.5\n", "utf-8")
    parquet = str(place / "stock.parquet").replace("'", "''")
    duckdb.sql(f"copy (select 7 as item, 'rot' as colour) to '{parquet}'")
    (place / "notes.txt").write_text("no table")
    (tmp_path / "secret.csv").write_text("secret\n4711\n")
    (place / "link.csv").symlink_to(tmp_path / "secret.csv")
    return place


def test_a_folder_of_csv_and_parquet(folder: Path) -> None:
    tool = database(folder)
    assert tool.spec.description.endswith("Tables: stock(item, colour), 订单(id, price).")
    assert ask(tool, "select sum(price) from 订单").output["rows"] == [[6.0]]
    assert ask(tool, "select colour from stock").output["rows"] == [["rot"]]


def test_a_duckdb_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "店.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("create table t as select 1 as a")
    before = file.read_bytes()
    tool = database(file)
    assert ask(tool, "select a from t").output["rows"] == [[1]]
    assert ask(tool, "insert into t values (2)").error_kind is ErrorKind.OUT_OF_SCOPE
    assert file.read_bytes() == before


def test_a_pandas_frame_and_a_connection() -> None:
    assert ask(database({"f": pandas.DataFrame({"a": [1, 2]})}), "select max(a) from f").output["rows"] == [[2]]
    connection = duckdb.connect()
    connection.execute("create table t as select 'é' as a")
    with pytest.raises(QueryError, match="set enable_external_access = false"):
        database(connection)
    connection.execute("set enable_external_access = false")
    tool = database(connection)
    assert ask(tool, "from t").output["rows"] == [["é"]]
    assert ask(tool, "drop table t").error_kind is ErrorKind.OUT_OF_SCOPE
    assert connection.execute("select count(*) from t").fetchall() == [(1,)]


class Shop:
    """An environment on SQLite."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", check_same_thread=False)
        self.db.execute("create table stock (item text, n)")
        self.db.executemany("insert into stock values (?, ?)", [("笔", 3), ("Heft", "viele")])

    def query(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in self.db.execute(sql)]

    def close(self) -> None:
        self.db.close()


def _tables(shop: Shop) -> Tables:
    return {"stock": Table(["item", "n"], shop.query("select * from stock")), "empty": Table(["a"], [])}


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.close()


def test_the_tables_of_an_environment_are_read_at_each_call(shop: Shop) -> None:
    tool = database(_tables, about="Tables: stock(item, n).")
    assert "env" not in tool.spec.parameters["properties"]
    assert ask(tool, "from stock order by item", shop).output["rows"] == [["Heft", "viele"], ["笔", "3"]]
    shop.db.execute("update stock set n = 4 where item = '笔'")
    assert ask(tool, "select n from stock where item = '笔'", shop).output["rows"] == [["4"]]
    assert ask(tool, "select count(*) from empty", shop).output["rows"] == [[0]]
    assert ask(tool, "from stock").error_kind is ErrorKind.TOOL_UNAVAILABLE


def test_environments_do_not_see_each_others_tables() -> None:
    tool = database(lambda env: {"t": Table(["a"], [[env]]), f"only_{env}": Table(["a"], [[1]])})
    with ThreadPoolExecutor(6) as pool:
        outputs = [result.output for result in pool.map(lambda n: ask(tool, "from t", n), range(1, 31))]
        listed = list(pool.map(lambda n: ask(tool, "select table_name from duckdb_tables()", n), range(1, 31)))
    assert [output["rows"] for output in outputs] == [[[n]] for n in range(1, 31)]
    assert [sorted(result.output["rows"]) for result in listed] == [[[f"only_{n}"], ["t"]] for n in range(1, 31)]
    assert ask(tool, "from only_3", 4).error_kind is ErrorKind.NOT_FOUND
    assert ask(tool, "from read_text('/etc/passwd')", 4).error_kind is ErrorKind.OUT_OF_SCOPE


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="没有"):
        database(tmp_path / "没有")
    with pytest.raises(MissingError, match="holds no"):
        database(tmp_path)
    (tmp_path / "odd.duckdb").write_bytes(b"no database at all" * 1000)
    with pytest.raises(QueryError, match=r"odd\.duckdb"):
        database(tmp_path / "odd.duckdb")
    with pytest.raises(QueryError, match="'t'"):
        database({"t": Table(["a"], [[1, 2]])})
    with pytest.raises(QueryError, match="'t'"):
        database({"t": 5})


# Nothing but one SELECT


@pytest.mark.parametrize(
    "sql",
    [
        "drop table orders",
        "insert into orders values ('x', 'y', 1)",
        "update orders set total = 0",
        "delete from orders",
        "create table t as select 1",
        "copy orders to '/tmp/out.csv'",
        "attach '/tmp/x.duckdb'",
        "install httpfs",
        "set memory_limit = '100GB'",
        "pragma database_list",
        "export database '/tmp/out'",
        "select 1; select 2",
        "select 1; drop table orders",
        "/* select */ drop table orders",
        "with gone as (delete from orders returning *) select * from gone",
        "with t as (insert into orders values ('x', 'y', 1) returning *) select * from t",
        "select * from query('drop table orders')",
        "call force_checkpoint()",
        "begin",
        "",
        "   ",
        "-- 只有评论",
        "select ",
        "这不是SQL",
        "\ud800",
    ],
)
def test_anything_else_is_refused_before_it_runs(orders: FunctionTool[..., Any], sql: str) -> None:
    problem = check_select({"sql": sql})
    assert problem is not None
    assert not isinstance(problem, str)
    assert problem.kind in (ErrorKind.OUT_OF_SCOPE, ErrorKind.PRECHECK_FAILED)
    result = ask(orders, sql)
    assert result.status in (Status.ERROR, Status.INVALID)
    assert ask(orders, "select count(*), sum(total) from orders").output["rows"] == [[3, 92.5]]


@pytest.mark.parametrize("sql", ["drop table orders", "select 1; select 2", "copy orders to 'x'"])
def test_other_statements_are_out_of_scope(sql: str) -> None:
    problem = check_select({"sql": sql})
    assert problem is not None
    assert problem.kind is ErrorKind.OUT_OF_SCOPE


FRAME = pandas.DataFrame({"secret": [4711]})


@pytest.mark.parametrize(
    "sql",
    [
        "select * from '{outside}'",
        "select * from read_csv('{outside}')",
        "select * from read_text('{outside}')",
        "select content from read_blob('/etc/passwd')",
        "select * from glob('/etc/*')",
        "select * from read_csv('https://example.org/a.csv')",
        "select * from FRAME",
        "select * from frame",
        "select * from sniff_csv('{outside}')",
        "select * from query_table('{outside}')",
        "select getenv('HOME')",
        "select (select content from read_text('{outside}'))",
        "select * from link",
        "from parquet_metadata('{outside}')",
    ],
)
@pytest.mark.parametrize("kind", ["tables", "folder"])
def test_nothing_outside_of_the_tables_can_be_read(kind: str, sql: str, folder: Path, tmp_path: Path) -> None:
    frame = FRAME  # noqa: F841 - what a query must not find
    tool = database(folder) if kind == "folder" else database({"orders": ORDERS})
    result = ask(tool, sql.format(outside=tmp_path / "secret.csv"))
    assert result.status is Status.ERROR, result.output
    assert "4711" not in str(result.output)
    assert "root:" not in str(result.output)


def test_files_are_out_of_scope_and_unknown_names_not_found(orders: FunctionTool[..., Any]) -> None:
    assert ask(orders, "from read_text('/etc/passwd')").error_kind is ErrorKind.OUT_OF_SCOPE
    missing = ask(orders, "from order")
    missing_column = ask(orders, "select nothing from orders")
    assert missing.status is missing_column.status is Status.ERROR
    assert ask(orders, "from ordres").error_kind is ErrorKind.NOT_FOUND
    assert "nothing" in missing_column.output["error"]


ENDLESS = "select count(*) from range(100000000000) where sin(range) > 2"


def test_a_long_query_is_interrupted_and_the_next_one_runs(orders: FunctionTool[..., Any]) -> None:
    started = time.perf_counter()
    result = ask(orders, ENDLESS, seconds=0.6)
    assert (result.status, result.error_kind) == (Status.TIMEOUT, ErrorKind.TIMEOUT)
    assert time.perf_counter() - started < 2
    assert ask(orders, "select 1").output["rows"] == [[1]]


def test_memory_is_bounded() -> None:
    tool = database({"orders": ORDERS}, memory_limit="50MB")
    result = ask(tool, "select list(range) from range(100000000)")
    assert (result.status, result.error_kind) == (Status.ERROR, ErrorKind.MEMORY_LIMIT), result.output


def test_a_huge_value_is_cut(orders: FunctionTool[..., Any]) -> None:
    assert ask(orders, "select repeat('汉', 100000)").output["cut"] is True


def test_many_at_once(orders: FunctionTool[..., Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda n: ask(orders, f"select {n} + count(*) from orders").output["rows"][0][0], range(60))
    assert list(outputs) == [n + 3 for n in range(60)]


@given(st.text(max_size=40) | st.text(st.sampled_from("select from orders;()'\"-*/ 汉"), max_size=40))
@settings(deadline=None)
def test_the_precheck_never_raises(sql: str) -> None:
    check_select({"sql": sql})


def test_the_precheck_leaves_other_faults_to_the_schema() -> None:
    assert check_select({}) is None
    assert check_select({"sql": 5}) is None
