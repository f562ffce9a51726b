"""A run through the lab: planned, estimated, run, summed up, stopped, and gone on with."""

from __future__ import annotations

import math

import pytest
from agent_lab import (
    CITIES,
    SUITE,
    call,
    final,
    good_run,
    rows,
    use_script,
    weather_task,
    write_settings,
    write_weather,
)

from hermes_lab import Lab, runs
from hermes_lab import open as open_lab
from hermes_lab.config import AgentConfig, Routing
from hermes_lab.errors import BusyError, ConfigError, MissingError
from hermes_lab.kinds import Action
from hermes_lab.log.redact import Redactor
from hermes_lab.recorder import Recorder
from hermes_lab.resume import attempts


@pytest.fixture
def weather(lab: Lab) -> Lab:
    """A lab with the suite and a script that solves it."""
    write_weather(lab.path)
    use_script(lab.path, good_run())
    return open_lab(lab.path)


def ended(lab: Lab) -> list[tuple[str, str]]:
    return rows(lab, "select task_id, name from events where action = 'task_ended' order by event_id")


def test_a_run_is_summed_up_by_type_from_the_log(weather):
    done = weather.run(SUITE)
    frame = done.by_type()
    assert frame["task_type"].tolist() == ["forecast", "查询", "all"]
    assert frame["episodes"].tolist() == [4, 4, 8]
    assert frame["completion"].tolist() == [1.0, 1.0, 1.0]
    assert frame["calls"].tolist() == [1.0, 1.0, 1.0]
    assert frame["usd"].isna().all()
    assert len(done.outcomes) == 8
    assert "查询" in done._repr_html_()
    assert "8 episodes" in repr(done)
    assert runs.by_type(weather, done.run_id).equals(frame)
    with pytest.raises(MissingError, match="no episode of a run nowhere"):
        runs.by_type(weather, "nowhere")


def test_partial_and_failed_grades_are_means(weather):
    use_script(weather.path, [call(CITIES[0]), call("Paris"), final("no idea"), final()])
    frame = open_lab(weather.path).run(SUITE, limit=2).by_type()
    assert dict(zip(frame["task_type"], frame["completion"], strict=True)) == {
        "forecast": 0.0,
        "查询": 0.7,
        "all": 0.35,
    }
    assert frame["full_marks"].tolist() == [0, 0, 0]


def test_splits_limits_and_attempts(weather):
    assert [job.task.id for job in weather.plan(SUITE).jobs] == [f"w{n}" for n in range(8)]
    assert [job.task.id for job in weather.plan(SUITE, split="all", limit=3).jobs] == ["w0", "w1", "w2"]
    assert [job.task.id for job in weather.plan(SUITE, split="heldout").jobs] == ["w2", "w6"]
    twice = weather.plan(SUITE, limit=2, attempts=2, seed=5)
    assert [(job.task.id, job.seed) for job in twice.jobs] == [("w0", 5), ("w1", 5), ("w0", 6), ("w1", 6)]
    with pytest.raises(ConfigError, match="no split 'nope'"):
        weather.plan(SUITE, split="nope")
    with pytest.raises(MissingError, match="no suite 'nope'"):
        weather.plan("nope")


def test_a_suite_without_tasks_is_said(lab):
    write_weather(lab.path, confirmed=False)
    with pytest.raises(MissingError, match="has no such tasks"):
        lab.plan(SUITE)


def test_the_estimate_is_a_guess_first_and_then_what_the_log_knows(weather):
    first = weather.plan(SUITE).estimate()
    assert first.episodes == 8
    assert first.usd is None
    assert "guess" in first.basis
    assert first.tokens > 8 * 100
    weather.run(SUITE)
    ((tokens,),) = rows(weather, "select sum(input_tokens + output_tokens) from events where action = 'generation'")
    known = weather.plan(SUITE, limit=4).estimate()
    assert (known.episodes, known.model_calls) == (4, 8)
    assert known.tokens == round(tokens / 2)
    assert math.isfinite(known.minutes)
    assert known.basis.startswith("8 earlier episodes")
    # Another configuration has not run yet.
    other = weather.plan(SUITE, config=AgentConfig(routing=Routing(shortlist=1))).estimate()
    assert "guess" in other.basis


