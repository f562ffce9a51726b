"""Replay under the own configuration: all of it reproduced, and whatever is not is named."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_lab import DeskModel, Sometimes, desk_lab, refuse_models, rows, use_model
from toy_suite import Obedient, ToySuite, task

import hermes_lab
from hermes_lab import checks, context, policy, runs
from hermes_lab.config import AgentConfig, changed
from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.log.writer import new_id
from hermes_lab.replay import replay
from hermes_lab.replay.changes import MismatchKind, Verdict
from hermes_lab.tools.base import Level, Result, Spec

SAMPLE = Path(__file__).parent.parent / "data" / "sample"


def run_toy(lab: hermes_lab.Lab, tasks: list[Any], suite: Any = None, config: AgentConfig | None = None) -> runs.Run:
    return runs.plan(lab, suite or ToySuite(), config or AgentConfig(), tasks=tasks).go(approver=Sometimes())


@pytest.fixture
def toy(lab: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> hermes_lab.Lab:
    """A lab whose model does what prompts say."""
    use_model(monkeypatch, Obedient())
    return lab


# -- all of it is reproduced ------------------------------------------------------------------------------------------


def test_the_sample_of_before_is_reproduced() -> None:
    made = replay(hermes_lab.open(SAMPLE), record=False)
    assert (made.reproduced, len(made.episodes), made.mismatches) == (16, 16, ())
    assert made.effects == 203
    assert all("not recorded" in " ".join(one.remarks) for one in made.episodes)


def test_a_desk_run_is_reproduced_and_no_model_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = desk_lab(tmp_path / "lab", monkeypatch, limit=150)
    lab.run("desk", limit=60, seed=7, config=changed(AgentConfig(), **{"reflection.mode": "always"}))
    kinds = {
        (action, status) for action, status in rows(lab, "select distinct action, coalesce(status, '') from events")
    }
    wanted = {
        ("permission_decided", "ok"),
        ("permission_decided", "denied"),
        ("reflection", "ok"),
        ("escalated", "ok"),
        ("compressed", ""),
        ("generation", "error"),
        ("tool_checked", "invalid"),
        ("tool_called", "error"),
        ("retrieval", "ok"),
    }
    assert wanted <= kinds
    refuse_models(monkeypatch)
    made = replay(lab)
    assert made.mismatches == ()
    assert (made.reproduced, len(made.episodes), made.not_replayed, made.model_calls) == (210, 210, (), 0)
    assert {remark for one in made.episodes for remark in one.remarks} == set()
    effects = "select count(*) from events where request_hash is not null and action <> 'permission_decided'"
    notes = """
        select count(*) from events where action in ('task_started', 'routed', 'context_assembled', 'compressed',
        'tool_checked', 'reflection', 'escalated', 'task_recorded', 'task_ended')"""
    assert made.effects == rows(lab, effects)[0][0] + rows(lab, notes)[0][0]
    ends = dict(rows(lab, "select episode_id, name from events where action = 'task_ended'"))
    assert {one.episode_id: one.end_now for one in made.episodes} == ends


def test_policy_memory_is_as_of_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = changed(AgentConfig(), **{"routing.policy_weight": 0.9})
    lab = hermes_lab.open(tmp_path)
    use_model(monkeypatch, DeskModel())
    second = [lab.run("desk", limit=30, config=heavy, seed=seed).run_id for seed in range(3)][1]
    recorded = rows(lab, "select distinct input->>'$.run.policy' from events where action = 'task_started'")
    assert len(recorded) == 3
    assert policy.digest(policy.fold(lab.log, dt.datetime.now(dt.UTC))) not in {one for (one,) in recorded}
    made = replay(lab, run=second)
    assert (made.reproduced, len(made.episodes)) == (30, 30)
    assert made.episodes[0].remarks == ()


def test_what_an_import_brought_counts_from_its_end(lab: hermes_lab.Lab) -> None:
    old = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    first, killed, last = (f"import-{new_id()}" for _ in range(3))
    with lab.log.writer(durability_ms=0) as writer:

        def bring(run: str, tool: str) -> None:
            columns = {"episode_id": "聊天", "run_id": run, "ts": old, "task_type": "t", "input": {}, "output": 1}
            writer.record(hermes_lab.Action.TOOL_CALLED, name=tool, status=Status.OK, **columns)

        bring(first, "a")
        before = dt.datetime.now(dt.UTC)
        writer.record(hermes_lab.Action.IMPORTED, name="x", run_id=first)
        between = dt.datetime.now(dt.UTC)
        bring(killed, "b")
        bring(last, "c")
        middle = dt.datetime.now(dt.UTC)
        writer.record(hermes_lab.Action.IMPORTED, name="x", run_id=last)
    after = dt.datetime.now(dt.UTC)

    def tools(now: dt.datetime) -> set[str]:
        return {tool for _, tool in policy.fold(lab.log, now).stats}

    assert tools(before) == set()
    assert tools(between) == tools(middle) == {"a"}
    assert tools(after) == {"a", "b", "c"}


def test_stopped_killed_and_resumed_runs_are_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = hermes_lab.open(tmp_path)

    class Stopping(DeskModel):
        def generate(self, requests: Any, *, seconds: Any = None) -> Any:
            if self.asked > 40:
                raise self.how
            return super().generate(requests, seconds=seconds)

    for how in (KeyboardInterrupt(), SystemExit(1)):
        model = use_model(monkeypatch, Stopping())
        model.how = how
        plan = lab.plan("desk", limit=20)
        with pytest.raises(type(how)):
            plan.go()
        use_model(monkeypatch, DeskModel())
        lab.run("desk", limit=20, resume=plan.run_id)
    ends = dict(rows(lab, "select coalesce(status, ''), count(*) from events where action = 'task_ended' group by 1"))
    assert ends["cancelled"] >= 20
    made = replay(lab)
    assert made.mismatches == ()
    assert made.reproduced == len(made.episodes) >= 60
    assert sum(one.end_now is None for one in made.episodes) == ends["cancelled"]


def test_a_log_that_just_ends_is_reproduced_as_far_as_it_goes(toy: hermes_lab.Lab, tmp_path: Path) -> None:
    run_toy(toy, [task("t", [("raise_counter", {"by": 1}), ("reset_counter", {})])])
    events = list(toy.log.events())
    for length in range(2, len(events)):
        cut = hermes_lab.open(tmp_path / f"cut {length}")
        runs.save_config(cut.path, AgentConfig())
        with cut.log.writer() as writer:
            for event in events[:length]:
                writer.append(event)
        made = replay(cut, suites={"toy": ToySuite()}, record=False)
        assert (made.reproduced, made.mismatches) == (1, ()), length
        has_end = any(event.action == "task_ended" for event in events[:length])
        assert made.cut_off == (0 if has_end else 1)
        assert ("have no end in the log" in str(made)) != has_end


def test_a_conversation_is_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = hermes_lab.open(tmp_path)
    use_model(monkeypatch, DeskModel())
    with lab.converse() as talk:
        for text in ("Where is SO-1206?", "谢谢，再查一下RT-303", "and \ud800 that?", "close TK-120", "ok"):
            talk.ask(text)
        assert len(talk.exchanges) > 3
    made = replay(lab)
    assert (made.reproduced, len(made.episodes), made.not_replayed) == (5, 5, ())


class Odd:
    """A tool that gives whatever it was made with, without the care that our own tools take of it."""

    def __init__(self, output: Any, **fields: Any) -> None:
        self.spec = Spec("odd", "给 anything odd.", {"type": "object", "properties": {"n": {"type": "integer"}}})
        self._results = [Result(output, **fields)]

    def run(self, environment: Any, arguments: dict[str, Any], *, seconds: float | None = None) -> Result:
        return self._results[0]


class OddSuite(ToySuite):
    name = "odd"

    def __init__(self, tool: Odd) -> None:
        super().__init__()
        self._odd = tool

    def toolbox(self) -> dict[str, Any]:
        return {"odd": self._odd}


ODD = [
    {"nan": float("nan"), "inf": [float("-inf")], "text": "正常"},
    "\ud800 lone \udfff and \U0010ffff",
    ["long 长"] * 20_000,
    {"$float": "a genuine one", "$spill": "x"},
    ((1, 2.5), (2**70, -0.0)),
    {"api_key": "sk-" + "a1B2" * 8, "note": "password=hunter22 here"},
    None,
    "",
]


@pytest.mark.parametrize("output", ODD, ids=range(len(ODD)))
def test_odd_results_are_reproduced(toy: hermes_lab.Lab, output: Any) -> None:
    suite = OddSuite(Odd(output, latency_ms=0.1))
    calls = [("odd", {}), ("odd", {"n": 1}), ("odd", {})]
    run_toy(toy, [task("奇", calls, tools=("odd",))], suite)
    made = replay(toy, suites={"odd": suite})
    assert (made.reproduced, made.mismatches, made.not_replayed) == (1, (), ())


@pytest.mark.parametrize("kind", [None, ErrorKind.TOOL_FAILED, ErrorKind.TIMEOUT, ErrorKind.RATE_LIMITED])
@pytest.mark.parametrize("transient", [True, False])
def test_what_passes_by_itself_is_known(toy: hermes_lab.Lab, kind: ErrorKind | None, transient: bool) -> None:
    failed = Odd({"error": "坏了"}, status=Status.ERROR, error_kind=kind, transient=transient)
    calls = [("odd", {}), ("odd", {}), ("odd", {"n": 1}), ("odd", {})]
    run_toy(toy, [task("t", calls, tools=("odd",))], OddSuite(failed))
    refused = rows(toy, "select count(*) from events where error_kind = 'repeated_call'")[0][0]
    assert (refused == 0) is transient
    made = replay(toy, suites={"odd": OddSuite(failed)})
    assert (made.reproduced, made.mismatches) == (1, ())
    # A log of before says nothing of it, and replay finds it out.
    older = hermes_lab.open(toy.path.parent / "older")
    runs.save_config(older.path, AgentConfig())
    with older.log.writer() as writer:
        for event in toy.log.events():
            if event.action == "task_started":
                told = json.loads(event.input or "")
                told["run"] = {"suite": "odd", "models": {}}
                event = msgspec.structs.replace(event, input=json.dumps(told))
            if event.output is None or '"transient"' not in event.output:
                writer.append(event)
    made = replay(older, suites={"odd": OddSuite(failed)}, record=False)
    assert (made.reproduced, made.mismatches) == (1, ())


TOYS = ["read_counter", "raise_counter", "reset_counter", "broken", "没有这个", "final_answer"]
ARGUMENTS = st.dictionaries(
    st.sampled_from(["by", "why", "钥匙", "x"]),
    st.none()
    | st.integers(-3, 3)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.integers(), max_size=2),
    max_size=2,
)


@given(st.lists(st.lists(st.tuples(st.sampled_from(TOYS), ARGUMENTS), max_size=6), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_run_is_reproduced(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, scripts: list[Any]
) -> None:
    lab = hermes_lab.open(tmp_path_factory.mktemp("lab"))
    use_model(monkeypatch, Obedient())
    done = run_toy(lab, [task(f"t{n}", calls) for n, calls in enumerate(scripts)])
    made = replay(lab, suites={"toy": ToySuite()}, record=False)
    assert made.mismatches == ()
    ends = {one.episode_id: str(one.ending.end) for one in done.outcomes if one.ending}
    assert {one.episode_id: one.end_now for one in made.episodes} == ends


# -- what is not the same is named ------------------------------------------------------------------------------------


@pytest.fixture
def counted(toy: hermes_lab.Lab) -> hermes_lab.Lab:
    """A lab with two episodes."""
    calls = [("read_counter", {}), ("raise_counter", {"by": 2}), ("broken", {"why": "试"})]
    run_toy(toy, [task("一", calls), task("two", calls[1:])])
    return toy


def again(lab: hermes_lab.Lab, suite: Any = None) -> Any:
    return replay(lab, suites={"toy": suite or ToySuite()}, record=False)


def test_a_loop_that_is_not_deterministic_is_caught(counted: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert again(counted).reproduced == 2
    plain, turns = context.assemble, iter(range(1000))

    def assemble(config: Any, *args: Any, **more: Any) -> Any:
        role = f"{config.system['role']} {next(turns)}"
        return plain(msgspec.structs.replace(config, system={"role": role}), *args, **more)

    monkeypatch.setattr(context, "assemble", assemble)
    made = again(counted)
    assert made.reproduced == 0
    found = [one for one in made.mismatches if one.kind is MismatchKind.PROMPT]
    assert (
        len(found)
        == rows(counted, "select count(*) from events where action = 'generation' and input->>'$.purpose' = 'plan'")[0][
            0
        ]
    )
    assert found[0].field == "messages[0].content"
    assert found[0].got.endswith("0")
    assert found[0].step == 4
    assert "messages[0].content" in str(made)


def test_a_decision_that_is_not_deterministic_is_caught(
    counted: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "repeated", lambda *_: checks.Problem(ErrorKind.REPEATED_CALL, "随机"))
    made = again(counted)
    assert {one.kind for one in made.mismatches} == {MismatchKind.OTHER_EFFECT}
    assert "tool_called read_counter" in made.mismatches[0].expected
    assert "tool_checked" in made.mismatches[0].got


def test_a_note_that_differs_is_caught(counted: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_lab.episode_state import State

    plain = State.record
    monkeypatch.setattr(State, "record", lambda *args: {**plain(*args), "end": "别的"})
    made = again(counted)
    assert [(one.kind, one.field) for one in made.mismatches] == [(MismatchKind.NOTE, "task_recorded.output.end")] * 2
    assert (made.mismatches[0].expected, made.mismatches[0].got) == ("completed", "别的")


class Changed(ToySuite):
    """The toy suite with a tool whose spec is another."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self._fields = fields

    def toolbox(self) -> dict[str, Any]:
        tools = super().toolbox()

        class Other:
            spec = dataclasses.replace(tools["raise_counter"].spec, **self._fields)
            run = tools["raise_counter"].run

        return {**tools, "raise_counter": Other()}


