"""`doctor`: it finds the troubles that it is there for, and says what to do."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from pathlib import Path

import pytest
from agent_lab import CITIES, SUITE, call, final, good_run, use_script, write_settings, write_weather
from conftest import Cli

from hermes_lab import Action, Lab, symptoms
from hermes_lab import open as open_lab
from hermes_lab.doctor import PACKAGES, examine
from hermes_lab.models.hermes import render_call

ROOT = Path(__file__).parents[1]


def states(lab: Lab) -> dict[str, str]:
    return {check.name: check.state for check in examine(str(lab.path))}


def record_tasks(lab: Lab, tasks: int, events: int) -> None:
    with lab.log.writer() as writer:
        for task in range(tasks):
            for step in range(events):
                writer.record(Action.TOOL_CALLED, name="find", task_id=f"任务-{task}", step=step)


def test_a_healthy_lab_has_no_trouble(lab: Lab, cli: Cli) -> None:
    record_tasks(lab, tasks=3, events=2)
    result = cli("doctor", "--json")
    assert result.returncode == 0, result.stdout
    assert {check["state"] for check in json.loads(result.stdout)} <= {"ok", "note"}


def test_no_lab_is_no_trouble(cli: Cli, tmp_path: Path) -> None:
    result = cli("doctor", lab=tmp_path / "nowhere")
    assert result.returncode == 0
    assert "hermes-lab import FILE" in result.stdout


def test_a_log_that_grows_too_fast_is_found_with_its_cause(lab: Lab, cli: Cli) -> None:
    (lab.path / "lab.toml").write_text("format = 1\n[log]\ngrowth_per_task = 10\n")
    record_tasks(lab, tasks=3, events=30)
    assert states(open_lab(lab.path))["growth"] == "trouble"
    result = cli("doctor")
    assert result.returncode == 1
    assert "grows too fast: 30 events a task" in result.stdout
    assert "100% of them are tool_called" in result.stdout
    assert "raise growth_per_task (now 10)" in result.stdout


def test_lines_that_were_no_events_are_found(lab: Lab) -> None:
    record_tasks(lab, tasks=1, events=1)
    [path] = lab.log.layout.live.glob("*.jsonl")
    with open(path, "ab") as file:
        file.write(b"rubbish\n")
    assert states(lab)["lines"] == "trouble"
    lab.log.seal()
    assert states(lab)["lines"] == "trouble"


def test_many_small_segments_are_found(lab: Lab) -> None:
    for _ in range(51):
        record_tasks(lab, tasks=1, events=1)
        lab.log.seal()
    assert states(lab)["log"] == "note"
    lab.log.compact()
    assert states(lab)["log"] == "ok"


def test_a_lost_segment_is_found(lab: Lab) -> None:
    record_tasks(lab, tasks=1, events=1)
    lab.log.seal()
    next(lab.log.layout.folder.glob("date=*/*.parquet")).unlink()
    assert states(open_lab(lab.path))["growth"] == "trouble"


def test_a_broken_lab_toml_is_found(lab: Lab) -> None:
    (lab.path / "lab.toml").write_text("format = ")
    assert states(lab)["lab"] == "trouble"


def checks(lab: Lab) -> dict[str, tuple[str, str, str]]:
    return {check.name: (check.state, check.found, check.remedy) for check in examine(str(lab.path))}


def test_every_package_that_is_needed_is_looked_up() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert sorted(PACKAGES) == sorted(re.match(r"[\w-]+", text)[0] for text in needed)


def test_doctor_loads_no_model(cli: Cli, lab: Lab) -> None:
    import subprocess
    import sys

    code = "import sys; from hermes_lab.doctor import examine; examine(sys.argv[1]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(lab.path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_cache_that_cannot_be_written_or_is_not_filled(lab: Lab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "缓存" / "deep"))
    found = checks(lab)
    assert found["cache"][0] == "ok"
    assert found["model (light, strong)"][0] == "note"
    assert "hermes-lab models --fetch" in found["model (light, strong)"][2]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "file"))
    assert checks(lab)["cache"] == (
        "trouble",
        f"{tmp_path / 'file'} cannot be written",
        "set HERMES_LAB_CACHE to a folder that can",
    )


@pytest.mark.parametrize(
    ("models", "name", "says"),
    [
        ('light = "gpt"', "models", "there is no model 'gpt'"),
        ('light = "hf:/nowhere/模型"', "model (light, strong)", "missing"),
        ('light = "openai:http://127.0.0.1:1/v1#m"', "model (light, strong)", "nobody answers at 127.0.0.1:1"),
        ('strong = "scripted:/nowhere"', "model (strong)", "no readable file"),
        ('prices."gpt" = { input = 1, output = 1 }', "models", "no tier's model"),
    ],
)
def test_models_that_cannot_be_used_are_found(lab: Lab, models: str, name: str, says: str) -> None:
    write_settings(lab.path, models)
    state, found, remedy = checks(lab)[name]
    assert state == "trouble"
    assert says in found
    assert remedy


def test_a_server_that_listens_is_fine(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        write_settings(lab.path, f'light = "openai:http://127.0.0.1:{port}/v1#m"')
        state, found, _ = checks(lab)["model (light, strong)"]
    assert state == "ok"
    assert f"127.0.0.1:{port} answers" in found


def test_suites_and_rules(lab: Lab) -> None:
    write_weather(lab.path, confirmed=False)
    rule = '[[permissions.rules]]\nname = "{}"\ntool = "{}"\ndecision = "deny"\n'
    write_settings(lab.path, "", rule.format("a", "weather") + rule.format("退款", "refnd*"))
    found = [check for check in examine(str(lab.path)) if check.name in ("suites", "rules")]
    assert [(check.name, check.state) for check in found] == [
        ("suites", "note"),
        ("suites", "ok"),
        ("rules", "trouble"),
    ]
    assert "8 tasks of 天气 wait for a person" in found[0].found
    assert "退款 is about 'refnd*', and no suite has such a tool" in found[2].found
    write_settings(lab.path, "", rule.format("a", "weather") + rule.format("b", "get_*"))
    assert checks(lab)["rules"] == ("ok", "2, each about a tool that there is", "")
    (lab.path / "suites" / SUITE / "tasks.jsonl").write_text("{")
    assert any(check.name == "suites" and check.state == "trouble" for check in examine(str(lab.path)))


Found = dict[str, tuple[str, str, str]]


def run(lab: Lab, replies: list[str], *, tasks: int = 12, **changes: object) -> Found:
    """Run the weather suite with a script for its model, and return what the doctor says of it."""
    from hermes_lab.config import AgentConfig, changed

    write_weather(lab.path, tasks=tasks)
    use_script(lab.path, replies)
    config = changed(AgentConfig(), **{"reflection.mode": "off", **changes})
    open_lab(lab.path).run(SUITE, config=config)
    return checks(lab)


def test_a_good_run_shows_no_symptom(lab: Lab) -> None:
    found = run(lab, good_run(12))
    assert found["episodes"] == ("ok", "the last 12 episodes show no known symptom", "")


def test_a_model_that_ignores_its_tools(lab: Lab) -> None:
    state, found, remedy = run(lab, [final("rain")] * 12)["no tool calls"]
    assert state == "trouble"
    assert found.startswith("12 of 12 graded episodes answered wrongly without calling any tool")
    assert 'decoding = "schema"' in remedy


def test_episodes_that_run_out_of_their_budget(lab: Lab) -> None:
    replies = [call(CITIES[n % 8]) for n in range(12)]
    state, found, _ = run(lab, replies, **{"budgets.steps": 1})["budget"]
    assert state == "trouble"
    assert found.startswith("12 of 12 episodes ran out of their budget")
    assert "step" in found


def test_calls_that_cannot_be_read_or_are_wrong(lab: Lab) -> None:
    unreadable = ["<tool_call>\n{nonsense\n</tool_call>"] * 12
    wrong = [render_call("weather", {"town": "杭州"})] * 12
    found = run(lab, [*unreadable, *wrong, *([final()] * 12)])
    assert found["unreadable calls"][1].startswith("12 of 36 planning turns")
    assert found["bad calls"][1].startswith("12 of 36 planning turns")
    assert "most often weather" in found["bad calls"][1]


def test_denied_calls_say_which_tool_and_by_whom(lab: Lab) -> None:
    found = run(lab, [*([render_call("sound_alarm", {})] * 12), *([final()] * 12)])
    assert found["denied calls"][0] == "note"
    assert "12 calls were denied in 12 episodes, most often sound_alarm by unattended" in found["denied calls"][1]


def test_a_model_that_fails_and_loops(lab: Lab) -> None:
    found = run(lab, [render_call("weather", {"city": "Atlantis"})] * 3, tasks=1)
    assert found["episodes"] == ("ok", "the last 1 episodes show no known symptom", "")  # too few to say anything
    found = run_more(lab, [])
    assert found["model failures"][0] == "trouble"
    assert "13 of 16 calls of the model failed, most often other" in found["model failures"][1]


def run_more(lab: Lab, replies: list[str]) -> Found:
    import shutil

    shutil.rmtree(lab.path / "suites")
    return run(lab, replies)


def test_dead_loops_name_the_failure(lab: Lab) -> None:
    replies = [render_call("weather", {"city": f"Atlantis {n}"}) for n in range(3) for _ in range(12)]
    found = run(lab, replies)
    assert found["dead loops"][1].startswith("12 of 12 episodes failed the same way three times")
    assert "weather failed the same way" in found["dead loops"][1]


def test_a_killed_run_is_found_with_the_command_that_goes_on(lab: Lab) -> None:
    with lab.log.writer() as writer:
        about = {"task": {"tools": []}, "seed": 0, "run": {"suite": SUITE}}
        writer.record(Action.TASK_STARTED, run_id="r-9", episode_id="e-1", task_id="w0", input=about)
        talk = {**about, "run": {"suite": "conversation"}}
        writer.record(Action.TASK_STARTED, run_id="c-1", episode_id="e-2", task_id="c-1-1", input=talk)
    state, found, remedy = checks(lab)["unfinished run"]
    assert (state, found) == ("note", "1 episodes of run r-9 began and never ended")
    assert f"hermes-lab run {SUITE} --resume r-9" in remedy


QUIET = {
    "episodes": 20,
    "out_of_budget": 0,
    "budget_reason": None,
    "diverged": 0,
    "diverged_reason": None,
    "graded_with_tools": 20,
    "wrong_without_call": 0,
    "replies": 60,
    "plans": 60,
    "failed_replies": 0,
    "failure_kind": None,
    "cut_off": 0,
    "cached_replies": 0,
    "unreadable": 0,
    "bad_calls": 0,
    "bad_call_tool": None,
    "denials": 0,
    "denied_tool": None,
    "denied_by": None,
    "grades": 20,
    "ungraded": 0,
    "ungraded_reason": None,
    "published": 4,
    "rolled_back": 0,
    "suggestions": 20,
    "refused_suggestions": 0,
    "memories": 3,
    "untagged_memories": 0,
}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, []),
        ({"cached_replies": 60}, ["cache"]),
        ({"cut_off": 6}, ["cut replies"]),
        ({"cut_off": 5}, []),
        ({"replies": 9, "cut_off": 9}, []),
        ({"ungraded": 1}, ["grades"]),
        ({"rolled_back": 2}, ["rollbacks"]),
        ({"rolled_back": 1, "published": 1}, []),
        ({"refused_suggestions": 10}, ["suggestions"]),
        ({"untagged_memories": 1}, ["memories"]),
        ({"failed_replies": 6, "failure_kind": "rate_limited"}, ["model failures"]),
    ],
)
def test_each_symptom_stands_alone(counts: dict[str, int], expected: list[str]) -> None:
    row = QUIET | counts
    found = [look(row) for look in (*symptoms.AGENT, *symptoms.EVOLUTION)]
    told = [one for one in found if one is not None]
    assert [one.name for one in told] == expected
    assert all(one.cause and one.remedy for one in told)


def test_symptoms_of_evolution_are_read_from_the_log(lab: Lab) -> None:
    with lab.log.writer() as writer:
        for number in range(3):
            writer.record(Action.PUBLISHED, name=f"v1.{number}")
            writer.record(Action.ROLLED_BACK, name=f"v1.{number}")
        writer.record(Action.MEMORY_WRITTEN, name="m", input={"text": "客户偏好短信"})
    found = checks(lab)
    assert "3 of 3 published versions were rolled back" in found["rollbacks"][1]
    assert "1 of 1 memories name no version" in found["memories"][1]
