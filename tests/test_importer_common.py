"""What importers share: lines of files in any state, values, times, and what a result says of success."""

from __future__ import annotations

import datetime as dt
import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.events import ErrorKind, Status
from hermes_lab.importers.base import SetAside, Source
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.lines import JsonLine, first_value, json_lines

UTC = dt.UTC


def lines(path: Path, content: bytes, **options: Any) -> list[tuple[Any, ...]]:
    path.write_bytes(content)
    return [
        (line.number, line.value) if isinstance(line, JsonLine) else (line.where, line.reason.partition(":")[0])
        for line in json_lines(Source(path), **options)
    ]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"1\n2", [(1, 1), (2, 2)]),
        (b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n[2]\r\n', [(1, {"a": 1}), (4, [2])]),
        (b"1\n{oops\n3\n", [(1, 1), ("line 2", "the line is not JSON"), (3, 3)]),
        (b'1\n{"torn": ', [(1, 1), ("line 2", "the last line is torn")]),
        (
            b'"\xe4\xbd\xa0\xed\xa0\x80"\n"\xff"\n',
            [(1, "你\ud800"), ("line 2", "the line is not UTF-8 text")],
        ),
        (
            b'"a\tb\x00c"\nNaN2\n\x00\x00\n',
            [(1, "a\tb\x00c"), ("line 2", "the line is not JSON"), ("line 3", "the line is not JSON")],
        ),
        (b'"\xe2\x80\xa8\xc2\x85\\n"\n', [(1, "\u2028\x85\n")]),
        (b"1e400\n" + b"1" * 400 + b"\n", [(1, float("inf")), (2, int("1" * 400))]),
        (b"9" * 5000 + b"\n2\n", [("line 1", "the line is not JSON"), (2, 2)]),
        (
            b"[" * 500 + b"\n" + b"[" * 250 + b"]" * 250 + b"\n3\n",
            [("line 1", "the line is not JSON"), ("line 2", "the line is not JSON"), (3, 3)],
        ),
        (b"[" * 180 + b"]" * 180, [(1, eval("[" * 180 + "]" * 180))]),
    ],
)
def test_lines(tmp_path: Path, content: bytes, expected: list[Any], packed: bool) -> None:
    assert lines(tmp_path / "x", gzip.compress(content) if packed else content) == expected


def test_lines_that_are_too_long(tmp_path: Path) -> None:
    content = b"1\n" + b'"' + b"x" * 50 + b'"\n2\n' + b'"' + b"y" * 3 * 2**20 + b'"\n3\n' + b"z" * 100
    found = lines(tmp_path / "x", content, max_line=40)
    assert [where for where, _ in found] == [1, "line 2", 3, "line 4", 5, "line 6"]
    assert found[1][1] == "the line is longer than 40 bytes"


def test_a_gzip_file_with_a_wrong_checksum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b"1\n2\n3"))
    content[-6] ^= 1
    found = lines(tmp_path / "x", bytes(content))
    assert found[:2] == [(1, 1), (2, 2)]
    assert found[2][0] == "line 3"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        for _ in range(400):
            file.write((b'{"text": "' + b"x" * 1000 + b'"}\n') * 100)
    tracemalloc.start()
    assert sum(1 for _ in json_lines(Source(path))) == 40_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20 < path.stat().st_size


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}\n{"b": 2}\n', {"a": 1}),
        (b'{oops\n{"b": 2}\n', {"b": 2}),
        (
            b'{"id": "s", "n": {"x": [1]}, "messages": [{"role": ',
            {"id": "s", "n": {"x": [1]}, "messages": []},
        ),
        (b'{"id": "s", "mess', {"id": "s"}),
        (b"", None),
        (b"text\n", None),
        (b"\x1f\x8b broken", None),
        (b"\xff\xfe\x00", None),
    ],
)
def test_the_first_value(tmp_path: Path, content: bytes, expected: object) -> None:
    (tmp_path / "x").write_bytes(content)
    assert first_value(tmp_path / "x") == expected


