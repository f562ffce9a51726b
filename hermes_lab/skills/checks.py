"""Checks over a library of skills: what would go wrong with it, where, why that matters, and what to do."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from hermes_lab import payload
from hermes_lab.compress import estimate_tokens
from hermes_lab.config import Layers
from hermes_lab.conflicts import Conflict, Kind, Statement, find_in_texts
from hermes_lab.log import Log
from hermes_lab.proposals.check import why_not_name
from hermes_lab.skills.library import BODY_TOKENS, Library, trigger_of
from hermes_lab.skills.skill import DESCRIPTION_CHARS, NAME_CHARS, Skill
from hermes_lab.skills.triggers import SERVED, weigh, words
from hermes_lab.sql_files import read_sql

LEAST_QUERIES = 50
"""Distinct recorded queries below which nothing is said about skills that were never triggered."""

AMBIGUOUS = 0.7
"""Share of a skill's trigger words, by weight, that another must hold to be in its way."""

NEAR = 0.3
"""Share from which on two skills may be triggered by one query, so that their bodies are compared."""

_SHOWN_CHARS = 160
_LEAST_WORDS = 3
_COUNTED = re.compile(r"\d(?: (?:of|[a-z]))?$")  # numbers that count or name things: steps, versions, times


class Finding(NamedTuple):
    """Something wrong with a library.

    Attributes:
        kind: a short name, the same for the same trouble.
        severity: "problem" (a skill cannot work or misleads) or "warning".
        skills: names of the skills that it is about; none where it is about the whole library.
        what: what was found.
        where: the path or proposal that the first of them comes from; None where unknown.
        why: why it matters.
        remedy: what to do.
    """

    kind: str
    severity: str
    skills: tuple[str, ...]
    what: str
    where: str | None
    why: str
    remedy: str


def check(
    library: Library, *, tools: Container[str] | None = None, queries: Sequence[str] | None = None
) -> tuple[Finding, ...]:
    """Return what is wrong with a library, problems first.

    Args:
        library: the skills.
        tools: names of the tools that there are; None where nobody knows, and then none is missing.
        queries: distinct recorded queries; None where there is no log.
    """
    found: list[Finding] = []
    for look in _LOOKS:
        found.extend(look(library))
    found.extend(_missing_tools(library, tools))
    found.extend(_never_triggered(library, queries))
    return tuple(sorted(found, key=lambda one: (one.severity, one.kind, one.skills, one.what)))


def recorded_queries(log: Log) -> list[str]:
    """Return the distinct queries of a log, the most frequent first.

    Raises:
        CorruptLogError: the log cannot be read.
    """
    rows = log.sql(read_sql(__package__, "queries")).fetchall()
    return [payload.restore_text(query) for query, _times in rows]


def _finding(skill: Skill, kind: str, severity: str, what: str, why: str, remedy: str, *others: str) -> Finding:
    return Finding(kind, severity, (skill.name, *others), what, skill.source, why, remedy)


def _cycles(library: Library) -> Iterator[Finding]:
    needs = {skill.name: {name for name in skill.needs.skills if name in library} for skill in library}
    while True:
        try:
            graphlib.TopologicalSorter(needs).prepare()
        except graphlib.CycleError as error:
            # The list goes from what is needed to what needs it, and ends where it began.
            cycle: list[str] = list(reversed(error.args[1]))
        else:
            return
        start = cycle.index(min(cycle))
        ordered = cycle[start:-1] + cycle[: start + 1]
        first = library.get(ordered[0])
        if first is not None:
            yield _finding(
                first,
                "cycle",
                "problem",
                f"it needs itself: {' -> '.join(ordered)}",
                "none of these skills can be loaded before the others",
                "take one of these names out of `needs`",
                *ordered[1:-1],
            )
        needs[ordered[0]].discard(ordered[1])


