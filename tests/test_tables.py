"""JSON lines read in bulk: every good line a row, every bad line named, whatever stands beside it."""

import json
import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_samples import any_event, event, line, new_lab

from hermes_lab import events
from hermes_lab.errors import EventError
from hermes_lab.log import tables

ID = b"01a22d30-901c-75dc-8711-516ab210cc12"
CORE = b'"event_id":"%s","ts":"2026-11-30T12:00:00Z","action":"feedback"' % ID
GOOD = line(name="好", output='{"a":1}')


def with_core(more: bytes = b"", old: bytes = b"", new: bytes = b"") -> bytes:
    return b"{" + CORE.replace(old, new) + more + b"}" if old else b"{" + CORE + more + b"}"


BAD = {
    "garbage": b"not json at all",
    "garbage, Chinese": "乱码".encode(),
    "torn": b"{" + CORE,
    "torn in a string": GOOD[:60],
    "array": b"[" + with_core() + b"]",
    "number": b"17",
    "text": b'"text"',
    "true": b"true",
    "empty object": b"{}",
    "no event_id": b'{"ts":"2026-11-30T12:00:00Z","action":"feedback"}',
    "null event_id": with_core(old=b'"%s"' % ID, new=b"null"),
    "no ts": b'{"event_id":"%s","action":"feedback"}' % ID,
    "no action": b'{"event_id":"%s","ts":"2026-11-30T12:00:00Z"}' % ID,
    "ts a number": with_core(old=b'"2026-11-30T12:00:00Z"', new=b"1764500000"),
    "ts no time": with_core(old=b"2026-11-30T12:00:00Z", new=b"yesterday"),
    "name a number": with_core(b',"name":3'),
    "name an object": with_core(b',"name":{"a":1}'),
    "output an object": with_core(b',"output":{"a":1}'),
    "step a text": with_core(b',"step":"3"'),
    "step a fraction": with_core(b',"step":1.5'),
    "step past 64 bits": with_core(b',"step":9223372036854775808'),
    "from_cache a number": with_core(b',"from_cache":1'),
    "latency past a double": with_core(b',"latency_ms":1e400'),
    "lone surrogate escape": with_core(b',"name":"\\ud800"'),
    "lone low surrogate escape": with_core(b',"name":"\\udfff x"'),
    "raw control character": with_core(b',"name":"a\x01b"'),
    "raw NUL": with_core(b',"name":"a\x00b"'),
    "trailing text": with_core() + b" x",
    "trailing comma": with_core(b","),
    "Python literal": b"{'event_id': None}",
    "truncated invalid UTF-8": b'{"name":"\xe5\xaf',
}

# Lines that `events.decode` refuses and Arrow by itself takes.
LET_THROUGH = {
    "unknown action": with_core(old=b"feedback", new=b"fdedback"),
    "unknown status": with_core(b',"status":"boo"'),
    "no UUIDv7": with_core(old=b"01a22", new=b"zzzzz"),
    "confidence 7": with_core(b',"confidence":7'),
    "step -1": with_core(b',"step":-1'),
    "latency NaN": with_core(b',"latency_ms":NaN'),
    "weight null": with_core(b',"weight":null'),
    "schema_version -1": with_core(b',"schema_version":-1'),
    "naive ts": with_core(old=b"00Z", new=b"00"),
    "ts a date": with_core(old=b"T12:00:00Z", new=b""),
    "ts in year 0": with_core(old=b"2026", new=b"0000"),
    "two events": with_core() + with_core(),
    "two events and a space": with_core() + b" " + with_core(),
    "event over two lines": b"{" + CORE + b',\n"name":"x"}',
    "invalid UTF-8": with_core(b',"name":"\xff\xfe"'),
    "overlong UTF-8": with_core(b',"name":"\xc0\x80"'),
    "surrogate in UTF-8": with_core(b',"name":"\xed\xa0\x80"'),
}

# Lines that `events.decode` takes and Arrow refuses.
KEPT_OUT = {
    "key twice": with_core(b',"name":"a","name":"b"'),
    "nanoseconds": with_core(old=b"00Z", new=b"00.123456789Z"),
    "small z": with_core(old=b"00Z", new=b"00z"),
}