def test_the_estimate_knows_the_price(weather):
    name = weather.settings.models.light
    use_script(weather.path, good_run(), f'prices."{name}" = {{ input = 1000.0, output = 2000.0 }}')
    lab = open_lab(weather.path)
    guessed = lab.plan(SUITE).estimate()
    assert guessed.usd == pytest.approx(guessed.tokens * 1000 / 1e6)
    lab.run(SUITE)
    ((usd,),) = rows(lab, "select sum(cost_usd) from events where action = 'generation'")
    assert lab.plan(SUITE).estimate().usd == pytest.approx(usd)
    assert lab.plan(SUITE).estimate().usd > 0


def test_the_configuration_is_kept_and_can_be_named_by_its_version(weather):
    config = AgentConfig(system={"语气": "简短", "role": "Be kind."}, routing=Routing(shortlist=1))
    done = weather.run(SUITE, limit=1, config=config)
    assert done.config_version == config.version
    kept = runs.load_config(weather.path, config.version)
    assert (kept, kept.version) == (config, config.version)
    assert list(kept.system) == ["语气", "role"]
    assert rows(weather, "select distinct config_version from events") == [(config.version,)]


def test_a_kept_configuration_that_was_edited_does_not_pass_for_its_version(weather):
    done = weather.run(SUITE, limit=1, config=AgentConfig(system={"语气": "简短"}))
    file = weather.path / "configs" / f"{done.config_version}.json"
    file.write_text(file.read_text(encoding="utf-8").replace("简短", "详细"), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{done.config_version}.json was edited"):
        runs.load_config(weather.path, done.config_version)
    assert runs.load_config(weather.path, file).system == {"语气": "详细"}


def test_a_model_that_cannot_be_opened_is_found_before_anything_is_recorded(weather):
    write_settings(weather.path, 'light = "scripted:/nowhere/script.jsonl"')
    lab = open_lab(weather.path)
    with pytest.raises(MissingError, match=r"script\.jsonl"):
        lab.run(SUITE)
    assert rows(lab, "select count(*) from events") == [(0,)]


def stop_after(count):
    def on_progress(progress):
        if progress.done == count:
            raise KeyboardInterrupt

    return on_progress


def test_a_stopped_run_goes_on_and_does_nothing_twice(weather):
    settings = "[run]\nat_once = 2"
    pairs = [text for n in range(0, 8, 2) for text in (call(CITIES[n]), call(CITIES[n + 1]), final(), final())]
    use_script(weather.path, pairs, settings)
    lab = open_lab(weather.path)
    plan = lab.plan(SUITE)
    with pytest.raises(KeyboardInterrupt):
        plan.go(on_progress=stop_after(4))
    assert [task for task, how in ended(lab) if how == "completed"] == ["w0", "w1", "w2", "w3"]

    use_script(weather.path, pairs[8:], settings)
    again = open_lab(weather.path).plan(SUITE, resume=plan.run_id)
    assert again.done_before + len(again.jobs) == 8
    done = again.go()
    frame = done.by_type()
    assert frame["episodes"].tolist() == [4, 4, 8]
    assert frame["completion"].tolist() == [1.0, 1.0, 1.0]
    finished = rows(
        lab, "select task_id, count(*) from events where name = 'completed' and action = 'task_ended' group by 1"
    )
    assert sorted(finished) == [(f"w{n}", 1) for n in range(8)]
    nothing = open_lab(weather.path).plan(SUITE, resume=plan.run_id)
    assert (nothing.jobs, nothing.done_before, nothing.estimate().episodes) == ([], 8, 0)
    assert nothing.go().by_type()["episodes"].tolist() == [4, 4, 8]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"suite": "other"}, "made with suite 天气, not other"),
        ({"config": AgentConfig(routing=Routing(shortlist=1))}, "made with configuration c-.*, not c-"),
        ({"seed": 1}, "had task w0 with seed 0"),
        ({"limit": 4}, "had task w4 with seed 0"),
        ({"split": "traffic"}, "had task w1 with seed 0"),
    ],
)
def test_two_runs_are_never_mixed(weather, options, says):
    done = weather.run(SUITE)
    write_suite_again(weather, "other")
    with pytest.raises(ConfigError, match=says):
        weather.plan(**{"suite": SUITE, **options}, resume=done.run_id)


def write_suite_again(lab, name):
    from hermes_lab.suites.stored_files import read_suite, write_suite

    write_suite(lab.path, read_suite(lab.path, SUITE).content._replace(name=name))


def test_a_run_that_is_not_there_cannot_be_resumed(weather):
    with pytest.raises(MissingError, match="no run 'r-17'"):
        weather.plan(SUITE, resume="r-17")


