"""Suites as files of a lab: written, read, refused, found by name."""

import json
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, ImportFormatError, MissingError, WriteError
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.suites import registry
from hermes_lab.suites.recorded import RecordedCall, RecordedEnvironment, RecordedTool, ToolDefinition
from hermes_lab.suites.splitting import SHARES, split_by_family
from hermes_lab.suites.stored import Content, Family, StoredSuite, StoredTask
from hermes_lab.suites.stored_files import add_tasks, read_suite, stored_names, write_suite
from hermes_lab.suites.tool_names import merge_tools
from hermes_lab.tasks import AllOf, Answer, Calls, Part, Split, State, StateCheck, Task, WantedCall
from hermes_lab.tools.base import ToolError

WEATHER = ToolDefinition(
    name="weather", description="天气 ☀️", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)


def task(number, **fields):
    return StoredTask(
        **{"id": f"t{number}", "family": f"f{number % 3}", "type": "x", "prompt": "天气？", "tools": ("weather",)}
        | fields
    )


def content(name="天气", tasks=None):
    return Content(name, "about", "here", tuple(tasks or [task(n) for n in range(6)]), {"weather": WEATHER})


def test_a_suite_comes_back_as_it_was_written(tmp_path):
    grader = AllOf(
        parts=(
            Part(grader=Calls(wanted=(WantedCall(tool="weather", allowed={"city": ["杭州", ""]}),), exact=False)),
            Part(grader=State(checks=(StateCheck(sql="select 1", rows=[[1]]),)), required=False),
            Part(grader=Answer(number=1.5, items=("晴",))),
        )
    )
    odd = {"nan": "\ud800", "$float": 2**70, "rows": [1, None, True]}
    recorded = [msgspec.to_builtins(RecordedCall(tool="weather", arguments={"city": "杭州"}, output=odd))]
    tasks = [
        task(1, grader=grader, environment={"recorded": recorded}, confirmed=False, notes=("看",), split=Split.FRESH)
    ]
    written = write_suite(tmp_path, content(tasks=tasks))
    back = read_suite(tmp_path, "天气")
    assert back.content == written.content
    assert back.content.tasks == tuple(msgspec.structs.replace(one, suite="天气") for one in tasks)
    assert back.toolbox()["weather"].spec.description == "天气 ☀️"
    assert back.toolbox()["weather"].run(back.open(tasks[0]), {"city": "杭州"}).output == odd
    assert sorted(os.listdir(tmp_path / "suites" / "天气")) == ["suite.json", "tasks.jsonl", "tools.json"]
    header = json.loads((tmp_path / "suites" / "天气" / "suite.json").read_text())
    assert (header["format"], header["tasks"], header["splits"]) == (1, 1, {"fresh": 1})


def test_tasks_by_split_limit_and_seed():
    suite = StoredSuite(content(tasks=[task(n, split=list(Split)[n % 4]) for n in range(40)]))
    assert len(suite.tasks()) == len(suite.tasks("all")) == 40
    assert [one.id for one in suite.tasks("traffic", limit=3)] == ["t0", "t4", "t8"]
    assert suite.tasks("traffic", seed=1) == suite.tasks(Split.TRAFFIC)
    assert suite.tasks("fresh", seed=1) == suite.tasks("fresh", seed=1) != suite.tasks("fresh", seed=2)
    assert len(suite.tasks("fresh", limit=4, seed=2)) == 4
    assert suite.families()[0] == Family("f0", "x", Split.TRAFFIC, 14)
    with pytest.raises(ConfigError, match=r"no split 'test'.*heldout"):
        suite.tasks("test")


