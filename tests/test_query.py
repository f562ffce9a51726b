"""SQL over the log: it reads the lab and does nothing else, and a relation stays right for its moment."""

import datetime as dt
import gc
import gzip
import weakref

import duckdb
import msgspec
import pandas as pd
import pytest
from log_samples import DAY0, append, event, new_lab, stream, tree

from hermes_lab import payload
from hermes_lab.errors import QueryError
from hermes_lab.log import Log
from hermes_lab.log import query as reading

TASKS = ["t1", "任务二", "t'3", "🚀"]
COUNT = "select count(*), sum(step), count(distinct task_id) from events"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A lab with three sealed days and live events; tests leave it as it is."""
    lab = new_lab(tmp_path_factory.mktemp("query") / "lab")
    for day in range(3):
        made = stream(day, 1, 5, TASKS)
        append(lab, [moved(e, day) for e in made], seal=True)
    append(lab, [event(task_id="live", step=1000)])
    (lab.path / "link").symlink_to("/etc")
    return lab


def moved(e, days):
    return msgspec.structs.replace(e, ts=e.ts + dt.timedelta(days=days))


STATE = """
    select
        (select list(e order by event_id) from events e),
        (select count(*) from stored_events),
        (select list(s order by name) from duckdb_settings() s),
        (select list(table_name order by 1) from duckdb_tables())
