"""Reads the Berkeley Function-Calling Leaderboard's own files (package `bfcl-eval`) as a suite, single-turn categories.

A question becomes a prompt, its functions the offered tools, and its possible answers the allowed values of a `Calls`
grader. Differences from BFCL's own scoring: the calls of a parallel question are matched as well as can be, not in
the first way that comes; texts within lists and objects are compared like any other, without case and blanks; Java and
JavaScript arguments are JSON values, not source text; a whole float such as 5.0 stands for an int. A function that
differs from an earlier one of the same name is called `name_2`, since a suite's tools have one name each.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes_lab import payload
from hermes_lab.effects import Ending
from hermes_lab.errors import EventError, ImportFormatError, MissingError
from hermes_lab.kinds import Status
from hermes_lab.suites.bfcl_schema import to_json_schema
from hermes_lab.suites.recorded import ToolDefinition
from hermes_lab.suites.splitting import split_by_family
from hermes_lab.suites.stored import Content, StoredTask
from hermes_lab.suites.tool_names import merge_tools, with_tool_names
from hermes_lab.tasks import Calls, Exchange, Grader, PythonGrader, Task, WantedCall
from hermes_lab.tools.base import Environment

ONE_CALL = ("simple_python", "simple_java", "simple_javascript", "multiple", "live_simple", "live_multiple")
"""Categories whose tasks are answered by one call."""

SEVERAL_CALLS = ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple")
"""Categories whose tasks are answered by several calls, in any order."""

NO_CALL = ("irrelevance", "live_irrelevance")
"""Categories where no tool fits, so that any call is wrong."""

ANY_CALL = ("live_relevance",)
"""Categories where some tool fits, and no answer is given: any call is right."""

CATEGORIES = (*ONE_CALL, *SEVERAL_CALLS, *NO_CALL, *ANY_CALL)
"""Every category that can be imported."""

_WITH_VARIABLES = ("simple_java", "simple_javascript")

_FILE = re.compile(r"BFCL_v(\d+)_(\w+)\.json")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_MAX_FAMILY = 80

_Folder = Path | zipfile.Path


class _Question(msgspec.Struct, frozen=True):
    """A line of a category's file."""

    id: str
    question: list[list[_Said]]
    function: list[_Function]


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: str


class _Function(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any]
    description: str = ""


class _Truth(msgspec.Struct, frozen=True):
    """A line of the file of possible answers: calls, each a name and the allowed values of each argument."""

    id: str
    ground_truth: list[dict[str, dict[str, list[Any]]]]


class _Conversation(NamedTuple):
    prompt: str
    history: tuple[Exchange, ...]


def read_bfcl(folder: Path, category: str, *, name: str | None = None, seed: int = 0) -> Content:
    """Return a category of BFCL as a suite.

    Args:
        folder: the wheel of bfcl-eval, the folder it was unzipped to, its `bfcl_eval`, or its `data`.
        category: such as `simple_python`; see `CATEGORIES`.
        name: of the suite; `bfcl-CATEGORY` if None.
        seed: divides the families into traffic, regression and fresh.

    Raises:
        MissingError: there is no such folder or file in it.
        ImportFormatError: a category that is not single-turn, or a file that is not BFCL's; the message has the line.
    """
    if category not in CATEGORIES:
        raise ImportFormatError(f"{category!r} is no single-turn category of BFCL: there are {', '.join(CATEGORIES)}")
    data = _data_folder(folder)
    file = _find(data, category, folder)
    questions = list(_read(file, _Question))
    truths: dict[str, _Truth] = {}
    if category in ONE_CALL + SEVERAL_CALLS:
        answers = data / "possible_answer" / file.name
        if not answers.is_file():
            raise MissingError(f"{answers} is missing: it holds the answers of {category}; unzip the whole package")
        truths = {truth.id: truth for truth in _read(answers, _Truth)}
    tools: dict[str, ToolDefinition] = {}
    tasks = []
    for question in questions:
        names = merge_tools(tools, [_definition(function, category) for function in question.function])
        tasks.append(with_tool_names(_task(question, category, truths), names))
    suite = name or f"bfcl-{category}"
    about = f"BFCL {category}: {len(tasks)} tasks"
    return Content(suite, about, f"{file.name} of {folder.name}", tuple(split_by_family(tasks, seed)), tools)


