"""Leaving out segments: never a row too few, and files that are not needed are not opened."""

import datetime as dt
import re
import shutil
import time

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from log_samples import DAY0, append, event, new_lab, stream

from hermes_lab.errors import CorruptLogError, HermesLabError
from hermes_lab.lab import open_lab
from hermes_lab.log import query as reading

TASKS = ["t1", "任务二", "t'3", "🚀"]
DAYS = 5


def build(folder, seed):
    """A lab of several segments: by day, across days, one with few tasks, and live events."""
    lab = new_lab(folder)
    made = stream(seed, DAYS, 6, TASKS)
    by_day = {}
    for each in made:
        by_day.setdefault(each.ts.date(), []).append(each)
    for i, events in enumerate(by_day.values()):
        append(lab, events[:4], seal=True)
        append(lab, events[4:], seal=i % 2 == 0)
    append(lab, stream(seed + 100, DAYS, 1, ["only-here"]), seal=True)
    # At the very edges of days, and far away.
    edges = [DAY0 + dt.timedelta(days=d, microseconds=m) for d in range(DAYS) for m in (-1, 0, 1)]
    edges += [dt.datetime(1969, 7, 20, tzinfo=dt.UTC), dt.datetime(2300, 1, 1, tzinfo=dt.UTC)]
    append(lab, [event(ts=ts, task_id="edge", episode_id="e/边") for ts in edges], seal=True)
    now = dt.datetime.now(dt.UTC)
    append(lab, [event(ts=now - dt.timedelta(hours=h), task_id="now") for h in (1, 30, 24 * 40)], seal=True)
    append(lab, stream(seed + 200, DAYS, 1, TASKS))
    return lab


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    return [build(tmp_path_factory.mktemp("prune") / f"lab{seed}", seed) for seed in (1, 2)]


def both(lab, query, params=()):
    """Return the rows with pruning and without, each sorted, or None where DuckDB refuses the query itself."""
    snapshot = lab.log.snapshot()
    values = dict(params) if isinstance(params, dict) else list(params)
    try:
        whole = snapshot.connection.cursor().execute(query, values or None).fetchall()
    except duckdb.Error:
        return None
    return sorted(map(repr, reading.run(snapshot, query, params).fetchall())), sorted(map(repr, whole))


def files_read(lab, query, params=()):
    """Return how many Parquet files a query read."""
    plan = lab.log.sql(f"explain analyze {query}", params).fetchall()[0][1]
    return sum(int(n) for n in re.findall(r"Total Files Read:?\s*(\d+)", re.sub(r"[│\n]", " ", plan)))


# --- a small grammar of conditions and queries -----------------------------------------------------------------

_moments = st.one_of(
    st.integers(-1, DAYS + 1).map(lambda d: DAY0 + dt.timedelta(days=d)),
    st.builds(
        lambda d, us: DAY0 + dt.timedelta(days=d, microseconds=us),
        st.integers(0, DAYS),
        st.integers(-2, 86_400_000_000),
    ),
    st.sampled_from([dt.datetime(1969, 7, 20, tzinfo=dt.UTC), dt.datetime(2300, 1, 1, tzinfo=dt.UTC)]),
)