"""


@pytest.fixture
def unchanged(shared):
    """Whatever the test does: no file of the lab changes, and later queries see what earlier ones saw."""
    snapshot = shared.log.snapshot()
    files = tree(shared.path)
    rows = repr(reading.run(snapshot, STATE).fetchall())
    yield shared
    assert shared.log.snapshot() is snapshot
    assert tree(shared.path) == files
    assert repr(reading.run(snapshot, STATE).fetchall()) == rows


def attempt(lab, query, params=()):
    """Run `query` to its last row in both ways; return the error or None."""
    query = query.replace("{lab}", str(lab.path))
    errors = []
    for run in (
        lambda: lab.log.sql(query, params).fetchall(),
        lambda: list(reading.rows(lab.log.snapshot(), query, params)[1]),
    ):
        try:
            run()
        except (QueryError, duckdb.Error) as error:
            errors.append(error)
    assert len(errors) in (0, 2)
    return errors[0] if errors else None


STATEMENTS = [
    "insert into live_events select * from live_events",
    "delete from live_events",
    "update live_events set name = 'x'",
    "merge into live_events using (select 1) on false when not matched then insert default values",
    "truncate live_events",
    "create table x as select 1",
    "create temp table events as select 1",
    "create or replace view events as select 1 as x",
    "create temp view events as select 1 as x",
    "create macro f() as 1",
    "create sequence s",
    "create type mood as enum ('a')",
    "create schema s",
    "create index i on live_events (name)",
    "drop view events",
    "drop table live_events",
    "alter table live_events add column x int",
    "alter view events rename to e",
    "comment on table live_events is 'x'",
    "copy live_events to '{lab}/x.csv'",
    "copy (select 1) to '{lab}/x.parquet'",
    "copy live_events from '{lab}/lab.toml'",
    "copy from database memory to memory",
    "export database '{lab}/x'",
    "import database '{lab}/x'",
    "attach '{lab}/x.duckdb'",
    "attach ':memory:' as x",
    "detach memory",
    "use memory",
    "set threads = 1",
    "set global memory_limit = '1GB'",
    "set variable x = 1",
    "reset threads",
    "pragma threads = 1",
    "pragma enable_profiling",
    "pragma table_info('events')",
    "call pragma_version()",
    "call enable_logging()",
    "install httpfs",
    "load httpfs",
    "load '{lab}/x.duckdb_extension'",
    "begin",
    "commit",
    "rollback",
    "checkpoint",
    "vacuum",
    "analyze",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "pivot events on name using count(*)",
    "create secret s (type s3, key_id 'x')",
]


PREFIXES = ["", "explain ", "explain analyze ", "explain (analyze) ", "explain (format json) ", "/* select */ "]


@pytest.mark.parametrize("query", STATEMENTS)
def test_no_statement_but_reading_ones_is_run(unchanged, query):
    for prefix in PREFIXES:
        assert isinstance(attempt(unchanged, prefix + query), QueryError)


WRITES = [
    "insert into live_events select * from live_events returning 1 as one",
    "delete from live_events returning 1 as one",
    "update live_events set name = 'x' returning 1 as one",
    "copy (select 1) to '{lab}/x.csv'",
]
PLACES = [
    "with w as ({write}) select * from w",
    "WITH w AS MATERIALIZED ({write}) FROM w",
    "with recursive w as ({write}) select * from w",
    "with a as (with w as ({write}) select * from w) select * from a",
    "select (with w as ({write}) select count(*) from w)",
    "select * from (with w as ({write}) select * from w)",
    "select 1 union all (with w as ({write}) select 1 from w)",
    "select 1 where 1 in (with w as ({write}) select 1 from w)",
    "select 1 where exists (with w as ({write}) select 1 from w)",
    "select list_transform([1], lambda x: (with w as ({write}) select count(*) from w))",
    "select 1 order by (with w as ({write}) select count(*) from w)",
    "select 1 limit (with w as ({write}) select count(*) from w)",
    "select sum(1) over (order by (with w as ({write}) select count(*) from w))",
    "select 1 qualify (with w as ({write}) select count(*) from w) > 0",
    "select * replace ((with w as ({write}) select count(*) from w) as name) from events",
    "select 1 from events, lateral (with w as ({write}) select * from w)",
    "select * from (describe with w as ({write}) select * from w)",
    "summarize with w as ({write}) select * from w",
    "describe with w as ({write}) select * from w",
    "explain analyze with w as ({write}) select * from w",
    "pivot (with w as ({write}) select 1 as one from w) on one in (1) using count(*)",
]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_within_a_reading_statement_writes(unchanged, place):
    for write in WRITES:
        assert isinstance(attempt(unchanged, place.replace("{write}", write)), QueryError)


@pytest.mark.parametrize(
    "function",
    [
        "query('select 1')",
        "QUERY('select 1')",
        "\"Query\"('select 1')",
        "main.query('select 1')",
        "system.main.query('select 1')",
        "json_execute_serialized_sql(json_serialize_sql('select 1'))",
        "(from query('select 1'))",
        "range(2), query('select 1')",
        "range(2), lateral (from query('select 1'))",
        "(select 1 where exists (from query('select 1')))",
    ],
)
def test_no_function_runs_text_as_sql(unchanged, function):
    assert isinstance(attempt(unchanged, f"select * from {function}"), QueryError)


HIDDEN_IN_EXPLAIN = [
    "explain (/*) select 1 --*/ analyze) copy (select 1) to '{lab}/x.csv'",
    "explain analyze (/*) select 1 --*/ analyze) copy (select 1) to '{lab}/x.csv'",
    "explain (/*) select 1 --*/ analyze) select 1; copy (select 1) to '{lab}/x.csv'",
    "explain (/*) select 1 --*/ analyze) select 1; create or replace view events as select 1 as x",
    "explain (/*) select 1 --*/ analyze) delete from live_events",
]


@pytest.mark.parametrize("query", HIDDEN_IN_EXPLAIN)
def test_nothing_hides_in_the_options_of_explain(tmp_path, query):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="a")])
    before, files = lab.log.sql("select * from events").fetchall(), tree(lab.path)
    attempt(lab, query)
    assert tree(lab.path) == files
    assert lab.log.sql("select * from events").fetchall() == before


CALLED = [
    "with w as (delete from live_events returning 1) select * from w",
    "with w as (copy (select 1) to '{lab}/x.csv') select * from w",
]
CALLS_BY_NAME = [
    *(
        "from destroy_external_resource('json_execute_serialized_sql', json_serialize_sql('{}')::varchar)".replace(
            "{}", called.replace("'", "''")
        )
        for called in CALLED
    ),
    "from destroy_external_resource('query', 'select 1')",
    "select * from range(2), system.main.\"Destroy_External_Resource\"('query', 'select 1')",
]


@pytest.mark.parametrize("query", CALLS_BY_NAME)
def test_no_function_calls_another_by_its_name(tmp_path, query):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="a")])
    before, files = lab.log.sql("select * from events").fetchall(), tree(lab.path)
    error = attempt(lab, query)
    assert tree(lab.path) == files
    assert lab.log.sql("select * from events").fetchall() == before
    assert isinstance(error, QueryError)


OUTSIDE = [
    "/etc/passwd",
    "/etc/*",
    "/proc/self/environ",
    "file:///etc/passwd",
    "~/.bashrc",
    "{lab}/../../../../../../etc/passwd",
    "{lab}/events/../../../../../../../etc/passwd",
    "{lab}/link/passwd",
    "{lab}/../*",
    "{lab}*/*",
    "https://example.com/x.csv",
    "s3://bucket/x.parquet",
    "hf://datasets/x/y.csv",
]
READERS = [
    "read_csv",
    "read_text",
    "read_blob",
    "read_json",
    "read_parquet",
    "read_ndjson_objects",
    "parquet_metadata",
    "sniff_csv",
    "glob",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_outside_the_lab_is_read(unchanged, path):
    for reader in READERS:
        for argument in (f"'{path}'", f"['{{lab}}/lab.toml', '{path}']"):
            assert attempt(unchanged, f"select * from {reader}({argument})") is not None, (reader, argument)
    assert attempt(unchanged, f"select * from '{path}'") is not None
    assert attempt(unchanged, f"select (select content from read_text('{path}'))") is not None
    assert attempt(unchanged, f"with a as (from read_text('{path}')) select count(*) from events, a") is not None


def test_a_glob_across_a_link_reads_nothing_outside(unchanged):
    for query in (
        "from glob('{lab}/*/passwd')",
        "from read_text('{lab}/*/passwd')",
        "from read_text('{lab}/**/passwd')",
    ):
        try:
            rows = unchanged.log.sql(query.replace("{lab}", str(unchanged.path))).fetchall()
        except (QueryError, duckdb.Error):
            continue
        assert not any("root:" in str(row) for row in rows), rows


def test_a_file_of_the_lab_is_read(unchanged):
    toml = (unchanged.path / "lab.toml").read_text()
    assert unchanged.log.sql("select content from read_text(?)", [str(unchanged.path / "lab.toml")]).fetchall() == [
        (toml,)
    ]


def test_python_variables_are_no_tables(unchanged):
    secret = pd.DataFrame({"a": [1]})
    assert len(secret) == 1
    with pytest.raises(QueryError, match="secret"):
        unchanged.log.sql("select * from secret")
    with pytest.raises(QueryError):
        unchanged.log.sql("select * from python_map_function((select 1))")


@pytest.mark.parametrize(
    "query",
    [
        "from enable_logging()",
        "from enable_logging(storage = 'file', storage_path = '{lab}/logs')",
        "from enable_profiling(save_location = '{lab}/p.json')",
        "from disable_logging()",
        "from add_grammar_extension('x')",
        "from force_checkpoint()",
        "from register_external_resource_type('a')",
        "from create_external_resource('a')",
        "select nextval('s')",
    ],
)
def test_no_function_changes_a_setting(unchanged, query):
    assert attempt(unchanged, query) is not None


def test_a_csv_reader_keeps_no_table_of_rejects(unchanged):
    options = "store_rejects = true, rejects_table = 'events', columns = {'a': 'int'}, auto_detect = false"
    attempt(unchanged, f"from read_csv('{{lab}}/lab.toml', {options})")
    assert unchanged.log.sql(COUNT).fetchall()[0][0] == 16


@pytest.mark.parametrize(
    "query", ["", "   ", ";", ";;", "-- select 1", "/* select 1 */", "explain", "explain (select 1)", "\x00"]
)
def test_nothing_is_no_query(unchanged, query):
    assert isinstance(attempt(unchanged, query), QueryError)


@pytest.mark.parametrize(
    "query",
    [
        "select 1; select 2",
        "select 1; drop view events",
        "select 1\x00; select 2",
        "explain select 1; select 2",
        "select 1 /* */; /* */ select 2",
    ],
)
def test_several_statements_are_refused(unchanged, query):
    with pytest.raises(QueryError, match="2 statements were given"):
        unchanged.log.sql(query)


@pytest.mark.parametrize(
    "query", ["select 1;", "select 1;;", "-- first\nselect 1 -- last", "/* ; */ select 1", "select 1 /* ; select 2 */"]
)
def test_comments_and_ends_of_statements_are_no_statements(unchanged, query):
    assert unchanged.log.sql(query).fetchall() == [(1,)]


def test_a_lone_surrogate_in_sql_is_refused(unchanged):
    with pytest.raises(QueryError, match=r"lone surrogate.*stored form"):
        unchanged.log.sql("select '\ud800'")
    with pytest.raises(QueryError, match="surrogate"):
        unchanged.log.sql("select ?", ["\ud800"])


@pytest.mark.parametrize(
    ("condition", "params"), [("= ?", ["\ud800"]), ("= $id", {"id": "\ud800"}), ("in (?, 'a')", ["\ud800"])]
)
def test_a_lone_surrogate_in_a_parameter_for_an_id_is_refused(unchanged, condition, params):
    with pytest.raises(QueryError, match="surrogate"):
        unchanged.log.sql(f"select * from events where task_id {condition}", params)


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "with a as (select 1) select * from a",
        "with recursive a(n) as (select 1 union all select n + 1 from a where n < 3) select * from a",
        "from events",
        "from events select task_id",
        "table events",
        "values (1), (2)",
        "describe events",
        "describe select 1",
        "summarize events",
        "show tables",
        "select * from (describe events)",
        "pivot events on name in ('search') using count(*)",
        "unpivot (select 1 as a, 2 as b) on a, b",
        "explain select 1",
        "EXPLAIN ANALYZE select 1",
        "explain\nanalyze\tselect 1",
        "explain (format json) select * from events where task_id = 't1'",
        "explain (analyze, format json) select 1",
        "select * from query_table('events')",
        "select * from pragma_table_info('events')",
        "select * from events_per_task",
        "(select 1) union (select 2)",
        "select 1 intersect select 1",
    ],
)
def test_every_reading_statement_runs(unchanged, query):
    assert attempt(unchanged, query) is None
    assert unchanged.log.sql(query).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "select nope from events",
        "select * from nope",
        "selec 1",
        "select 'a",
        "select nope()",
        "select * from events where ts > 5",
    ],
)
def test_wrong_sql_is_refused_at_once(unchanged, query):
    with pytest.raises(QueryError):
        unchanged.log.sql(query)


def test_a_wrong_name_is_told_what_there_is(unchanged):
    with pytest.raises(QueryError, match="`events` and `events_per_task`"):
        unchanged.log.sql("select * from event")


@pytest.mark.parametrize(
    ("query", "params", "expected"),
    [
        ("select ?", [5], [(5,)]),
        ("select ?, ?", ["密", None], [("密", None)]),
        ("select $2, $1", ["a", "b"], [("b", "a")]),
        ("select $a, $b", {"b": 2, "a": "一"}, [("一", 2)]),
        ("select ?::varchar", ["'; drop view events; --"], [("'; drop view events; --",)]),
        ("select count(*) from events where task_id = ?", ["live"], [(1,)]),
        (
            "select count(*) from events where task_id = $id and ts > $since",
            {"id": "live", "since": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
            [(1,)],
        ),
        ("select count(*) from events where task_id in (?, ?)", ["live", "nobody"], [(1,)]),
        ("select count(*) from events where ts < ?", [DAY0], [(0,)]),
        ("explain analyze select ?", [1], None),
    ],
)
def test_parameters_by_place_and_by_name(unchanged, query, params, expected):
    rows = unchanged.log.sql(query, params).fetchall()
    assert expected is None or rows == expected
    assert expected is None or list(reading.rows(unchanged.log.snapshot(), query, params)[1]) == expected


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ("select ?", []),
        ("select ?", [1, 2]),
        ("select $a", {}),
        ("select $a", {"a": 1, "b": 2}),
        ("select 1", [1]),
        ("select ?", [object()]),
    ],
)
def test_wrong_parameters_are_refused(unchanged, query, params):
    with pytest.raises(QueryError):
        unchanged.log.sql(query, params)


def test_a_relation_gives_frames_arrow_and_tuples(unchanged):
    relation = unchanged.log.sql("select task_id, ts, step from events order by step, event_id")
    rows = relation.fetchall()
    assert len(rows) == 16
    frame = relation.df()
    assert list(frame["task_id"]) == [row[0] for row in rows]
    assert str(frame["ts"].dt.tz) in ("UTC", "Etc/UTC")
    assert [row["step"] for row in relation.to_arrow_table().to_pylist()] == [row[2] for row in rows]
    assert relation.columns == ["task_id", "ts", "step"]
    assert relation.filter("task_id = 'live'").fetchall() == [row for row in rows if row[0] == "live"]
    assert relation.fetchall() == rows


def test_names_in_a_with_do_not_reach_into_the_views(unchanged):
    expected = unchanged.log.sql(COUNT).fetchall()
    per_task = unchanged.log.sql("select * exclude (task_type) from events_per_task order by all").fetchall()
    for name in ("live_events", "stored_events", "LIVE_EVENTS", '"stored_events"'):
        assert unchanged.log.sql(f"with {name} as (select 1 as x) {COUNT}").fetchall() == expected
        assert (
            unchanged.log.sql(f"with {name} as (select 1 as x) {COUNT} where ts >= '2026-11-01'").fetchall() == expected
        )
    for name in ("events", "EVENTS", '"events"'):
        assert unchanged.log.sql(f"with {name} as (select 1 as x) select * from events").fetchall() == [(1,)]
        query = f"with {name} as (select 1 as x) select * exclude (task_type) from events_per_task order by all"
        assert unchanged.log.sql(query).fetchall() == per_task


def test_a_with_named_events_over_events_is_itself(unchanged):
    with_events = "with events as (select * from main.events where task_id = 'live')"
    query = f"{with_events} select count(*) from events where ts > '2020-01-01'"
    assert unchanged.log.sql(query).fetchall() == [(1,)]


def test_a_relation_stays_right_for_its_moment(tmp_path):
    lab = new_lab(tmp_path / "lab", "spill_over = 1024")
    for day in range(2):
        append(lab, [moved(e, day) for e in stream(day, 1, 4, TASKS)], seal=True)
    append(lab, [event(task_id="t1", output=payload.dumps("长" * 2000))])
    queries = [
        "select * from events order by event_id",
        "select count(*), sum(weight), sum(length(output)) from events",
        "select * from events where task_id = 't1' and ts < '2026-11-02' order by event_id",
        "select * exclude (task_type) from events_per_task order by task_id",
    ]
    relations = [lab.log.sql(query) for query in queries]
    before = [relation.fetchall() for relation in relations]
    assert before[1][0][0] == 9

    def check():
        assert [relation.fetchall() for relation in relations] == before

    append(lab, stream(9, 3, 5, ["t1", "new"]))
    check()
    assert lab.log.sql(COUNT).fetchall()[0][0] == 24
    check()
    lab.log.seal()
    check()
    assert lab.log.sql(COUNT).fetchall()[0][0] == 24
    append(lab, stream(10, 2, 5, ["t1", "new"]), seal=True)
    assert lab.log.compact().removed > 0
    check()
    assert lab.log.sql(COUNT).fetchall()[0][0] == 34
    check()
    assert lab.log.verify().ok


@pytest.fixture(params=["live", "sealed", "both"])
def spilled(request, tmp_path):
    """A lab with long payloads, and what they were."""
    lab = new_lab(tmp_path / "lab", "spill_over = 1024")
    long = {"内容": "🚀" * 400, "n": 7, "odd": "\ud800"}
    made = [
        event(
            task_id="long",
            step=0,
            input=payload.dumps(long),
            output=payload.dumps([1] * 600),
            observation="观" * 800 + "\ud800",
        ),
        event(task_id="short", step=1, input=payload.dumps({"n": 1}), observation="short"),
        event(
            task_id="fake",
            step=2,
            input=payload.dumps({"$spill": "0" * 64}),
            observation='{"$spill":"' + "0" * 64 + '","bytes":1}',
        ),
        event(task_id="again", step=3, input=payload.dumps(long)),
    ]
    append(lab, made[:2], seal=request.param != "live")
    append(lab, made[2:], seal=request.param == "sealed")
    return lab, made


def test_spilled_payloads_read_as_if_they_were_in_the_log(spilled):
    lab, made = spilled
    assert len(list((lab.log.layout.spill).glob("*/*.gz"))) == 3
    assert list(lab.log.events()) == made
    stored = [payload.store_text(e.input) if e.input else None for e in made]
    assert lab.log.sql("select input from events order by step").fetchall() == [
        (stored[0],),
        (stored[1],),
        ('{"$$spill":"' + "0" * 64 + '"}',),
        (stored[3],),
    ]
    assert lab.log.sql("select task_id from events where length(observation) > 200").fetchall() == [("long",)]
    assert lab.log.sql("select task_id from events where input like '%🚀🚀%' order by 1").fetchall() == [
        ("again",),
        ("long",),
    ]
    assert lab.log.sql(
        "select sum((input->>'n')::int), max(length(output)), count(distinct input) from events"
    ).fetchall() == [(15, 1201, 3)]
    assert lab.log.sql(
        "select task_id, count(*) over (partition by input) from events where step in (0, 3) order by 1"
    ).fetchall() == [("again", 2), ("long", 2)]
    assert lab.log.sql("select any_value(input) from events group by md5(input) having count(*) = 2").fetchall() == [
        (stored[0],)
    ]
    assert lab.log.sql(
        "select task_id from events where input->>'内容' is not null and ts >= '2026-01-01' order by 1"
    ).fetchall() == [("again",), ("long",)]
    assert lab.log.sql("select count(*) from stored_events where input like '{\"$spill\":%'").fetchall() == [(2,)]


@pytest.mark.parametrize("spilled", ["both"], indirect=True)
@pytest.mark.parametrize("damage", ["delete", "cut", "change", "empty", "garbage", "other content"])
def test_a_lost_spill_file_shows_so_and_fails_no_query(spilled, damage):
    lab, made = spilled
    shared_by_two = max(
        lab.log.layout.spill.glob("*/*.gz"), key=lambda path: b"\xf0\x9f\x9a\x80" in gzip.decompress(path.read_bytes())
    )
    whole = shared_by_two.read_bytes()
    if damage == "delete":
        shared_by_two.unlink()
    else:
        middle = len(whole) // 2
        shared_by_two.write_bytes(
            {
                "cut": whole[:-9],
                "change": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
                "empty": b"",
                "garbage": b"garbage",
                "other content": gzip.compress(b'"other"'),
            }[damage]
        )
    lost = f'{{"$spill":"{shared_by_two.stem}","bytes":{len(payload.store_text(made[0].input).encode())},"lost":true}}'
    rows = lab.log.sql("select task_id, input, observation from events order by step").fetchall()
    assert rows[0] == ("long", lost, payload.store_text(made[0].observation))
    assert rows[1] == ("short", made[1].input, "short")
    assert rows[3] == ("again", lost, None)
    assert lab.log.sql("select count(*) from events where (input->'lost')::boolean").fetchall() == [(2,)]
    assert [problem.where for problem in lab.log.verify().problems] == [str(shared_by_two)]


def test_where_cannot_smuggle_a_statement(shared):
    for where in (
        "true; drop view events",
        "true) ; (select 1",
        "1 = (with w as (delete from live_events returning 1) select count(*) from w)",
    ):
        with pytest.raises(QueryError):
            list(shared.log.events(where))
    assert len(list(shared.log.events("task_id = ?", ["live"]))) == 1


def test_a_log_that_is_no_longer_used_gives_back_its_threads_and_memory(shared):
    snapshots = []
    for _ in range(5):
        log = Log(shared.log.layout.folder, lab=shared.path)
        log.sql("select input from events").fetchall()
        snapshots.append(weakref.ref(log.snapshot()))
    del log
    gc.collect()
    assert [one() for one in snapshots] == [None] * 5
