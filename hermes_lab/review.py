"""A person's grades: a few percent of graded episodes are looked at, any grade can be corrected, agreement is reported.

A person's grade is one more `graded` event, by "person"; it stands in place of the grader's.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.kinds import Action, Status
from hermes_lab.sql_files import read_sql

if TYPE_CHECKING:
    from hermes_lab.lab import Lab

PERSON = "person"
"""The `name` of a `graded` event that a person made."""

_SAME = 1e-9


class Graded(NamedTuple):
    """An episode that was graded.

    Attributes:
        episode_id: of the episode.
        task_id: of its task.
        task_type: of its task.
        run_id: of its run.
        config_version: that it ran under.
        event_id: of the grader's event; None where only a person graded it.
        grader: which grader it was.
        grade: the grader's, 0 to 1.
        person_grade: the person's, 0 to 1; None where there is none.
        sampled: whether the person was asked because the episode was drawn, not because its grade looked wrong.
    """

    episode_id: str
    task_id: str | None
    task_type: str | None
    run_id: str | None
    config_version: str | None
    event_id: str | None
    grader: str | None
    grade: float | None
    person_grade: float | None
    sampled: bool | None


class Agreement(NamedTuple):
    """How far graders and people agree, on the episodes that were drawn by chance.

    Attributes:
        grader: which grader; "all" for all of them.
        episodes: that both graded.
        same: of these, how many got the same grade.
        share: `same` of `episodes`; None where there are none.
        low: lower end of its 95% interval (Wilson).
        high: upper end.
        mean_difference: person's minus grader's grade, on average: above 0 where graders are too strict.
    """

    grader: str
    episodes: int
    same: int
    share: float | None
    low: float | None
    high: float | None
    mean_difference: float | None


def graded(lab: Lab, episode_id: str | None = None) -> list[Graded]:
    """Return the graded episodes of a lab, or the one that is named.

    Raises:
        MissingError: the one that is named is not among them.
    """
    rows = lab.log.sql(read_sql("hermes_lab", "graded_episodes"), {"episode": episode_id}).fetchall()
    if episode_id is not None and not rows:
        raise MissingError(f"no grader marked an episode {episode_id!r}: `hermes-lab grade --list` shows those drawn")
    return [Graded(*row) for row in rows]


def drawn(lab: Lab, share: float) -> list[Graded]:
    """Return the episodes that a person is asked to look at: `share` of those that a grader marked, and not yet done.

    Which ones is decided by a hash of the id: neither the grade nor whoever runs this has a say in it.

    >>> all(_is_drawn(f"episode {n}", 1.0) for n in range(100))
    True
    """
    return [
        one
        for one in graded(lab)
        if one.grade is not None and one.person_grade is None and _is_drawn(one.episode_id, share)
    ]


def correct(lab: Lab, episode_id: str, score: float, *, by: str, note: str = "", sampled: bool = False) -> None:
    """Record a person's grade of an episode, which stands in place of the grader's.

    Args:
        lab: that the episode is in.
        episode_id: of the episode.
        score: 0 to 1.
        by: the person.
        note: why.
        sampled: whether the episode had been drawn; only such grades count for agreement.

    Raises:
        MissingError: no grader marked such an episode.
        ConfigError: a score outside 0 to 1, or nobody named.
    """
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise ConfigError(f"a grade of {score}: it lies between 0 and 1")
    if not by.strip():
        raise ConfigError("a person's grade needs a name: pass by=..., or --by NAME")
    (one,) = graded(lab, episode_id)
    with lab.log.writer() as writer:
        writer.record(
            Action.GRADED,
            name=PERSON,
            run_id=one.run_id,
            episode_id=one.episode_id,
            task_id=one.task_id,
            task_type=one.task_type,
            config_version=one.config_version,
            parent_id=one.event_id,
            output={"score": float(score), "by": by, "reasons": [note] if note else [], "sampled": sampled},
            status=Status.OK,
        )


def agreement(lab: Lab) -> list[Agreement]:
    """Return how far each grader and people agree, and all graders together last; only drawn episodes count."""
    both = [one for one in graded(lab) if one.sampled and one.grade is not None and one.person_grade is not None]
    names = sorted({one.grader or "" for one in both})
    by_grader = [_agreement(name, [one for one in both if (one.grader or "") == name]) for name in names]
    return [*by_grader, _agreement("all", both)]


def _agreement(grader: str, both: list[Graded]) -> Agreement:
    from scipy import stats

    differences = [(one.person_grade or 0.0) - (one.grade or 0.0) for one in both]
    count = len(differences)
    if count == 0:
        return Agreement(grader, 0, 0, None, None, None, None)
    same = sum(abs(difference) < _SAME for difference in differences)
    interval = stats.binomtest(same, count).proportion_ci(0.95, method="wilson")
    return Agreement(grader, count, same, same / count, interval.low, interval.high, sum(differences) / count)


def _is_drawn(episode_id: str, share: float) -> bool:
    digest = hashlib.blake2b(episode_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
