"""A synthetic log of whole episodes for benchmarks: ten events each, of the kinds and sizes that the loop writes.

Text is pasted from templates, so that ten million events are written in a minute; every id, time and figure differs.
"""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

from hermes_lab import events, payload
from hermes_lab.events import Action, Event, Status
from hermes_lab.kinds import ErrorKind, Tier
from hermes_lab.log.writer import new_id

EVENTS_AN_EPISODE = 10
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
_EPISODES_A_FILE = 50_000
_PROMPT = "You are a function calling AI model. " + "Tool: find_order(order: string), gives its state. " * 10


def write_live_files(folder: Path, episodes: int, *, first: int = 0) -> int:
    """Write the episodes from number `first` on as live files of a dead writer, and return their bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    templates = [_template(kind) for kind in range(_KINDS)]
    size = 0
    for begin in range(first, first + episodes, _EPISODES_A_FILE):
        path = folder / f"20261101T000000Z-1-{begin:08x}.jsonl"
        with open(path, "w") as file:
            for number in range(begin, min(begin + _EPISODES_A_FILE, first + episodes)):
                file.write(_episode(number, templates[random.Random(number).randrange(_KINDS)]))
            size += file.tell()
    return size


def _episode(number: int, template: str) -> str:
    ts = START + dt.timedelta(seconds=number)
    filled = template.replace("#NUMBER#", f"{number:07d}").replace("#EPISODE#", new_id())
    for step in range(EVENTS_AN_EPISODE):
        filled = filled.replace(f"#ID{step}#", new_id(), 1)
        filled = filled.replace(f"#TS{step}#", (ts + dt.timedelta(milliseconds=80 * step)).isoformat()[:19], 1)
    return filled


_KINDS = 12


def _template(kind: int) -> str:
    """Return the lines of one episode: kinds differ in task type, version, success and failures."""
    failed = kind % 3 == 0
    has_two_searches = kind == 1  # of which one is thrown away
    task_type = ("orders", "refunds", "answers", "calendar")[kind % 4]
    tool_status = Status.ERROR if kind % 6 == 0 else Status.OK
    plan = {"purpose": "plan", "tier": "light", "messages": [{"role": "system", "content": _PROMPT}], "bound": True}
    steps: list[dict[str, object]] = [
        {
            "action": Action.TASK_STARTED,
            "name": f"family-{kind}",
            "input": {"task": {"prompt": "order #NUMBER#"}, "seed": 0, "run": {"suite": "desk"}},
        },
        {
            "action": Action.ROUTED,
            "output": {"candidates": ["find_order", "refund"], "scores": {"find_order": 0.7, "refund": 0.3}},
        },
        {
            "action": Action.GENERATION,
            "name": "embedded",
            "input": plan,
            "output": {"text": "call #NUMBER#", "finish": "stop"},
            "input_tokens": 300 + kind,
            "output_tokens": 20,
            "latency_ms": 400.5 + kind,
            "tier": Tier.LIGHT,
            "status": Status.OK,
            "request_hash": f"{kind:032x}",
        },
        {
            "action": Action.RETRIEVAL if has_two_searches else Action.TOOL_CALLED,
            "name": "find_order",
            "input": {"order": "#NUMBER#"},
            "output": {"order": "#NUMBER#", "state": "shipped"},
            "latency_ms": 1.5,
            "status": tool_status,
            "error_kind": None if tool_status is Status.OK else ErrorKind.NOT_FOUND,
            "request_hash": f"{1000 + kind:032x}",
        },
        {
            "action": Action.GENERATION,
            "name": "embedded",
            "input": plan,
            "output": {"text": "call #NUMBER#", "finish": "stop"},
            "input_tokens": 350 + kind,
            "output_tokens": 25,
            "latency_ms": 410.5,
            "tier": Tier.LIGHT,
            "status": Status.OK,
            "request_hash": f"{2000 + kind:032x}",
        },
        {
            "action": Action.RETRIEVAL if kind % 2 else Action.TOOL_CALLED,
            "name": "search_policies",
            "input": {"query": "refund #NUMBER#"},
            "output": {"hits": [{"text": "Within 30 days. #NUMBER#"}]},
            "latency_ms": 2.5,
            "status": Status.OK,
            "request_hash": f"{3000 + kind:032x}",
        },
        {
            "action": Action.GENERATION,
            "name": "embedded",
            "input": plan,
            "output": {
                "text": "Within 30 days, #NUMBER#" if has_two_searches else "shipped #NUMBER#",
                "finish": "stop",
            },
            "input_tokens": 400 + kind,
            "output_tokens": 30,
            "latency_ms": 420.5,
            "tier": Tier.LIGHT,
            "status": Status.OK,
            "request_hash": f"{4000 + kind:032x}",
        },
        {
            "action": Action.TASK_RECORDED,
            "name": "completed",
            "output": {
                "request": "order #NUMBER#",
                "end": "completed",
                "result": "shipped",
                "failure_points": [],
                "key_decisions": [],
                "tools": ["find_order"],
            },
        },
        {
            "action": Action.TASK_ENDED,
            "name": "completed",
            "output": {
                "end": "completed",
                "answer": "#NUMBER#",
                "reason": "",
                "calls": [["find_order", {"order": "#NUMBER#"}, "ok"]],
                "steps": 3,
                "reflections": 0,
                "tokens": 1125,
                "seconds": 1.2,
                "usd": None,
            },
            "observation": "#NUMBER#",
            "status": Status.OK,
        },
        {
            "action": Action.GRADED,
            "name": "state",
            "output": {"score": 0.0 if failed else 1.0, "reasons": []},
            "status": Status.OK,
        },
    ]
    return "".join(_line(place, columns, kind, task_type) for place, columns in enumerate(steps))


def _line(place: int, columns: dict[str, object], kind: int, task_type: str) -> str:
    for name in ("input", "output"):
        if name in columns:
            columns[name] = payload.dumps(columns[name])
    event = Event(
        event_id=new_id(),
        ts=START,
        run_id=f"run-{kind % 2}",
        episode_id="#EPISODE#",
        task_id="task-#NUMBER#",
        task_type=task_type,
        step=place,
        config_version=f"v1.{kind % 2}",
        channel="suite",
        **columns,  # type: ignore[arg-type]
    )
    text = events.encode(event).decode()
    text = text.replace(event.event_id, f"#ID{place}#", 1)
    return text.replace(START.isoformat().replace("+00:00", "Z"), f"#TS{place}#Z", 1) + "\n"