def any_call(_task: Task, ending: Ending, _environment: Environment | None) -> float:
    """Grade an episode of `live_relevance`: 1 where any call came out ok."""
    return 1.0 if any(call.status == Status.OK for call in ending.calls) else 0.0


# ---------------------------------------------------------------- files


def _data_folder(folder: Path) -> _Folder:
    """Return the folder that holds BFCL's data files, in whichever form the package was given."""
    if not folder.exists():
        raise MissingError(
            f"{folder} is not there: get BFCL's files with `pip download --no-deps bfcl-eval` and name the wheel"
        )
    root: _Folder = folder
    if folder.is_file():
        if not zipfile.is_zipfile(folder):
            raise ImportFormatError(f"{folder} is neither a folder nor a wheel of bfcl-eval")
        root = zipfile.Path(folder)
    for place in (root, root / "data", root / "bfcl_eval" / "data"):
        if place.is_dir() and any(_FILE.fullmatch(path.name) for path in place.iterdir()):
            return place
    raise MissingError(f"{folder} holds no file BFCL_v*_CATEGORY.json: name the folder or wheel of bfcl-eval")


def _find(data: _Folder, category: str, folder: Path) -> _Folder:
    found: dict[int, _Folder] = {}
    others = set()
    for path in data.iterdir():
        match = _FILE.fullmatch(path.name)
        if match and match[2] == category:
            found[int(match[1])] = path
        elif match and match[2] in CATEGORIES:
            others.add(match[2])
    if not found:
        raise MissingError(f"{folder} has no file of {category!r}; it has: {', '.join(sorted(others)) or 'none'}")
    return found[max(found)]


def _read(path: _Folder, kind: type[Any]) -> Iterator[Any]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ImportFormatError(f"{path} is not UTF-8: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield msgspec.convert(payload.loads(line), kind)
        except (EventError, msgspec.ValidationError) as error:
            raise ImportFormatError(f"{path}, line {number}: not BFCL's form: {error}") from None


# ---------------------------------------------------------------- tasks


def _definition(function: _Function, category: str) -> ToolDefinition:
    schema = to_json_schema(function.parameters, variables=category in _WITH_VARIABLES)
    return ToolDefinition(name=function.name, description=function.description, parameters=schema)


def _task(question: _Question, category: str, truths: Mapping[str, _Truth]) -> StoredTask:
    wanted: tuple[WantedCall, ...] = ()
    if category in ONE_CALL + SEVERAL_CALLS:
        if question.id not in truths:
            raise ImportFormatError(f"there is no possible answer for {question.id}: are the files of one version?")
        wanted = tuple(_wanted(call) for call in truths[question.id].ground_truth)
    names = tuple(function.name for function in question.function)
    talk = _conversation(question.question)
    grader: Grader = Calls(wanted=wanted)
    if category in ANY_CALL:
        grader = PythonGrader(function="hermes_lab.suites.bfcl:any_call")
    return StoredTask(
        id=question.id,
        family=_family([want.tool for want in wanted] or names),
        type=category,
        prompt=talk.prompt,
        history=talk.history,
        tools=names,
        difficulty=2 if category in SEVERAL_CALLS else 1,
        language="zh" if _CHINESE.search(talk.prompt) else "en",
        grader=grader,
        # Only where one call is right: an agent that must call cannot abstain, nor make a second call.
        answer_by="call" if category in ONE_CALL else "text",
    )


def _wanted(call: dict[str, dict[str, list[Any]]]) -> WantedCall:
    ((tool, allowed),) = call.items()
    return WantedCall(tool=tool, allowed=allowed)


def _family(names: Iterable[str]) -> str:
    """Return the names of the functions at stake, shortened to a hash where they are too many to read."""
    text = "+".join(sorted(set(names))) or "no_tools"
    if len(text) <= _MAX_FAMILY:
        return text
    return f"{text[:_MAX_FAMILY]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _conversation(turns: list[list[_Said]]) -> _Conversation:
    """Return the last thing that the user says, with the system text before it, and the exchanges before that."""
    said = [message for turn in turns for message in turn]
    pending: list[str] = []
    history: list[Exchange] = []
    for message in said:
        if message.role == "assistant":
            history.append(Exchange(user="\n\n".join(pending), agent=message.content))
            pending = []
        else:
            pending.append(message.content)
    return _Conversation("\n\n".join(pending), tuple(history))
