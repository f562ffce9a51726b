"""Skills, and a library of them: which ones a query triggers, and what of them enters a context.

The library of a lab is a view of its log (`standing`): approved skills, without those whose approval was undone or
whose version was rolled back. Reading never changes it; `proposals` is the only code that writes skills.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hermes_lab.compress import estimate_tokens
from hermes_lab.skills.front_matter import SkillError
from hermes_lab.skills.skill import Skill, headings, read_skill
from hermes_lab.skills.triggers import WEIGHTS, Index, Trigger, Weights

if TYPE_CHECKING:
    from hermes_lab.log import Log
    from hermes_lab.proposals.standing import StandingSkill

BODY_TOKENS = 5000
"""Estimated tokens that a body may take, the limit that Agent Skills recommends; see `fit` for longer ones."""

_LEAST_SHOWN = 40  # tokens; less of a skill than this is not worth showing


class Triggered(NamedTuple):
    """A skill that a query triggers, and its score, 0 and up."""

    skill: Skill
    score: float


class Shown(NamedTuple):
    """What of a triggered skill enters a context.

    Attributes:
        name: of the skill.
        text: to show.
        tokens: about how many the text takes.
        left_out: about how many tokens of the skill were left out.
    """

    name: str
    text: str
    tokens: int
    left_out: int = 0


class Fitted(NamedTuple):
    """What enters a context, and the names of the triggered skills for which there was no room at all."""

    shown: tuple[Shown, ...]
    dropped: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """About how many tokens all of it takes."""
        return sum(one.tokens for one in self.shown)


def trigger_of(skill: Skill) -> Trigger:
    """Return what a skill may be triggered by."""
    return Trigger(skill.name, skill.tags, skill.description, "\n".join(headings(skill.body)))


class Library:
    r"""Skills by name, ready to be triggered. It never changes.

    >>> tea = read_skill("---\nname: tea\ndescription: Make tea.\ntags: [tea, 茶]\n---\nBoil water.\n")
    >>> Library([tea]).triggered("怎么泡茶？ a cup of tea")[0].skill.name
    'tea'

    Attributes:
        unread: by name, why a skill that should be here cannot be read.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        weights: Weights = WEIGHTS,
        unread: Mapping[str, str] | None = None,
    ) -> None:
        """Take skills; their order does not matter.

        Args:
            skills: each name once.
            weights: how much a shared word counts by its field.
            unread: see the attribute.

        Raises:
            SkillError: two have one name.
        """
        self.unread: Mapping[str, str] = dict(unread or {})
        self._weights = weights
        self._skills: dict[str, Skill] = {}
        for skill in sorted(skills, key=lambda one: one.name):
            if skill.name in self._skills:
                raise SkillError(f"two skills are called {skill.name!r}: rename one of them")
            self._skills[skill.name] = skill

    def __iter__(self) -> Iterator[Skill]:
        """Yield the skills in order of their names."""
        return iter(self._skills.values())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._skills)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a skill of that name."""
        return name in self._skills

    def get(self, name: str) -> Skill | None:
        """Return the skill of that name, or None."""
        return self._skills.get(name)

    @functools.cached_property
    def index(self) -> Index:
        """The triggers, prepared at the first use."""
        return Index((trigger_of(skill) for skill in self), self._weights)

    def triggered(self, query: str, task_type: str | None = None, limit: int = 3) -> tuple[Triggered, ...]:
        """Return the skills that a query triggers, the best first.

        Args:
            query: what was asked.
            task_type: leaves out skills that are for other types only; None for no type.
            limit: at most so many.
        """
        matches = self.index.match(query, limit, self._for_type(task_type))
        return tuple(Triggered(self._skills[match.name], match.score) for match in matches)

    @functools.cached_property
    def _typed(self) -> tuple[Skill, ...]:
        return tuple(skill for skill in self if skill.task_types)

    def _for_type(self, task_type: str | None) -> set[str] | None:
        if not self._typed:
            return None
        return self._skills.keys() - {skill.name for skill in self._typed if task_type not in skill.task_types}


def fit(triggered: Sequence[Triggered], budget: int, each: int = BODY_TOKENS) -> Fitted:
    """Return what of the triggered skills enters a context, the best first.

    A skill that is too long for its share, or for what is left, is cut behind a whole line, and the text says so.

    Args:
        triggered: by `Library.triggered`.
        budget: estimated tokens for all of them.
        each: estimated tokens for one at most.
    """
    shown: list[Shown] = []
    dropped: list[str] = []
    for one in triggered:
        part = _cut(one.skill, min(each, budget))
        if part is None:
            dropped.append(one.skill.name)
        else:
            shown.append(part)
            budget -= part.tokens
    return Fitted(tuple(shown), tuple(dropped))


def _cut(skill: Skill, room: int) -> Shown | None:
    whole = f"Skill {skill.name}: {skill.description}\n\n{skill.body.strip()}"
    size = estimate_tokens(whole)
    if size <= room:
        return Shown(skill.name, whole, size)
    # The note is made with the largest numbers that it can hold, so that it fits whatever they are in the end.
    room -= estimate_tokens(_note(size, size))
    kept: list[str] = []
    length = 0
    for line in whole.split("\n"):
        length += estimate_tokens(line + "\n")
        if length > room:
            break
        kept.append(line)
    text = "\n".join(kept).rstrip()
    if estimate_tokens(text) < _LEAST_SHOWN:
        return None
    left_out = size - estimate_tokens(text)
    cut = f"{text}\n{_note(left_out, size)}"
    return Shown(skill.name, cut, estimate_tokens(cut), left_out)


def _note(left_out: int, size: int) -> str:
    return f"(This skill is cut: about {left_out} of its {size} tokens are left out.)"


def standing(log: Log, at: dt.datetime | None = None) -> Library:
    """Return the library of a log as of a moment.

    Args:
        log: the event log.
        at: an aware time; None for now.

    Raises:
        CorruptLogError: the log cannot be read.
    """
    from hermes_lab.proposals import history, standing

    moment = at or dt.datetime.now(dt.UTC)
    return library_of(standing.as_of(history.read(log), moment).skills)


def library_of(found: Mapping[str, StandingSkill]) -> Library:
    """Return the library of skills that stand, by name; one that cannot be read is in its `unread`."""
    skills: list[Skill] = []
    unread: dict[str, str] = {}
    for name, one in found.items():
        try:
            skill = read_skill(
                one.text,
                f"the skill {name}",
                name=name,
                files=one.files,
                config_version=one.config_version,
                source=one.proposal,
            )
        except SkillError as error:  # a person may have approved any text; one bad skill must not take the rest along
            unread[name] = str(error)
            continue
        skills.append(skill._replace(name=name))
    return Library(skills, unread=unread)
