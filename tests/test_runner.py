"""The runner: many episodes at once, in lock step, with one event an effect."""

from __future__ import annotations

import sys

import msgspec
import pytest
import toy_suite
from toy_suite import Obedient, ToySuite, task

import hermes_lab
from hermes_lab import policy
from hermes_lab.approvers import Callback, Unattended
from hermes_lab.config import AgentConfig, Budgets, changed
from hermes_lab.effects import End
from hermes_lab.kinds import Tier
from hermes_lab.log.redact import Redactor
from hermes_lab.loop import View
from hermes_lab.models.prices import Price
from hermes_lab.recorder import Recorder
from hermes_lab.runner import Job, Runner, Setting
from hermes_lab.tools.base import Result, Spec

CONFIG = AgentConfig(short_term=msgspec.structs.replace(AgentConfig().short_term, steps=8))


def run(lab, tasks, *, model=None, suite=None, config=CONFIG, approver=None, run_id="r1", **more):
    redactor = Redactor({})
    suite = suite or ToySuite()
    with lab.log.writer(redactor=redactor) as writer:
        recorder = Recorder(
            writer, redactor, run_id=run_id, config_version=config.version, channel="suite", about={"suite": "toy"}
        )
        runner = Runner(
            suite,
            config,
            model or Obedient(),
            recorder,
            View(tools={name: one.spec for name, one in suite.toolbox().items()}),
            approver or Unattended(),
            **more,
        )
        return runner.run([Job(one) for one in tasks])


def rows(lab, query, *params):
    return lab.log.sql(query, list(params)).fetchall()


def test_each_effect_is_one_event_in_order(lab):
    done = run(lab, [task("t1", [("raise_counter", {"by": 2}), ("read_counter", {})])])
    assert [(one.ending.end, one.grade.score) for one in done] == [(End.COMPLETED, 1.0)]
    events = rows(lab, "select action, name, status, step from events order by step")
    assert [(action, name) for action, name, _, _ in events] == [
        ("message_received", None),
        ("task_started", "toy"),
        ("routed", None),
        ("context_assembled", None),
        ("generation", "obedient"),
        ("tool_called", "raise_counter"),
        ("generation", "obedient"),
        ("tool_called", "read_counter"),
        ("generation", "obedient"),
        ("task_recorded", "completed"),
        ("task_ended", "completed"),
        ("graded", "answer"),
    ]
    assert [step for *_, step in events] == list(range(12))
    assert rows(lab, "select count(*) from events where request_hash is not null") == [(5,)]
    parents = rows(lab, "select event_id, parent_id from events order by step")
    assert [parent for _, parent in parents[1:]] == [event for event, _ in parents[:-1]]


def test_the_events_say_what_replay_needs_and_not_what_gives_the_answer_away(lab):
    run(lab, [task("t1", [("read_counter", {})], answer="秘密 42")])
    (started,) = [event for event in lab.log.events("action = 'task_started'")]
    given = msgspec.json.decode(started.input)
    assert given["task"]["id"] == "t1"
    assert "grader" not in given["task"]
    assert given["run"] == {"suite": "toy"}
    (call,) = [event for event in lab.log.events("action = 'tool_called'")]
    assert (call.input, call.output, call.config_version) == ("{}", '{"value":0}', CONFIG.version)


def test_waiting_episodes_share_one_batch_in_the_order_of_the_tasks(lab):
    model = Obedient()
    tasks = [task(f"t{n}", [("raise_counter", {"by": n})], answer=str(n)) for n in range(1, 5)]
    run(lab, tasks, model=model, setting=Setting(at_once=3))
    prompts = [one.prompt for one in tasks]
    assert model.batches == [prompts[:3], prompts[:3], prompts[3:], prompts[3:]]


def test_the_same_seed_gives_the_same_events_but_for_ids_and_times(lab, tmp_path):
    tasks = [task(f"t{n}", [("raise_counter", {"by": n}), ("broken", {}), ("read_counter", {})]) for n in range(6)]
    columns = "task_id, step, action, name, input, output, observation, status, error_kind, request_hash, tier"
    seen = []
    for number in range(2):
        other = hermes_lab.open(tmp_path / f"lab {number}")
        run(other, tasks, setting=Setting(at_once=4))
        query = f"select {columns} from events where action not in ('tool_called', 'task_ended') order by event_id"
        timed = (
            "select task_id, step, input, json_merge_patch(output, '{\"seconds\": null}'), status from events "
            "where action in ('tool_called', 'task_ended') order by event_id"
        )
        seen.append((rows(other, query), rows(other, timed)))
    assert seen[0] == seen[1]


def test_a_crash_ends_only_its_own_episode(lab):
    suite = ToySuite()
    good = task("good", [("read_counter", {})])
    bad = task("bad", [], environment={"broken": True})
    done = run(lab, [bad, good], suite=suite)
    ends = {one.job.task.id: one.ending.end for one in done}
    assert ends == {"bad": End.ERROR, "good": End.COMPLETED}
    ((kind, said),) = rows(
        lab, "select error_kind, observation from events where task_id='bad' and action='task_ended'"
    )
    assert kind == "crashed"
    assert "cannot be opened" in said
    assert all(counter.closed for counter in suite.opened)