def test_a_run_is_gone_on_with_by_one_process_at_a_time(weather):
    use_script(weather.path, [final() for _ in range(20)], "[run]\nat_once = 1")
    lab = open_lab(weather.path)
    plan = lab.plan(SUITE)
    with pytest.raises(KeyboardInterrupt):
        plan.go(on_progress=stop_after(3))
    first, second = (lab.plan(SUITE, resume=plan.run_id) for _ in range(2))
    assert (len(first.jobs), len(second.jobs)) == (5, 5)

    def meanwhile(_progress):
        with pytest.raises(BusyError, match=f"at work on the run {plan.run_id}"):
            second.go()

    first.go(on_progress=meanwhile)
    second.go()  # planned before the first one ended, and yet it does nothing twice
    assert second.done_before == 8
    graded = rows(lab, "select task_id, count(*) from events where action = 'graded' group by all")
    assert sorted(graded) == [(f"w{n}", 1) for n in range(8)]
    assert list((lab.path / "cache" / "runs").iterdir()) == []


@pytest.mark.parametrize("options", [{"seed": 10**15}, {"seed": -(10**15)}, {"attempts": 0}, {"attempts": 10**9}])
def test_a_seed_or_a_number_of_attempts_out_of_range_is_refused(weather, options):
    with pytest.raises(ConfigError, match=r"15 digits at most, and attempts are 1 to 10000"):
        weather.plan(SUITE, **options)


def test_a_configuration_with_a_secret_is_refused_and_not_kept(weather, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "geheim-0123456789-秘密")
    config = AgentConfig(system={"role": "Use the key geheim-0123456789-秘密."})
    with pytest.raises(ConfigError, match="looks like a secret"):
        weather.run(SUITE, config=config)
    kept = [file.read_bytes() for file in weather.path.rglob("*") if file.is_file()]
    assert not any(b"geheim-0123456789" in data for data in kept)
    assert rows(weather, "select count(*) from events") == [(0,)]


def begin(lab, plan, number, *, ends=None):
    """Record an episode as a killed run leaves it: begun, perhaps ended, never graded."""
    redactor = Redactor({})
    with lab.log.writer(redactor=redactor) as writer:
        about = {"suite": SUITE}
        version = plan.config.version
        recorder = Recorder(writer, redactor, run_id=plan.run_id, config_version=version, channel="suite", about=about)
        from hermes_lab.effects import Note

        one = recorder.episode(weather_task(number))
        one.note(Note(action=Action.TASK_STARTED, input={"task": {}, "seed": 0}))
        if ends:
            one.note(Note(action=Action.TASK_ENDED, name=ends, output={"calls": [], "tokens": 7, "seconds": 1.0}))


def test_what_a_killed_run_left_open_is_closed_and_made_again(weather):
    use_script(weather.path, good_run(2))
    lab = open_lab(weather.path)
    plan = lab.plan(SUITE, limit=2)
    begin(lab, plan, 0)
    again = lab.plan(SUITE, limit=2, resume=plan.run_id)
    assert [job.task.id for job in again.jobs] == ["w0", "w1"]
    frame = again.go().by_type()
    assert frame["episodes"].tolist() == [1, 1, 2]
    open_ones = rows(
        lab,
        "select name, status, step, observation from events where action = 'task_ended' and status = 'cancelled'",
    )
    assert open_ones == [("cancelled", "cancelled", 1, "the run was killed; this attempt is made again")]
    assert [one.finished for one in attempts(lab.log, plan.run_id)] == [False, True, True]


def test_an_episode_that_was_never_graded_is_made_again_and_counted_once(weather):
    use_script(weather.path, good_run(1))
    lab = open_lab(weather.path)
    plan = lab.plan(SUITE, limit=1)
    begin(lab, plan, 0, ends="completed")
    again = lab.plan(SUITE, limit=1, resume=plan.run_id)
    assert (again.done_before, again.orphans) == (0, [])
    frame = again.go().by_type()
    assert frame[["episodes", "completion"]].values.tolist() == [[1, 1.0], [1, 1.0]]


def test_a_bad_suite_is_refused_before_it_runs(weather):
    from hermes_lab.suites.recorded import ToolDefinition
    from hermes_lab.suites.stored_files import read_suite, write_suite

    content = read_suite(weather.path, SUITE).content
    wrong = ToolDefinition(name="weather", parameters={"type": "nonsense"})
    write_suite(weather.path, content._replace(tools={**content.tools, "weather": wrong}), replace=True)
    with pytest.raises(ConfigError, match="tool weather of suite 天气"):
        weather.run(SUITE)
    assert rows(weather, "select count(*) from events") == [(0,)]
