"""The decorator: schemas, conversion, results, failures, limits, isolation."""

from __future__ import annotations

import contextvars
import dataclasses
import datetime
import enum
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.tools import FunctionTool, Level, Result, ToolError, tool
from hermes_lab.tools.limits import MOST_LEFT_RUNNING, call_within, time_left
from hermes_lab.tools.signature import read_signature


class Address(msgspec.Struct):
    """Where somebody lives."""

    street: str
    number: int = 1


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "蓝"


class Node(msgspec.Struct):
    below: list[Node]


OrderId = Annotated[str, msgspec.Meta(pattern=r"^SO-\d{4}$", description="such as SO-1042")]


@tool(level=Level.EXECUTABLE, seconds=5.0, output_chars=500)
def book(
    env: Any,
    order: OrderId,
    day: datetime.date,
    slot: Literal["am", "pm"] = "am",
    guests: Annotated[int, msgspec.Meta(ge=1, le=9)] = 2,
    address: Address | None = None,
    colours: tuple[Colour, ...] = (),
    price: float = 0.0,
) -> dict[str, Any]:
    """Book an appointment
    for an order.

    It is here that details stand, which the model is not shown.

    Args:
        env: the world.
        order: the order's id.
        day: when, as in 2025-01-31; a very
            long description goes on.
        slot (str): half of the day.
        guests: how many, with a colon: here.

    Returns:
        what was booked.

    Raises:
        ToolError: never.
    """
    return {"env": env is not None, "order": order, "day": day, "slot": slot, "guests": guests, "address": address}


class World:
    """An environment that a child process can be sent."""

    def __init__(self, name: str = "世界") -> None:
        self.name = name

    def query(self, sql: str) -> list[list[Any]]:
        return [[sql]]

    def close(self) -> None: ...


def test_schema_is_read_from_the_signature_and_the_docstring() -> None:
    spec = book.spec
    assert (spec.name, spec.level, spec.action) == ("book", Level.EXECUTABLE, Action.TOOL_CALLED)
    assert spec.description == "Book an appointment for an order."
    assert spec.limits.seconds == 5.0
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["order", "day"],
        "properties": {
            "order": {"type": "string", "pattern": r"^SO-\d{4}$", "description": "the order's id."},
            "day": {
                "type": "string",
                "format": "date",
                "description": "when, as in 2025-01-31; a very long description goes on.",
            },
            "slot": {"enum": ["am", "pm"], "default": "am", "description": "half of the day."},
            "guests": {
                "type": "integer",
                "minimum": 1,
                "maximum": 9,
                "default": 2,
                "description": "how many, with a colon: here.",
            },
            "address": {
                "anyOf": [
                    {
                        "type": "object",
                        "description": "Where somebody lives.",
                        "properties": {"street": {"type": "string"}, "number": {"type": "integer", "default": 1}},
                        "required": ["street"],
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
            "colours": {"type": "array", "items": {"enum": ["red", "蓝"]}, "default": []},
            "price": {"type": "number", "default": 0.0},
        },
    }
    jsonschema.Draft202012Validator.check_schema(spec.parameters)


def test_it_can_still_be_called_as_the_function() -> None:
    assert book(None, "x", datetime.date(2025, 1, 31))["guests"] == 2
    assert book.__name__ == "book"
    assert "Book an appointment" in (book.__doc__ or "")


def test_run_converts_arguments_and_uses_defaults() -> None:
    arguments = {"order": "SO-1042", "day": "2025-01-31", "address": {"street": "长安街"}, "guests": 3.0}
    result = book.run(World(), arguments)
    assert result.output == {
        "env": True,
        "order": "SO-1042",
        "day": "2025-01-31",
        "slot": "am",
        "guests": 3,
        "address": {"street": "长安街", "number": 1},
    }
    assert (result.status, result.error_kind, result.transient) == (Status.OK, None, False)
    assert result.latency_ms is not None
    assert 0 < result.latency_ms < 5000
    assert arguments["guests"] == 3.0, "the caller's arguments stay as they are"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing required field `order`"),
        ({"order": "SO-1", "day": "2025-01-31"}, "at `order`"),
        ({"order": "SO-1042", "day": "31.1."}, "at `day`"),
        ({"order": "SO-1042", "day": "2025-01-31", "guests": 0}, "at `guests`"),
        ({"order": "SO-1042", "day": "2025-01-31", "guests": "2"}, "at `guests`"),
        ({"order": "SO-1042", "day": "2025-01-31", "guests": 2.5}, "at `guests`"),
        ({"order": "SO-1042", "day": "2025-01-31", "guests": True}, "at `guests`"),
        ({"order": "SO-1042", "day": "2025-01-31", "slot": "PM"}, "at `slot`"),
        ({"order": "SO-1042", "day": "2025-01-31", "env": 1}, "unknown field `env`"),
        ({"order": "SO-1042", "day": "2025-01-31", "颜色": 1}, "unknown field `颜色`"),
        ({"order": None, "day": "2025-01-31"}, "at `order`"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, Any], says: str) -> None:
    result = book.run(World(), arguments)
    assert (result.status, result.error_kind) == (Status.INVALID, ErrorKind.BAD_ARGUMENTS)
    assert says in result.output["error"]
    assert result.output["error"].startswith("book: ")


def test_a_tool_that_needs_an_environment_says_so() -> None:
    result = book.run(None, {"order": "SO-1042", "day": "2025-01-31"})
    assert (result.status, result.error_kind) == (Status.ERROR, ErrorKind.TOOL_UNAVAILABLE)


def no_docstring(a: int) -> int:
    return a


def no_type(a) -> int:  # type: ignore[no-untyped-def]
    """Add."""
    return a


def many(*args: int) -> int:
    """Add."""
    return len(args)


def named(**kwargs: int) -> int:
    """Add."""
    return len(kwargs)


def positional(a: int, /) -> int:
    """Add."""
    return a


def strange(a: complex) -> int:
    """Add."""
    return int(a.real)


def nested_type(a: Node) -> int:
    """Add."""
    return len(a.below)


def unknown_name(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Add."""
    return int(a)


def two_objects(a: Address | World) -> int:
    """Add."""
    return 1


def changeable(a: list[int] = []) -> int:  # noqa: B006
    """Add."""
    return len(a)


def wrong_args(a: int) -> int:
    """Add.

    Args:
        b: there is none.
    """
    return a


def section_first(a: int) -> int:
    """Args:
    a: no summary.
    """
    return a


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_docstring, "docstring"),
        (no_type, "'a' a type"),
        (many, "write each out by name"),
        (named, "write each out by name"),
        (positional, "write each out by name"),
        (strange, "complex"),
        (nested_type, "holds itself"),
        (unknown_name, "Nowhere"),
        (two_objects, "two_objects"),
        (changeable, "can change between calls"),
        (wrong_args, "'b'"),
        (section_first, "must begin with what the tool does"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_at_once(function: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        tool(function)
    assert function.__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "has blank"}, "letters, digits"),
        ({"name": "工具"}, "letters, digits"),
        ({"seconds": 0}, "above 0"),
        ({"seconds": math.nan}, "above 0"),
        ({"output_chars": 0}, "above 0"),
        ({"memory_mb": 100}, "isolated"),
        ({"isolated": True, "seconds": math.inf}, "time limit"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    add.__qualname__ = "add"
    with pytest.raises(TypeError, match=says):
        tool(**options)(add)


def test_an_isolated_tool_must_be_importable() -> None:
    def local(a: int) -> int:
        """Add."""
        return a

    with pytest.raises(TypeError, match="top level of a module"):
        tool(isolated=True)(local)


# What a tool returns


@dataclasses.dataclass
class Point:
    x: float
    where: Path


def returning(value: Any, **options: Any) -> Result:
    @tool(**options)
    def give() -> Any:
        """Give it."""
        return value

    return give.run(None, {})


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ({"a": math.nan, "b": [math.inf, -math.inf, 1.5]}, {"a": None, "b": [None, None, 1.5]}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, "二"), [1, "二"]),
        (datetime.date(2025, 1, 31), "2025-01-31"),
        (Decimal("12.50"), "12.50"),
        (Path("/tmp/文件"), "/tmp/文件"),
        (Point(math.nan, Path("x")), {"x": None, "where": "x"}),
        (Address("街"), {"street": "街", "number": 1}),
        (Colour.BLUE, "蓝"),
        ({1: 2, None: 3, False: 4, Colour.RED: 5}, {"1": 2, "null": 3, "false": 4, "red": 5}),
        ("a\ud800b", "a\ufffdb"),
        ({"k\udfff": 1}, {"k\ufffd": 1}),
        (2**80, 2**80),
        (b"\xff", "/w=="),
    ],
)
def test_results_become_json(value: Any, output: Any) -> None:
    result = returning(value)
    assert result.status is Status.OK
    assert result.output == output
    msgspec.json.encode(result.output)


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [object(), iter([1]), {(1, 2): 3}, {1, "a"}, _loop(), lambda: 1])
def test_results_without_a_json_form_are_a_clear_failure(value: Any) -> None:
    result = returning(value)
    assert (result.status, result.error_kind) == (Status.ERROR, ErrorKind.TOOL_FAILED)
    assert "JSON" in result.output["error"]


def test_numpy_values_become_what_they_hold() -> None:
    numpy = pytest.importorskip("numpy")
    assert returning({"a": numpy.array([[1.0, math.nan]]), "b": numpy.int64(3)}).output == {"a": [[1.0, None]], "b": 3}


def test_a_long_result_is_cut_and_marked() -> None:
    result = returning("汉" * 100, output_chars=50)
    assert result.status is Status.OK
    assert result.output == {"cut": True, "chars": 102, "text": '"' + "汉" * 49}
    assert returning("汉" * 48, output_chars=50).output == "汉" * 48


# What a tool raises


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("error", "status", "kind", "transient", "says"),
    [
        (ToolError("没有", ErrorKind.NOT_FOUND), Status.ERROR, ErrorKind.NOT_FOUND, False, "没有"),
        (ToolError("busy", transient=True), Status.ERROR, ErrorKind.TOOL_FAILED, True, "busy"),
        (KeyError("SO-1"), Status.ERROR, ErrorKind.TOOL_FAILED, False, "KeyError: 'SO-1'"),
        (ValueError(), Status.ERROR, ErrorKind.TOOL_FAILED, False, "ValueError"),
        (MemoryError(), Status.ERROR, ErrorKind.MEMORY_LIMIT, False, "memory"),
        (TimeoutError("slow"), Status.TIMEOUT, ErrorKind.TIMEOUT, True, "slow"),
        (ConnectionResetError("gone"), Status.ERROR, ErrorKind.CONNECTION, True, "gone"),
        (SystemExit(3), Status.ERROR, ErrorKind.TOOL_FAILED, False, "SystemExit: 3"),
        (KeyboardInterrupt(), Status.ERROR, ErrorKind.TOOL_FAILED, False, "KeyboardInterrupt"),
        (GeneratorExit(), Status.ERROR, ErrorKind.TOOL_FAILED, False, "GeneratorExit"),
        (Unprintable(), Status.ERROR, ErrorKind.TOOL_FAILED, False, "cannot be shown"),
        (ValueError("x\ud800" * 2000), Status.ERROR, ErrorKind.TOOL_FAILED, False, "x\ufffdx"),
    ],
)
def test_whatever_a_tool_raises_is_its_result(
    error: BaseException, status: Status, kind: ErrorKind, transient: bool, says: str
) -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise error

    result = fail.run(None, {})
    assert (result.status, result.error_kind, result.transient) == (status, kind, transient)
    assert says in result.output["error"]
    assert len(result.output["error"]) < 1100
    assert "Traceback" not in result.output["error"]


def test_endless_recursion_is_a_failure() -> None:
    @tool
    def deep(n: int = 0) -> int:
        """Fall."""
        return deep(n + 1)

    assert "RecursionError" in deep.run(None, {}).output["error"]


def test_ctrl_c_is_the_persons_where_the_tool_runs_in_the_main_thread() -> None:
    @tool(seconds=math.inf)
    def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop.run(None, {})
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(stop.run, None, {}).result().status is Status.ERROR


# Limits


@tool(seconds=0.2)
def nap(seconds: float) -> str:
    """Sleep.

    Args:
        seconds: how long.
    """
    time.sleep(seconds)
    return f"{time_left() <= 0.2} {threading.current_thread().name}"


def test_a_call_over_its_time_ends_as_timeout() -> None:
    started = time.perf_counter()
    result = nap.run(None, {"seconds": 4.0})
    assert time.perf_counter() - started < 3.5
    assert (result.status, result.error_kind, result.transient) == (Status.TIMEOUT, ErrorKind.TIMEOUT, True)
    assert "0.2 s" in result.output["error"]
    assert nap.run(None, {"seconds": 0.0}).output == "True hermes-lab-tool"


@pytest.mark.parametrize("seconds", [0.05, 0.0, -1.0])
def test_seconds_shortens_the_limit_and_never_stretches_it(seconds: float) -> None:
    assert nap.run(None, {"seconds": 0.1}, seconds=seconds).status is Status.TIMEOUT
    assert nap.run(None, {"seconds": 0.4}, seconds=9.0).status is Status.TIMEOUT


def test_outside_of_a_call_time_never_ends() -> None:
    assert time_left() == math.inf


def test_a_quick_tool_runs_where_it_is_called() -> None:
    @tool(seconds=math.inf)
    def here() -> int:
        """Say where."""
        return threading.get_ident()

    assert here.run(None, {}).output == threading.get_ident()


def test_calls_see_the_callers_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    @tool
    def read() -> str:
        """Read it."""
        return variable.get()

    variable.set("你好")
    assert read.run(None, {}).output == "你好"


def test_threads_are_used_again_and_results_never_mix() -> None:
    @tool
    def echo(n: int) -> list[int]:
        """Echo."""
        time.sleep(0.0001 * (n % 7))
        return [n, threading.get_ident()]

    with ThreadPoolExecutor(8) as pool:
        outputs = [result.output for result in pool.map(lambda n: echo.run(None, {"n": n}), range(400))]
    assert [n for n, _ in outputs] == list(range(400))
    assert len({thread for _, thread in outputs}) <= 16


def test_too_many_calls_left_running_are_refused_until_they_end() -> None:
    free = threading.Event()

    @tool(seconds=0.005)
    def wait() -> None:
        """Wait."""
        free.wait(20)

    results = [wait.run(None, {}) for _ in range(MOST_LEFT_RUNNING + 1)]
    free.set()
    kinds = [result.error_kind for result in results]
    assert kinds[0] is ErrorKind.TIMEOUT
    assert kinds[-1] is ErrorKind.TOOL_UNAVAILABLE
    assert results[-1].transient
    deadline = time.monotonic() + 10
    while returning(1).status is not Status.OK:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    assert returning(1).output == 1  # a thread that the child will not have
    pid = os.fork()
    if pid == 0:
        os._exit(0 if returning(2).output == 2 else 1)
    assert os.waitpid(pid, 0)[1] == 0


# Isolation


def _spin() -> None:
    while True:
        time.sleep(0.001)


def _print_much() -> str:
    print("noise " * 1000)
    os.write(1, b'{"output": "forged"}')
    return "真"


def _fork(said: str) -> None:
    child = os.fork()
    if child:
        Path(said).write_text(str(child))
    _spin()


def _fail(error: BaseException) -> None:
    raise error


_DEEDS: dict[str, Any] = {
    "name": lambda env, n: [env.name, os.getpid()],
    "spin": lambda env, n: _spin(),
    "eat": lambda env, n: len(bytearray(n * 1024 * 1024)),
    "die": lambda env, n: os.abort(),
    "exit": lambda env, n: _fail(SystemExit(4)),
    "print": lambda env, n: _print_much(),
    "fail": lambda env, n: _fail(ToolError("没有", ErrorKind.NOT_FOUND, transient=True)),
    "fork": lambda env, n: _fork(env.name),
    "long": lambda env, n: "x" * n,
}
Deed = Literal["name", "spin", "eat", "die", "exit", "print", "fail", "fork", "long"]


@tool(isolated=True, seconds=20.0, memory_mb=200)
def hard(env: World, what: Deed, n: int = 0) -> Any:
    """Do something hard.

    Args:
        env: the world.
        what: what to do.
        n: how much of it.
    """
    return _DEEDS[what](env, n)


def test_isolated_calls_run_in_another_process() -> None:
    name, pid = hard.run(World("京"), {"what": "name"}).output
    assert name == "京"
    assert pid != os.getpid()


def test_isolated_calls_are_killed_at_their_limit() -> None:
    started = time.perf_counter()
    result = hard.run(World(), {"what": "spin"}, seconds=1.0)
    assert (result.status, result.error_kind) == (Status.TIMEOUT, ErrorKind.TIMEOUT)
    assert time.perf_counter() - started < 5


def test_isolated_memory_is_bounded() -> None:
    assert hard.run(World(), {"what": "eat", "n": 50}).output == 50 * 1024 * 1024
    result = hard.run(World(), {"what": "eat", "n": 1000})
    assert (result.status, result.error_kind) == (Status.ERROR, ErrorKind.MEMORY_LIMIT)


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [
        ("die", ErrorKind.CRASHED, "killed by signal"),
        ("exit", ErrorKind.TOOL_FAILED, "SystemExit: 4"),
        ("fail", ErrorKind.NOT_FOUND, "没有"),
    ],
)
def test_isolated_failures_are_told(what: str, kind: ErrorKind, says: str) -> None:
    result = hard.run(World(), {"what": what})
    assert (result.status, result.error_kind, result.transient) == (Status.ERROR, kind, what == "fail")
    assert says in result.output["error"]


def test_what_an_isolated_call_prints_is_not_its_answer() -> None:
    assert hard.run(World(), {"what": "print"}).output == "真"


def test_an_isolated_result_is_cut_in_the_child() -> None:
    assert hard.run(World(), {"what": "long", "n": 30_000}).output["chars"] == 30_002


def test_an_isolated_calls_own_children_are_killed_with_it(tmp_path: Path) -> None:
    said = tmp_path / "号码"
    assert hard.run(World(str(said)), {"what": "fork"}, seconds=3.0).status is Status.TIMEOUT
    stat = Path(f"/proc/{said.read_text()}/stat")
    deadline = time.monotonic() + 5
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":  # a zombie is as good as gone
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_isolated_arguments_are_checked_before_a_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    assert hard.run(World(), {"what": "nothing"}).status is Status.INVALID


def test_an_environment_that_cannot_be_sent_is_named() -> None:
    world = World()
    world.lock = threading.Lock()  # type: ignore[attr-defined]
    assert "environment" in hard.run(world, {"what": "name"}).output["error"]


# Whatever is valid by the schema comes through as it is


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@tool(output_chars=10**9)
def echo(
    text: str,
    count: Annotated[int, msgspec.Meta(ge=-5, le=5)],
    ratio: float,
    colour: Colour,
    home: Address | None,
    words: list[str],
    more: dict[str, int],
    anything: Any = None,
    flag: bool = False,
) -> list[Any]:
    """Give the arguments back."""
    return [text, count, ratio, colour, home, words, more, anything, flag]


@given(
    st.fixed_dictionaries(
        {
            "text": st.text(),
            "count": st.integers(-5, 5) | st.integers(-5, 5).map(float),
            "ratio": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**50), 2**50),
            "colour": st.sampled_from(["red", "蓝"]),
            "home": st.none() | st.fixed_dictionaries({"street": st.text(), "number": st.integers(0, 2**40)}),
            "words": st.lists(st.text(), max_size=3),
            "more": st.dictionaries(st.text(), st.integers(-(2**40), 2**40), max_size=3),
        },
        optional={"anything": _JSON, "flag": st.booleans()},
    )
)
@settings(max_examples=200, deadline=None)
def test_schema_valid_arguments_come_through(arguments: dict[str, Any]) -> None:
    jsonschema.validate(arguments, echo.spec.parameters)
    result = echo.run(None, arguments)
    assert result.status is Status.OK, result.output
    expected = [arguments.get(name) for name in echo.spec.parameters["properties"]]
    expected[-1] = arguments.get("flag", False)
    assert result.output == expected


@given(st.dictionaries(st.sampled_from(["text", "count", "ratio", "colour", "home", "words", "more", "odd"]), _JSON))
@settings(max_examples=200, deadline=None)
def test_run_and_schema_agree_on_what_is_wrong(arguments: dict[str, Any]) -> None:
    valid = jsonschema.Draft202012Validator(echo.spec.parameters).is_valid(arguments)
    assert (echo.run(None, arguments).status is Status.OK) == valid


def _deep() -> Any:
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "arguments", [{1: 2}, [], None, "文", {"text": _deep()}, {"\ud800": 1}, {"colour": "\ud800"}, {"count": 10**5000}]
)
def test_arguments_that_no_schema_knows_are_refused_too(arguments: Any) -> None:
    result = echo.run(None, arguments)
    assert (result.status, result.error_kind) == (Status.INVALID, ErrorKind.BAD_ARGUMENTS)
    assert result.output["error"].startswith("echo: ")


def test_no_thread_or_process_left_is_a_passing_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*args: Any, **kwargs: Any) -> None:
        raise OSError("Resource temporarily unavailable")

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("subprocess.Popen", none_left)
    monkeypatch.setattr("threading.Thread.start", no_thread)
    monkeypatch.setattr("hermes_lab.tools.limits._idle", [])
    for tool_, arguments in ((hard, {"what": "name"}), (nap, {"seconds": 0.0})):
        result = tool_.run(World(), arguments)
        assert (result.error_kind, result.transient) == (ErrorKind.TOOL_UNAVAILABLE, True)


def test_signature_of_a_function_without_arguments() -> None:
    def now() -> str:
        """Tell the time."""
        return ""

    assert read_signature(now).parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert isinstance(tool(now), FunctionTool)


def test_a_call_within_one_that_ends_no_later_needs_no_thread_of_its_own() -> None:
    def outer() -> tuple[int, int, int]:
        here = threading.get_ident()
        return here, call_within(10.0, threading.get_ident), call_within(1.0, threading.get_ident)

    own, longer, shorter = call_within(5.0, outer)
    assert own == longer
    assert shorter not in (own, threading.get_ident())