class Foreign:
    """A tool of somebody else, which breaks what `Tool.run` promises."""

    def __init__(self, result):
        self.spec = Spec("foreign", "Somebody else's. 外来", {"type": "object", "properties": {}})
        self.result = result

    def run(self, environment, arguments, *, seconds=None):
        return self.result()


class ForeignSuite(ToySuite):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def toolbox(self):
        return {**super().toolbox(), "foreign": Foreign(self.result)}


class WordlessError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def wordless():
    raise WordlessError


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (lambda: Result({"集", 2}), "cannot be recorded: $ is a set"),
        (lambda: Result(10**5000), "cannot be recorded: an int of more than 4300 digits"),
        (lambda: Result("ok", latency_ms=float("nan")), "latency_ms is nan"),
        (lambda: None, "the tool returned a NoneType instead of a Result"),
        (lambda: sys.exit(3), "SystemExit: 3"),
        (wordless, "WordlessError: (its text cannot be shown)"),
    ],
)
def test_what_a_foreign_tool_does_is_its_own_failure_and_not_the_runs(lab, result, said):
    tools = (*toy_suite.TOOLS, "foreign")
    tasks = [task("a", [("foreign", {})], tools=tools), task("b", [("read_counter", {})], tools=tools)]
    outcomes = run(lab, tasks, suite=ForeignSuite(result))
    assert [one.ending.end for one in outcomes] == [End.COMPLETED, End.COMPLETED]
    ((status, kind, output),) = rows(
        lab,
        "select status, error_kind, output->>'$.error' from events where name = 'foreign' and action = 'tool_called'",
    )
    assert (status, kind) == ("error", "crashed")
    assert said in output


def test_stopping_leaves_a_clean_log_and_says_cancelled(lab):
    def stop(number):
        if number == 3:
            raise KeyboardInterrupt

    tasks = [task(f"t{n}", [("read_counter", {})]) for n in range(6)]
    suite = ToySuite()
    with pytest.raises(KeyboardInterrupt):
        run(lab, tasks, model=Obedient(on_batch=stop), suite=suite, setting=Setting(at_once=2))
    started = rows(lab, "select count(*) from events where action = 'task_started'")[0][0]
    ended = rows(lab, "select status, count(*) from events where action = 'task_ended' group by 1 order by 1")
    assert started == 4
    assert ended == [("cancelled", 2), ("ok", 2)]
    assert all(counter.closed for counter in suite.opened)


def test_a_high_risk_tool_asks_and_unattended_the_answer_is_no(lab):
    suite = ToySuite()
    (done,) = run(lab, [task("t1", [("reset_counter", {})], environment={"value": 7})], suite=suite)
    assert suite.opened[0].value == 7
    assert done.ending.end is End.COMPLETED
    asked = rows(lab, "select action, name, status from events where action like 'permission%' order by step")
    assert asked == [("permission_requested", "reset_counter", None), ("permission_decided", "unattended", "denied")]


def test_a_person_can_allow_it(lab):
    suite = ToySuite()
    run(
        lab,
        [task("t1", [("reset_counter", {})], environment={"value": 7})],
        suite=suite,
        approver=Callback(lambda p: True, by="李雷"),
    )
    assert suite.opened[0].value == 0
    assert rows(lab, "select name, status from events where action = 'permission_decided'") == [("李雷", "ok")]


def test_a_prompt_that_would_overspend_is_never_sent(lab):
    model = Obedient()
    config = AgentConfig(budgets=Budgets(tokens=40))
    (done,) = run(lab, [task("t1", [("read_counter", {})])], model=model, config=config)
    assert (done.ending.end, model.batches) == (End.BUDGET, [])


def test_money_is_a_hard_limit(lab):
    class Priced(Obedient):
        def _reply(self, request):
            return msgspec.structs.replace(super()._reply(request), cost_usd=0.006)

    model = Priced()
    config = changed(CONFIG, **{"budgets.usd": 0.01, "sampling.max_tokens": 10})
    price = Price(input=100.0, output=100.0)  # a call costs at most (50 + 10) x 100 / 1e6 = 0.006 USD
    calls = [("raise_counter", {"by": n}) for n in range(1, 6)]
    (done,) = run(lab, [task("t1", calls)], model=model, config=config, prices={Tier.LIGHT: price})
    assert done.ending.end is End.BUDGET
    assert done.ending.usd == pytest.approx(0.006)
    assert len(model.batches) == 1


def test_policy_memory_is_a_fold_over_the_log(lab):
    import datetime as dt

    run(lab, [task("t1", [("raise_counter", {"by": 1}), ("read_counter", {}), ("broken", {})])])
    now = dt.datetime.now(dt.UTC)
    memory = policy.fold(lab.log, now)
    assert memory.stats["counting", "raise_counter"] == (1, 0, {"by": 1})
    assert memory.stats["counting", "broken"].misses == 1
    assert memory.followed == {("counting", "raise_counter", "read_counter"): 1}
    later = policy.fold(lab.log, now + dt.timedelta(days=8))
    assert later.stats["counting", "broken"].misses == 0
