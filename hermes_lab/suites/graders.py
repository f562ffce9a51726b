"""Grades what an episode came to, by the grader that its task carries as data.

A grade is 1.0, 0.5 to 0.9, or 0. Nothing that an agent did makes a grader raise; a grader that is itself wrong (SQL
or a pattern that does not run, a function that is not there) gives an unknown grade, None, and says why.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hermes_lab.effects import Ending
from hermes_lab.suites.foreign import attempt
from hermes_lab.suites.graders_answer import grade_answer, grade_json
from hermes_lab.suites.graders_calls import grade_calls
from hermes_lab.suites.graders_judge import AskJudge, grade_by_judge
from hermes_lab.suites.graders_state import grade_state
from hermes_lab.tasks import AllOf, Answer, AnswerSchema, Calls, Grade, Grader, Judge, PythonGrader, State, Task
from hermes_lab.tools.base import Environment


class _Case(NamedTuple):
    task: Task
    ending: Ending
    environment: Environment | None
    judge: AskJudge | None


def grade(task: Task, ending: Ending, environment: Environment | None, *, judge: AskJudge | None = None) -> Grade:
    """Return the grade of an episode; it never raises.

    Args:
        task: the task, with its grader.
        ending: what the episode came to.
        environment: its world as it was left; None where it had none.
        judge: asks the model that judges; None where there is none.

    >>> from hermes_lab.effects import End
    >>> task = Task(id="t", family="f", type="sums", prompt="2 + 2?", grader=Answer(number=4))
    >>> grade(task, Ending(end=End.COMPLETED, answer="It is ４."), None).score
    1.0
    """
    if task.grader is None:
        return Grade(score=None, grader="none", reasons=("the task has no grader",))
    return _grade(task.grader, _Case(task, ending, environment, judge))


def _grade(spec: Grader, case: _Case) -> Grade:
    match spec:
        case Calls():
            return grade_calls(spec, case.ending)
        case State():
            return grade_state(spec, case.environment)
        case Answer():
            return grade_answer(spec, case.ending)
        case AnswerSchema():
            return grade_json(spec, case.ending)
        case PythonGrader():
            return _grade_by_function(spec, case)
        case Judge():
            return grade_by_judge(spec, case.task, case.ending, case.judge)
        case AllOf():
            return _grade_all(spec, case)


def _grade_all(spec: AllOf, case: _Case) -> Grade:
    if not spec.parts:
        return Grade(score=None, grader="all", reasons=("the grader has no parts",))
    grades = [_grade(part.grader, case) for part in spec.parts]
    reasons = tuple(f"{g.grader}: {reason}" for g in grades for reason in g.reasons)
    required = [part.required for part in spec.parts]
    return Grade(score=combined_score([g.score for g in grades], required), grader="all", reasons=reasons)


def combined_score(scores: Sequence[float | None], required: Sequence[bool]) -> float | None:
    """Return the grade of several parts: 0 where a required one is 0, else unknown where one is, else by their mean.

    With parts that pass or fail it is `tasks.partial_score` of how many passed.

    >>> combined_score([1.0, 0.0], [True, False]), combined_score([0.0, 1.0], [True, False])
    (0.7, 0.0)
    >>> combined_score([None, 0.0], [True, True]), combined_score([None, 1.0], [False, True])
    (0.0, None)
    """
    if any(score == 0 and must for score, must in zip(scores, required, strict=True)):
        return 0.0
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return None
    mean = sum(known) / len(known)
    if mean in (0.0, 1.0):
        return mean
    return round(0.5 + 0.4 * mean, 3)


def on_scale(value: float) -> float:
    """Return the grade for a score from 0 to 1: below 0.5 is 0, and between 0.9 and 1 is 0.9.

    >>> [on_scale(value) for value in (0.3, 0.5, 0.95, 1)]
    [0.0, 0.5, 0.9, 1.0]
    """
    if value < 0.5:
        return 0.0
    return 1.0 if value == 1 else min(float(value), 0.9)


def _grade_by_function(spec: PythonGrader, case: _Case) -> Grade:
    function, error = attempt(_load, spec.function)
    if function is None:
        return _unknown(f"{spec.function!r} could not be loaded ({error}): name it as module:function")
    value, error = attempt(function, case.task, case.ending, case.environment)
    if error is not None:
        return _unknown(f"{spec.function!r} failed ({error})")
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        return _unknown(f"{spec.function!r} returned {value!r:.80}: it must return a number from 0 to 1")
    return Grade(score=on_scale(value), grader="python")


def _load(name: str) -> Callable[[Task, Ending, Environment | None], Any]:
    module, _, attribute = name.partition(":")
    function: Callable[[Task, Ending, Environment | None], Any] = getattr(importlib.import_module(module), attribute)
    return function


def _unknown(reason: str) -> Grade:
    return Grade(score=None, grader="python", reasons=(reason,))
