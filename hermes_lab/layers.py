"""The three layers of what an agent knows beside its task: pinned memories, an index of the others, triggered skills.

Pure: the same memories and skills give the same text, in whatever order they come. What is in a prompt was approved by
a person before (`proposals`); here it is only chosen.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab.compress import estimate_tokens
from hermes_lab.config import Layers
from hermes_lab.memory import CUT, Memory, State, for_context
from hermes_lab.payload import canonical
from hermes_lab.skills import Fitted, Library, fit, library_of
from hermes_lab.tasks import Task

if TYPE_CHECKING:
    from hermes_lab.log import Log

_PINNED = "What is remembered for certain:"
_INDEX = "Remembered, a line each (`recall` gives what is cut or missing, for an id or words):"


class Knowledge(NamedTuple):
    """What is known at a moment: the active memories, and the library of skills."""

    memories: tuple[Memory, ...] = ()
    library: Library = Library()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not self.memories and not len(self.library)

    @property
    def digest(self) -> str:
        """Return 12 hex digits that change with what a prompt may be shown."""
        plain: list[Any] = [[one.id, one.text, one.kind, one.scope, one.pinned] for one in self.memories]
        plain += [[skill.name, skill.sha256] for skill in self.library]
        return hashlib.sha256(canonical(plain)).hexdigest()[:12]


NOTHING_KNOWN = Knowledge()


class TriggeredSkill(NamedTuple):
    """A skill that a prompt is shown: which text, by its hash, and about how many of its tokens were left out."""

    name: str
    sha256: str
    left_out: int


class Shown(NamedTuple):
    """What the prompts of one episode are shown.

    Attributes:
        memory: text about memories; "" for none.
        skills: text of the triggered skills; "" for none.
        tokens: estimated, by layer; layers that hold nothing are not in it.
        memories: ids that are shown, pinned ones first.
        triggered: the skills that are shown.
        left_out: by layer, the ids and names for which there was no room; layers that lack nothing are not in it.
        recallable: whether there is a memory that is not shown whole, so that `recall` is of use.
    """

    memory: str = ""
    skills: str = ""
    tokens: Mapping[str, int] = MappingProxyType({})
    memories: tuple[str, ...] = ()
    triggered: tuple[TriggeredSkill, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    recallable: bool = False


NOTHING_SHOWN = Shown()


def choose(knowledge: Knowledge, task: Task, room: Layers) -> Shown:
    """Return what the prompts of a task are shown.

    Args:
        knowledge: what is known.
        task: its type says which memories concern it, its request which skills it triggers.
        room: tokens for each layer.
    """
    if knowledge.is_empty:
        return NOTHING_SHOWN
    index_room = room.index_tokens - estimate_tokens(_INDEX)
    chosen = for_context(knowledge.memories, task.type, index_tokens=max(index_room, 0))
    pinned = _listed(_PINNED, [one.text for one in chosen.pinned])
    index = _listed(_INDEX, chosen.index_lines)
    fitted = _skills(knowledge.library, task, room)
    skills = "\n\n".join(one.text for one in fitted.shown)
    tokens = {"pinned": estimate_tokens(pinned), "index": estimate_tokens(index), "skills": estimate_tokens(skills)}
    left_out = {"memories": chosen.left_out, "skills": fitted.dropped}
    indexed = [line.split(" ", 1)[0] for line in chosen.index_lines]
    return Shown(
        memory="\n\n".join(text for text in (pinned, index) if text),
        skills=skills,
        tokens={layer: count for layer, count in tokens.items() if count},
        memories=(*(one.id for one in chosen.pinned), *indexed),
        triggered=tuple(_shown(knowledge.library, one.name, one.left_out) for one in fitted.shown),
        left_out={layer: names for layer, names in left_out.items() if names},
        recallable=bool(chosen.left_out) or any(line.endswith(CUT) for line in chosen.index_lines),
    )


def known_at(log: Log, at: dt.datetime) -> Knowledge:
    """Return what was known at a moment, an aware time.

    Raises:
        CorruptLogError: the log cannot be read.
    """
    from hermes_lab.proposals import history, standing

    stands = standing.as_of(history.read(log), at)
    active = tuple(one for one in stands.memories if one.state is State.ACTIVE)
    return Knowledge(active, library_of(stands.skills))


def _skills(library: Library, task: Task, room: Layers) -> Fitted:
    if not room.skills or not room.skill_tokens:
        return Fitted(())
    triggered = library.triggered(task.prompt, task.type, limit=len(library))
    fitted = fit(triggered[: room.skills], room.skill_tokens)
    beyond = tuple(one.skill.name for one in triggered[room.skills :])
    return fitted._replace(dropped=fitted.dropped + beyond)


def _shown(library: Library, name: str, left_out: int) -> TriggeredSkill:
    skill = library.get(name)
    return TriggeredSkill(name, skill.sha256 if skill else "", left_out)


def _listed(heading: str, lines: Sequence[str]) -> str:
    """Return a heading with a line for each text; "" where there is none."""
    return "\n".join([heading, *(f"- {line}" for line in lines)]) if lines else ""
