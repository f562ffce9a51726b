"""A lab with a small stored suite about the weather, and models that answer it: a script, or a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from openai_server import Answer, Body, completion

from hermes_lab.models.hermes import render_call
from hermes_lab.suites.recorded import RecordedCall, ToolDefinition
from hermes_lab.suites.stored import Content, StoredTask
from hermes_lab.suites.stored_files import write_suite
from hermes_lab.tasks import AllOf, Calls, Part, Split, WantedCall
from hermes_lab.tasks import Answer as AnswerGrader
from hermes_lab.tools.base import Level

CITIES = ("杭州", "Oslo", "Zürich", "上海", "Łódź", "Lima", "北京", "Quito")
SUITE = "天气"
WEATHER = ToolDefinition(
    name="weather",
    description="The weather in a city. 查天气",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
ALARM = ToolDefinition(name="sound_alarm", description="Sound the alarm.", level=Level.HIGH_RISK)
SUNNY = "晴 sunny"


def weather_task(number: int, **fields: Any) -> StoredTask:
    city = CITIES[number % len(CITIES)]
    recorded = RecordedCall(tool="weather", arguments={"city": city}, output={"weather": SUNNY})
    wanted = Calls(wanted=(WantedCall(tool="weather", allowed={"city": [city]}),))
    values: dict[str, Any] = {
        "id": f"w{number}",
        "family": f"family-{number % 4}",
        "type": "forecast" if number % 2 else "查询",
        "prompt": f"What is the weather in {city}?",
        "tools": ("weather", "sound_alarm"),
        "split": list(Split)[number % 4],
        "environment": {"recorded": [msgspec.to_builtins(recorded)]},
        "grader": AllOf(parts=(Part(grader=wanted), Part(grader=AnswerGrader(items=("晴",)), required=False))),
    }
    return StoredTask(**{**values, **fields})


def write_weather(lab: Path, tasks: int = 8, **fields: Any) -> None:
    """Put the suite into a lab."""
    chosen = tuple(weather_task(number, **fields) for number in range(tasks))
    write_suite(lab, Content(SUITE, "Weather", "made for tests", chosen, {"weather": WEATHER, "sound_alarm": ALARM}))


def write_settings(lab: Path, models: str, more: str = "") -> None:
    """Write `lab.toml`."""
    lab.mkdir(parents=True, exist_ok=True)
    (lab / "lab.toml").write_text(f"format = 1\n[models]\n{models}\n{more}\n", encoding="utf-8")


def use_script(lab: Path, replies: Iterable[str], more: str = "") -> None:
    """Let a script be the lab's model: these replies, in order."""
    lab.mkdir(parents=True, exist_ok=True)
    file = lab / "script.jsonl"
    file.write_text("".join(json.dumps(reply, ensure_ascii=False) + "\n" for reply in replies), encoding="utf-8")
    write_settings(lab, f'light = "scripted:{file}"', more)


def call(city: str) -> str:
    return render_call("weather", {"city": city})


def final(answer: str = "It is 晴.") -> str:
    return render_call("final_answer", {"answer": answer})


def good_run(tasks: int = 8) -> list[str]:
    """Return the replies that solve every task where all advance together."""
    return [call(CITIES[n % len(CITIES)]) for n in range(tasks)] + [final() for _ in range(tasks)]


def answer_weather(body: Body, wait_s: float = 0.0) -> Answer:
    """Answer a planning turn of the suite as a server: call the tool, and once its result is there, say it."""
    said = json.dumps(body["messages"], ensure_ascii=False)
    city = next(city for city in CITIES if f"weather in {city}?" in said)
    if SUNNY in said:
        text = json.dumps({"name": "final_answer", "arguments": {"answer": f"{city}: 晴"}}, ensure_ascii=False)
    else:
        text = json.dumps({"name": "weather", "arguments": {"city": city}}, ensure_ascii=False)
    return Answer(completion(text), wait_s=wait_s)


def rows(lab: Any, query: str, *params: Any) -> list[tuple[Any, ...]]:
    return lab.log.sql(query, list(params)).fetchall()
