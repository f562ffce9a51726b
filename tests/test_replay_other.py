"""Replay under another configuration: the first decision that changes is found and classed, as brute force finds it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from replay_lab import DeskModel, Sometimes, desk_lab, refuse_models, rows, use_model
from toy_suite import Obedient, ToySuite, task

import hermes_lab
from hermes_lab import permissions, policy, routing, runs
from hermes_lab.checks import Past
from hermes_lab.config import AgentConfig, changed
from hermes_lab.effects import Decision
from hermes_lab.episode_state import State
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.models.hermes import parse
from hermes_lab.permissions import PermissionRule
from hermes_lab.recorder import passes
from hermes_lab.replay import replay
from hermes_lab.replay.changes import ChangeKind, Verdict
from hermes_lab.replay.recording import Recording, recordings, select_episodes
from hermes_lab.suites import desk
from hermes_lab.tools.base import Level, Spec

STARTED = "action = 'task_started'"


def with_settings(**values: Any) -> AgentConfig:
    return changed(AgentConfig(), **{name.replace("__", "."): value for name, value in values.items()})


@pytest.fixture(scope="module")
def desk_run(tmp_path_factory: pytest.TempPathFactory) -> hermes_lab.Lab:
    """A lab with 120 episodes of `desk`; no model can be opened afterwards."""
    with pytest.MonkeyPatch.context() as patched:
        return desk_lab(tmp_path_factory.mktemp("desk"), patched, limit=120)


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_models(monkeypatch)


# -- routing, against brute force -------------------------------------------------------------------------------------


class Brute:
    """Routes each turn of a recorded episode again with `routing.route` alone, without the loop."""

    def __init__(self, recording: Recording, specs: dict[str, Spec], memory: routing.PolicyMemory) -> None:
        assert recording.task is not None
        self._recording = recording
        self._tools = [specs[name] for name in recording.task.tools]
        self._memory = memory

    def lost(self, settings: Any) -> int | None:
        """Return the step of the first question whose answer calls a tool that would no longer be offered."""
        state, resting = State(AgentConfig().budgets), ""
        task = self._recording.task
        assert task is not None
        for entry in self._recording.entries:
            row = entry.row
            if entry.kind == "ask" and row.purpose == "plan":
                offered = {one["name"] for one in row.given()["tools"]}
                if offered != {"final_answer"}:
                    tools = [spec for spec in self._tools if spec.name != resting]
                    candidates = routing.route(
                        task.prompt, task.type, tools, settings, self._memory, state.missed(), state.last_hit()
                    ).candidates
                    called = [call.name for call in parse(entry.reply().text).calls]
                    if any(name in offered - {"final_answer"} and name not in candidates for name in called):
                        return entry.step
                    resting = ""
            elif entry.kind == "act":
                kind = None if row.error_kind is None else ErrorKind(row.error_kind)
                status = Status(row.status or "ok")
                state.past.append(Past(row.name or "", row.given(), status, kind, transient=passes(kind)))
            elif row.action == Action.TOOL_CHECKED:
                status = Status(row.status or "ok")
                state.past.append(Past(row.name or "", row.given() or {}, status, ran=False))
                if row.error_kind == ErrorKind.REPEATED_CALL:
                    same = [
                        one for one in state.past if one.ran and one.tool == row.name and one.arguments == row.given()
                    ]
                    if same[-1].status is not Status.OK:
                        resting = row.name or ""
        return None


@pytest.mark.parametrize("shortlist", [1, 2])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_episodes_whose_shortlist_lost_the_tool_are_exactly_those(
    desk_run: hermes_lab.Lab, no_models: None, shortlist: int, weight: float
) -> None:
    config = with_settings(routing__shortlist=shortlist, routing__policy_weight=weight)
    specs = {name: tool.spec for name, tool in desk.suite().toolbox().items()}
    expected = {}
    for recording in recordings(desk_run.log, select_episodes(desk_run.log, STARTED)):
        as_of = recording.about.policy_as_of
        assert as_of is not None
        lost = Brute(recording, specs, policy.fold(desk_run.log, as_of)).lost(config.routing)
        if lost is not None:
            expected[recording.episode_id] = lost
    made = replay(desk_run, where=STARTED, config=config, record=False)
    found = {one.episode_id: one.change.step for one in made.changed(ChangeKind.LOST_TOOL) if one.change}
    assert found == expected
    assert 10 < len(found) < 120
    assert {one.change.kind for one in made.changed() if one.change} == {ChangeKind.LOST_TOOL}
    assert (len(made.episodes), made.model_calls) == (120, 0)


def test_a_wider_shortlist_loses_nothing_and_is_told_from_a_decision(desk_run: hermes_lab.Lab, no_models: None) -> None:
    made = replay(desk_run, where=STARTED, config=with_settings(routing__shortlist="all"), record=False)
    assert made.changed() == []
    assert {one.verdict for one in made.episodes} == {Verdict.UNKNOWN}
    assert {one.context.kind for one in made.episodes if one.context} == {ChangeKind.OTHER_ROUTE}
    assert {one.assumed for one in made.episodes} == {Verdict.KEPT}
    assert all(one.tokens_delta is None and one.tokens_estimate > 0 for one in made.episodes if one.tokens_then)
    total = made.by_type().iloc[-1]
    assert (total["unknown"], total["assumed_kept"], total["decisions_kept"]) == (120, 120, 0)
    assert total["decisions_unknown"] == total["decisions_assumed_kept"] == total["decisions"]


# -- other settings ---------------------------------------------------------------------------------------------------


def test_a_setting_that_changes_nothing_keeps_all_for_certain(desk_run: hermes_lab.Lab, no_models: None) -> None:
    made = replay(desk_run, where=STARTED, config=with_settings(budgets__tokens=59_999), record=False)
    assert {(one.verdict, one.basis, one.context, one.change) for one in made.episodes} == {
        (Verdict.KEPT, "log", None, None)
    }
    assert {one.tokens_delta for one in made.episodes} == {0}
    assert {one.usd_delta for one in made.episodes} == {0.0}


def test_another_prompt_is_unknown_and_no_change_of_a_decision(desk_run: hermes_lab.Lab, no_models: None) -> None:
    config = with_settings(system={"role": "你是客服 be brief."})
    made = replay(desk_run, where=STARTED, config=config, record=False)
    assert {(one.verdict, one.assumed) for one in made.episodes} == {(Verdict.UNKNOWN, Verdict.KEPT)}
    assert {(one.context.kind, one.context.field) for one in made.episodes if one.context} == {
        (ChangeKind.OTHER_CONTEXT, "messages[0].content")
    }


def test_fewer_steps_end_earlier_for_certain(desk_run: hermes_lab.Lab, no_models: None) -> None:
    made = replay(desk_run, where=STARTED, config=with_settings(budgets__steps=2), record=False)
    turns = dict(
        rows(
            desk_run,
            "select episode_id, count(*) from events where input->>'$.purpose' = 'plan' "
            "and action = 'generation' and request_hash is not null group by 1",
        )
    )
    assert {one.episode_id for one in made.changed()} == {one for one, count in turns.items() if count > 2}
    assert {(one.verdict, one.change.kind) for one in made.changed() if one.change} == {
        (Verdict.CHANGED, ChangeKind.ENDED_EARLIER)
    }
    assert all(one.end_now == "budget" and (one.tokens_delta or 0) < 0 for one in made.changed())
    assert made.worth_a_look(3)["why"].tolist()[0] in ("a success that may be lost", "a failure that changes")


def test_more_steps_end_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = desk_lab(tmp_path, monkeypatch, limit=40, config=with_settings(budgets__steps=2))
    made = replay(lab, config=AgentConfig(), record=False)
    cut = {one for (one,) in rows(lab, "select episode_id from events where action = 'task_ended' and name = 'budget'")}
    assert {one.episode_id for one in made.changed(ChangeKind.ENDED_LATER)} == cut
    assert len(cut) > 5
    assert len(made.changed()) == len(cut)


def test_reflection_switched_off_is_no_decision_but_its_consequences_are(
    desk_run: hermes_lab.Lab, no_models: None
) -> None:
    made = replay(desk_run, where=STARTED, config=with_settings(reflection__mode="off"), record=False)
    query = "select distinct episode_id from events where action = 'generation' and input->>'$.purpose' = 'reflect'"
    reflected = {one for (one,) in rows(desk_run, query)}
    seen = {one.episode_id for one in made.episodes if one.context or one.change}
    assert seen - reflected == set() or all(
        one.change is not None and one.change.kind in (ChangeKind.ENDED_EARLIER, ChangeKind.OTHER_END)
        for one in made.episodes
        if one.episode_id in seen - reflected
    )
    assert len(reflected & seen) > 20
    kept = [one for one in made.episodes if one.verdict is Verdict.KEPT and one.context is not None]
    assert all(one.tokens_delta is not None and one.tokens_delta <= 0 for one in kept)


def test_another_rule_is_found_exactly(desk_run: hermes_lab.Lab, no_models: None) -> None:
    rule = PermissionRule(decision="deny", name="no-tickets", tool="*ticket*", reason="不行")
    ask = PermissionRule(decision="ask", name="ask", tool="get_*", argument="order_id")
    specs = {name: tool.spec for name, tool in desk.suite().toolbox().items()}
    expected = set()
    calls = "select episode_id, name, input, task_type from events where action in ('tool_called', 'retrieval')"
    for episode, name, text, task_type in rows(desk_run, calls):
        arguments = hermes_lab.payload.loads(text)
        if permissions.decide([rule, ask], specs[name], arguments, task_type).by in ("no-tickets", "ask"):
            expected.add(episode)
    made = replay(desk_run, where=STARTED, rules=[rule, ask], record=False)
    found = {one.episode_id for one in made.changed(ChangeKind.OTHER_PERMISSION)}
    assert found == expected != set()
    assert {one.verdict for one in made.changed(ChangeKind.OTHER_PERMISSION)} == {Verdict.CHANGED}
    assert "their own configurations and other rules" in str(made)


# -- each class of change, on the toy suite ---------------------------------------------------------------------------


@pytest.fixture
def toy(lab: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> hermes_lab.Lab:
    use_model(monkeypatch, Obedient())
    return lab


def run_toy(lab: hermes_lab.Lab, calls: list[Any], config: AgentConfig | None = None, **more: Any) -> None:
    everything = changed(config or AgentConfig(), **{"routing.shortlist": "all"})
    runs.plan(lab, ToySuite(), everything, tasks=[task("一", calls, **more)]).go(approver=Yes())


class Yes(Sometimes):
    def decide(self, permit: Any, *, deadline_s: float) -> Decision:
        return Decision(allowed=True, by="小王")


def changed_to(lab: hermes_lab.Lab, suite: Any = None, rules: Any = None, **settings: Any) -> Any:
    config = changed(AgentConfig(), **{"routing.shortlist": "all", **settings})
    (one,) = replay(lab, config=config, rules=rules, suites={"toy": suite or ToySuite()}, record=False).episodes
    return one


def test_other_arguments_by_a_default(toy: hermes_lab.Lab) -> None:
    run_toy(toy, [("raise_counter", {"by": 1}), ("broken", {})])
    one = changed_to(toy, tools={"broken": {"defaults": {"why": "默认"}}})
    assert (one.verdict, one.change.kind, one.change.field) == (Verdict.CHANGED, ChangeKind.OTHER_ARGUMENTS, "why")
    assert (one.decisions, one.kept, one.changed, one.unknown) == (3, 1, 1, 1)
    assert "默认" in one.change.new


def test_a_check_that_blocks_and_one_that_no_longer_does(toy: hermes_lab.Lab) -> None:
    class Stricter(ToySuite):
        def toolbox(self) -> dict[str, Any]:
            tools = super().toolbox()

            class Other:
                spec = dataclasses.replace(
                    tools["raise_counter"].spec, precheck=lambda arguments: "太大" if arguments["by"] > 2 else None
                )
                run = tools["raise_counter"].run

            return {**tools, "raise_counter": Other()}

    run_toy(toy, [("raise_counter", {"by": 1}), ("raise_counter", {"by": 5})])
    one = changed_to(toy, Stricter())
    assert (one.verdict, one.change.kind, one.kept) == (Verdict.CHANGED, ChangeKind.BLOCKED_BY_CHECK, 1)
    assert "precheck_failed" in one.change.new
    again = hermes_lab.open(toy.path.parent / "again")
    everything = changed(AgentConfig(), **{"routing.shortlist": "all"})
    runs.plan(again, Stricter(), everything, tasks=[task("一", [("raise_counter", {"by": 5})])]).go()
    assert changed_to(again).change.kind is ChangeKind.PASSED_CHECK


def test_a_permission_that_is_no_longer_asked_for(toy: hermes_lab.Lab) -> None:
    class Milder(ToySuite):
        def toolbox(self) -> dict[str, Any]:
            tools = super().toolbox()

            class Other:
                spec = dataclasses.replace(tools["reset_counter"].spec, level=Level.READ_ONLY)
                run = tools["reset_counter"].run

            return {**tools, "reset_counter": Other()}

    run_toy(toy, [("reset_counter", {}), ("read_counter", {})])
    one = changed_to(toy, Milder())
    assert (one.change.kind, one.change.step) == (ChangeKind.OTHER_PERMISSION, 5)
    assert one.change.old.startswith("asked for permission")
    denied = changed_to(toy, rules=[PermissionRule(decision="deny", tool="reset_*")])
    assert (denied.change.kind, denied.change.new.split()[0]) == (ChangeKind.OTHER_PERMISSION, "denied")


def test_a_tool_that_is_lost_after_an_assumed_answer_is_assumed(toy: hermes_lab.Lab) -> None:
    run_toy(toy, [("read_counter", {}), ("raise_counter", {"by": 1})])
    first = changed_to(toy, **{"routing.shortlist": 1, "routing.order": "ranked"})
    assert first.change.kind is ChangeKind.LOST_TOOL
    assert first.change.assumed == (first.verdict is Verdict.UNKNOWN)
    system = changed_to(toy, system={"role": "别的"}, **{"budgets.steps": 2})
    assert (system.verdict, system.assumed) == (Verdict.UNKNOWN, Verdict.CHANGED)
    assert (system.change.kind, system.change.assumed) == (ChangeKind.ENDED_EARLIER, True)
    assert (system.kept, system.changed, system.unknown, system.assumed_kept) == (0, 0, 3, 2)


def test_an_added_reflection_is_asked_for_and_unanswered(toy: hermes_lab.Lab) -> None:
    run_toy(toy, [("read_counter", {}), ("raise_counter", {"by": 1})])
    one = changed_to(toy, **{"reflection.mode": "always"})
    assert (one.verdict, one.assumed, one.change.kind) == (Verdict.UNKNOWN, Verdict.UNKNOWN, ChangeKind.UNANSWERED)
    assert one.context.kind is ChangeKind.OTHER_REFLECTION
    assert (one.kept, one.unknown) == (1, 2)


# -- carried on with what the log holds, or live ----------------------------------------------------------------------

AFTER_SETTINGS = {
    "routing__policy_weight": 0.0,
    "routing__drop_after": 1000,
}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[hermes_lab.Lab, str, AgentConfig, str]:
    """A lab in which the same tasks were worked on under two configurations that memory does not tell apart."""
    one = with_settings(**AFTER_SETTINGS)
    other = with_settings(**AFTER_SETTINGS, routing__shortlist=5, prompt__repeat_task=False)
    with pytest.MonkeyPatch.context() as patched:
        lab = hermes_lab.open(tmp_path_factory.mktemp("two"))
        use_model(patched, DeskModel())
        first = lab.run("desk", limit=80, config=one, approver=Sometimes()).run_id
        second = lab.run("desk", limit=80, config=other, approver=Sometimes()).run_id
    return lab, first, other, second


def really(lab: hermes_lab.Lab, run_id: str) -> dict[str, tuple[str, str, float]]:
    """Return how the tasks of a run came out: the end, the calls, the grade."""
    query = """
        select task_id, any_value(name) filter (action = 'task_ended'),
            any_value(output->>'$.calls') filter (action = 'task_ended'),
            any_value(cast(output->>'$.score' as double)) filter (action = 'graded')
        from events where run_id = ? and episode_id is not null group by 1"""
    return {row[0]: row[1:] for row in rows(lab, query, [run_id])}


def test_cached_answers_give_what_the_run_gave(
    two_runs: tuple[hermes_lab.Lab, str, AgentConfig, str], no_models: None
) -> None:
    lab, first, other, second = two_runs
    made = replay(lab, run=first, config=other, after="cached", record=False)
    truth = really(lab, second)
    followed = [one for one in made.episodes if one.basis == "cached"]
    assert len(followed) > 60
    assert {one.task_id: one.end_now for one in followed} == {
        one.task_id: truth[one.task_id or ""][0] for one in followed
    }
    assert {one.verdict for one in made.episodes} >= {Verdict.CHANGED}
    assert made.model_calls == 0
    again = replay(lab, run=first, config=other, after="cached", record=False)
    assert again.episodes == made.episodes
    used = "select task_id, output->>'$.tokens' from events where run_id = ? and action = 'task_ended'"
    tokens = dict(rows(lab, used, [second]))
    known = [one for one in followed if one.tokens_then is not None and one.tokens_delta is not None]
    # A failed reply counts as nothing in an ending; those without one must agree to the token.
    unsound = "select task_id from events where action = 'generation' and status = 'error'"
    failed = {one for (one,) in rows(lab, unsound)}
    agreeing = [one for one in known if one.task_id not in failed]
    assert len(agreeing) > 20
    assert all(one.tokens_then + one.tokens_delta == int(tokens[one.task_id]) for one in agreeing)


def test_without_a_cached_answer_it_stays_unknown(desk_run: hermes_lab.Lab, no_models: None) -> None:
    config = with_settings(system={"role": "别的"})
    made = replay(desk_run, where=STARTED, config=config, after="cached", record=False)
    assert {(one.verdict, one.assumed, one.basis) for one in made.episodes} == {(Verdict.UNKNOWN, Verdict.KEPT, "log")}


def test_live_answers_give_what_the_run_gave(
    two_runs: tuple[hermes_lab.Lab, str, AgentConfig, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, first, other, second = two_runs
    model = use_model(monkeypatch, DeskModel())
    box = desk.suite().toolbox()
    ran: list[str] = []
    kind = type(box["issue_refund"])
    plain = kind.run

    def run(tool: Any, *args: Any, **more: Any) -> Any:
        ran.append(str(tool.spec.level))
        return plain(tool, *args, **more)

    monkeypatch.setattr(kind, "run", run)
    made = replay(lab, run=first, config=other, after="live")
    assert set(ran) == {"read_only", "executable"}
    truth = really(lab, second)
    query = "select distinct task_id from events where action = 'permission_requested' and run_id = ?"
    asked = {one for (one,) in rows(lab, query, [second])}
    followed = [one for one in made.episodes if one.basis == "live" and one.task_id not in asked]
    assert len(followed) > 50
    assert {one.task_id: (one.end_now, one.score_now) for one in followed} == {
        one.task_id: (truth[one.task_id or ""][0], truth[one.task_id or ""][2]) for one in followed
    }
    assert not [one for one in followed if one.remarks]
    assert made.model_calls == model.asked > 50
    written = (
        "select count(*), count(episode_id), count(cost_usd) from events where run_id = ? and action = 'generation'"
    )
    assert rows(lab, written, [made.replay_id]) == [(model.asked, 0, model.asked)]
    per_episode = "select count(*) from events where run_id = ? and action = 'candidate_replayed'"
    assert rows(lab, per_episode, [made.replay_id])[0][0] == len(made.changed()) + 1
    denied = [one for one in made.episodes if one.task_id in asked and one.basis == "live"]
    assert denied


def test_live_does_not_make_a_high_risk_call_again(toy: hermes_lab.Lab) -> None:
    """Its world cannot be made again, so that what comes after is unknown."""
    run_toy(
        toy,
        [("reset_counter", {}), ("raise_counter", {"by": 1}), ("read_counter", {})],
        with_settings(budgets__steps=2),
    )
    config = with_settings(routing__shortlist="all")
    suite = ToySuite()
    (one,) = replay(toy, config=config, after="live", suites={"toy": suite}).episodes
    assert (one.verdict, one.basis, one.change.kind) == (Verdict.CHANGED, "log", ChangeKind.ENDED_LATER)
    assert "a call of reset_counter before is high_risk and is not made again" in one.remarks[-1]
    assert [counter.value for counter in suite.opened] == [0]


def test_live_denies_what_would_have_to_be_permitted(toy: hermes_lab.Lab) -> None:
    calls = [("raise_counter", {"by": 3}), ("reset_counter", {}), ("read_counter", {})]
    run_toy(toy, calls, with_settings(budgets__steps=1), environment={"value": 4})
    suite = ToySuite()
    made = replay(toy, config=with_settings(routing__shortlist="all"), after="live", suites={"toy": suite})
    (one,) = made.episodes
    assert (one.basis, one.end_now, one.change.kind) == ("live", "completed", ChangeKind.ENDED_LATER)
    assert [(counter.value, counter.closed) for counter in suite.opened] == [(7, True)]
    said = rows(
        toy, "select input->>'$.messages' from events where action = 'generation' and run_id = ?", [made.replay_id]
    )
    assert any("by replay" in text for (text,) in said)


def test_a_world_that_gives_something_else_is_told(toy: hermes_lab.Lab) -> None:
    run_toy(toy, [("read_counter", {}), ("raise_counter", {"by": 1})], with_settings(budgets__steps=1))

    class Later(ToySuite):
        def open(self, task: Any) -> Any:
            counter = super().open(task)
            counter.value = 41
            return counter

    made = replay(toy, config=with_settings(routing__shortlist="all"), after="live", suites={"toy": Later()})
    assert (
        "read_counter gave something else when it was called again (output.value: 0 -> 41)" in made.episodes[0].remarks
    )


def test_the_result_of_another_configuration_shows_itself(desk_run: hermes_lab.Lab, no_models: None) -> None:
    made = replay(desk_run, where=STARTED, config=with_settings(routing__shortlist=1))
    frame = made.to_frame()
    assert len(frame) == 120
    assert set(frame["change"].dropna()) == {"lost_tool"}
    text = made._repr_html_()
    assert "lost_tool" in text
    assert "<script" not in text
    summary = made.to_dict()
    assert summary["changes"] == {"lost_tool": len(made.changed())}
    query = "select output->>'$.changes.lost_tool' from events where run_id = ? and output->>'$.replay_id' is not null"
    assert rows(desk_run, query, [made.replay_id]) == [(str(len(made.changed())),)]
    table = made.by_type()
    assert table["episodes"].iloc[:-1].sum() == table["episodes"].iloc[-1] == 120
    for column in ("decisions_kept", "decisions_changed", "decisions_unknown"):
        assert table[column].iloc[:-1].sum() == table[column].iloc[-1]
    total = table.iloc[-1]
    assert total["decisions"] == total["decisions_kept"] + total["decisions_changed"] + total["decisions_unknown"]