FINE = {
    "another zone": with_core(old=b"00Z", new=b"00+08:00"),
    "spaces around": b"  " + with_core() + b"\t ",
    "unknown columns": with_core(b',"mood":{"a":[1,null,"\xe5\xaf\x86"]}'),
    "escaped emoji": with_core(b',"name":"\\ud83d\\ude00"'),
    "escaped NUL": with_core(b',"name":"a\\u0000b"'),
    "whole numbers for fractions": with_core(b',"latency_ms":1,"cost_usd":0'),
    "nulls": with_core(b',"name":null,"step":null,"from_cache":null'),
}


def by_line(data: bytes) -> tuple[list[events.Event], list[tuple[int, bytes]]]:
    """What `from_lines` must find, by reading line by line."""
    good, bad = [], []
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            good.append(events.decode(raw))
        except EventError:
            bad.append((number, raw))
    return good, bad


def unversioned(made: events.Event) -> events.Event:
    return msgspec.structs.replace(made, schema_version=1)


def check(data: bytes) -> None:
    table, rejected = tables.from_lines(data)
    good, bad = by_line(data)
    assert table.schema == tables.SCHEMA
    assert table["event_id"].null_count == 0
    read = [events.from_row(row) for row in table.to_pylist()]
    assert [unversioned(e) for e in read] == [unversioned(e) for e in good]
    assert [(r.line, r.raw) for r in rejected] == bad
    assert all(r.reason for r in rejected)


def contexts(raw: bytes) -> dict[str, bytes]:
    return {
        "alone": raw + b"\n",
        "first": raw + b"\n" + GOOD,
        "last": GOOD + GOOD + raw + b"\n",
        "between": GOOD + raw + b"\n" + GOOD,
        "twice": raw + b"\n" + GOOD + b"\n" + raw + b"\n",
        "beside garbage": b"garbage\n" + raw + b"\n" + GOOD,
    }


CONTEXTS = list(contexts(b""))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_named_and_the_good_ones_kept(kind, context):
    data = contexts(BAD[kind])[context]
    assert len(by_line(data)[1]) >= 1
    check(data)


@pytest.mark.parametrize("kind", LET_THROUGH)
def test_a_line_that_only_arrow_takes_is_named_too(kind):
    for data in contexts(LET_THROUGH[kind]).values():
        check(data)


@pytest.mark.parametrize("kind", KEPT_OUT)
def test_a_line_that_only_arrow_refuses_does_not_break_the_log(kind):
    for data in contexts(KEPT_OUT[kind]).values():
        table, rejected = tables.from_lines(data)
        assert table.num_rows + len(rejected) == sum(bool(raw) for raw in data.split(b"\n"))


def test_a_line_that_is_null_is_named_and_does_not_end_the_process():
    code = "import sys; from hermes_lab.log import tables; t, r = tables.from_lines(b'null\\n'); sys.exit(10 + len(r))"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, env=os.environ)
    assert done.returncode == 11


def test_a_line_of_endless_nesting_beside_a_bad_one_does_not_break_the_log():
    deep = with_core(b',"mood":' + b"[" * 50_000 + b"]" * 50_000)
    table, rejected = tables.from_lines(GOOD + deep + b"\ngarbage\n")
    assert table.num_rows + len(rejected) == 3


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("kind", FINE)
def test_an_odd_but_good_line_is_kept(kind, context):
    check(contexts(FINE[kind])[context])


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b"\r\n\r\n", b"   \n\t\n"])
def test_blank_lines_are_no_rows(data):
    table, rejected = tables.from_lines(data)
    assert (table.num_rows, rejected) == (0, [])
    assert table.schema == tables.SCHEMA


@pytest.mark.parametrize("bad", [b"", b"garbage\n"])
def test_blank_lines_and_windows_line_ends_change_nothing(bad):
    data = b"\n" + GOOD.replace(b"\n", b"\r\n") + b"\n\n" + bad + GOOD + b"\n"
    check(data)
    assert tables.from_lines(data)[0].num_rows == 2


def test_lines_of_white_space_beside_a_bad_line_are_no_bad_lines():
    check(GOOD + b"\r\n  \ngarbage\n")


