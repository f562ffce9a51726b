"""Known symptoms of an agent that does badly, read from the log: what was found, the likely cause, and the remedy.

Each symptom is a function of one row of counts over the last episodes (`sql/symptoms.sql`), so each stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hermes_lab.log import Log
from hermes_lab.sql_files import read_sql

LAST_EPISODES = 200
"""So many of the last episodes are looked at."""

FEWEST = 10
"""Of fewer episodes (or replies) nothing is said."""

Counts = Mapping[str, Any]


class Symptom(NamedTuple):
    """A symptom that was found.

    Attributes:
        name: short, as in the table of `hermes-lab doctor`.
        serious: whether what is recorded is hardly worth anything while it lasts.
        found: what the log shows.
        cause: what it most often comes from.
        remedy: what to do.
    """

    name: str
    serious: bool
    found: str
    cause: str
    remedy: str


def find(log: Log) -> tuple[int, list[Symptom]]:
    """Return how many episodes were looked at, and the symptoms that they show."""
    of_agent = _row(log, "symptoms", [LAST_EPISODES])
    of_evolution = _row(log, "symptoms_evolution", [])
    found = [look(of_agent) for look in AGENT] + [look(of_evolution) for look in EVOLUTION]
    return of_agent["episodes"], [one for one in found if one is not None]


def _row(log: Log, name: str, params: list[Any]) -> dict[str, Any]:
    result = log.sql(read_sql("hermes_lab", name), params)
    columns = result.columns
    return dict(zip(columns, result.fetchall()[0], strict=True))


def _many(part: int, whole: int, share: float) -> bool:
    return whole >= FEWEST and part >= share * whole


# ---------------------------------------------------------------- the agent


def ignores_tools(counts: Counts) -> Symptom | None:
    """Tasks that wanted tools are answered without one."""
    part, whole = counts["wrong_without_call"], counts["graded_with_tools"]
    if not _many(part, whole, 0.5):
        return None
    return Symptom(
        "no tool calls",
        True,
        f"{part} of {whole} graded episodes answered wrongly without calling any tool",
        "the model's chat template does not show it the tools, or a rule makes it too careful",
        'bind its turns: [prompt] decoding = "schema" in the configuration; else look at the newest rules, and at one '
        "prompt: `select input from events where action = 'generation' limit 1`",
    )


def runs_out(counts: Counts) -> Symptom | None:
    """Episodes end by their budget."""
    part, whole = counts["out_of_budget"], counts["episodes"]
    if not _many(part, whole, 0.3):
        return None
    return Symptom(
        "budget",
        part >= 0.5 * whole,
        f"{part} of {whole} episodes ran out of their budget, most often: {counts['budget_reason']}",
        "the limit is too low for these tasks, or the listed tools take most of it",
        "raise it ([budgets] in the configuration, or --set budgets.steps=12), or show less: "
        '--set routing.shortlist=3, --set prompt.descriptions="brief"',
    )


def unreadable(counts: Counts) -> Symptom | None:
    """Calls cannot be read."""
    part, whole = counts["unreadable"], counts["plans"]
    if not _many(part, whole, 0.1):
        return None
    return Symptom(
        "unreadable calls",
        part >= 0.3 * whole,
        f"{part} of {whole} planning turns held a call that could not be read",
        "the model writes calls in a format of its own, or its turns are cut off",
        'bind them: [prompt] decoding = "schema" in the configuration, or raise sampling.max_tokens',
    )


def bad_calls(counts: Counts) -> Symptom | None:
    """Checks refuse many calls."""
    part, whole = counts["bad_calls"], counts["plans"]
    if not _many(part, whole, 0.3):
        return None
    return Symptom(
        "bad calls",
        False,
        f"{part} of {whole} planning turns named an unknown tool or gave wrong arguments, most often "
        f"{counts['bad_call_tool'] or 'no known tool'}",
        "too many tools are listed for this model, or a tool's description does not say what an argument holds",
        "--set routing.shortlist=3; or add a note to that tool ([tools.NAME] note = ... in the configuration)",
    )


def denied(counts: Counts) -> Symptom | None:
    """Calls are denied."""
    part, whole = counts["denials"], counts["episodes"]
    if not _many(part, whole, 0.2):
        return None
    return Symptom(
        "denied calls",
        False,
        f"{part} calls were denied in {whole} episodes, most often {counts['denied_tool']} by {counts['denied_by']}",
        "high_risk tools ask a person and nobody was there, or a rule of lab.toml is wider than it was meant",
        "run with --ask to answer yourself; `hermes-lab tools --rules` shows what the rules say of each tool",
    )


def dead_loops(counts: Counts) -> Symptom | None:
    """Episodes end as diverged."""
    part, whole = counts["diverged"], counts["episodes"]
    if not _many(part, whole, 0.1):
        return None
    return Symptom(
        "dead loops",
        False,
        f"{part} of {whole} episodes failed the same way three times, most often: {counts['diverged_reason']}",
        "a tool is out of order, or its error does not say what to do instead",
        "call the tool by hand with the arguments in the log, and mend it or its message",
    )


def failures(counts: Counts) -> Symptom | None:
    """The model fails."""
    part, whole = counts["failed_replies"], counts["replies"]
    if not _many(part, whole, 0.1):
        return None
    return Symptom(
        "model failures",
        True,
        f"{part} of {whole} calls of the model failed, most often {counts['failure_kind']}",
        "the server is down, overloaded, or refuses the key or the length of the prompt",
        "`hermes-lab models` says where it is; rate_limited: lower `concurrency` in its options; context_length: "
        "--set routing.shortlist=3; timeout: raise `seconds` in its options",
    )


def cut_off(counts: Counts) -> Symptom | None:
    """Replies are cut off."""
    part, whole = counts["cut_off"], counts["replies"]
    if not _many(part, whole, 0.1):
        return None
    return Symptom(
        "cut replies",
        False,
        f"{part} of {whole} replies ended at their greatest length",
        "the limit is too low for this model, which may think before it calls",
        "--set sampling.max_tokens=1024",
    )


def all_from_cache(counts: Counts) -> Symptom | None:
    """Nothing is computed any more."""
    part, whole = counts["cached_replies"], counts["replies"]
    if not _many(part, whole, 0.95):
        return None
    return Symptom(
        "cache",
        False,
        f"{part} of {whole} replies came from the cache",
        "the same tasks ran before under the same configuration and model",
        "nothing is wrong: tokens and seconds are those of the first time; [models] cache = false measures afresh",
    )


def ungraded(counts: Counts) -> Symptom | None:
    """Graders fail."""
    part, whole = counts["ungraded"], counts["grades"]
    if not _many(part, whole, 0.05):
        return None
    return Symptom(
        "grades",
        True,
        f"{part} of {whole} grades could not be told: {counts['ungraded_reason']}",
        "a grader is wrong, or the model that judges cannot be asked",
        "`hermes-lab suite show NAME --task ID` shows a task's grader",
    )


AGENT: tuple[Callable[[Counts], Symptom | None], ...] = (
    ignores_tools,
    runs_out,
    unreadable,
    bad_calls,
    denied,
    dead_loops,
    failures,
    cut_off,
    all_from_cache,
    ungraded,
)


# ---------------------------------------------------------------- its evolution


def back_and_forth(counts: Counts) -> Symptom | None:
    """Versions are published and rolled back again and again."""
    part, whole = counts["rolled_back"], counts["published"]
    if part < 2 or 2 * part < whole:
        return None
    return Symptom(
        "rollbacks",
        True,
        f"{part} of {whole} published versions were rolled back",
        "the scores tell the versions apart too badly",
        "look whether the composite scores overlap, then each part of them; add tasks of graded difficulty",
    )


def poor_suggestions(counts: Counts) -> Symptom | None:
    """Most suggestions are refused."""
    part, whole = counts["refused_suggestions"], counts["suggestions"]
    if not _many(part, whole, 0.5):
        return None
    return Symptom(
        "suggestions",
        False,
        f"{part} of {whole} suggestions were refused",
        "the batch is too small, or its events are noisy",
        "give the reflector a larger batch; look at the events' confidence and at what wrote them",
    )


def untagged_memories(counts: Counts) -> Symptom | None:
    """Memories do not say which version they come from."""
    part, whole = counts["untagged_memories"], counts["memories"]
    if not part:
        return None
    return Symptom(
        "memories",
        True,
        f"{part} of {whole} memories name no version of the configuration",
        "something wrote them past the release path, or they were imported",
        "a rollback cannot take them back: retract them, or write them again with their version",
    )


EVOLUTION: tuple[Callable[[Counts], Symptom | None], ...] = (back_and_forth, poor_suggestions, untagged_memories)