@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(b"[1]\n" + content)
    first_value(path)
    found = list(json_lines(Source(path)))
    assert isinstance(found[0], JsonLine)
    expected = [n for n, line in enumerate(content.split(b"\n"), 2) if line.strip()]
    assert [f.number if isinstance(f, JsonLine) else int(f.where.split()[1]) for f in found[1:]] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (1767225600.25, dt.datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)),
        ("1767225600", dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00Z", dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T08:00:00+08:00", dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T02:00:00", dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01 02:00:00.5", dt.datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (-1e18, None),
        (10**400, None),
        ("yesterday", None),
        ("0001-01-01T00:00:00", None),
        (True, None),
        (None, None),
        ([1], None),
    ],
)
def test_times(value: object, expected: dt.datetime | None) -> None:
    assert common.when(value, dt.timezone(dt.timedelta(hours=2))) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1}, ({"a": 1}, True)),
        ('{"a": 1}', ({"a": 1}, True)),
        ('"{\\"a\\": 1}"', ({"a": 1}, True)),
        ("", ({}, True)),
        (None, ({}, True)),
        ("null", ({}, True)),
        ("[1]", ("[1]", False)),
        ([1], ([1], False)),
        ("{", ("{", False)),
    ],
)
def test_arguments(arguments: object, expected: tuple[object, bool]) -> None:
    assert common.read_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("result", "status", "kind"),
    [
        (None, None, None),
        ("", Status.OK, None),
        ("all fine", Status.OK, None),
        ("Errors are explained in chapter 3", Status.OK, None),
        ("Error", Status.ERROR, ErrorKind.TOOL_FAILED),
        ("ValueError: bad", Status.ERROR, ErrorKind.TOOL_FAILED),
        ("Traceback (most recent call last):\n", Status.ERROR, ErrorKind.TOOL_FAILED),
        ("[ERROR] HTTP 429", Status.ERROR, ErrorKind.RATE_LIMITED),
        ("Error executing tool: missing 1 required argument", Status.ERROR, ErrorKind.BAD_ARGUMENTS),
        ("失败：连接超时", Status.TIMEOUT, ErrorKind.TIMEOUT),
        ([{"type": "text", "text": "Error: no such file"}], Status.ERROR, ErrorKind.NOT_FOUND),
        ({"exit_code": 0, "error": ""}, Status.OK, None),
        ({"exit_code": 124}, Status.TIMEOUT, ErrorKind.TIMEOUT),
        ({"returncode": 1, "stderr": "permission denied"}, Status.ERROR, ErrorKind.NO_PERMISSION),
        ({"success": False}, Status.ERROR, ErrorKind.TOOL_FAILED),
        ({"success": True, "error": None}, Status.OK, None),
        ({"isError": True, "message": "Unknown tool: x"}, Status.ERROR, ErrorKind.UNKNOWN_TOOL),
        ({"error": {"code": 503}}, Status.ERROR, ErrorKind.SERVER_ERROR),
        ({"error": False}, Status.OK, None),
        ({"status": "denied", "error": "the user said no"}, Status.DENIED, ErrorKind.NO_PERMISSION),
        ({"status": "failed"}, Status.ERROR, ErrorKind.TOOL_FAILED),
        ({"exit_code": True}, Status.OK, None),
        ([], Status.OK, None),
        (5, Status.OK, None),
    ],
)
def test_what_a_result_says_of_success(result: object, status: Status | None, kind: ErrorKind | None) -> None:
    outcome = common.infer_status(result)
    assert (outcome.status, outcome.error_kind) == (status, kind)
    assert outcome.confidence is None if result is None else 0.5 < (outcome.confidence or 0) < 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_anything_may_be_a_result(result: object) -> None:
    common.infer_status(result)
    common.observation_text(result)
    common.parse_result(result)


def test_what_is_set_aside_is_kept_short() -> None:
    assert common.set_aside("here", "why", "x" * 20_000) == SetAside("here", "why", "x" * 10_000)
    assert common.set_aside("here", "why", b"\xff" + b"x" * 20_000).raw == "\ufffd" + "x" * 9_999
    assert common.set_aside("here", "why", {"a": 1}).raw == "{'a': 1}"
