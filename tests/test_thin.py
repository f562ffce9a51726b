"""Thinning: fewer events, the same counts, and never a loss of what matters."""

import datetime as dt
from collections import Counter

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_samples import DAY0, append, event, new_lab

from hermes_lab.errors import ConfigError, WriteError
from hermes_lab.events import Action, ErrorKind, Status, Tier
from hermes_lab.lab import open_lab
from hermes_lab.log import spill, thin
from hermes_lab.log.thin import Thinner

THINNABLE = [action for action in Action if action.thinnable]
COSTS = ["input_tokens", "cached_tokens", "output_tokens", "latency_ms", "cost_usd", "quota"]
GROUPED_BY = [
    "action", "name", "status", "run_id", "episode_id", "task_id", "task_type", "tier", "config_version", "channel",
    "parent_id",
]  # fmt: skip

_few = st.one_of(st.none(), st.sampled_from(["a", "密", "\ud800"]))
streams = st.lists(
    st.builds(
        event,
        action=st.sampled_from([*THINNABLE, Action.ALARM, Action.TOOL_CALLED]),
        name=_few,
        run_id=_few,
        episode_id=_few,
        task_id=_few,
        task_type=_few,
        config_version=_few,
        channel=_few,
        parent_id=_few,
        tier=st.one_of(st.none(), st.sampled_from(Tier)),
        status=st.sampled_from([None, Status.OK, Status.OK, Status.ERROR, Status.TIMEOUT]),
        cost_usd=st.sampled_from([None, None, None, 0.0, 0.5]),
        output_tokens=st.sampled_from([None, None, None, 0, 7]),
        weight=st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.0]),
        observation=_few,
    ),
    max_size=40,
)
# Streams in which many events agree in all that is counted by.
alike = st.lists(
    st.builds(
        event,
        action=st.sampled_from(THINNABLE),
        name=st.sampled_from(["a", "密"]),
        status=st.sampled_from([None, Status.OK, Status.ERROR]),
        output=st.sampled_from(["1", "2"]),
    ),
    max_size=60,
)
_base = {"action": Action.EVALUATED, "name": "a", "status": Status.OK}
_one_apart = st.one_of(
    st.just({}),
    *(st.just({column: "other"}) for column in GROUPED_BY if column not in ("action", "status", "tier")),
    st.sampled_from([{"action": Action.CANARY_OBSERVED}, {"status": None}, {"tier": Tier.STRONG}]),
)
# Streams of events that differ in one column or in none, with weights of their own.
near = st.lists(
    st.builds(
        lambda change, weight: event(**{**_base, **change, "weight": weight}), _one_apart, st.sampled_from([1, 2, 5])
    ),
    max_size=40,
)
policies = st.fixed_dictionaries({}, optional={action: st.integers(1, 7) for action in THINNABLE})


def thinned(policy, made):
    thinner = Thinner(policy)
    written = [kept for each in made for kept in thinner.add(each)]
    written += thinner.drain()
    assert thinner.drain() == []
    return written


def counts(made, column):
    total = Counter()
    for each in made:
        total[getattr(each, column)] += each.weight
    return {value: count for value, count in total.items() if count}


@given(policies, st.one_of(near, streams))
@settings(deadline=None, max_examples=200)
def test_sums_of_weights_are_the_counts_without_thinning(policy, made):
    written = thinned(policy, made)
    for column in GROUPED_BY:
        assert counts(written, column) == counts(made, column)
    assert sum(e.weight for e in written) == sum(e.weight for e in made)


@pytest.mark.parametrize("column", ["error_kind", "from_cache", "step"])
@given(st.data())
@settings(deadline=None, max_examples=30)
def test_sums_of_weights_by_the_other_short_columns_are_right_too(column, data):
    values = {"error_kind": [None, ErrorKind.OTHER], "from_cache": [None, True, False], "step": [None, 0, 1]}[column]
    made = [event(action=Action.EVALUATED, **{column: v}) for v in data.draw(st.permutations(values * 2))]
    assert counts(thinned({Action.EVALUATED: 10}, made), column) == counts(made, column)


@given(policies, streams)
@settings(deadline=None, max_examples=150)
def test_errors_costs_and_what_may_not_be_thinned_are_written_as_they_are(policy, made):
    untouchable = [
        e
        for e in made
        if not e.action.thinnable
        or e.status not in (None, Status.OK)
        or any(getattr(e, column) is not None for column in COSTS)
    ]
    kept = {e.event_id: e for e in thinned(policy, made)}
    assert [kept[e.event_id] for e in untouchable] == untouchable


@given(policies, alike)
@example({Action.EVALUATED: 3}, [event(action=Action.EVALUATED) for _ in range(7)])
@settings(deadline=None, max_examples=100)
def test_a_group_is_written_by_its_size_and_by_its_last_event(policy, made):
    written = {e.event_id: e for e in thinned(policy, made)}
    groups = {}
    for each in made:
        merged = each.status is not Status.ERROR
        groups.setdefault((each.action, each.name, each.status) if merged else each.event_id, []).append(each)
    expected = []
    for members in groups.values():
        size = policy.get(members[0].action, 1) if members[0].status is not Status.ERROR else 1
        for start in range(0, len(members), size):
            group = members[start : start + size]
            expected.append(msgspec.structs.replace(group[-1], weight=float(len(group))))
    assert sorted(written.values(), key=lambda e: e.event_id) == sorted(expected, key=lambda e: e.event_id)


@pytest.mark.parametrize("column", GROUPED_BY)
def test_events_that_differ_in_one_column_are_never_merged(column):
    changed = {"action": Action.CANARY_OBSERVED, "status": None, "tier": Tier.STRONG}.get(column, "other")
    made = [event(**_base, weight=3), event(**{**_base, column: changed}, weight=4)]
    assert thinned(dict.fromkeys(THINNABLE, 9), made) == made


