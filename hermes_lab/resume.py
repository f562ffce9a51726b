"""Going on with a run that was stopped or killed: what it finished, what it left open, and whether it is the same."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.log import Log, files
from hermes_lab.recorder import Recorder
from hermes_lab.runner import Job, cancelled
from hermes_lab.sql_files import read_sql
from hermes_lab.tasks import Task


class Attempt(NamedTuple):
    """An episode of a run, as the log has it.

    Attributes:
        episode_id: of the episode.
        task_id: of its task.
        task_type: of its task.
        seed: of the attempt.
        suite: that the task is of.
        config_version: that it ran under.
        next_step: the number of its next event.
        finished: False where it was stopped, None where it has no end at all.
        graded: whether it has a grade.
    """

    episode_id: str
    task_id: str
    task_type: str
    seed: int
    suite: str
    config_version: str
    next_step: int
    finished: bool | None
    graded: bool


@contextlib.contextmanager
def held(lab: Path, run_id: str) -> Iterator[None]:
    """Hold a run for this process: two that went on with it at once would do everything twice.

    Raises:
        BusyError: another process holds it.
    """
    folder = lab / "cache" / "runs"
    with files.disk_errors(f"making {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    # An id can be any text; its hash is always a name for a file.
    path = folder / f"{hashlib.sha256(run_id.encode('utf-8', 'replace')).hexdigest()[:32]}.lock"
    with files.locked(path, f"another process is at work on the run {run_id}", timeout_s=0.0):
        yield
        # Only of a run that is done. Whoever waits with the file open then holds nothing, and finds nothing to do.
        path.unlink(missing_ok=True)


def attempts(log: Log, run_id: str) -> list[Attempt]:
    """Return the attempts of a run, in the order in which they began.

    Raises:
        MissingError: there is no such run in the log.
    """
    rows = log.sql(read_sql("hermes_lab", "run_done"), [run_id]).fetchall()
    if not rows:
        raise MissingError(f"there is no run {run_id!r} in this lab: `select distinct run_id from events` lists them")
    return [Attempt(*row) for row in rows]


def check_same(run_id: str, made: Sequence[Attempt], jobs: Sequence[Job], *, suite: str, config_version: str) -> None:
    """Refuse to mix two runs in one: what is resumed has the same suite, configuration and tasks.

    Raises:
        ConfigError: it has not; the message says what differs.
    """
    first = made[0]
    for what, was, now in (("suite", first.suite, suite), ("configuration", first.config_version, config_version)):
        if was != now:
            raise ConfigError(
                f"run {run_id} was made with {what} {was}, not {now}: resume it with the options that it began with"
            )
    planned = {(job.task.id, job.seed) for job in jobs}
    foreign = [one for one in made if (one.task_id, one.seed) not in planned]
    if foreign:
        raise ConfigError(
            f"run {run_id} had task {foreign[0].task_id} with seed {foreign[0].seed}, which is not among these: "
            "resume it with the --split, --limit, --seed and --attempts that it began with"
        )


def left_to_do(jobs: Sequence[Job], made: Sequence[Attempt]) -> list[Job]:
    """Return the jobs that are not done: a job is, once it has ended and, where its task has a grader, was graded."""
    ended = {(one.task_id, one.seed) for one in made if one.finished}
    graded = {(one.task_id, one.seed) for one in made if one.finished and one.graded}
    return [job for job in jobs if (job.task.id, job.seed) not in (ended if job.task.grader is None else graded)]


def close(orphans: Sequence[Attempt], recorder: Recorder) -> None:
    """Write the ending that a killed run could not write for the episodes it was at."""
    for orphan in orphans:
        one = recorder.episode(Task(id=orphan.task_id, family="", type=orphan.task_type, prompt=""))
        one.episode_id, one.events = orphan.episode_id, orphan.next_step
        one.note(cancelled("the run was killed; this attempt is made again"))
