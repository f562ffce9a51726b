"""Grade an episode that ended, whatever its grader does; a judge's questions are recorded as the episode's own."""

from __future__ import annotations

from collections.abc import Callable

from hermes_lab.effects import Ask, Ending, Remaining
from hermes_lab.kinds import Tier
from hermes_lab.models.base import Model, Reply, Request
from hermes_lab.recorder import EpisodeRecorder
from hermes_lab.suites.graders import grade
from hermes_lab.tasks import Grade, Task
from hermes_lab.tools.base import Environment

_LONGEST_REASON = 500


def grade_episode(
    task: Task, ending: Ending, environment: Environment | None, *, judge: Callable[[Request], Reply]
) -> Grade:
    """Return the grade of an episode.

    Args:
        task: with its grader.
        ending: how the episode ended.
        environment: as the episode left it.
        judge: puts a question to the model that judges.
    """
    try:
        return grade(task, ending, environment, judge=judge)
    except Exception as error:  # noqa: BLE001 - a grader's fault leaves the episode ungraded, and says so
        return Grade(score=None, grader="failed", reasons=(f"{type(error).__name__}: {error}"[:_LONGEST_REASON],))


def ask_judge(model: Model, request: Request, recorder: EpisodeRecorder) -> Reply:
    """Put a grader's question to `model`, and record it; it takes nothing off the episode's budgets."""
    reply = model.generate([request])[0]
    recorder.asked(Ask(purpose="judge", tier=Tier.STRONG, request=request, remaining=Remaining(0, 0.0)), reply)
    return reply