def test_a_line_of_more_than_a_block_is_kept_among_others():
    long = line(name="长", output='"' + "密钥🚀" * 500_000 + '"')
    assert len(long) > 4 << 20
    for data in (long, GOOD + long + GOOD, GOOD * 30_000 + long + GOOD, GOOD + b"garbage\n" + long):
        table, rejected = tables.from_lines(data)
        assert table.num_rows == data.count(b"\n") - len(rejected)
        assert [r.line for r in rejected] == ([2] if b"garbage" in data else [])
        lengths = {len(text) for text in table["output"].to_pylist() if text}
        assert lengths == {1_500_002} | ({7} if GOOD in data else set())


@pytest.mark.parametrize("bad_at", [[], [0], [39], [3, 17, 38]])
def test_several_blocks_keep_their_order_and_line_numbers(bad_at):
    lines = [line(step=i, output=f'"{i:_>300000}"') for i in range(40)]
    for i in bad_at:
        lines[i] = b'{"torn":"' + bytes([0xE5]) + b"\n"
    table, rejected = tables.from_lines(b"".join(lines))
    assert len(b"".join(lines)) > 2 * (4 << 20)
    assert table["step"].to_pylist() == [i for i in range(40) if i not in bad_at]
    assert [r.line for r in rejected] == [i + 1 for i in bad_at]
    assert [r.raw + b"\n" for r in rejected] == [lines[i] for i in bad_at]


pieces = st.one_of(
    any_event.map(events.encode),
    st.sampled_from([*BAD.values(), *FINE.values(), b""]),
)


@given(st.lists(pieces, max_size=8), st.sampled_from([b"\n", b"\r\n"]))
@settings(deadline=None, max_examples=150)
def test_any_mixture_is_read_as_line_by_line(lines, end):
    data = b"".join(raw + (b"\n" if not raw else end) for raw in lines)
    table, rejected = tables.from_lines(data)
    good, bad = by_line(data)
    assert [unversioned(events.from_row(row)) for row in table.to_pylist()] == [unversioned(e) for e in good]
    assert [(r.line, r.raw) for r in rejected] == bad


@given(st.lists(any_event.map(events.encode), min_size=1, max_size=3), st.integers(0, 10**6), st.integers(1, 255))
@example([b"{" + CORE + b"}"], 90, 1)
@settings(deadline=None, max_examples=100)
def test_a_flipped_byte_is_read_as_line_by_line(lines, place, flip):
    data = bytearray(b"\n".join(lines) + b"\n")
    data[place % len(data)] ^= flip
    data = bytes(data[: data.rfind(b"\n") + 1])
    table, rejected = tables.from_lines(data)
    good, bad = by_line(data)
    assert [row["event_id"] for row in table.to_pylist()] == [e.event_id for e in good]
    assert [(r.line, r.raw) for r in rejected] == bad


def test_bad_lines_of_a_live_file_are_set_aside_and_counted(tmp_path):
    lab = new_lab(tmp_path / "lab")
    lab.log.layout.create()
    made = [event(step=i) for i in range(3)]
    lines = [b"garbage", events.encode(made[0]), *BAD.values(), events.encode(made[1]), b"", events.encode(made[2])]
    (lab.log.layout.live / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n" + GOOD[:-9])
    assert list(lab.log.events()) == made
    assert lab.log.status()["rejected_lines"] == len(BAD) + 1
    done = lab.log.seal()
    assert (done.rows, done.rejected, done.torn_bytes) == (3, len(BAD) + 1, len(GOOD) - 9)
    assert list(lab.log.events()) == made
    assert lab.log.sql("select count(*), count(event_id), count(ts), count(action) from events").fetchall() == [
        (3,) * 4
    ]
    kept = [json.loads(row) for row in (lab.log.layout.rejected / "a.jsonl").read_bytes().splitlines()]
    assert [row["line"] for row in kept] == [1, *range(3, 3 + len(BAD))]
    assert [row["raw"] for row in kept] == [
        raw.decode(errors="backslashreplace") for raw in [b"garbage", *BAD.values()]
    ]
