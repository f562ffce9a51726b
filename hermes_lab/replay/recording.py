"""Reads recorded episodes for replay: a stream of `Recording`s, each the effects of an episode with their outcomes.

Only some episodes are in memory at a time, however large the log is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.errors import EventError
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.log import Log
from hermes_lab.replay.entries import COLUMNS, TOOL_ACTIONS, Entry, Kind, Row, row_tokens
from hermes_lab.sql_files import read_sql
from hermes_lab.tasks import Task
from hermes_lab.view_record import About, read_about

_AT_ONCE = 200  # episodes that are read with one query
_NOTES = {
    Action.TASK_STARTED,
    Action.ROUTED,
    Action.CONTEXT_ASSEMBLED,
    Action.COMPRESSED,
    Action.TOOL_CHECKED,
    Action.REFLECTION,
    Action.ESCALATED,
    Action.TASK_RECORDED,
    Action.TASK_ENDED,
}


@dataclass(slots=True)
class Recording:
    """An episode as the log has it.

    Attributes:
        episode_id: of the episode.
        rows: every event of it, in order.
        run_id: of its run.
        task_id: of its task.
        task_type: of its task.
        config_version: that it ran under.
        imported: whether it is of somebody else's log.
        task: what it was for; None where the log does not say, or it is imported.
        seed: of the drawing.
        about: what the log says of its view.
        entries: its effects with their outcomes, in order.
        end: how it ended ("" where it did not).
        stopped: whether it was stopped from outside, or the log just ends.
        score: its last grade; None where it has none.
        problem: why it cannot be replayed; "" where it can.
    """

    episode_id: str
    rows: list[Row]
    run_id: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    config_version: str | None = None
    imported: bool = False
    task: Task | None = None
    seed: int = 0
    about: About = field(default_factory=About)
    entries: list[Entry] = field(default_factory=list)
    end: str = ""
    stopped: bool = True
    score: float | None = None
    problem: str = ""

    @property
    def redacted(self) -> bool:
        """Whether secrets were taken out of it: what the loop saw then is not what the log holds."""
        return any("[redacted:" in text for row in self.rows for text in (row.input, row.output) if text)

    @property
    def tokens(self) -> int | None:
        """Tokens of its model calls; None where any is unknown."""
        asks = [entry.row for entry in self.entries if entry.kind == "ask"]
        counts = [row_tokens(row) for row in asks]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def usd(self) -> float | None:
        """US dollars of its model calls; None where any is unknown."""
        costs = [entry.row.cost_usd for entry in self.entries if entry.kind == "ask"]
        return None if not costs or None in costs else sum(cost for cost in costs if cost is not None)


def select_episodes(log: Log, where: str = "true", params: Sequence[Any] = ()) -> list[str]:
    """Return the ids of the episodes with an event for which `where` holds, in order.

    Raises:
        QueryError: the condition does not run.
    """
    query = read_sql(__package__, "episodes").format(where=where)
    return [payload.restore_text(row[0]) for row in log.sql(query, list(params)).fetchall()]


def recordings(log: Log, episode_ids: Iterable[str]) -> Iterator[Recording]:
    """Yield the episodes of these ids as they are recorded, some hundred in memory at a time."""
    waiting = iter(episode_ids)
    while ids := list(itertools.islice(waiting, _AT_ONCE)):
        for _, rows in itertools.groupby(_rows(log, ids), key=lambda row: row.episode_id):
            yield read_recording(list(rows))


def _rows(log: Log, ids: list[str]) -> Iterator[Row]:
    query = read_sql(__package__, "events").format(columns=COLUMNS, ids=", ".join("?" for _ in ids))
    reader = log.sql(query, [payload.store_text(one) for one in ids]).to_arrow_reader(2_000)
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield Row._make(payload.restore_text(value) if isinstance(value, str) else value for value in values)


def read_recording(rows: list[Row]) -> Recording:
    """Return the episode of `rows`, which are all of one episode, in order."""
    first = rows[0]
    made = Recording(first.episode_id, rows, run_id=first.run_id, task_id=first.task_id, task_type=first.task_type)
    made.config_version = next((row.config_version for row in rows if row.config_version), None)
    made.imported = (first.run_id or "").startswith("import-")
    try:
        _read_start(made)
        _read_entries(made)
        _read_end(made)
    except (EventError, ValueError, AttributeError) as error:  # output that is no object, or of an unknown kind
        made.problem = f"it cannot be read: {error}"
    lost = next((row for row in rows if _is_lost(row.input) or _is_lost(row.output)), None)
    if lost is not None and not made.problem:
        made.problem = f"a long payload of step {lost.step} is lost: `hermes-lab log verify` names it"
    return made


def _read_start(made: Recording) -> None:
    if made.imported:
        return
    start = next((row for row in made.rows if row.action == Action.TASK_STARTED), None)
    if start is None:
        made.problem = "the log has no task_started of it: the environment could not be opened, or its start is lost"
        return
    given = start.given()
    task = given.get("task") if isinstance(given, dict) else None
    if not isinstance(task, dict):
        made.problem = "its task_started does not hold the task"
        return
    about = read_about(given.get("run"))
    if isinstance(about, str):
        made.problem = about
        return
    try:
        made.task = msgspec.convert(task, Task)
        made.seed = msgspec.convert(given.get("seed", 0), int)
    except msgspec.ValidationError as error:
        made.problem = f"the recorded task cannot be read: {str(error).replace('$.', '')}"
        return
    made.about = about
    if made.config_version is None:
        made.problem = "the log does not say under which configuration it ran"


def _read_entries(made: Recording) -> None:
    attempts: list[Row] = []
    for row in made.rows:
        last = made.entries[-1] if made.entries else None
        if row.action == Action.GENERATION and row.purpose != "judge":
            if row.request_hash is None and not made.imported:
                attempts.append(row)
                continue
            made.entries.append(Entry("ask", row, attempts))
            attempts = []
        elif row.action in TOOL_ACTIONS:
            made.entries.append(Entry("act", row))
        elif row.action == Action.PERMISSION_REQUESTED:
            made.entries.append(Entry("permit", row))
        elif row.action == Action.PERMISSION_DECIDED and last is not None and last.kind == "permit":
            last.answer = row
        elif last is not None and last.kind == "act" and _says_transient(row):
            last.transient = bool(row.came()["transient"])
        elif row.action in _NOTES:
            made.entries.append(Entry(_note_kind(row), row))


def _note_kind(row: Row) -> Kind:
    if row.action == Action.TASK_ENDED and row.status == Status.CANCELLED:
        return "stopped"
    if row.action == Action.TASK_ENDED and row.error_kind == ErrorKind.CRASHED:
        return "crashed"
    return "note"


def _says_transient(row: Row) -> bool:
    """Tell whether this is what `EpisodeRecorder.acted` adds to a tool call."""
    return row.action == Action.TOOL_CHECKED and row.status == Status.OK and (row.output or "").startswith('{"trans')


def _read_end(made: Recording) -> None:
    for row in made.rows:
        if row.action == Action.TASK_ENDED:
            made.end = row.name or ""
            made.stopped = row.status == Status.CANCELLED
        elif row.action == Action.GRADED:
            came = row.came()
            score = came.get("score") if isinstance(came, dict) else None
            made.score = float(score) if isinstance(score, int | float) else made.score


def _is_lost(text: str | None) -> bool:
    return text is not None and text.startswith('{"$spill":"') and text.endswith(',"lost":true}')