def spellings(moment):
    """Return the ways in which SQL can write a moment."""
    shanghai = moment.astimezone(dt.timezone(dt.timedelta(hours=8)))
    plain = moment.strftime("%Y-%m-%d %H:%M:%S.%f").zfill(26)
    day = plain[:10]
    return [
        f"'{plain}'",
        f"'{plain}Z'",
        f"'{plain}+00'",
        f"'{shanghai.strftime('%Y-%m-%d %H:%M:%S.%f')}+08:00'",
        f"'{plain[:-10]}'",
        f"'{day}'",
        f"date '{day}'",
        f"'{day}'::date",
        f"cast('{day}' as date)",
        f"timestamp '{plain}'",
        f"timestamptz '{plain} America/New_York'",
        f"'{plain}'::timestamptz",
        f"'{plain}'::timestamp",
        f"'{plain}'::timestamp_s",
        f"'{plain}'::timestamp_ms",
        f"'{plain}'::timestamp_ns",
        f"'{plain}'::varchar",
        f"'{plain}'::timestamptz + interval 1 day",
        f"'{plain}'::timestamptz - interval '36 hours'",
        f"date '{day}' + 1",
        f"date '{day}' + interval 1 month",
        f"make_date({moment.year}, {moment.month}, {moment.day})",
        f"make_timestamp({moment.year}, {moment.month}, {moment.day}, {moment.hour}, 0, 0.0)",
        f"date_trunc('day', timestamptz '{plain}')",
        f"date_trunc('month', timestamp '{plain}')",
        f"to_timestamp({moment.timestamp():.0f})",
        f"(timestamp '{plain}' at time zone 'Asia/Shanghai')",
        f"(select timestamptz '{plain}')",
        f"coalesce(null, timestamptz '{plain}')",
    ]


_times = st.one_of(
    _moments.flatmap(lambda m: st.sampled_from(spellings(m))),
    st.sampled_from(
        [
            "now()", "now() - interval 1 day", "now() - interval 2 months", "current_date", "current_timestamp",
            "today() - 1", "current_date - interval 7 days", "now() + interval 400 years", "'infinity'", "'-infinity'",
            "null", "'infinity'::timestamptz", "'epoch'", "'290000-01-01'", "'0044-03-15 (BC)'", "ts", "max_ts",
            "'not a time'", "date_trunc('day', now())", "(select min(ts) from events)",
            "(select max(ts) from events where task_id = 't1')",
        ]
    ),
)  # fmt: skip
_texts = st.sampled_from(
    ["'t1'", "'任务二'", "'t''3'", "'🚀'", "'only-here'", "'edge'", "'nobody'", "null", "'T1'", "E't\\'3'",
     "'t' || '1'", "lower('T1')",
     "'t1'::varchar", "name", "(select 't1')", "'t1' collate nocase", "$$t1$$", "'t1/0'", "'e/边'", "''"]
)  # fmt: skip
_columns = st.sampled_from(
    ["ts", "TS", '"ts"', "{t}.ts", '{t}."Ts"', "ts::date", "ts + interval 1 day", "ts::timestamp"]
)
_ids = st.sampled_from(
    ["task_id", "episode_id", "TASK_ID", '"task_id"', "{t}.task_id", "lower(task_id)", "task_id || ''"]
)
_operators = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "!=", "is distinct from", "is not distinct from"])

_atoms = st.one_of(
    st.builds("{} {} {}".format, _columns, _operators, _times),
    st.builds("{} {} {}".format, _times, _operators, _columns),
    st.builds("{} between {} and {}".format, _columns, _times, _times),
    st.builds("{} not between {} and {}".format, _columns, _times, _times),
    st.builds("{} between {} and {}".format, _times, _columns, _times),
    st.builds("{} in ({}, {})".format, _columns, _times, _times),
    st.builds("{} {} {}".format, _ids, _operators, _texts),
    st.builds("{} {} {}".format, _texts, _operators, _ids),
    st.builds("{} in ({}, {})".format, _ids, _texts, _texts),
    st.builds("{} not in ({}, {})".format, _ids, _texts, _texts),
    st.builds(
        "{} in (select task_id from events where {} < {})".format,
        _ids,
        _columns.filter(lambda c: "{t}" not in c),
        _times,
    ),
    st.builds("{} in {}".format, _texts, st.just("(select task_id from events)")),
    st.builds("{} = any (select task_id from events where ts > {})".format, _ids, _times),
    st.builds("({}, step) > ({}, 2)".format, _columns, _times),
    st.sampled_from(
        ["step > 2", "status = 'ok'", "true", "false", "null", "output like '%1%'", "task_id is null", "ts is not null"]
    ),
)
_conditions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("{} and {}".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) is true".format, inner),
        st.builds("case when {} then {} else false end".format, inner, inner),
    ),
    max_leaves=4,
)

