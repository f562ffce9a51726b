"""BFCL's files as a suite: types, allowed answers, splits, and the real files where they can be had."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermes_lab.checks import schema_error
from hermes_lab.effects import Called, End, Ending
from hermes_lab.errors import ImportFormatError, MissingError
from hermes_lab.kinds import Status
from hermes_lab.suites import bfcl
from hermes_lab.suites.graders import grade
from hermes_lab.suites.stored import StoredSuite
from hermes_lab.tasks import Calls, Exchange, PythonGrader, Split

SAMPLES = Path(__file__).parent / "bfcl"
WHEEL = "bfcl_eval-2026.3.23-py3-none-any.whl"


def score(task, *calls, end=End.COMPLETED):
    called = tuple(Called(tool, arguments, Status.OK) for tool, arguments in calls)
    return grade(task, Ending(end=end, calls=called), None).score


@pytest.fixture(scope="module")
def simple():
    return bfcl.read_bfcl(SAMPLES, "simple_python")


def test_types_become_json_schema(simple):
    tool = simple.tools["hotel.book"]
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city."},
            "nights": {"type": "integer"},
            "price": {"type": "number"},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["sea view", "breakfast"]}},
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name"],
                "additionalProperties": False,
            },
            "corner": {"type": "array", "items": {"type": "number"}},
            "note": {},
        },
        "required": ["city", "nights"],
        "additionalProperties": False,
    }
    assert schema_error(tool.parameters) is None


BOOKED = {"city": "new york", "nights": 2, "extras": ["Sea-View"]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 1.0),
        ({"city": "N.Y.C."}, 1.0),
        ({"price": 100.0}, 1.0),
        ({"guest": {"name": "anna"}}, 1.0),
        ({"guest": {"name": "Ann", "age": 30}, "corner": [1.5, 2.0]}, 1.0),
        ({"guest": {"age": 30}}, 0.0),
        ({"guest": {"name": "Ann", "pet": "dog"}}, 0.0),
        ({"corner": [2, 1.5]}, 0.0),
        ({"nights": "2"}, 0.0),
        ({"nights": 3}, 0.0),
        ({"price": True}, 0.0),
        ({"extras": []}, 0.0),
        ({"colour": "red"}, 0.0),
    ],
)
def test_allowed_values(simple, change, expected):
    assert score(simple.tasks[0], ("hotel.book", BOOKED | change)) == expected


def test_a_missing_argument_a_second_call_and_no_call_are_wrong(simple):
    task = simple.tasks[0]
    assert score(task, ("hotel.book", {"city": "NYC", "nights": 2})) == 0  # extras may not be left out
    assert score(task, ("hotel.book", BOOKED), ("hotel.book", BOOKED)) == 0
    assert score(task) == 0


def test_a_function_that_differs_from_its_namesake_gets_a_name_of_its_own(simple):
    assert list(simple.tools) == ["hotel.book", "weather", "weather_2"]
    first, second = simple.tasks[1:]
    assert (first.tools, second.tools) == (("weather",), ("weather_2",))
    assert first.family == second.family == "weather"  # so no split divides them
    assert first.split == second.split
    assert score(first, ("weather", {"city": "杭州"})) == 1
    assert score(second, ("weather_2", {"city": "Oslo", "day": "monday"})) == 1
    assert (first.language, second.language) == ("zh", "en")
    assert [task.answer_by for task in simple.tasks] == ["call"] * 3


def test_parallel_calls_are_matched_as_well_as_they_can_be():
    (task,) = bfcl.read_bfcl(SAMPLES, "parallel").tasks
    oslo, hangzhou = ("weather", {"city": "Oslo"}), ("weather", {"city": "杭州"})
    assert task.answer_by == "text"
    assert score(task, oslo, hangzhou) == score(task, hangzhou, oslo) == 1
    assert score(task, oslo) == 0.7
    assert score(task, oslo, ("weather", {"city": "Bergen"})) == 0
    assert score(task, oslo, hangzhou, oslo) == 0


def test_irrelevance_any_call_is_wrong_and_so_is_breaking_off():
    (task,) = bfcl.read_bfcl(SAMPLES, "live_irrelevance").tasks
    assert task.prompt == "Sing me a song."
    assert task.history == (Exchange(user="Be brief.\n\nHi", agent="Hello!"),)
    assert task.answer_by == "text"  # an agent that must call could not be right
    assert score(task) == score(task, end=End.GAVE_UP) == 1
    assert score(task, ("weather", {"city": "Oslo"})) == 0
    assert score(task, end=End.ERROR) == score(task, end=End.TIMEOUT) == 0


def test_relevance_any_call_is_right():
    (task,) = bfcl.read_bfcl(SAMPLES, "live_relevance").tasks
    assert task.grader == PythonGrader(function="hermes_lab.suites.bfcl:any_call")
    assert score(task, ("weather", {"city": "Bergen"})) == 1
    assert score(task) == 0


def test_java_arguments_may_be_names_of_variables():
    content = bfcl.read_bfcl(SAMPLES, "simple_java")
    properties = content.tools["Lists.sort"].parameters["properties"]
    assert properties["items"] == {"type": ["array", "string"], "items": {"type": "integer"}}
    assert properties["size"] == {"type": "integer"}
    assert score(content.tasks[0], ("Lists.sort", {"items": "items", "up": True})) == 1


def test_a_call_of_an_imported_tool_is_accepted(simple):
    suite = StoredSuite(simple)
    task = suite.tasks()[0]
    world = suite.open(task)
    assert suite.toolbox()["hotel.book"].run(world, BOOKED).output == {"status": "accepted"}


@pytest.mark.parametrize("category", ["multi_turn_base", "web_search", "memory", "format_sensitivity", "nonsense"])
def test_other_categories_are_refused(category):
    with pytest.raises(ImportFormatError, match=r"no single-turn category.*simple_python"):
        bfcl.read_bfcl(SAMPLES, category)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(MissingError, match="pip download"):
        bfcl.read_bfcl(tmp_path / "没有", "simple_python")
    with pytest.raises(MissingError, match="holds no file"):
        bfcl.read_bfcl(tmp_path, "simple_python")
    with pytest.raises(MissingError, match=r"it has: .*parallel"):
        bfcl.read_bfcl(SAMPLES, "multiple")
    shutil.copy(SAMPLES / "BFCL_v4_simple_python.json", tmp_path)
    with pytest.raises(MissingError, match="possible_answer"):
        bfcl.read_bfcl(tmp_path, "simple_python")


@pytest.mark.parametrize(("line", "reason"), [("{", "line 2"), ('{"id": "x"}', "line 2.*question"), ("[1]", "line 2")])
def test_a_bad_line_is_named(tmp_path, line, reason):
    text = (SAMPLES / "BFCL_v4_live_relevance.json").read_text()
    (tmp_path / "BFCL_v4_live_relevance.json").write_text(text + line + "\n")
    with pytest.raises(ImportFormatError, match=reason):
        bfcl.read_bfcl(tmp_path, "live_relevance")


def test_the_wheel_the_package_and_the_data_folder_are_the_same(tmp_path, simple):
    package = tmp_path / "unzipped" / "bfcl_eval" / "data"
    shutil.copytree(SAMPLES, package)
    wheel = tmp_path / "bfcl.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in package.rglob("*.json"):
            archive.write(path, path.relative_to(tmp_path / "unzipped"))
    for place in (package, package.parent, package.parent.parent, wheel):
        assert bfcl.read_bfcl(place, "simple_python")._replace(source="") == simple._replace(source="")


def test_a_file_that_is_no_wheel_is_refused(tmp_path):
    (tmp_path / "x.whl").write_text("no zip")
    with pytest.raises(ImportFormatError, match="neither a folder nor a wheel"):
        bfcl.read_bfcl(tmp_path / "x.whl", "simple_python")


# ---------------------------------------------------------------- the real files


@pytest.fixture(scope="session")
def wheel():
    """BFCL's own package: named by BFCL_WHEEL, else fetched once into the cache."""
    named = os.environ.get("BFCL_WHEEL")
    if named:
        return Path(named)
    cache = Path(os.environ.get("HERMES_LAB_CACHE") or Path.home() / ".cache" / "hermes-lab") / "bfcl"
    if not (cache / WHEEL).exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "bfcl-eval==2026.3.23", "-d", str(cache)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode or not (cache / WHEEL).exists():
            pytest.skip(f"BFCL's files cannot be fetched here: {done.stderr.strip()[-200:]}")
    return cache / WHEEL