def test_a_changed_spec_is_named(counted: hermes_lab.Lab) -> None:
    made = again(counted, Changed(description="别的 text"))
    first = made.mismatches[0]
    assert made.reproduced == 0
    prompt = next(one for one in made.mismatches if one.kind is MismatchKind.PROMPT)
    assert prompt.field.endswith(".description")
    assert prompt.got == "别的 text"
    assert "the tools of the suite toy have changed since" in first.because
    made = again(counted, Changed(level=Level.HIGH_RISK))
    found = made.mismatches[0]
    assert (found.kind, found.expected) == (MismatchKind.OTHER_EFFECT, "tool_called raise_counter")
    assert found.got.startswith("permission for raise_counter")
    made = again(counted, Changed(action=hermes_lab.Action.RETRIEVAL))
    assert {(one.kind, one.field) for one in made.mismatches} == {(MismatchKind.CALL, "action")}


def test_a_crash_is_reproduced_or_named(toy: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def fails(past: Any) -> bool:
            raise ValueError("坏 loop")

        patched.setattr(checks, "diverged", fails)
        run_toy(toy, [task("t", [("read_counter", {})])])
        assert rows(toy, "select error_kind from events where action = 'task_ended'") == [("crashed",)]
        assert again(toy).reproduced == 1
    found = again(toy).mismatches
    assert [one.kind for one in found] == [MismatchKind.CRASH]
    assert "坏 loop" in found[0].expected


def test_a_loop_that_fails_only_now_is_named(counted: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(past: Any) -> bool:
        raise ValueError("新 fault")

    monkeypatch.setattr(checks, "diverged", fails)
    made = again(counted)
    assert [one.kind for one in made.mismatches] == [MismatchKind.CRASH] * 2
    assert "新 fault" in made.mismatches[0].got


def test_a_changed_record_is_caught(counted: hermes_lab.Lab, tmp_path: Path) -> None:
    """Whatever one changes of an outcome in the log shows."""
    events = list(counted.log.events())
    tried = 0
    for place, event in enumerate(events):
        if event.request_hash is None or event.action != "tool_called":
            continue
        other = hermes_lab.open(tmp_path / f"changed {place}")
        runs.save_config(other.path, AgentConfig())
        with other.log.writer() as writer:
            for number, one in enumerate(events):
                writer.append(msgspec.structs.replace(one, output='{"value":"改"}') if number == place else one)
        tried += 1
        made = replay(other, suites={"toy": ToySuite()}, record=False)
        assert made.reproduced == 1, event
        assert made.mismatches
    assert tried >= 4


def test_secrets_that_change_a_length_are_told(toy: hermes_lab.Lab) -> None:
    """The loop saw the secret and the log must not hold it: what was cut to a length may differ, and is told."""
    secret = {"password": "correct-horse-battery-staple", "rest": "长" * 1600}
    suite = OddSuite(Odd(secret))
    run_toy(toy, [task("t", [("odd", {})], tools=("odd",))], suite)
    made = replay(toy, suites={"odd": suite}, record=False)
    assert made.reproduced == 0
    assert {(one.kind, one.field) for one in made.mismatches} == {(MismatchKind.PROMPT, "messages[3].content")}
    assert all("secrets were taken out" in one.because for one in made.mismatches)


# -- what cannot be replayed is listed --------------------------------------------------------------------------------


def test_what_cannot_be_replayed_is_listed_with_the_reason(counted: hermes_lab.Lab) -> None:
    reasons = replay(counted, record=False).not_replayed
    assert len(reasons) == 2
    assert "its suite cannot be opened: there is no suite 'toy'" in reasons[0].reason
    run_toy(counted, [task("broken", [], environment={"broken": True})])
    made = again(counted)
    assert [one.reason[:45] for one in made.not_replayed] == ["the log has no task_started of it: the enviro"]
    for file in (counted.path / "configs").iterdir():
        file.unlink()
    made = again(counted)
    assert "does not keep the configuration c-" in made.not_replayed[0].reason
    assert made.episodes == ()
    assert (
        replay(counted, episodes=["没有"], record=False).not_replayed[0].reason == "there is no such episode in the log"
    )


def test_a_configuration_that_was_edited_is_no_ground(counted: hermes_lab.Lab) -> None:
    (file,) = (counted.path / "configs").iterdir()
    file.write_bytes(msgspec.json.encode(changed(AgentConfig(), **{"budgets.steps": 3})))
    assert "was edited" in again(counted).not_replayed[0].reason


def test_bad_input_is_refused(counted: hermes_lab.Lab) -> None:
    with pytest.raises(MissingError, match="no episode"):
        replay(counted, run="没有")
    with pytest.raises(ConfigError, match="always recorded"):
        replay(counted, after="live", record=False)
    with pytest.raises(ConfigError, match="there are stop, cached and live"):
        replay(counted, after="maybe")  # type: ignore[arg-type]
    with pytest.raises(hermes_lab.errors.QueryError):
        replay(counted, where="no_such_column = 1")


# -- what is recorded of it -------------------------------------------------------------------------------------------


def test_a_replay_is_recorded_and_belongs_to_no_episode(counted: hermes_lab.Lab) -> None:
    before = policy.digest(policy.fold(counted.log, dt.datetime.now(dt.UTC)))
    made = replay(counted, suites={"toy": Changed(description="x")})
    found = rows(
        counted,
        "select episode_id, task_id, status, output->>'$.episode_id' from events "
        "where action = 'candidate_replayed' and run_id = ? order by event_id",
        [made.replay_id],
    )
    assert [row[:2] for row in found] == [(None, None)] * 3
    assert [row[3] for row in found] == [one.episode_id for one in made.episodes] + [None]
    assert found[-1][2] == "error"
    assert policy.digest(policy.fold(counted.log, dt.datetime.now(dt.UTC))) == before
    assert again(counted).reproduced == 2


def test_the_result_shows_itself(counted: hermes_lab.Lab) -> None:
    made = again(counted)
    assert "2 of 2 episodes reproduced" in str(made)
    frame = made.to_frame()
    assert list(frame["verdict"]) == [str(Verdict.KEPT)] * 2
    assert list(made.by_type()["episodes"]) == [2, 2]
    assert "<table" in made._repr_html_()
    assert json.loads(json.dumps(made.to_dict()))["reproduced"] == 2
    assert len(made.worth_a_look()) == 0


def test_a_payload_that_is_lost_is_the_reason(toy: hermes_lab.Lab) -> None:
    suite = OddSuite(Odd(ODD[2], latency_ms=0.1))
    run_toy(toy, [task("奇", [("odd", {})], tools=("odd",))], suite)
    spilled = [file for file in (toy.path / "events").rglob("*.gz")]
    assert spilled
    for file in spilled:
        file.unlink()
    (one,) = replay(toy, suites={"odd": suite}, record=False).not_replayed
    assert "is lost: `hermes-lab log verify` names it" in one.reason


def test_a_log_is_read_some_episodes_at_a_time(counted: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_lab.replay import recording

    run_toy(counted, [task(f"t{n}", [("read_counter", {})]) for n in range(7)])
    ids = recording.select_episodes(counted.log)
    assert len(ids) == 9
    monkeypatch.setattr(recording, "_AT_ONCE", 2)
    asked: list[int] = []
    plain = recording._rows
    monkeypatch.setattr(recording, "_rows", lambda log, some: asked.append(len(some)) or plain(log, some))
    stream = recording.recordings(counted.log, ids)
    first = [next(stream), next(stream)]
    assert asked == [2]
    assert [one.episode_id for one in (*first, *stream)] == ids
    assert asked == [2, 2, 2, 2, 1]
    assert again(counted).reproduced == 9
