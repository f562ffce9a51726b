"""Logged episodes as tasks: what is taken over, what is replayed, what is proposed, and what a person must know."""

from pathlib import Path

import msgspec
import pytest

from hermes_lab.effects import Called, End, Ending
from hermes_lab.errors import MissingError, QueryError
from hermes_lab.events import Action
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.lab import open_lab
from hermes_lab.suites.from_log import propose_grader, tasks_from_log
from hermes_lab.suites.graders import grade
from hermes_lab.suites.log_episode import LoggedTurn
from hermes_lab.suites.recorded import RecordedCall
from hermes_lab.suites.schemas import inferred, joined
from hermes_lab.suites.stored import StoredSuite
from hermes_lab.suites.stored_files import add_tasks, confirm, read_suite
from hermes_lab.tasks import AllOf, Answer, Calls, Exchange, Message, Part, Split, Task, WantedCall

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A lab with the committed example of a hermes-agent export."""
    lab = open_lab(tmp_path_factory.mktemp("imported") / "lab")
    lab.import_log(ROOT / "data" / "examples" / "hermes-agent.jsonl")
    return lab


@pytest.fixture(scope="module")
def content(imported):
    return tasks_from_log(imported.log)


def replay(suite, task, answer):
    """Make the calls of the log again, as an agent would, and grade what came of it."""
    world, toolbox = suite.open(task), suite.toolbox()
    called = []
    for call in task.environment["recorded"]:
        result = toolbox[call["tool"]].run(world, call["arguments"])
        assert result.output == call["output"] or result.status != Status.OK
        called.append(Called(call["tool"], call["arguments"], result.status))
    return grade(task, Ending(end=End.COMPLETED, answer=answer, calls=tuple(called)), world)


def test_a_conversation_becomes_its_last_turn_with_a_call(content):
    task = content.tasks[0]
    assert task.prompt == "Yes, set it to 2, but do not delete anything yourself."
    assert [exchange.user for exchange in task.history] == [
        "The nightly backup job failed. Find out why and fix it if it is simple."
    ]
    assert task.history[0].agent.startswith("The disk /backup is full")
    assert task.tools == ("terminal", "read_file", "patch")
    assert len(task.environment["recorded"]) == 6
    assert (task.id, task.split, task.confirmed) == ("log-20251201_090012_a41c07", Split.REGRESSION, False)


def test_chinese_episode_with_a_recorded_time_out(content):
    suite = StoredSuite(content)
    task = content.tasks[1]
    assert (task.language, task.prompt) == ("zh", "帮我查一下周六上午从上海到杭州的高铁，最好九点以后出发。")
    world, toolbox = suite.open(task), suite.toolbox()
    arguments = {"urls": ["https://example.com/sh-hz"]}
    for _ in range(3):  # the log has two, and the last is what any further one gets
        result = toolbox["web_extract"].run(world, arguments)
        assert (result.status, result.error_kind, result.transient) == (Status.TIMEOUT, ErrorKind.TIMEOUT, True)
        assert result.output == {"error": "Request timed out after 30 seconds"}


def test_the_same_call_gets_its_results_in_turn_and_an_unknown_one_is_not_found(content):
    suite = StoredSuite(content)
    task = content.tasks[2]
    assert task.prompt == "How many orders above 100 euros are in orders.csv?"
    result = suite.toolbox()["terminal"].run(suite.open(task), {"command": "rm orders.csv"})
    assert (result.status, result.error_kind) == (Status.ERROR, ErrorKind.NOT_FOUND)
    assert "not recorded" in result.output["error"]


def test_doing_what_the_log_did_passes_every_proposed_grader(content):
    suite = StoredSuite(content)
    answers = {task.id: "37 38 2 61 200 12 3" for task in content.tasks}
    graded = [(replay(suite, task, answers[task.id]).score, task) for task in content.tasks if task.grader]
    assert len(graded) >= 4
    assert [task.id for score, task in graded if not score or score < 0.5] == []
    for _, task in graded:
        assert grade(task, Ending(end=End.COMPLETED), None).score == 0


def test_nothing_is_run_before_a_person_confirmed_it(imported, content):
    assert add_tasks(imported.path, content) == len(content.tasks) == 6
    assert add_tasks(imported.path, content) == 0
    suite = read_suite(imported.path, "from-log")
    assert suite.tasks() == []
    assert len(suite.tasks(unconfirmed=True)) == 6
    assert confirm(imported.path, "from-log", [content.tasks[1].id]) == 1
    assert confirm(imported.path, "from-log", [content.tasks[1].id]) == 0
    assert [task.id for task in read_suite(imported.path, "from-log").tasks()] == [content.tasks[1].id]
    assert add_tasks(imported.path, content) == 0  # a second import takes nothing back
    assert len(read_suite(imported.path, "from-log").tasks()) == 1
    with pytest.raises(MissingError, match="no task '没有'"):
        confirm(imported.path, "from-log", ["没有"])


def test_notes_say_what_was_inferred(content):
    notes = " | ".join(content.tasks[0].notes)
    assert "mend it in tasks.jsonl, then confirm" in notes
    assert "turn 2 of 2" in notes
    assert "no schema of terminal, read_file, patch: theirs are inferred" in notes
    assert content.tools["terminal"].inferred


def test_schemas_of_the_source_are_kept(tmp_path):
    lab = open_lab(tmp_path / "lab")
    lab.import_log(ROOT / "tests" / "samples" / "openai-chat" / "requests.jsonl")
    content = tasks_from_log(lab.log, "name = ?", ["weather"])
    assert [task.prompt for task in content.tasks] == ["巴黎天气如何？"]
    assert content.tools["weather"].parameters == {"type": "object", "properties": {"city": {"type": "string"}}}
    assert not content.tools["weather"].inferred


def test_schemas_in_a_hermes_system_prompt_are_kept(tmp_path):
    lab = open_lab(tmp_path / "lab")
    lab.import_log(ROOT / "tests" / "samples" / "sharegpt" / "trajectory_samples.jsonl")
    content = tasks_from_log(lab.log)
    assert content.tools["weather"].description == "Weather of a city"
    assert not content.tools["weather"].inferred
    assert "the episode did not end well (error)" in content.tasks[1].notes


def test_an_episode_of_ours(tmp_path):
    lab = open_lab(tmp_path / "lab")
    task = Task(id="t1", family="orders/status", type="orders", prompt="订单 SO-1 在哪里？")
    message = Message(text=task.prompt, channel="suite", task_id="t1", task_type="orders")
    signature = {"name": "get_order", "description": "Looks up.", "parameters": {"type": "object", "properties": {}}}
    final = {"name": "final_answer", "description": "", "parameters": {"type": "object"}}
    odd = {"total": float("nan"), "text": "\ud800", "large": 2**70, "price": 12.5}
    about = {"episode_id": "e1", "task_id": "t1", "task_type": "orders"}
    with lab.log.writer() as writer:

        def record(action, given=None, came=None, **columns):
            writer.record(action, input=given, output=came, **about, **columns)

        record(Action.MESSAGE_RECEIVED, msgspec.to_builtins(message))
        told = {"family": "orders/status", "answer_by": "call", "history": [{"user": "你好", "agent": "您好"}]}
        record(Action.TASK_STARTED, {"task": told, "seed": 0})
        record(Action.GENERATION, {"purpose": "plan", "tools": [signature, final]}, {"text": "<tool_call>..."})
        record(Action.TOOL_CALLED, {"id": "SO-1"}, odd, name="get_order", status=Status.OK)
        record(Action.RETRIEVAL, {"query": "运费"}, [], name="search_documents", status=Status.OK)
        record(Action.TOOL_CALLED, {"id": 5}, {"error": "text"}, name="get_order", status=Status.INVALID)
        record(Action.TASK_ENDED, None, {"end": "budget", "answer": "价格 12.5 元"}, name="budget", status=Status.ERROR)
        record(Action.GRADED, None, {"score": 0.0, "reasons": []})
    content = tasks_from_log(lab.log, "action = 'graded' and output like '%0.0%'")
    add_tasks(lab.path, content)
    suite = read_suite(lab.path, "from-log")
    (task,) = suite.tasks(unconfirmed=True)
    assert (task.family, task.type, task.prompt) == ("orders/status", "orders", "订单 SO-1 在哪里？")
    assert (task.answer_by, task.history) == ("call", (Exchange(user="你好", agent="您好"),))
    assert task.tools == ("get_order", "search_documents")
    assert suite.content.tools["get_order"].parameters == signature["parameters"]
    assert len(task.environment["recorded"]) == 2  # the invalid call never ran
    assert "the episode did not end well (budget)" in task.notes
    assert "it was graded 0" in task.notes
    result = suite.toolbox()["get_order"].run(suite.open(task), {"id": "SO-1"})
    assert repr(result.output) == repr(odd)
    assert task.grader == AllOf(
        parts=(
            Part(
                grader=Calls(
                    wanted=(
                        WantedCall(tool="get_order", allowed={"id": ["SO-1"]}),
                        WantedCall(tool="search_documents", allowed={"query": ["运费"]}),
                    ),
                    exact=False,
                )
            ),
            Part(grader=Answer(number=12.5), required=False),
        )
    )


def test_what_was_taken_back_is_left_out(tmp_path):
    lab = open_lab(tmp_path / "lab")
    with lab.log.writer() as writer:
        for text in ("first", "second"):
            said = {"content": text}
            last = writer.record(Action.MESSAGE_RECEIVED, episode_id="e", name="user", input=said)
        writer.record(
            Action.MESSAGE_RECEIVED,
            episode_id="e",
            name="user",
            parent_id=last.event_id,
            status=Status.RETRACTED,
            weight=0.0,
        )
    (task,) = tasks_from_log(lab.log).tasks
    assert (task.prompt, task.history, task.grader) == ("first", (), None)


def test_conditions(imported):
    with pytest.raises(MissingError, match="no episode"):
        tasks_from_log(imported.log, "episode_id = ?", ["没有"])
    with pytest.raises(QueryError):
        tasks_from_log(imported.log, "no_such_column = 1")
    with pytest.raises(QueryError):
        tasks_from_log(imported.log, "true); drop table events; --")
    assert len(tasks_from_log(imported.log, limit=2).tasks) == 2


def test_a_proposed_grader_takes_lists_in_objects_as_they_are():
    call = RecordedCall(tool="find", arguments={"where": {"tags": ["a", "b"]}}, output=[])
    task = Task(id="t", family="f", type="x", prompt="p", grader=propose_grader(LoggedTurn("p", [call])))

    def score(tags):
        calls = (Called("find", {"where": {"tags": tags}}, Status.OK),)
        return grade(task, Ending(end=End.COMPLETED, calls=calls), None).score

    assert [score(["a", "b"]), score("a"), score(["b", "a"])] == [1, 0, 0]


def test_nothing_to_ask_for_means_no_grader():
    failed = RecordedCall(tool="find", arguments={}, output={"error": "x"}, status=Status.ERROR)
    assert propose_grader(LoggedTurn("p", [failed], "It failed 3 times.")) is None


def test_inferred_schemas():
    schema = inferred([{"n": 1, "t": ["a"], "o": {"k": None}}, {"n": 1.5, "t": [], "o": {"j": True}, "城市": "杭州"}])
    assert schema["properties"]["n"] == {"type": "number"}
    assert schema["properties"]["t"] == {"type": "array", "items": {"type": "string"}}
    assert schema["properties"]["o"]["required"] == []
    assert schema["required"] == ["n", "t", "o"]
    assert joined({"type": "string"}, {}) == {}


def test_history_is_an_exchange(content):
    assert all(isinstance(item, Exchange) for task in content.tasks for item in task.history)
