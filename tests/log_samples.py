"""Events, odd texts and small logs that the tests of the event log share."""

from __future__ import annotations

import datetime as dt
import math
import random
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hermes_lab import events, payload
from hermes_lab.events import Action, ErrorKind, Event, Status, Tier
from hermes_lab.lab import Lab, open_lab
from hermes_lab.log import new_id

DAY0 = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)

ODD_TEXTS = (
    "",
    "plain",
    "任务-一号",
    "👩‍🔬🚀 emoji",
    "nul\x00inside",
    'it\'s "quoted" \\ and /',
    "\ud800",
    "lone \udfff in the middle \ud83d",
    "\U0010f7ff\U0010f800\U0010ffff",
    "\ud800\U0010f800",
    "line\nbreak\r\ttab \x7f\u2028",
    '{"$spill":"x"}',
    '{"$$spill":"x"}',
    '{"$float":"NaN"}',
    "%_* --; drop",
)

_CHARACTERS = st.one_of(
    st.characters(),
    st.sampled_from("\x00\n\r\"'\\$密钥🚀\ud800\udbff\udc00\udfff\U0010f7fe\U0010f7ff\U0010f800\U0010fbff\U0010ffff"),
)
texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(_CHARACTERS, max_size=12))
"""Any text that Python can hold: lone surrogates and the log's own reserved characters among it."""

keys = st.one_of(st.sampled_from(["$float", "$spill", "$$float", "$$spill", "$$$spill", "$floats", ""]), texts)

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(10**40), max_value=10**40),
        st.floats(),
        st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)

_none = st.none()
_counts = st.one_of(_none, st.integers(0, 2**63 - 1))
_amounts = st.one_of(_none, st.floats(0, allow_infinity=False))
_texts = st.one_of(_none, texts)
_json_texts = st.one_of(_none, json_values.map(payload.dumps))
_zones = st.integers(-14 * 60, 14 * 60).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))

any_event = st.builds(
    Event,
    event_id=st.integers(0, 2**62).map(
        lambda n: (
            f"{n % 2**48:012x}"[:8]
            + f"-{n % 2**16:04x}-7{n % 2**12:03x}-{'89ab'[n % 4]}{n % 2**12:03x}-{n % 2**48:012x}"
        )
    ),
    ts=st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=_zones),  # noqa: DTZ001
    run_id=_texts,
    episode_id=_texts,
    task_id=_texts,
    task_type=_texts,
    step=_counts,
    action=st.sampled_from(Action),
    name=_texts,
    input=_json_texts,
    output=_json_texts,
    observation=_texts,
    status=st.one_of(_none, st.sampled_from(Status)),
    error_kind=st.one_of(_none, st.sampled_from(ErrorKind)),
    input_tokens=_counts,
    cached_tokens=_counts,
    output_tokens=_counts,
    latency_ms=_amounts,
    cost_usd=_amounts,
    quota=_amounts,
    from_cache=st.one_of(_none, st.booleans()),
    tier=st.one_of(_none, st.sampled_from(Tier)),
    confidence=st.one_of(_none, st.floats(0, 1)),
    weight=st.floats(0, allow_infinity=False),
    config_version=_texts,
    channel=_texts,
    parent_id=_texts,
    request_hash=_texts,
)


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same in value and type, NaN being itself and -0.0 not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


def event(**columns: Any) -> Event:
    """Return a small event; `columns` say what differs."""
    base: dict[str, Any] = {"event_id": new_id(), "ts": DAY0, "action": Action.TOOL_CALLED}
    return Event(**{**base, **columns})


def line(**columns: Any) -> bytes:
    """Return the line of a small event, with its newline."""
    return events.encode(event(**columns)) + b"\n"


def new_lab(folder: Path, toml: str = "") -> Lab:
    """Return a new lab; `toml` is what its table `[log]` holds."""
    lab = open_lab(folder)
    if toml:
        (folder / "lab.toml").write_text(f"format = 1\n[log]\n{toml}\n", encoding="utf-8")
        lab = open_lab(folder)
    return lab


def append(lab: Lab, new: list[Event], *, seal: bool = False) -> list[Event]:
    """Append events to a lab, and seal them when asked to."""
    with lab.log.writer() as writer:
        for each in new:
            writer.append(each)
    if seal:
        lab.log.seal()
    return new


def stream(seed: int, days: int, per_day: int, tasks: list[str], **columns: Any) -> list[Event]:
    """Return events spread over days and tasks, in the same way for the same seed."""
    rng = random.Random(seed)
    made = []
    for day in range(days):
        for i in range(per_day):
            ts = DAY0 + dt.timedelta(days=day, microseconds=rng.randrange(86_400_000_000))
            task = rng.choice(tasks)
            made.append(
                event(
                    ts=ts,
                    task_id=task,
                    episode_id=f"{task}/{rng.randrange(3)}",
                    task_type=rng.choice(["desk", "桌面", None]),
                    step=i,
                    action=rng.choice([Action.TOOL_CALLED, Action.GENERATION, Action.FEEDBACK]),
                    name=rng.choice(["search", "搜索", None]),
                    status=rng.choice([Status.OK, Status.ERROR, None]),
                    output=payload.dumps({"day": day, "i": i}),
                    **columns,
                )
            )
    return made


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below `folder` but the lock files, by its relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
