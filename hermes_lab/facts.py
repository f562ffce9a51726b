"""What each episode did and took, counted from the log and kept, so that only what is new is counted again.

Nothing is judged here: `evaluator` scores these counts. They lie as Parquet in the lab's cache, in two files: `whole`
and the few episodes that are newer, `recent`, which join it when they are many. All of it can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hermes_lab import counting
from hermes_lab.errors import CorruptLogError, WriteError
from hermes_lab.log import files, increment, query
from hermes_lab.log.snapshot import DAMAGED

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.log.manifest import Segment
    from hermes_lab.log.snapshot import Snapshot

_MERGE_SHARE = 0.1  # so that merging costs no more than a tenfold of what was new, however large the whole is
_MERGE_ROWS = 5_000
# Counts are written once and read whole: what dictionaries and statistics would save costs more time than it is worth,
# but for text that repeats and the one count that nearly always is the same.
_PARQUET: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": ["run_id", "task_type", "config_version", "channel", "family", "how", "end_status", "feedback"],
    "write_statistics": ["grades"],
}
_BUSY = "another process is scoring this lab"


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A file of counted episodes. Its hash is looked at before it is read, so that no damage becomes a score."""

    name: str
    rows: int
    sha256: str


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache holds; `made_by` is the version of the counting that made it."""

    made_by: str
    seen: increment.Seen
    whole: _Part
    recent: _Part | None = None


class Facts:
    """The counted episodes of a lab.

    Attributes:
        rows: SQL that reads one row an episode.
        counted: episodes that were counted for this look.
    """

    def __init__(self, paths: list[Path], counted: int) -> None:
        """Use `facts_of`."""
        self.rows = _reading(paths)
        self.counted = counted


@contextlib.contextmanager
def facts_of(lab: Lab) -> Iterator[Facts]:
    """Yield the counted episodes of a lab as of now, for the length of the block.

    Only episodes with events that are newer than the last look are counted. A lab that cannot be written to is counted
    anew each time, into a temporary folder.

    Raises:
        BusyError: another process has been counting for half a minute.
        WriteError: the disk is full, or memory and the disk are too small for the log.
        CorruptLogError: a sealed file of the log is lost or damaged.
    """
    if not os.access(lab.path, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="hermes-lab-") as temporary:
            yield _refresh(lab, Path(temporary))
        return
    with held(lab) as folder:
        yield _refresh(lab, folder)


@contextlib.contextmanager
def held(lab: Lab) -> Iterator[Path]:
    """Hold the folder of the cache for the length of the block: nobody else reads or writes it meanwhile.

    (Readers hold it alone, too: another process's look replaces the files.)

    Raises:
        BusyError: another process has been at work on it for half a minute.
    """
    folder = lab.path / "cache" / "facts"
    with files.disk_errors(f"counting episodes into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / ".lock", _BUSY):
        yield folder


def forget(folder: Path) -> None:
    """Delete all that is kept in the cache's folder, which the caller holds (`held`)."""
    with files.disk_errors(f"clearing {folder}"):
        for pattern in ("state.json", "*.parquet", ".*.tmp"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)


def _refresh(lab: Lab, folder: Path) -> Facts:
    snapshot = lab.log.snapshot()
    state = _read_state(folder)
    now = increment.look(snapshot)
    if state is not None and state.seen == now:
        return Facts(_paths(folder, state), 0)
    fresh = None if state is None else increment.fresh_segments(snapshot, state.seen)
    with files.disk_errors(f"counting episodes into {folder}"), _damage_told():
        if state is None or fresh is None:
            whole = _write(folder, "whole", counting.count(snapshot, "events"))
            state = _State(made_by=counting.version(), seen=now, whole=whole)
            counted = whole.rows
        else:
            changed = _count_changed(snapshot, fresh, folder, state)
            state = _with_changed(folder, state, changed, now)
            counted = changed.num_rows
        files.atomic_write(folder / "state.json", msgspec.json.encode(state))
        _remove_others(folder, state)
    return Facts(_paths(folder, state), counted)


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    """Turn DuckDB's error on queries of ours, which are sound, into one that says what to do."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise WriteError(f"{error}\nGive memory_limit in lab.toml more, or its folder cache/ more space.") from None
    except duckdb.Error as error:
        raise CorruptLogError(f"{error}\n{DAMAGED}") from None


def _count_changed(snapshot: Snapshot, fresh: list[Segment], folder: Path, state: _State) -> pa.Table:
    """Count the episodes that have events in `fresh` segments or live files, with all of their events."""
    found = query.run(
        snapshot,
        f"select episode_id, min(ts) as since from {snapshot.view_of(fresh)} "
        "where episode_id is not null group by episode_id",
    ).to_arrow_table()
    ids = found["episode_id"].to_pylist()
    if not ids:
        return pq.read_schema(folder / state.whole.name).empty_table()
    since = min(filter(None, [pc.min(found["since"]).as_py(), _began(folder, state, ids)]))
    named = {segment.path for segment in fresh}
    older = [segment for path, segment in snapshot.segments.items() if path not in named]
    wanted = [*fresh, *increment.segments_of(older, ids, since)]
    return pa.Table.from_batches(counting.count(snapshot, snapshot.view_of(wanted), ids))


def _began(folder: Path, state: _State, ids: list[str]) -> dt.datetime | None:
    """Return when the first of these episodes began, by what was counted before; None where none was."""
    wanted = pa.array(ids, pa.string())
    times = []
    for path in _paths(folder, state):
        table = pq.read_table(path, columns=["episode_id", "began"])
        times.append(pc.min(table["began"].filter(pc.is_in(table["episode_id"], value_set=wanted))).as_py())
    return min((time for time in times if time is not None), default=None)


def _with_changed(folder: Path, state: _State, changed: pa.Table, now: increment.Seen) -> _State:
    """Put changed episodes among the recent ones, and these into the whole when they have become many."""
    if not changed.num_rows:
        return msgspec.structs.replace(state, seen=now)
    recent = changed if state.recent is None else _replace(pq.read_table(folder / state.recent.name), changed)
    if recent.num_rows <= max(_MERGE_ROWS, _MERGE_SHARE * state.whole.rows):
        return msgspec.structs.replace(state, seen=now, recent=_write(folder, "recent", _batches(recent)))
    whole = _replace(pq.read_table(folder / state.whole.name), recent)
    return msgspec.structs.replace(state, seen=now, whole=_write(folder, "whole", _batches(whole)), recent=None)


def _replace(old: pa.Table, new: pa.Table) -> pa.Table:
    kept = old.filter(pc.invert(pc.is_in(old["episode_id"], value_set=new["episode_id"].combine_chunks())))
    return pa.concat_tables([kept, new])


def _batches(table: pa.Table) -> Iterable[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([], schema=table.schema)
    yield from table.to_batches()


def _write(folder: Path, kind: str, batches: Iterable[pa.RecordBatch]) -> _Part:
    """Write batches, of which the first tells the columns, to a new file: whole or not at all."""
    temporary, fd = files.create_locked(folder, f".{kind}", ".tmp")
    rows = 0
    try:
        with open(fd, "wb") as file:
            batches = iter(batches)
            with pq.ParquetWriter(file, next(batches).schema, **_PARQUET) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
            file.flush()
            path = folder / f"{kind}-{temporary.stem.rsplit('-', 1)[-1]}.parquet"
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return _Part(name=path.name, rows=rows, sha256=files.sha256(path))


def _read_state(folder: Path) -> _State | None:
    """Return the state of the cache; None where there is none that can be gone on with."""
    try:
        state = msgspec.json.decode((folder / "state.json").read_bytes(), type=_State)
        if state.made_by != counting.version():
            return None
        is_sound = all(files.sha256(folder / part.name) == part.sha256 for part in _parts(state))
    except (OSError, msgspec.DecodeError):
        return None
    return state if is_sound else None


def _parts(state: _State) -> list[_Part]:
    return [state.whole] if state.recent is None else [state.whole, state.recent]


def _paths(folder: Path, state: _State) -> list[Path]:
    return [folder / part.name for part in _parts(state)]


def _remove_others(folder: Path, state: _State) -> None:
    kept = {part.name for part in _parts(state)}
    for path in folder.glob("*.parquet"):
        if path.name not in kept:
            path.unlink(missing_ok=True)
    files.remove_abandoned(folder.glob(".*.tmp"))


def _reading(paths: list[Path]) -> str:
    """Return SQL that reads the whole, with what is more recent in its place."""
    sources = ["read_parquet('" + str(path).replace("'", "''") + "')" for path in paths]
    if len(sources) == 1:
        return f"select * from {sources[0]}"
    whole, recent = sources
    return (
        f"select * from {whole} where episode_id not in (select episode_id from {recent}) "
        f"union all by name select * from {recent}"
    )
