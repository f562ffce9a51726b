"""The python tool: what it gives, and that nothing gets out of it or past its limits."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.tools import Level, Result
from hermes_lab.tools.python import CODE_CHARS, PRINTED_CHARS, python


def run(code: str, seconds: float | None = None) -> Result:
    return python.run(None, {"code": code}, seconds=seconds)


def test_the_spec() -> None:
    assert (python.spec.name, python.spec.level, python.spec.action) == (
        "python",
        Level.EXECUTABLE,
        Action.CODE_EXECUTED,
    )
    assert python.spec.parameters["required"] == ["code"]


@pytest.mark.parametrize(
    ("code", "result", "printed"),
    [
        ("1 + 1", 2, ""),
        ("x = 3", None, ""),
        ("print('你好', 1)\n'世界'", "世界", "你好 1\n"),
        ("[1, (2, 3), {'a': {1, 2}}]", [1, [2, 3], {"a": [1, 2]}], ""),
        ("float('nan')", None, ""),
        ("2 ** 100", 2**100, ""),
        ("import datetime\ndatetime.date(2025, 1, 31)", "2025-01-31", ""),
        ("from decimal import Decimal\nDecimal('1.10')", "1.10", ""),
        ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(10)", 55, ""),
        ("import time\ntime.sleep(100)", None, ""),
        ("import re\nbool(re.match('(a+)+$', 'a' * 40 + 'b'))", False, ""),
    ],
)
def test_code_gives_its_last_value_and_what_it_printed(code: str, result: Any, printed: str) -> None:
    came = run(code)
    assert came.status is Status.OK, came.output
    assert came.output == {"result": result, "printed": printed}


def test_objects_are_shown_as_text() -> None:
    output = run("class A: pass\n[A(), A, lambda: 1]").output["result"]
    assert len(output) == 3
    assert all(isinstance(text, str) for text in output)


def test_calls_share_nothing_and_random_is_the_same_each_time() -> None:
    run("secret = 1")
    assert "NameError" in run("secret").output["error"]
    code = "import random\n[random.random() for _ in range(3)]"
    assert run(code).output == run(code).output


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("x = 1\ny = 1 / 0", "line 2: ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("print('so far 远')\nraise ValueError('坏')", "坏\nPrinted before it failed: so far 远"),
        ("raise SystemExit(1)", "Error"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise TimeoutError('mine')", "TimeoutError: mine"),
        ("(" * 5000 + ")" * 5000, "nested"),
        ("'\ud800'", "surrogate"),
        ("1\x00", "SyntaxError"),
    ],
)
def test_errors_of_the_code_are_failures(code: str, says: str) -> None:
    came = run(code)
    assert (came.status, came.error_kind) == (Status.ERROR, ErrorKind.TOOL_FAILED)
    assert says in came.output["error"]
    assert not came.transient


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "import os\nos.listdir('/')",
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HERMES_SECRET')",
        "import os\nos.system('id')",
        "import subprocess",
        "import socket",
        "import urllib.request",
        "import ctypes",
        "import sys\nsys.modules",
        "__import__('os').system('id')",
        "__builtins__",
        "().__class__.__base__.__subclasses__()",
        "(lambda: 0).__globals__",
        "eval('__import__')('os')",
        "import importlib",
    ],
)
def test_nothing_outside_can_be_reached(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SECRET", "绝密-4711")
    came = run(code)
    assert came.status is Status.ERROR, came.output
    assert "root:" not in str(came.output)
    assert "4711" not in str(came.output)


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "exec('while True: pass')",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "while True: print('x' * 1000)",
        "sum(range(10 ** 12))",
        "x = 7 ** 300000\nfor i in range(50): x = x * x",
        "import math\nmath.factorial(10 ** 7)",
    ],
)
def test_endless_code_is_stopped(code: str) -> None:
    started = time.perf_counter()
    came = run(code, seconds=1.0)
    assert time.perf_counter() - started < 6
    assert came.error_kind in (ErrorKind.TIMEOUT, ErrorKind.MEMORY_LIMIT)
    assert came.status is (Status.TIMEOUT if came.error_kind is ErrorKind.TIMEOUT else Status.ERROR)
    assert run("1 + 1").output["result"] == 2


@pytest.mark.parametrize(
    "code",
    [
        "'a' * 10 ** 11",
        "x = 'a'\nwhile True: x += x",
        "[0] * 10 ** 10",
        "bytes(10 ** 11)",
        "10 ** 10 ** 8",
        "'%1000000000d' % 3",
        "f'{3:>1000000000}'",
        "('a' * 10 ** 6).replace('a', 'b' * 10 ** 5)",
        "','.join(['a' * 10 ** 6] * 10 ** 4)",
        "x = []\nwhile True: x = [x, x]",
    ],
)
def test_memory_is_bounded(code: str) -> None:
    came = run(code, seconds=8.0)
    assert (came.status, came.error_kind) == (Status.ERROR, ErrorKind.MEMORY_LIMIT), came.output
    assert run("1 + 1").output["result"] == 2


@pytest.mark.parametrize(
    "code", ["def f(n): return f(n + 1)\nf(0)", "class A:\n  def __repr__(self): return repr(self)\nrepr(A())"]
)
def test_recursion_is_bounded(code: str) -> None:
    assert "RecursionError" in run(code).output["error"]


def test_output_is_bounded() -> None:
    printed = run(f"print('汉' * {PRINTED_CHARS * 3})").output["printed"]
    assert printed == "汉" * PRINTED_CHARS + "…[cut]"
    assert run("list(range(10 ** 5))").output["cut"] is True


def test_a_time_out_reads_the_same_each_time() -> None:
    first, second = (run("while True: pass", seconds=0.5).output for _ in range(2))
    assert first == second


@pytest.mark.parametrize("arguments", [{}, {"code": ""}, {"code": 1}, {"code": "x" * (CODE_CHARS + 1)}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    assert python.run(None, arguments).status is Status.INVALID


def test_many_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda n: run(f"{n} * 2").output["result"], range(40))
    assert list(outputs) == [n * 2 for n in range(40)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_the_parent_no_harm() -> None:
    assert run("1").output["result"] == 1
    pid = os.fork()
    if pid == 0:
        os._exit(0 if run("2").error_kind is ErrorKind.TOOL_UNAVAILABLE else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert run("3").output["result"] == 3