_KEEP = "event_id, ts, task_id"
_SHAPES = [
    f"select {_KEEP} from events where {{a}}",
    f'select {_KEEP} from "events" where {{a}}',
    f"SELECT {_KEEP} FROM EVENTS WHERE {{a}}",
    f"from events select {_KEEP} where {{a}}",
    f"select {_KEEP} from Events as ev where {{ev}}",
    f"select {_KEEP} from events ts where {{a}}",
    f"select {_KEEP} from events task_id where {{a}}",
    f"select {_KEEP} from events as \"Ev 1\" where {{q}}",
    "select events.event_id, events.ts from events where {a}",
    "select events from events where {a}",
    "select '中文', /* events where */ count(*) /* 🚀 */ from events where {a}",
    "select count(*), min(ts), max(ts), sum(step) from events where {a}",
    "select task_id, count(*) from events where {a} group by task_id having count(*) > 1",
    "select task_id, count(*) from events where {a} group by all having max(ts) > {time}",
    "select ts + interval 1 year as ts from events where {a}",
    "select event_id, 't1' as task_id, timestamptz '2026-11-03' as ts from events where {a}",
    "select ts as task_id, task_id as ts from events where {a}",
    "select event_id, row_number() over (partition by task_id order by ts, event_id) as n from events where {a}",
    "select event_id from events where {a} qualify row_number() over (order by ts, event_id) < 5",
    "select event_id, (select count(*) from events e where e.ts < o.ts and {e}) from events o where {o}",
    "select event_id from events o where exists (select 1 from events where ts > o.ts and {a})",
    "select event_id from events o where {o} and ts >= (select min(ts) from events where {a})",
    "select event_id from events o where o.ts in (select ts from events where {a})",
    "select a.event_id, b.event_id from events a join events b on a.event_id = b.event_id where {jb}",
    "select a.event_id, b.event_id from events a left join events b on a.event_id = b.event_id and {jb}",
    "select a.event_id, b.event_id from events a left join (select * from events where {a}) b using (event_id)",
    "select o.event_id, b.n from events o, lateral (select count(*) as n from events where step = o.step and {a}) b",
    "select event_id from events where {a} union all select event_id from events where {b}",
    "select event_id from events where {a} union select event_id from events where {b}",
    "select event_id from events where {a} except select event_id from events where {b}",
    "select event_id from events where {a} intersect select event_id from events where {b}",
    "(select ts from events where {a} order by 1 limit 3) union all (select ts from events where {b} order by 1)",
    f"with c as (select * from events where {{a}}) select {_KEEP} from c where {{c}}",
    f"with c as not materialized (select * from events) select {_KEEP} from c where {{c}}",
    "with c as (select * from events where {a}) select count(*) from c x join c y using (event_id)",
    "with events as (select * from main.events where {a}) select event_id from events where {b}",
    "with c as (with events as (select * replace (ts + interval 2 days as ts) from main.events) from events where {a}) "
    "select event_id from c",
    "with recursive r as (select min(ts) as m from events where {a} "
    "union all select m + interval 1 day from r where m < timestamptz '2026-11-04' and m > '2026-10-01') from r",
    f"select {_KEEP} from (select * from events) s where {{s}}",
    f"select {_KEEP} from (select *, ts as max_ts from events where {{a}}) events where {{a}}",
    "select event_id from (select * replace (ts - interval 1 day as ts) from events where {a}) events where {b}",
    "select (select count(*) from events where {a}), (select count(*) from events where {b})",
    "select count(*) filter (where {a}) from events where {b}",
    "select distinct task_id from events where {a}",
    "select distinct on (task_id) task_id, event_id from events where {a} order by task_id, ts, event_id",
    "select event_id from events where {a} order by ts, event_id limit 3 offset 1",
    "from (pivot (select task_id, step from events where {a}) on step in (0, 1, 2) using count(*) group by task_id)",
    "select count(*) from (unpivot (select task_id, name from events where {a}) on task_id, name)",
    "select count(*) from events tablesample 100% where {a}",
    "select count(*) from (select * from events where {a} using sample 100%)",
    "select e1.event_id from (events) e1 where {e1}",
    "select x.event_id from events x(event_id, task_id, ts) where x.event_id is not null",
    "select count(*) from main.events where {a}",
    "select count(*) from memory.main.events where {a}",
    "select count(*) from events positional join (select 1 as one) where {a}",
    "select sum(n) from (select count(*) as n from events where {a} group by grouping sets ((task_id), (), (step)))",
    "describe select * from events where {a}",
    "select list(x) from (select event_id as x from events where {a} order by x)",
    "select * from (values (1), (2)) v(n) where n <= (select count(*) from events where {a})",
    "select count(*) from events where {a} and event_id in (select event_id from events where {b})",
    "select count(*) from events where {a} -- events where ts > '2099-01-01'",
    "select case when exists (select 1 from events where {a}) then 2 else \"events\".e end from (select 1 as e) events",
]  # fmt: skip
_ALIASES = {"ev": "ev", "q": '"Ev 1"', "e": "e", "o": "o", "jb": "b", "c": "c", "s": "s", "e1": "e1"}


