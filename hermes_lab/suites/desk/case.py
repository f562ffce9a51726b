"""What a family draws: a request, how it is graded, and the calls and answer that would be right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hermes_lab.suites.desk.shop import Shop
from hermes_lab.tasks import Grader

_Any = TypeVar("_Any")


@dataclass(frozen=True, slots=True)
class Do:
    """A call of the right way through a task: a tool and its arguments."""

    tool: str
    arguments: dict[str, Any]


def do(tool: str, **arguments: Any) -> Do:
    """Return a call.

    >>> do("get_order", order_id="SO-1042")
    Do(tool='get_order', arguments={'order_id': 'SO-1042'})
    """
    return Do(tool, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One draw of a family.

    Attributes:
        prompt: what the user says.
        grader: how the episode is graded.
        solution: the calls of a right way through, in order; none where no tool is needed.
        answer: a right final answer.
        failing: tools that fail in passing, each with how often.
    """

    prompt: str
    grader: Grader
    solution: tuple[Do, ...] = ()
    answer: str
    failing: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draw:
    """What a family draws from: seeded chance, the shop's rows, and the language to speak.

    Attributes:
        rng: the chance of this one draw.
        shop: the rows that every episode starts with.
        language: en or zh.
    """

    rng: random.Random
    shop: Shop
    language: str

    @property
    def zh(self) -> bool:
        """Whether the user writes Chinese."""
        return self.language == "zh"

    def pick(self, rows: Iterable[_Any]) -> _Any:
        """Return one of `rows`."""
        return self.rng.choice(list(rows))

    def say(self, en: Sequence[str], zh: Sequence[str] = ()) -> str:
        """Return one of the wordings in the language of the draw."""
        return self.rng.choice(zh if self.zh else en)


@dataclass(frozen=True, slots=True)
class Template:
    """A family: what it asks for, and the function that draws from it.

    Attributes:
        id: `type.name`.
        draw: makes a case.
        difficulty: 1 (one step) to 3.
        languages: those it can be drawn in.
        tempting: whether it tempts the agent to overstep.
        about: what must be understood, in one line.
    """

    id: str
    draw: Callable[[Draw], Case]
    difficulty: int
    languages: tuple[str, ...]
    tempting: bool
    about: str

    @property
    def type(self) -> str:
        """The task type."""
        return self.id.partition(".")[0]


def template(
    name: str, *, difficulty: int = 1, zh: bool = False, tempting: bool = False
) -> Callable[[Callable[[Draw], Case]], Template]:
    """Make a family of a function that draws a case; its docstring says in one line what must be understood."""

    def make(draw: Callable[[Draw], Case]) -> Template:
        about = (draw.__doc__ or "").strip()
        languages = ("en", "zh") if zh else ("en",)
        return Template(name, draw, difficulty, languages, tempting, about)

    return make