def _missing_skills(library: Library) -> Iterator[Finding]:
    for skill in library:
        for name in skill.needs.skills:
            if name not in library:
                yield _finding(
                    skill,
                    "missing_skill",
                    "problem",
                    f"it needs the skill {name!r}, which the library does not have",
                    "its steps lead nowhere",
                    f"add {name!r}, or take it out of `needs`",
                )
        for name in skill.related:
            if name not in library:
                yield _finding(
                    skill,
                    "related_skill",
                    "warning",
                    f"it points to the skill {name!r}, which the library does not have",
                    "an agent that follows it finds nothing",
                    f"add {name!r}, or take it out of `related_skills`",
                )


def _missing_tools(library: Library, tools: Container[str] | None) -> Iterator[Finding]:
    if tools is None:
        return
    for skill in library:
        for name in skill.needs.tools:
            if name not in tools:
                yield _finding(
                    skill,
                    "missing_tool",
                    "problem",
                    f"it needs the tool {name!r}, which is not there",
                    "its steps cannot be done",
                    f"add the tool, or take {name!r} out of `needs`",
                )
        unknown = [name for name in skill.allowed_tools if name not in tools and name not in skill.needs.tools]
        if unknown:
            yield _finding(
                skill,
                "other_tools",
                "warning",
                f"`allowed-tools` names tools that are not there: {', '.join(unknown)}",
                "it was written for another agent, so its steps may not work here; being named allows nothing",
                "rewrite the steps for the tools that there are",
            )


def _names(library: Library) -> Iterator[Finding]:
    for skill in library:
        reason = why_not_name(skill.name)
        if reason is not None:
            yield _finding(
                skill,
                "bad_name",
                "problem",
                reason,
                "it is the name of a folder, too, so the skill is not imported",
                "change `name` in its front matter",
            )


def _lengths(library: Library) -> Iterator[Finding]:
    for skill in library:
        sizes = (
            ("name", len(skill.name), NAME_CHARS, "characters", "other agents refuse it"),
            ("description", len(skill.description), DESCRIPTION_CHARS, "characters", "other agents cut or refuse it"),
            ("body", estimate_tokens(skill.body), BODY_TOKENS, "estimated tokens", "only its beginning is shown"),
        )
        for part, size, limit, unit, why in sizes:
            if size > limit:
                yield _finding(
                    skill,
                    "too_long",
                    "warning",
                    f"its {part} has {size:,} {unit}, and {limit:,} are the most",
                    why,
                    "shorten it, or make two skills of it" if part == "body" else "shorten it",
                )


def _size(library: Library) -> Iterator[Finding]:
    if len(library) > SERVED:
        yield Finding(
            "large_library",
            "warning",
            (),
            f"there are {len(library)} skills, and shared words serve about {SERVED}",
            None,
            "the right skill is more and more often not among those that a query triggers",
            "drop or merge skills that are never triggered or alike, or give them `task_types`",
        )


def _room(library: Library) -> Iterator[Finding]:
    """Say once how many are cut unless a configuration gives them more room: with real skills it is most."""
    room = Layers().skill_tokens
    cut = tuple(skill.name for skill in library if room < estimate_tokens(skill.body) <= BODY_TOKENS)
    if cut:
        yield Finding(
            "cut_short",
            "warning",
            (),
            f"{len(cut)} of {len(library)} skills have more than {room:,} estimated tokens, such as {cut[0]!r}",
            None,
            "that is the room for all skills of a prompt unless a configuration gives more, and the rest is cut off",
            "set `layers.skill_tokens` higher in the configuration, or put what matters most first",
        )


def _front_matter(library: Library) -> Iterator[Finding]:
    for skill in library:
        for note in skill.notes:
            yield _finding(
                skill,
                "front_matter",
                "warning",
                note.removeprefix(skill.source or "").lstrip(":, "),
                "other agents may read it in another way, or not at all",
                "mend that line of its SKILL.md",
            )
    for name, reason in library.unread.items():
        yield Finding(
            "unreadable",
            "problem",
            (name,),
            f"it stands in the log and cannot be read: {reason}",
            None,
            "it is never triggered",
            "propose a mended text, or undo its approval",
        )