@st.composite
def queries(draw):
    shape = draw(st.sampled_from(_SHAPES))
    holes = {"a": "events", "b": "events", **_ALIASES}
    used = {hole: draw(_conditions).replace("{t}", alias) for hole, alias in holes.items() if f"{{{hole}}}" in shape}
    if "jb" in used:  # in a join every bare name could be either side's
        used["jb"] = re.sub(
            r"(?<![.\w\"'])(ts|task_id|episode_id|step|status|name|output)\b(?!\")", r"b.\1", used["jb"]
        )
    return shape.format(**used, time=draw(_times))


@given(queries(), st.integers(0, 1))
@example("select ts + interval 1 year as ts from events where ts > '2027-06-01'", 0)
@example("select event_id, '2026-11-03'::timestamptz as ts from events where ts < '2026-11-02'", 0)
@example("select count(*) from events where ts >= '2026-11-02' and ts < '2026-11-03' or task_id = 't1'", 0)
@example("select count(*) from events where not (ts >= '2026-11-02')", 0)
@example("select count(*) from events where ts > timestamptz '2026-11-02 23:30:00-05:00'", 0)
@example("select count(*) from events where '2026-11-02' > ts", 0)
@example(
    "select a.ts from events a left join events b on a.ts = b.ts and b.ts > '2099-01-01' where a.ts > '2026-11-01'", 0
)
@settings(deadline=None, max_examples=250)
def test_a_query_gives_what_it_gives_over_all_files(labs, query, which):
    results = both(labs[which], query)
    assume(results is not None)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "query",
    [
        "with events as (select * replace (ts + interval 2 days as ts) from main.events) "
        "select event_id, ts from events where ts > '2026-11-05'",
        "with EVENTS as (select event_id, timestamptz '2026-11-20' as ts from main.events) "
        "select event_id from (select * from events where ts > '2026-11-10') s",
        "with c as (with events as (select 'x' as task_id from main.events) from events where task_id = 'x') from c",
        "select event_id from events where task_id in ('only-here', 't' || '1')",
        "select event_id from events where task_id in ('only-here', lower('T1'), null)",
        "select event_id from events where task_id = 'only-here' or task_id = 't1'",
        "select event_id from events where ts = '2026-11-02' or ts = '2026-11-04'",
        "select event_id from events where ts >= '2026-11-03' and ts <= '2026-11-03'",
        "select event_id, ts from events where '2026-11-02' > ts and '2026-11-01' <= ts",
        "select o.event_id from (select event_id, timestamptz '2026-11-02' as cut from events) o "
        "where exists (select 1 from events where ts < o.cut)",
    ],
)
def test_what_could_mislead_about_the_bounds_does_not(labs, query):
    for lab in labs:
        pruned, whole = both(lab, query)
        assert pruned == whole != []


_values = st.one_of(
    _moments,
    _moments.map(lambda m: m.astimezone(dt.timezone(dt.timedelta(hours=-7)))),
    _moments.map(lambda m: m.replace(tzinfo=None)),
    _moments.map(lambda m: m.date()),
    _moments.map(lambda m: m.isoformat()),
    st.sampled_from(
        ["t1", "任务二", "t'3", "only-here", "nobody", "now", "infinity", None, 5, 1.5, True, "2026-11-03"]
    ),
)


@given(
    st.sampled_from(
        [
            "select event_id from events where ts > {0} and ts < {1}",
            "select event_id from events where ts between {0} and {1}",
            "select event_id from events where {0} <= ts",
            "select event_id from events where task_id = {0} or ts > {1}",
            "select event_id from events where task_id in ({0}, {1})",
            "select event_id from events where task_id = {0} and ts <= {1}::timestamptz",
            "select event_id from events where ts >= {0} union all select event_id from events where ts < {1}",
            "select (select count(*) from events where ts > {1}), (select count(*) from events where ts > {0})",
            "with c as (select * from events where ts < {1}) select count(*) from c where ts > {0}",
        ]
    ),
    _values,
    _values,
    st.sampled_from(["?", "$n", "$name"]),
)
@settings(deadline=None, max_examples=80)
def test_parameters_bound_as_their_values_do(labs, shape, first, second, style):
    if style == "?":
        # By place: the first question mark is the first value, whichever hole it is in.
        order = sorted((shape.index("{0}"), shape.index("{1}") if "{1}" in shape else 10**6))
        by_place = [first, second] if order[0] == shape.index("{0}") else [second, first]
        query, params = shape.format("?", "?"), by_place[: shape.count("{")]
    elif style == "$n":
        query, params = shape.format("$1", "$2"), [first, second][: shape.count("{")]
    else:
        query, params = shape.format("$First", "$zweite"), {"First": first, "zweite": second}
        if "{1}" not in shape:
            params.pop("zweite")
    results = both(labs[0], query, params)
    assume(results is not None)
    assert results[0] == results[1]


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A lab with one segment a day, a task of its own on each, and nothing live."""
    lab = new_lab(tmp_path_factory.mktemp("days") / "lab")
    for day in range(6):
        made = [
            event(ts=DAY0 + dt.timedelta(days=day, hours=h), task_id=f"任务-{day}", episode_id=f"e{day}", step=h)
            for h in range(1, 24, 6)
        ]
        append(lab, made, seal=True)
    assert lab.log.status()["segments"] == 6
    return lab


@pytest.mark.parametrize(
    ("condition", "params", "files"),
    [
        ("true", [], 6),
        ("ts >= '2026-11-04'", [], 3),
        ("ts > '2026-11-03 20:00:00'", [], 3),
        ("'2026-11-04' <= ts", [], 3),
        ("ts < '2026-11-03'", [], 2),
        ("ts <= '2026-11-03'", [], 2),
        ("ts between '2026-11-02' and '2026-11-03 23:59:59'", [], 2),
        ("ts between date '2026-11-02' and date '2026-11-02'", [], 0),
        ("ts = '2026-11-02 06:00:00+00'", [], 1),
        ("ts = '2026-11-02 14:00:00+08'", [], 1),
        ("ts >= '2026-11-04 00:00:00+08' and ts < '2026-11-04 00:00:00+00'", [], 1),
        ("ts >= date '2026-11-03' + interval 2 days", [], 2),
        ("ts >= ? and ts < ?", [DAY0 + dt.timedelta(days=2), DAY0 + dt.timedelta(days=4)], 2),
        ("ts >= $a", {"a": "2026-11-06"}, 1),
        ("ts >= $1 and step > $2", [dt.date(2026, 11, 5), 3], 2),
        ("ts > now() + interval 1000 years", [], 0),
        ("task_id = '任务-3'", [], 1),
        ("'任务-3' = task_id", [], 1),
        ("task_id = ?", ["任务-5"], 1),
        ("task_id in ('任务-0', '任务-5')", [], 2),
        ("task_id in (?, ?)", ["任务-0", "任务-1"], 2),
        ("episode_id = 'e4'", [], 1),
        ("events.episode_id = 'e4' and step > 0", [], 1),
        ("task_id = '任务-3' and ts >= '2026-11-01' and (step = 1 or step = 0)", [], 1),
        ("(ts >= '2026-11-02' and (ts < '2026-11-03' and step >= 0))", [], 1),
        ("ts >= '2026-11-06' or step = 0", [], 6),
    ],
)
def test_only_the_files_within_the_bounds_are_read(days, condition, params, files):
    read = files_read(days, f"select count(*), max(length(name)) from events where {condition}", params)
    # The index of ids may say "perhaps" once in fifty times.
    assert files <= read <= files + ("_id" in condition)


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("from events select max(name) where ts >= '2026-11-06'", 1),
        ('select max(name) from "Events" as "Ê v" where "Ê v".ts >= \'2026-11-06\'', 1),
        ("select '中文🚀', max(name) from EVENTS where TS >= '2026-11-06'", 1),
        ("with c as (select * from events where ts < '2026-11-02') select max(name) from c", 1),
        (
            "select name from events where ts < '2026-11-02' and 1 in (select 1 from events where ts > '2026-11-05')",
            3,
        ),
        (
            "select name from events where ts < '2026-11-02' union all select name from events where task_id = 'e'",
            1,
        ),
        ("select ts + interval 1 year as ts, name from events where ts >= '2026-11-06'", 1),
        ("select max(name) from (select * from events where task_id in ('任务-1', '任务-2')) s", 2),
    ],
)
def test_each_reading_of_events_is_bounded_by_itself(days, query, files):
    assert files <= files_read(days, query) <= files + ("_id" in query)


BOUNDED = ["ts >= '2026-11-03' and ts < '2026-11-04'", "task_id = '任务-2'", "episode_id in ('e2')"]


def without_other_days(days, folder, *, keep):
    """Return a copy of the lab that has lost every segment but those of `keep`."""
    shutil.copytree(days.path, folder)
    copy = open_lab(folder)
    copy.log.sql("select 1")
    for path in copy.log.layout.folder.glob("date=*/*.parquet"):
        if not any(day in str(path) for day in keep):
            path.unlink()
    return copy


@pytest.mark.parametrize("condition", BOUNDED)
def test_a_bounded_query_does_not_open_the_other_files(days, tmp_path, condition):
    copy = without_other_days(days, tmp_path / "copy", keep=["2026-11-03"])
    query = f"select count(*), max(task_id), sum(step) from events where {condition}"
    assert copy.log.sql(query).fetchall() == days.log.sql(query).fetchall() == [(4, "任务-2", 40)]
    with pytest.raises((HermesLabError, duckdb.Error), match="parquet"):
        copy.log.sql("select max(name) from events where ts >= '2026-11-01'").fetchall()


def test_a_log_whose_first_file_is_lost_says_so(days, tmp_path):
    copy = open_lab(without_other_days(days, tmp_path / "copy", keep=["2026-11-03"]).path)
    with pytest.raises(CorruptLogError, match="log verify"):
        copy.log.sql("select count(*) from events where ts >= '2026-11-03' and ts < '2026-11-04'")


def test_nothing_within_the_bounds_reads_no_file_and_gives_the_same_columns(days):
    query = "select * from events where ts > '2099-01-01'"
    relation = days.log.sql(query)
    assert relation.fetchall() == []
    assert relation.columns == days.log.sql("select * from events").columns
    assert relation.types == days.log.sql("select * from events").types
    assert days.log.sql(f"select count(*) from ({query})").fetchall() == [(0,)]
    assert files_read(days, query) == 0


def test_a_column_by_its_full_name_is_found_in_a_bounded_query_too(days):
    assert both(days, "select main.events.step from events where ts > '2026-11-03'") is not None


def test_a_relation_keeps_its_moment_now_included(tmp_path):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(ts=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))], seal=True)
    relation = lab.log.sql("select count(*) from events where ts < now()")
    assert relation.fetchall() == [(0,)]
    time.sleep(1.2)
    assert relation.fetchall() == [(0,)]
    assert lab.log.sql("select count(*) from events where ts < now()").fetchall() == [(1,)]
