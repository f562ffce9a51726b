"""The recorder: one event an effect, hashed and written without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hermes_lab
from hermes_lab import payload
from hermes_lab.effects import Act, Ask, Note, Remaining, effect_hash
from hermes_lab.errors import EventError
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.log.redact import Redactor
from hermes_lab.models.base import Attempt, Finish, Reply, Request, Role, Signature, Turn
from hermes_lab.recorder import Recorder, act_content, ask_content
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Result, Spec

KEY = "sk-" + "a1B2c3D4" * 5
ENVIRON = {"SHOP_API_KEY": "shop-q8W7e6R5t4", "ADMIN_PASSWORD": "开门-x9Y8z7"}
SECRETS = (KEY, *ENVIRON.values(), "hunter2hunter2")
SPEC = Spec("add", "Add.", {"type": "object"})
LEFT = Remaining(1, 1.0)

Effect = tuple[Ask, Reply] | tuple[Act, Result]


def recorded(folder: Path, effects: Sequence[Effect], *, task_id: str = "t") -> list[dict[str, Any]]:
    """Record effects, and return their events but for ids and times; nothing on the disk may hold a secret."""
    redactor = Redactor(ENVIRON)
    lab = hermes_lab.open(folder)
    with lab.log.writer(redactor=redactor) as writer:
        recorder = Recorder(writer, redactor, run_id="r", config_version="v", channel="suite", about={})
        one = recorder.episode(Task(id=task_id, family="f", type="sums", prompt="?"))
        for effect, outcome in effects:
            if isinstance(effect, Ask):
                one.asked(effect, outcome)
            else:
                one.acted(effect, SPEC, outcome)
        writer.flush()
        written = b"".join(path.read_bytes() for path in folder.rglob("live/*"))  # before it is sealed and packed
    assert written.count(b"\n") == one.events
    assert not any(secret.encode() in written for secret in SECRETS)
    found = lab.log.sql("select * exclude (event_id, episode_id, parent_id, ts) from events order by step")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def hashes_by_definition(effects: Sequence[Effect]) -> list[str]:
    redactor = Redactor(ENVIRON)
    contents = [
        ("ask", ask_content(effect)) if isinstance(effect, Ask) else ("act", act_content(effect.tool, effect.arguments))
        for effect, _ in effects
    ]
    return [effect_hash(kind, redactor.value(content)) for kind, content in contents]


texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from([f"用 {secret} 登录" for secret in SECRETS[:3]]),
    st.sampled_from(['{"password": "hunter2hunter2"}', "--token", "好", "\ud800", "sum", "$spill"]),
)
objects = st.dictionaries(
    st.one_of(texts, st.sampled_from(["api_key", "a"])), st.one_of(texts, st.integers()), max_size=3
)
asks = st.tuples(
    st.builds(
        Ask,
        purpose=st.sampled_from(["plan", "reflect", "judge"]),
        tier=st.sampled_from(Tier),
        request=st.builds(
            Request,
            messages=st.lists(st.builds(Turn, st.sampled_from(Role), texts), max_size=3).map(tuple),
            schema=st.one_of(st.none(), objects),
            tools=st.lists(st.builds(Signature, texts, texts, objects), max_size=2).map(tuple),
            stop=st.sampled_from([(), ("\n",), ("--password", "hunter2hunter2"), (KEY,)]),
        ),
        remaining=st.just(LEFT),
    ),
    st.builds(Reply, text=texts, model=texts, reasoning=texts, error=texts),
)
acts = st.tuples(
    st.builds(Act, tool=texts, arguments=objects, remaining=st.just(LEFT)),
    st.builds(Result, output=st.one_of(texts, objects, st.none(), st.lists(texts, max_size=3))),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(asks, acts), min_size=1, max_size=6))
def test_no_secret_reaches_the_disk_or_a_hash(tmp_path_factory: pytest.TempPathFactory, effects: list[Effect]) -> None:
    rows = recorded(tmp_path_factory.mktemp("lab"), effects)
    assert [row["request_hash"] for row in rows] == hashes_by_definition(effects)


def plain_ask(**fields: Any) -> tuple[Ask, Reply]:
    request = Request(messages=(Turn(Role.USER, "hi"),))
    return Ask(purpose="plan", tier=Tier.LIGHT, request=request, remaining=LEFT), Reply(
        **{"text": "", "model": "m"} | fields
    )


def plain_act(output: Any = None, **fields: Any) -> tuple[Act, Result]:
    return Act(**{"tool": "add", "arguments": {}, "remaining": LEFT} | fields), Result(output)


@pytest.mark.parametrize(
    "effect",
    [
        *(plain_ask(**{field: f"it is {KEY}"}) for field in ("text", "reasoning", "error", "model")),
        plain_act(tool=f"get {KEY}"),
        plain_act(arguments={"x": KEY}),
        plain_act(arguments={KEY: 1}),
        plain_act(arguments={"argv": ["--password", "hunter2hunter2"]}),
        plain_act(f"it is {KEY}"),
        plain_act({"password": "hunter2hunter2"}),
        plain_act([{"text": '{"password": "hunter2hunter2"}'}]),
    ],
    ids=repr,
)
def test_a_secret_in_one_place_only_is_found(tmp_path: Path, effect: Effect) -> None:
    (row,) = recorded(tmp_path, [effect])
    assert "[redacted:" in repr(row)
    assert [row["request_hash"]] == hashes_by_definition([effect])


@pytest.mark.parametrize("task_id", ["t", f"task {KEY}"])
def test_a_secret_in_what_all_events_share_is_found_in_each(tmp_path: Path, task_id: str) -> None:
    effects: list[Effect] = [
        (
            Ask(purpose="plan", tier=Tier.LIGHT, request=Request(messages=()), remaining=LEFT),
            Reply(text="hi", model="m"),
        ),
        (Act(tool="add", arguments={}, remaining=LEFT), Result(1)),
    ]
    rows = recorded(tmp_path, effects, task_id=task_id)
    assert {"[redacted:api_key]" in repr(row) for row in rows} == {task_id != "t"}


def test_each_failed_attempt_is_an_event_before_the_reply(tmp_path: Path) -> None:
    attempt = Attempt(error_kind=ErrorKind.RATE_LIMITED, error=f"429 for {KEY}", latency_ms=5.0)
    reply = Reply(text="", model="m", finish=Finish.TIMEOUT, latency_ms=12.0, attempts=(attempt, attempt))
    ask = Ask(purpose="plan", tier=Tier.STRONG, request=Request(messages=()), remaining=LEFT)
    recorded(tmp_path, [(ask, reply)])
    events = list(hermes_lab.open(tmp_path).log.events())
    assert [event.status for event in events] == [Status.ERROR, Status.ERROR, Status.TIMEOUT]
    assert [event.latency_ms for event in events] == [5.0, 5.0, 2.0]
    key = events[-1].request_hash
    assert [payload.loads(event.input or "").get("attempt_of") for event in events] == [key, key, None]


def test_a_result_that_the_log_cannot_hold_is_named(tmp_path: Path) -> None:
    redactor = Redactor({})
    with hermes_lab.open(tmp_path).log.writer(redactor=redactor) as writer:
        recorder = Recorder(writer, redactor, run_id="r", config_version="v", channel="suite", about={})
        one = recorder.episode(Task(id="t", family="f", type="sums", prompt="?"))
        act = Act(tool="add", arguments={"a": 1}, remaining=LEFT)
        with pytest.raises(EventError, match="set"):
            one.acted(act, SPEC, Result({1, 2}))
        one.acted(act, SPEC, Result(None))
    (event,) = hermes_lab.open(tmp_path).log.events()
    assert (event.step, event.parent_id, event.input, event.output) == (0, None, '{"a":1}', None)


def test_a_note_is_written_with_its_parent_and_place(tmp_path: Path) -> None:
    redactor = Redactor({})
    with hermes_lab.open(tmp_path).log.writer(redactor=redactor) as writer:
        recorder = Recorder(writer, redactor, run_id="r", config_version="v", channel="suite", about={"suite": "s"})
        one = recorder.episode(Task(id="t", family="f", type="sums", prompt="?"))
        one.note(Note(action=Action.TASK_STARTED, input={"seed": 3}))
        one.note(Note(action=Action.ROUTED, output={"candidates": []}))
    first, second = hermes_lab.open(tmp_path).log.events()
    assert payload.loads(first.input or "") == {"seed": 3, "run": {"suite": "s"}}
    assert (first.step, second.step, first.parent_id, second.parent_id) == (0, 1, None, first.event_id)