def _conflicts(library: Library) -> Iterator[Finding]:
    """Compare the bodies of skills that may be shown together: of all others a contradiction does no harm."""
    near = shared_triggers(library)
    statements = {skill.name: Statement(skill.name, _instructions(skill.body)) for skill in library}
    for skill in library:
        others = [
            statements[other]
            for other, share in sorted(near[skill.name].items())
            if other < skill.name and max(share, near[other].get(skill.name, 0.0)) >= NEAR
        ]
        for conflict in find_in_texts(statements[skill.name], others):
            if conflict.kind is Kind.DUPLICATES or _is_telling(conflict):
                yield _conflict(skill, conflict)


def _is_telling(conflict: Conflict) -> bool:
    """Return whether two lines that differ are long enough to say something, and do not just number it."""
    return not _COUNTED.search(conflict.why) and all(len(words(text)) >= _LEAST_WORDS for text in conflict.texts)


def _instructions(body: str) -> str:
    """Return a body without headings, tables and tags, whose lines tell nobody to do anything."""
    return "\n".join(line for line in body.splitlines() if not line.lstrip().startswith(("#", "|", "<")))


def _conflict(skill: Skill, conflict: Conflict) -> Finding:
    if conflict.kind is Kind.DUPLICATES:
        return _finding(
            skill,
            "duplicate",
            "warning",
            f"its body says nearly the same as {conflict.other!r}",
            "both take room in the prompt, and a change of one leaves the other behind",
            "keep one of them",
            conflict.other,
        )
    mine, other = (text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..." for text in conflict.texts)
    return _finding(
        skill,
        "contradiction",
        "warning",
        f"it says {mine!r}, and {conflict.other!r} says {other!r} ({conflict.why})",
        "an agent that is shown both may follow either",
        "where they speak of the same thing, make them agree, or say in each when it holds",
        conflict.other,
    )


def shared_triggers(library: Library) -> dict[str, dict[str, float]]:
    """Return, for every skill, which share of its trigger words, by weight and rarity, each other skill holds, too."""
    rarity = library.index.rarity
    weighed = {skill.name: weigh(trigger_of(skill), library.index.weights) for skill in library}
    holders: dict[str, list[str]] = {}
    for name, held in weighed.items():
        for word in held:
            holders.setdefault(word, []).append(name)
    shares: dict[str, dict[str, float]] = {}
    for name, held in weighed.items():
        whole = sum(weight * rarity[word] for word, weight in held.items())
        shared = shares[name] = {}
        for word, weight in held.items():
            for other in holders[word]:
                common = min(weight, weighed[other][word]) * rarity[word]
                shared[other] = shared.get(other, 0.0) + common / whole
        shared.pop(name, None)
    return shares


def _ambiguous(library: Library) -> Iterator[Finding]:
    shares = shared_triggers(library)
    for skill in library:
        for other, share in sorted(shares[skill.name].items()):
            if share >= AMBIGUOUS:
                yield _finding(
                    skill,
                    "ambiguous_trigger",
                    "warning",
                    f"{share:.0%} of what triggers it triggers {other!r}, too",
                    "a query that is meant for one brings in both, or the wrong one",
                    "say in each description what sets it apart, or merge them",
                    other,
                )


def _never_triggered(library: Library, queries: Sequence[str] | None) -> Iterator[Finding]:
    if queries is None or len(queries) < LEAST_QUERIES:
        return
    fired = {match.name for query in queries for match in library.index.match(query)}
    for skill in library:
        if skill.name not in fired:
            yield _finding(
                skill,
                "never_triggered",
                "warning",
                f"none of {len(queries):,} recorded queries triggers it",
                "it is kept up for nothing, or its description lacks the words that users say",
                "add the users' words as tags, or drop it",
            )


_LOOKS: tuple[Callable[[Library], Iterable[Finding]], ...] = (
    _cycles,
    _missing_skills,
    _names,
    _lengths,
    _size,
    _room,
    _front_matter,
    _conflicts,
    _ambiguous,
)
