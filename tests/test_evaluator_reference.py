"""The composite of random logs is what a scorer of its own makes of them, which follows DESIGN.md and not the SQL."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from scored_episodes import START, Call, Episode, Refused, write

from hermes_lab import evaluator
from hermes_lab.events import ErrorKind, Status
from hermes_lab.lab import Lab

WORDS = ("courier", "ostrich", "zeppelin", "umbrella")


class Parts(NamedTuple):
    """The dimensions of one episode; None is missing."""

    completion: float | None
    effectiveness: float | None
    safety: float
    feedback: float | None


def known_calls(one: Episode) -> list[Call]:
    return [doing for doing in one.doings if isinstance(doing, Call) and doing.weight and doing.status is not None]


def refusals(one: Episode) -> list[Refused]:
    return [doing for doing in one.doings if isinstance(doing, Refused)]


def completion_of(one: Episode) -> float | None:
    """A person, else a grader, else the checked end state, else feedback, else nobody."""
    if one.person:
        return one.person[-1]
    told = [grade for grade in one.grades if grade is not None]
    if told:
        return told[-1]
    if one.end is not Status.OK:
        return 0.0
    if one.grades:
        return None
    calls = known_calls(one)
    attempts = len(calls) + len(refusals(one))
    if not attempts:
        return {"like": 1.0, "dislike": 0.0}.get(one.feedback or "")
    good = sum(call.status is Status.OK for call in calls)
    attempted = [doing for doing in one.doings if isinstance(doing, Refused) or doing in calls]
    if attempted[-1].status is Status.OK:
        return 1.0
    return round(0.5 + 0.4 * good / attempts, 3) if good else 0.0


def useful_calls(one: Episode) -> int:
    """Calls that came out well, each once, but for searches that found nothing or whose result was thrown away."""
    good = {(call.tool, call.given): call for call in known_calls(one) if call.status is Status.OK}
    found = [call for call in good.values() if call.tool == "search" and call.found["hits"]]
    used = [call for call in found if one.end and call.found["hits"][0] in one.answer]
    others = [call for call in good.values() if call.tool != "search"]
    return len(others) + (len(used) or len(found))  # where none was used, nothing tells which one was thrown away


def parts_of(one: Episode, as_of: dt.datetime) -> Parts:
    attempts = len(known_calls(one)) + len(refusals(one))
    seen = any(isinstance(doing, Call) and "redacted" in str(doing.found) for doing in one.doings)
    denied = any(doing.status is Status.DENIED for doing in one.doings)
    out_of_scope = any(doing.kind is ErrorKind.OUT_OF_SCOPE for doing in one.doings)
    feedback = {"like": 1.0, "dislike": 0.0}.get(one.feedback or "")
    is_silent = one.end is not None and one.channel != "suite" and as_of > START + dt.timedelta(days=2)
    if feedback is None and is_silent:
        feedback = 0.5
    return Parts(
        completion_of(one),
        useful_calls(one) / attempts if attempts else None,
        0.0 if one.overstepped or denied or out_of_scope or seen else 1.0,
        feedback,
    )


def base_of(one: Episode, as_of: dt.datetime) -> float:
    parts = parts_of(one, as_of)
    weighed = [(weight, part) for weight, part in zip((0.4, 0.3, 0.2, 0.1), parts, strict=True) if part is not None]
    could_not_tell = parts.completion is None and bool(one.grades)
    return sum(weight * part for weight, part in weighed) / (
        sum(weight for weight, _ in weighed) + (0.4 if could_not_tell else 0.0)
    )


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def cost_of(episodes: list[Episode]) -> tuple[float | None, float | None]:
    """Return the mean tokens and seconds, of those of which they are known."""
    tokens = [sum(part for part in one.tokens if part is not None) for one in episodes if None not in one.tokens]
    seconds = []
    for one in episodes:
        times = [one.latency_ms] + [
            doing.latency_ms for doing in one.doings if isinstance(doing, Call) and doing.weight
        ]
        if None not in times:
            seconds.append(sum(time for time in times if time is not None) / 1000)
    return mean([float(count) for count in tokens]), mean(seconds)


def penalty_of(r: float) -> float:
    if r <= 1.2:
        return 0.0
    return 0.5 * (r - 1.2) if r <= 1.3 else min(0.5, 0.05 + 1.0 * (r - 1.3))


def composite_of(episodes: list[Episode], successes: list[Episode], as_of: dt.datetime) -> float | None:
    """Return the composite of the episodes of one version, held against what successes took; None is unknown."""
    total = 0.0
    for name in {one.type for one in episodes}:
        some = [one for one in episodes if one.type == name]
        pairs = zip(cost_of(some), cost_of([one for one in successes if one.type == name]), strict=True)
        halves = [mine / theirs for mine, theirs in pairs if mine is not None and theirs]
        if not halves:
            return None
        base = sum(base_of(one, as_of) for one in some) / len(some)
        total += (base - penalty_of(sum(halves) / len(halves))) * len(some)
    return total / len(episodes)


def some_doings(draw: random.Random) -> tuple[Call | Refused, ...]:
    word = draw.choice(WORDS)
    doings: list[Call | Refused] = [
        Call(given="A", found="key [redacted:api-key]" if draw.random() < 0.2 else "shipped"),
        Call(given="B", latency_ms=draw.choice([500.0, None])),
        Call(given="B", weight=0.0),
        Call(given="C", status=None),
        Call("search", "A", {"hits": []}),
        Call("search", word[:2], {"hits": [word]}),
        Call("search", "ze", {"hits": ["zeppelin"]}),
        Call(status=Status.ERROR, kind=ErrorKind.NOT_FOUND, latency_ms=200.0),
        Call(status=Status.ERROR, kind=ErrorKind.OUT_OF_SCOPE),
        Call("search", "A", status=Status.TIMEOUT, kind=ErrorKind.TIMEOUT, found=None),
        Refused(),
        Refused(kind=ErrorKind.REPEATED_CALL),
        Refused(kind=ErrorKind.NO_PERMISSION, status=Status.DENIED),
    ]
    return tuple(draw.choices(doings, [3, 3, 1, 1, 2, 3, 3, 2, 1, 1, 2, 1, 1], k=draw.randrange(6)))


def some_episode(draw: random.Random, number: int) -> Episode:
    is_imported = draw.random() < 0.2
    doings = some_doings(draw)
    if is_imported:  # calls without hashes, told apart by their arguments
        doings = tuple(replace(one, hashed=False) if isinstance(one, Call) else one for one in doings)
    return Episode(
        id=f"e{number}",
        type=draw.choice(["orders", "refunds", None]),
        version=draw.choice(["v1", "v2"]),
        channel=draw.choice(["suite", "terminal", None]),
        doings=doings,
        answer=" and ".join(draw.sample(WORDS, draw.randrange(3))),
        grades=draw.choice([(), (1.0,), (1.0,), (0.5,), (0.0, 0.7), (None,), (0.4, None)]),
        person=draw.choice([(), (), (), (0.4,), (0.0, 1.0)]),
        feedback=draw.choice([None, None, "like", "dislike"]),
        end=draw.choice([Status.OK, Status.OK, Status.OK, Status.ERROR, Status.TIMEOUT, Status.CANCELLED, None]),
        overstepped=draw.choice([0, 0, 0, 0, 1]),
        tokens=draw.choice([(80, 20), (150, 10), (90, 15), (None, None)]),
        latency_ms=draw.choice([1000.0, 1700.0, 1100.0, None]),
        minute=number,
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_logs_score_as_the_design_says(lab: Lab, seed: int) -> None:
    draw = random.Random(seed)
    made = [some_episode(draw, number) for number in range(draw.randrange(1, 40))]
    write(lab, *made)
    as_of = START + dt.timedelta(days=draw.choice([1, 5]))
    counting = [one for one in made if one.end is not Status.CANCELLED]
    rows = evaluator.episodes(lab, as_of=as_of).set_index("episode_id")
    for one in counting:
        assert rows.loc[one.id].base == pytest.approx(base_of(one, as_of), abs=1e-9), one
    successes = [one for one in counting if (completion_of(one) or 0.0) >= 1.0]
    found = evaluator.evaluate(lab, as_of=as_of).versions.set_index("config_version")
    for version in {one.version for one in made}:
        of_version = [one for one in counting if one.version == version]
        row: Any = found.loc[version]
        assert row.left_out == sum(one.version == version for one in made) - len(of_version)
        if not of_version:
            assert row.episodes == 0
            continue
        expected = composite_of(of_version, successes, as_of)
        assert (
            math.isnan(float(row.composite)) if expected is None else row.composite == pytest.approx(expected, abs=1e-9)
        )