# Tasks to which BFCL's own answers leave no right call: an argument with no allowed value at all.
HOPELESS = {"live_simple_106-63-0", "live_simple_112-68-0"}


@pytest.mark.parametrize("category", bfcl.ONE_CALL + bfcl.SEVERAL_CALLS)
def test_the_first_allowed_answer_of_every_real_task_is_right_and_another_tool_wrong(wheel, category):
    suite = StoredSuite(bfcl.read_bfcl(wheel, category))
    toolbox = suite.toolbox()
    assert not [name for name, tool in toolbox.items() if schema_error(tool.spec.parameters)]
    tasks = suite.tasks()
    assert len(tasks) >= 16
    for task in tasks:
        assert isinstance(task.grader, Calls)
        calls = [(want.tool, first_allowed(want.allowed)) for want in task.grader.wanted]
        assert all(name in toolbox for name in task.tools)
        assert score(task, *calls) == (0 if task.id in HOPELESS else 1), task.id
        assert score(task, ("another_tool", calls[0][1]), *calls[1:]) == 0, task.id
        assert score(task, *calls, calls[0]) == 0, task.id


def first_allowed(allowed):
    chosen = {}
    for name, values in allowed.items():
        if not isinstance(values, list):
            chosen[name] = values
        elif "" not in values and values:
            chosen[name] = plain(values[0])
        elif any(value != "" for value in values):
            chosen[name] = plain(next(value for value in values if value != ""))
    return chosen


def plain(value):
    if isinstance(value, dict):
        return first_allowed(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("category", bfcl.NO_CALL + bfcl.ANY_CALL)
def test_real_tasks_about_whether_to_call(wheel, category):
    right = 0 if category in bfcl.NO_CALL else 1
    for task in bfcl.read_bfcl(wheel, category).tasks:
        assert score(task) == 1 - right
        assert score(task, ("anything", {})) == right


def test_real_splits_share_no_family_and_come_out_near_their_sizes(wheel):
    tasks = bfcl.read_bfcl(wheel, "simple_python").tasks
    assert len(tasks) == 400
    splits = {}
    for task in tasks:
        splits.setdefault(task.family, set()).add(task.split)
    assert all(len(found) == 1 for found in splits.values())
    sizes = {split: sum(task.split == split for task in tasks) for split in Split}
    assert sizes[Split.HELDOUT] == 0
    wanted = {Split.TRAFFIC: 160, Split.REGRESSION: 120, Split.FRESH: 120}
    assert all(abs(sizes[split] - n) <= 3 for split, n in wanted.items())
    assert [t.split for t in bfcl.read_bfcl(wheel, "simple_python", seed=1).tasks] != [t.split for t in tasks]