@pytest.mark.parametrize("column", COSTS)
def test_each_cost_even_of_nothing_keeps_an_event_out(column):
    made = [event(action=Action.EVALUATED, **{column: 0}) for _ in range(5)]
    assert thinned({Action.EVALUATED: 5}, made) == made


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_each_status_but_ok_keeps_an_event_out(status):
    made = [event(action=Action.EVALUATED, status=status) for _ in range(5)]
    assert thinned({Action.EVALUATED: 5}, made) == made


def test_many_groups_are_written_before_they_fill_the_memory():
    thinner = Thinner({Action.EVALUATED: 100})
    made = [event(action=Action.EVALUATED, name=f"n{i}") for i in range(2500)]
    written = [kept for each in made for kept in thinner.add(each)]
    assert len(written) >= 1500
    written += thinner.drain()
    assert sorted(written, key=lambda e: e.event_id) == made


def counting_lab(folder, policy="thin = { evaluated = 4, canary_observed = 3 }"):
    return new_lab(folder, policy)


def test_the_log_counts_what_was_appended(tmp_path):
    lab = counting_lab(tmp_path / "lab")
    made = [
        event(action=action, name=name, task_id=f"t{i % 2}", ts=DAY0 + dt.timedelta(minutes=i))
        for i in range(10)
        for action in (Action.EVALUATED, Action.CANARY_OBSERVED, Action.GATE_DECIDED)
        for name in ("a", "密")
    ]
    append(lab, made)
    for seal in (False, True):
        if seal:
            lab.log.seal()
        rows = lab.log.sql(
            "select action, name, task_id, sum(weight), count(*) from events group by all order by all"
        ).fetchall()
        expected = Counter((str(e.action), e.name, e.task_id) for e in made)
        assert {row[:3]: row[3] for row in rows} == dict(expected)
        assert {row[0]: row[4] for row in rows} == {"evaluated": 2, "canary_observed": 2, "gate_decided": 5}
    assert lab.log.sql("select sum(events) from events_per_task").fetchall() == [(60.0,)]


def test_flush_and_close_write_what_is_held_back(tmp_path):
    lab = counting_lab(tmp_path / "lab")
    query = "select count(*), sum(weight) from events"
    with lab.log.writer(durability_ms=60_000) as writer:
        for _ in range(2):
            writer.append(event(action=Action.EVALUATED))
        assert lab.log.sql(query).fetchall() == [(0, None)]
        writer.flush()
        assert lab.log.sql(query).fetchall() == [(1, 2.0)]
        for _ in range(4):
            writer.append(event(action=Action.EVALUATED))
        writer.flush()
        assert lab.log.sql(query).fetchall() == [(2, 6.0)]
        writer.append(event(action=Action.EVALUATED, name="密"))
    assert lab.log.sql(query).fetchall() == [(3, 7.0)]
    assert lab.log.sql("select name, weight from events order by event_id").fetchall() == [
        (None, 2.0),
        (None, 4.0),
        ("密", 1.0),
    ]


def test_what_is_held_back_survives_a_flush_that_fails(tmp_path, monkeypatch):
    lab = counting_lab(tmp_path / "lab", "spill_over = 1024\nthin = { evaluated = 4 }")
    with lab.log.writer() as writer:
        for _ in range(2):
            writer.append(event(action=Action.EVALUATED, output='"' + "x" * 3000 + '"'))

        def full_disk(folder, text):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(spill, "store", full_disk)
            with pytest.raises(WriteError, match="full"):
                writer.flush()
    assert lab.log.sql("select sum(weight) from events").fetchall() == [(2.0,)]


def test_without_a_policy_nothing_is_merged(tmp_path):
    lab = counting_lab(tmp_path / "lab", policy="durability_ms = 0")
    made = append(lab, [event(action=action) for action in THINNABLE for _ in range(5)])
    assert list(lab.log.events()) == made


BAD_POLICIES = [
    {"alarm": 2},
    {"tool_called": 2},
    {"nope": 2},
    {"": 2},
    {"EVALUATED": 2},
    {"evaluated": 0},
    {"canary_observed": -1},
    {"evaluated": 5, "graded": 5},
]


@pytest.mark.parametrize("policy", BAD_POLICIES, ids=str)
def test_a_bad_policy_is_refused_by_name(policy):
    with pytest.raises((ConfigError, ValueError), match=r"log\.thin"):
        thin.check_policy(policy)


@pytest.mark.parametrize(
    "policy", [*BAD_POLICIES, {"evaluated": 1.5}, {"evaluated": "3"}, {"evaluated": True}], ids=str
)
def test_a_lab_with_a_bad_policy_is_refused(tmp_path, policy):
    new_lab(tmp_path / "lab")
    table = ", ".join(f'"{k}" = {str(v).lower() if not isinstance(v, str) else repr(v)}' for k, v in policy.items())
    (tmp_path / "lab" / "lab.toml").write_text(f"format = 1\n[log]\nthin = {{ {table} }}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"thin"):
        open_lab(tmp_path / "lab").log.writer()


def test_a_good_policy_is_taken():
    assert thin.check_policy({"evaluated": 1, "canary_observed": 50}) == {
        Action.EVALUATED: 1,
        Action.CANARY_OBSERVED: 50,
    }
    assert thin.check_policy({}) == {}


def test_at_durability_0_nothing_is_held_back(tmp_path):
    lab = counting_lab(tmp_path / "lab")
    with lab.log.writer(durability_ms=0) as writer:
        writer.append(event(action=Action.EVALUATED))
        assert lab.log.sql("select count(*), sum(weight) from events").fetchall() == [(1, 1.0)]
