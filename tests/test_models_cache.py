"""The cache of replies: what it gives back, what it never keeps, and that a bad file costs only the cache."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Attempt, Finish, Frame, Reply, Request, Role, Signature, Turn
from hermes_lab.models.cache import CachedModel
from hermes_lab.models.cache_file import CacheFile
from hermes_lab.models.scripted import ScriptedModel

ECHO_LATENCY = 12.5


def ask(text: str = "你好 🙂", **fields: Any) -> Request:
    return Request(messages=(Turn(Role.USER, text),), **fields)


def echo(request: Request) -> Reply:
    """A reply with every field that the cache must give back."""
    return Reply(
        text=f"回 {request.messages[0].content}",
        model="echo",
        reasoning="想",
        input_tokens=5,
        cached_tokens=1,
        output_tokens=2,
        latency_ms=ECHO_LATENCY,
        cost_usd=0.25,
        confidence=0.5,
        attempts=(Attempt(error_kind=ErrorKind.RATE_LIMITED, error="429", latency_ms=1.0),),
    )


class Echo(ScriptedModel):
    """A scripted model whose fingerprint the test chooses."""

    def __init__(self, fingerprint: str = "f1", answer: Any = echo, context_tokens: int | None = None) -> None:
        super().__init__(answer, "echo", context_tokens)
        self._chosen = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._chosen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "缓存" / "replies.sqlite"


@contextlib.contextmanager
def cached(model: ScriptedModel, path: Path, **options: Any) -> Iterator[CachedModel]:
    wrapped = CachedModel(model, path, **options)
    try:
        yield wrapped
    finally:
        wrapped.close()


def test_the_same_greedy_request_is_asked_once_for_all_processes_to_come(path: Path) -> None:
    model = Echo()
    with cached(model, path) as first:
        [fresh] = first.generate([ask()])
    with cached(model, path) as second:
        [again] = second.generate([ask()], seconds=[0.001])
    assert fresh == echo(ask())
    assert again == msgspec.structs.replace(fresh, from_cache=True, attempts=())
    assert len(model.asked) == 1


def test_it_looks_like_the_model_within(path: Path) -> None:
    model = Echo(context_tokens=77)
    with cached(model, path) as wrapped:
        assert (wrapped.name, wrapped.fingerprint, wrapped.context_tokens) == ("echo", "f1", 77)
        assert wrapped.most_tokens(ask()) == model.most_tokens(ask())


DIFFERENT = [
    ask("你好"),
    ask(tools=(Signature("a", "b", {}),)),
    ask(tools=(Signature("a", "b", {"type": "object"}),)),
    ask(schema={"type": "object"}),
    ask(schema={"a": 1, "b": 2}),
    ask(schema={"b": 2, "a": 1}),  # the order is seen by the model
    ask(frame=Frame("<")),
    ask(frame=Frame("", "<")),
    ask(max_tokens=1),
    ask(top_p=0.5),
    ask(seed=1),
    ask(stop=("x",)),
    Request(messages=(Turn(Role.SYSTEM, "你好 🙂"),)),
    Request(messages=(Turn(Role.USER, "你好 🙂", name="x"),)),
    Request(messages=(Turn(Role.USER, "你好 🙂"), Turn(Role.USER, ""))),
]


def test_everything_that_matters_is_in_the_key(path: Path) -> None:
    model = Echo()
    with cached(model, path) as wrapped:
        wrapped.generate([ask()])
        wrapped.generate(DIFFERENT)
        assert len(model.asked) == 1 + len(DIFFERENT)
        assert all(reply.from_cache for reply in wrapped.generate([ask(), *DIFFERENT]))
    for other in (Echo("f2"), Echo(context_tokens=9)):
        with cached(other, path) as wrapped:
            assert not wrapped.generate([ask()])[0].from_cache


def test_order_is_kept_among_stored_new_sampled_and_equal_requests(path: Path) -> None:
    model = Echo()
    with cached(model, path) as wrapped:
        wrapped.generate([ask("b")])
        batch = [ask("a"), ask("b"), ask("c", temperature=1.0), ask("a"), ask("c", temperature=1.0), ask("d")]
        replies = wrapped.generate(batch, seconds=[1.0] * 6)
    assert [reply.text[2:] for reply in replies] == ["a", "b", "c", "a", "c", "d"]
    assert [reply.from_cache for reply in replies] == [False, True, False, True, False, False]
    assert [request.messages[0].content for request in model.asked] == ["b", "a", "c", "c", "d"]


def test_equal_requests_are_asked_with_the_longest_limit_among_them(path: Path) -> None:
    class Noting(Echo):
        def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
            limits.append(seconds)
            return super().generate(requests)

    limits: list[Sequence[float] | None] = []
    with cached(Noting(), path) as wrapped:
        wrapped.generate([ask("a"), ask("b"), ask("a")], seconds=[1.0, 2.0, 3.0])
        wrapped.generate([ask("c")])
    assert limits == [[3.0, 2.0], None]


def test_a_shared_reply_that_came_too_late_for_one_is_its_timeout(path: Path) -> None:
    with cached(Echo(), path) as wrapped:
        early, late = wrapped.generate([ask(), ask()], seconds=[0.001, 1.0])
    assert (early.finish, early.error_kind, early.text) == (Finish.TIMEOUT, ErrorKind.TIMEOUT, "")
    assert (late.finish, late.error_kind) == (Finish.STOP, None)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="", model="m", finish=Finish.ERROR, error_kind=ErrorKind.SERVER_ERROR, error="down"),
        Reply(text="", model="m", finish=Finish.TIMEOUT, error_kind=ErrorKind.TIMEOUT, error="late"),
        Reply(text="half", model="m", finish=Finish.LENGTH),
        Reply(text="half", model="m", error_kind=ErrorKind.CUT_OFF, error="cut"),
    ],
)
def test_only_sound_replies_are_kept(path: Path, reply: Reply) -> None:
    model = Echo(answer=lambda _request: reply)
    with cached(model, path) as wrapped:
        for _ in range(2):
            assert wrapped.generate([ask(), ask()]) == [reply, reply]
    assert len(model.asked) == 2


def test_the_file_holds_no_prompt(path: Path) -> None:
    secret = "sk-geheim-0123456789"
    with cached(Echo(answer=lambda _request: "ok"), path) as wrapped:
        wrapped.generate([ask(f"my key is {secret}")])
    raw = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"geheim" not in raw
    assert b'"ok"' in raw


@given(st.text(st.characters(), max_size=20), st.text(st.characters(exclude_categories=()), max_size=20))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, question: str, answer: str) -> None:
    path = tmp_path_factory.mktemp("cache") / "c.sqlite"
    with cached(Echo(answer=lambda _request: answer), path) as wrapped:
        [first] = wrapped.generate([ask(question)])
        [again] = wrapped.generate([ask(question)])
    assert (first.text, again.text, again.from_cache) == (answer, answer, True)


def test_the_oldest_go_when_it_is_full(path: Path) -> None:
    model = Echo(answer=lambda request: request.messages[0].content + "x" * 5000)
    with cached(model, path, max_mb=0.5) as wrapped:
        for number in range(300):
            wrapped.generate([ask(str(number))])
        asked = len(model.asked)
        assert wrapped.generate([ask("299")])[0].from_cache
        assert not wrapped.generate([ask("0")])[0].from_cache
        assert len(model.asked) == asked + 1
    assert path.stat().st_size < 700_000


def broken_file(path: Path, how: str) -> None:
    if how == "no database":
        path.write_bytes("不是数据库".encode() * 100)
        return
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = bytearray(path.read_bytes())
    if how == "torn":
        del raw[len(raw) // 2 :]
    else:  # every page but the first
        raw[4096:] = os.urandom(len(raw) - 4096)
    path.write_bytes(raw)


@pytest.mark.parametrize("how", ["no database", "torn", "garbled"])
def test_a_broken_file_is_set_aside(path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    model = Echo()
    requests = [ask(str(number)) for number in range(60)]
    with cached(model, path) as wrapped:
        wrapped.generate(requests)
    broken_file(path, how)
    with cached(model, path) as wrapped:
        assert [reply.text for reply in wrapped.generate(requests)] == [echo(request).text for request in requests]
        wrapped.generate(requests)
        assert all(reply.from_cache for reply in wrapped.generate(requests))
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "renamed" in record.getMessage()
    assert len(list(path.parent.glob("replies.sqlite.broken-*[0-9]"))) == 1


def test_a_locked_file_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    with contextlib.closing(CacheFile(path, 10**6)) as file:
        file.put({b"k": b"v"})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with contextlib.closing(CacheFile(path, 10**6, busy_s=0.1)) as file:
            assert file.get([b"k"]) == {}
            file.put({b"k": b"new"})
        other.execute("ROLLBACK")
    assert "locked" in caplog.text
    assert len(caplog.records) == 1
    with contextlib.closing(CacheFile(path, 10**6)) as file:
        assert file.get([b"k", b"other"]) == {b"k": b"v"}


def test_somebody_elses_database_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE reply (mine TEXT)")
    with cached(Echo(), path) as wrapped:
        assert wrapped.generate([ask()])[0].text == "回 你好 🙂"
    assert "something else" in caplog.text
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT * FROM reply").fetchall() == []


def test_a_folder_that_cannot_be_made_costs_only_the_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("x")
    model = Echo()
    with cached(model, tmp_path / "file" / "replies.sqlite") as wrapped:
        assert [wrapped.generate([ask()])[0].from_cache for _ in range(2)] == [False, False]
    assert len(caplog.records) == 1


def test_a_value_that_cannot_be_read_is_asked_for_again(path: Path) -> None:
    model = Echo()
    with cached(model, path) as wrapped:
        wrapped.generate([ask()])
    for value in (b"", b"\xff\x00", b'{"text": 1}', b'{"text": "x"}', b"[1"):
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE reply SET value = ?", (value,))
        with cached(model, path) as wrapped:
            assert [wrapped.generate([ask()])[0].from_cache for _ in range(2)] == [False, True]


def _fill(path: Path, worker: int, done: Any) -> None:
    """Ask for the same and for other replies as the other processes do; in a process of its own."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hermes_lab").addHandler(handler)
    with cached(Echo(), path) as wrapped:
        for number in range(60):
            [shared, own] = wrapped.generate([ask(str(number)), ask(f"{worker}-{number}")])
            assert (shared.text, own.text) == (f"回 {number}", f"回 {worker}-{number}")
    done.put(messages)


def test_processes_share_the_file(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_fill, args=(path, worker, done)) for worker in range(4)]
    for process in workers:
        process.start()
    said = [done.get(timeout=60) for _ in workers]
    for process in workers:
        process.join(timeout=60)
    done.close()
    assert [process.exitcode for process in workers] == [0] * 4
    assert said == [[]] * 4
    model = Echo()
    with cached(model, path) as wrapped:
        wrapped.generate([ask(f"{worker}-{number}") for worker in range(4) for number in range(60)])
    assert model.asked == []


def test_threads_share_the_model(path: Path) -> None:
    with cached(Echo(), path) as wrapped:
        wrong: list[str] = []

        def work(name: int) -> None:
            for number in range(40):
                text = f"{name % 2}-{number}"
                if wrapped.generate([ask(text)])[0].text != f"回 {text}":
                    wrong.append(text)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
