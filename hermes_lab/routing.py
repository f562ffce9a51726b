"""Which tools an agent is offered: ranked by likeness to the request and by what worked before; pure functions.

Likeness is the overlap of words (Chinese: character bigrams) between the request and a tool's name, description and
parameters, each word weighted by how few tools share it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hermes_lab.config import Routing
from hermes_lab.text import tokens
from hermes_lab.tools.base import Spec

_NAME_WEIGHT = 2.0  # a word of the name says more about a tool than one of its description
_PRIOR = 1.0  # hits and misses that every tool is taken to have had, so that one event does not decide


class ToolStats(NamedTuple):
    """How a tool did on tasks of one type.

    Attributes:
        hits: calls that came out ok.
        misses: calls that failed for a reason that does not pass, and are recent enough to count.
        last_good: the arguments of the last call that came out ok.
    """

    hits: int = 0
    misses: int = 0
    last_good: dict[str, Any] | None = None


class PolicyMemory(NamedTuple):
    """What the log says about tools: a snapshot, made before a run (`policy.fold`), which no episode changes.

    Attributes:
        stats: by (task type, tool).
        followed: how often a tool came out ok right after another, by (task type, tool before, tool).
    """

    stats: Mapping[tuple[str, str], ToolStats] = {}
    followed: Mapping[tuple[str, str, str], int] = {}


NO_MEMORY = PolicyMemory()


class Routed(NamedTuple):
    """The candidates of one step.

    Attributes:
        candidates: names of the tools to offer, in the order to offer them.
        dropped: those that missed too often.
        scores: score by tool, 0 to 1, of those not dropped; empty where nothing had to be ranked.
    """

    candidates: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    scores: Mapping[str, float] = {}


def route(
    request: str,
    task_type: str,
    tools: Sequence[Spec],
    settings: Routing,
    policy: PolicyMemory = NO_MEMORY,
    missed_now: Mapping[str, int] | None = None,
    before: str | None = None,
) -> Routed:
    """Choose the tools to offer.

    Args:
        request: what the user asked, and what the current sub-goal is.
        task_type: its type.
        tools: those that the task permits, in listing order.
        settings: how to choose.
        policy: what is known from earlier episodes.
        missed_now: misses by tool within this episode.
        before: the tool called last in this episode, if it came out ok.
    """
    kept, dropped = drop_misses(task_type, tools, settings, policy, missed_now or {})
    everything = settings.shortlist == "all" or settings.shortlist >= len(kept)
    if everything and settings.order == "listing":
        return Routed(tuple(spec.name for spec in kept), dropped)
    scores = rank(request, task_type, kept, settings.policy_weight, policy, before)
    best = sorted(kept, key=lambda spec: -scores[spec.name])
    if not everything:
        best = best[: int(settings.shortlist)]
    if settings.order == "listing":
        chosen = {spec.name for spec in best}
        best = [spec for spec in kept if spec.name in chosen]
    return Routed(tuple(spec.name for spec in best), dropped, {name: round(score, 4) for name, score in scores.items()})


def drop_misses(
    task_type: str,
    tools: Sequence[Spec],
    settings: Routing,
    policy: PolicyMemory,
    missed_now: Mapping[str, int],
) -> tuple[list[Spec], tuple[str, ...]]:
    """Return the tools without those that missed more than `drop_after` times and never hit, and the names of these.

    Where that would drop all, the first `keep_at_least` stay.
    """
    kept, dropped = [], []
    for spec in tools:
        stats = policy.stats.get((task_type, spec.name), ToolStats())
        misses = stats.misses + missed_now.get(spec.name, 0)
        if misses > settings.drop_after and stats.hits == 0:
            dropped.append(spec.name)
        else:
            kept.append(spec)
    if not kept:
        kept = list(tools[: settings.keep_at_least])
        dropped = [spec.name for spec in tools[settings.keep_at_least :]]
    return kept, tuple(dropped)


def rank(
    request: str,
    task_type: str,
    tools: Sequence[Spec],
    policy_weight: float = 0.0,
    policy: PolicyMemory = NO_MEMORY,
    before: str | None = None,
) -> dict[str, float]:
    """Return a score from 0 to 1 for each tool: likeness to the request, and how it did on such tasks.

    >>> tools = [Spec("get_weather", "Forecast for a city.", {}), Spec("add_numbers", "Sum of two numbers.", {})]
    >>> scores = rank("What is the weather in Paris?", "any", tools)
    >>> scores["get_weather"] > scores["add_numbers"]
    True
    """
    alike = likeness(request, tools)
    return {
        spec.name: (1 - policy_weight) * alike[spec.name]
        + policy_weight * _success(policy, task_type, spec.name, before)
        for spec in tools
    }


def likeness(request: str, tools: Sequence[Spec]) -> dict[str, float]:
    """Return how alike the request and each tool are, from 0 to 1, the best one at 1 unless none shares a word."""
    words = set(tokens(request))
    scores = {spec.name: 0.0 for spec in tools}
    weights = [
        weighted_words(spec.name, spec.description, tuple(spec.parameters.get("properties") or ())) for spec in tools
    ]
    shared_by: dict[str, int] = {}
    for weighted in weights:
        for word in weighted:
            shared_by[word] = shared_by.get(word, 0) + 1
    for spec, weighted in zip(tools, weights, strict=True):
        # fsum is exact, so that neither the order of a set nor of the words decides between tools that are alike.
        total = math.fsum(
            weighted[word] * math.log(1 + len(tools) / shared_by[word]) for word in words & weighted.keys()
        )
        # A long description shares more words by chance, so its length counts against it, mildly.
        scores[spec.name] = total / math.sqrt(1 + len(weighted))
    most = max(scores.values(), default=0.0)
    return {name: score / most for name, score in scores.items()} if most else scores


def _success(policy: PolicyMemory, task_type: str, tool: str, before: str | None) -> float:
    stats = policy.stats.get((task_type, tool), ToolStats())
    followed = policy.followed.get((task_type, before, tool), 0) if before else 0
    hits = stats.hits + followed
    return (hits + _PRIOR) / (hits + stats.misses + 2 * _PRIOR)


@functools.lru_cache(maxsize=8192)
def weighted_words(name: str, description: str, parameters: tuple[str, ...]) -> dict[str, float]:
    """Return the words of a tool with what each counts: those of its name more than the others."""
    weights: dict[str, float] = {}
    for text, weight in ((" ".join(parameters), 1.0), (description, 1.0), (name, _NAME_WEIGHT)):
        for word in tokens(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights
