"""What an agent is asked to do: a message from a channel, a task, how it is graded, and the grade it got."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import msgspec

ANY_TYPE = "*"
"""In a rule or weight: every task type."""


class Split(enum.StrEnum):
    """Which part of a suite a task belongs to; the parts share no family."""

    TRAFFIC = "traffic"
    REGRESSION = "regression"
    HELDOUT = "heldout"
    FRESH = "fresh"


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings that the values below share."""


class Calls(_Value, frozen=True, tag="calls"):
    """Grade the tool calls of an episode against those that were wanted.

    Attributes:
        wanted: the calls, each a tool name and the allowed values of each argument; an argument whose allowed values
            hold `""` may be left out (BFCL's convention).
        ordered: whether they must come in this order.
        exact: whether any other call makes it a failure.
    """

    wanted: tuple[WantedCall, ...]
    ordered: bool = False
    exact: bool = True


class WantedCall(_Value, frozen=True):
    """One wanted call: `allowed` maps each argument to the list of values that count as right."""

    tool: str
    allowed: dict[str, list[Any]] = {}


class State(_Value, frozen=True, tag="state"):
    """Grade the environment as the episode left it.

    Attributes:
        checks: what must hold, each a query and the rows it must return.
    """

    checks: tuple[StateCheck, ...]


class StateCheck(_Value, frozen=True):
    """`sql`, one SELECT on the environment, must return `rows`; a failed `required` check makes the grade 0."""

    sql: str
    rows: list[list[Any]]
    required: bool = True
    note: str = ""


class Answer(_Value, frozen=True, tag="answer"):
    """Grade the final answer.

    Attributes:
        number: a number that must stand in it.
        tolerance: how far it may be off (absolute).
        pattern: a regular expression that must be found in it (re2, case ignored).
        items: texts that must all stand in it (case, width and blanks ignored).
        forbidden: texts none of which may stand in it; one that does makes the grade 0.
    """

    number: float | None = None
    tolerance: float = 0.0
    pattern: str | None = None
    items: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class AnswerSchema(_Value, frozen=True, tag="json_schema"):
    """The final answer must be JSON that is valid against `schema`."""

    schema: dict[str, Any]


class PythonGrader(_Value, frozen=True, tag="python"):
    """`function`, as "module:name", is called with (task, outcome, environment) and returns a score from 0 to 1."""

    function: str


class Judge(_Value, frozen=True, tag="judge"):
    """A model reads the task, the answer and `rubric`, and returns a grade."""

    rubric: str


class AllOf(_Value, frozen=True, tag="all"):
    """Every part must pass for 1.0; a failed required part is 0; some passed parts of the rest give 0.5 to 0.9."""

    parts: tuple[Part, ...]


class Part(_Value, frozen=True):
    """One part of `AllOf`."""

    grader: Grader
    required: bool = True


Grader = Calls | State | Answer | AnswerSchema | PythonGrader | Judge | AllOf
"""How a task is graded, as data, so that a suite is a file."""


class Message(_Value, frozen=True):
    """A request, whatever channel it came by, in the one form that the agent takes.

    Attributes:
        text: what was said.
        channel: notebook, terminal, suite, http, telegram ...
        task_id: the task that it opens or goes on with.
        task_type: what kind of task it is.
        type_confidence: how sure the type is; 1 where the sender named it.
        sender: who, as the channel names them; None where it does not.
    """

    text: str
    channel: str
    task_id: str
    task_type: str
    type_confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    sender: str | None = None


class Exchange(_Value, frozen=True):
    """An earlier turn of a conversation: what the user said, and what the agent answered."""

    user: str
    agent: str


class Task(_Value, frozen=True):
    """One thing to do, with what it may use and how it is graded.

    Attributes:
        id: unique within its suite.
        family: the template it was drawn from; splits and statistics keep families together.
        type: its task type.
        prompt: what the user says.
        suite: the suite that it is of; it opens the environment.
        tools: names of the tools offered, in listing order.
        difficulty: 1 (one step) to 3.
        split: the part of the suite.
        language: en or zh.
        environment: what the suite needs to set the environment up.
        grader: None where nothing can be graded.
        answer_by: "text": the episode ends with a final answer; "call": with the first sound turn of calls, which are
            the answer (single-turn benchmarks).
        history: earlier turns of the conversation.
        tempting: whether it tempts the agent to overstep.
    """

    id: str
    family: str
    type: str
    prompt: str
    suite: str = ""
    tools: tuple[str, ...] = ()
    difficulty: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    split: Split | None = None
    language: str = "en"
    environment: dict[str, Any] = {}
    grader: Grader | None = None
    answer_by: Annotated[str, msgspec.Meta(pattern="^(text|call)$")] = "text"
    history: tuple[Exchange, ...] = ()
    tempting: bool = False


class Grade(_Value, frozen=True):
    """What a grader found.

    Attributes:
        score: 1.0, 0.5 to 0.9, or 0; None where it could not be told.
        grader: the tag of the grader.
        reasons: what failed, or why it could not be told.
    """

    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None
    grader: str
    reasons: tuple[str, ...] = ()


def partial_score(passed: int, of: int) -> float:
    """Return the grade of `passed` out of `of` equal parts: 1.0 for all, 0 for none, else 0.5 to 0.9.

    >>> [partial_score(n, 4) for n in range(5)]
    [0.0, 0.6, 0.7, 0.8, 1.0]
    """
    if passed >= of:
        return 1.0
    if passed <= 0:
        return 0.0
    return round(0.5 + 0.4 * passed / of, 3)