def test_a_suite_is_replaced_only_when_asked(tmp_path):
    write_suite(tmp_path, content())
    with pytest.raises(WriteError, match="replace it"):
        write_suite(tmp_path, content())
    write_suite(tmp_path, content(tasks=[task(9)]), replace=True)
    assert [one.id for one in read_suite(tmp_path, "天气").tasks()] == ["t9"]


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 65, "a b", "a\n"])
def test_names_that_are_no_folder(tmp_path, name):
    with pytest.raises(ConfigError, match="no name for a suite"):
        write_suite(tmp_path, content(name))
    with pytest.raises(ConfigError):
        read_suite(tmp_path, name)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 3: not a task"),
        ('{"id": "x"}', "line 3: not a task.*family"),
        ('{"id":"x","family":"f","type":"x","prompt":"p","colour":"red"}', "line 3.*colour"),
        ('{"id":"x","family":"f","type":"x","prompt":"p","grader":{"type":"magic"}}', "line 3.*magic.*grader"),
        ('{"id":"t1","family":"f","type":"x","prompt":"p"}', "line 3: the id 't1' stands on line 1"),
        ('{"id":"x","family":"f","type":"x","prompt":"p","tools":["飞"]}', "line 3 offers the tool '飞'"),
        ('{"id":"x","family":"f","type":"x","prompt":"p","environment":{"recorded":1}}', "line 3.*environment"),
        (b"\xff", "line 3"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, reason):
    write_suite(tmp_path, content(tasks=[task(1), task(2)]))
    path = tmp_path / "suites" / "天气" / "tasks.jsonl"
    path.write_bytes(path.read_bytes() + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    with pytest.raises(ImportFormatError, match=reason):
        read_suite(tmp_path, "天气")


def test_an_edited_file_may_hold_blank_lines_and_a_byte_order_mark(tmp_path):
    write_suite(tmp_path, content(tasks=[task(1), task(2)]))
    path = tmp_path / "suites" / "天气" / "tasks.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert [one.id for one in read_suite(tmp_path, "天气").tasks()] == ["t1", "t2"]


def test_other_files_that_are_wrong(tmp_path):
    write_suite(tmp_path, content())
    folder = tmp_path / "suites" / "天气"
    header = (folder / "suite.json").read_text()
    (folder / "suite.json").write_text(header.replace('"format": 1', '"format": 2'))
    with pytest.raises(ConfigError, match="newer hermes-lab"):
        read_suite(tmp_path, "天气")
    (folder / "suite.json").write_text("[]")
    with pytest.raises(ImportFormatError, match=r"suite\.json"):
        read_suite(tmp_path, "天气")
    (folder / "suite.json").write_text(header)
    (folder / "tools.json").unlink()
    with pytest.raises(MissingError, match="reading the suite"):
        read_suite(tmp_path, "天气")


def test_tasks_that_contradict_the_suite_are_not_written(tmp_path):
    with pytest.raises(ConfigError, match="'t1' stands more than once"):
        write_suite(tmp_path, content(tasks=[task(1), task(1)]))
    with pytest.raises(ImportFormatError, match="'t1' offers the tool 'fly'"):
        write_suite(tmp_path, content(tasks=[task(1, tools=("fly",))]))
    assert stored_names(tmp_path) == []


def test_added_tools_that_differ_get_names_of_their_own(tmp_path):
    add_tasks(tmp_path, content(tasks=[task(1)]))
    other = msgspec.structs.replace(WEATHER, description="another")
    recorded = [{"tool": "weather", "arguments": {}, "output": 1}]
    grader = AllOf(parts=(Part(grader=Calls(wanted=(WantedCall(tool="weather"),))),))
    new = task(2, grader=grader, environment={"recorded": recorded})
    assert add_tasks(tmp_path, content(tasks=[task(1), new])._replace(tools={"weather": other})) == 1
    suite = read_suite(tmp_path, "天气")
    assert list(suite.toolbox()) == ["weather", "weather_2"]
    added = suite.tasks()[1]
    assert added.tools == ("weather_2",)
    assert added.grader.parts[0].grader.wanted[0].tool == "weather_2"
    assert suite.toolbox()["weather_2"].run(suite.open(added), {}).output == 1


def test_inferred_schemas_give_way_and_join():
    guess = ToolDefinition(
        name="weather", parameters={"type": "object", "properties": {}, "required": []}, inferred=True
    )
    wider = ToolDefinition(
        name="weather",
        parameters={"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
        inferred=True,
    )
    tools = {"weather": guess}
    assert merge_tools(tools, [wider]) == {"weather": "weather"}
    assert tools["weather"].parameters["properties"] == {"day": {"type": "string"}}
    assert tools["weather"].parameters["required"] == []
    merge_tools(tools, [WEATHER, guess])
    assert tools == {"weather": WEATHER}


# ---------------------------------------------------------------- recorded tools


def test_the_same_call_whatever_its_order_and_kind_of_number():
    calls = [
        RecordedCall(tool="a", arguments={"x": 2, "y": [1.0]}, output="一"),
        RecordedCall(tool="a", arguments={"y": [1], "x": 2.0}, output="二"),
    ]
    world = RecordedEnvironment(calls)
    assert [world.result("a", {"y": [1], "x": 2}).output for _ in range(3)] == ["一", "二", "二"]
    assert RecordedEnvironment(calls).result("a", {"x": 2, "y": [1]}).output == "一"  # each world from the start
    with pytest.raises(ToolError, match="not recorded") as caught:
        world.result("a", {"x": "2", "y": [1]})
    assert caught.value.kind == ErrorKind.NOT_FOUND
    with pytest.raises(ToolError, match="no tables"):
        world.query("select 1")


def test_failures_are_told_as_objects():
    call = RecordedCall(tool="a", arguments={}, output="坏了", status=Status.ERROR, error_kind=ErrorKind.CONNECTION)
    result = RecordedTool(ToolDefinition(name="a")).run(RecordedEnvironment([call]), {}, seconds=1.0)
    assert (result.output, result.status, result.transient) == ({"error": "坏了"}, Status.ERROR, True)


@given(
    st.dictionaries(st.text(), st.recursive(st.text() | st.floats() | st.none(), st.lists, max_leaves=5), max_size=3)
)
def test_no_arguments_make_a_recorded_tool_raise(arguments):
    tool = RecordedTool(ToolDefinition(name="a"))
    world = RecordedEnvironment([RecordedCall(tool="a", arguments=arguments, output=1)])
    assert tool.run(world, arguments).output == 1
    assert tool.run(world, {**arguments, "another": 1, "one": 2}).error_kind == ErrorKind.NOT_FOUND


def test_deep_arguments_are_not_found():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    result = RecordedTool(ToolDefinition(name="a")).run(RecordedEnvironment([]), {"x": deep})
    assert result.error_kind == ErrorKind.NOT_FOUND


# ---------------------------------------------------------------- splits and names


@given(st.lists(st.integers(0, 40), min_size=1, max_size=200), st.integers(0, 3))
def test_splits_share_no_family(families, seed):
    tasks = [Task(id=str(i), family=f"f{n}", type="x", prompt="p") for i, n in enumerate(families)]
    split = split_by_family(tasks, seed)
    assert [one.id for one in split] == [one.id for one in tasks]
    assert len({(one.family, one.split) for one in split}) == len({one.family for one in split})
    assert split_by_family(tasks, seed) == split
    assert {one.split for one in split} <= set(SHARES)


def test_suites_are_found_by_name(tmp_path):
    write_suite(tmp_path, content("mine"))
    write_suite(tmp_path, content("broken"))
    (tmp_path / "suites" / "broken" / "tasks.jsonl").write_text("{")
    assert registry.open_suite("mine", tmp_path).name == "mine"
    with pytest.raises(MissingError, match="no suite 'yours': there are desk, broken, mine"):
        registry.open_suite("yours", tmp_path)
    with pytest.raises(ImportFormatError):
        registry.open_suite("broken", tmp_path)


def test_the_name_of_a_built_in_suite_is_not_given_to_another(tmp_path):
    """It could be written, and never be run."""
    for write in (write_suite, add_tasks):
        with pytest.raises(ConfigError, match="'desk' is built in"):
            write(tmp_path, content("desk"))
    assert not (tmp_path / "suites").exists()


def test_list_of_suites(tmp_path):
    write_suite(tmp_path, content("mine", tasks=[task(1), task(2, confirmed=False)]))
    write_suite(tmp_path, content("wrong"))
    (tmp_path / "suites" / "wrong" / "tools.json").write_text("{")
    desk, mine, wrong = registry.list_suites(tmp_path)
    assert (desk.name, desk.kind) == ("desk", "built in")
    assert {"traffic": 160, "regression": 200, "heldout": 240}.items() <= desk.splits.items()
    assert mine == registry.SuiteRow("mine", "stored", 1, {"none": 1}, 1, "about")
    assert "tools.json" in wrong.note
