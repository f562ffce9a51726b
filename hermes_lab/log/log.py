"""The event log of a lab: append, seal, query. The one class that the rest of hermes-lab uses of this package."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from hermes_lab import events
from hermes_lab.errors import BusyError, HermesLabError
from hermes_lab.log import live, spill, thin
from hermes_lab.log.layout import Layout
from hermes_lab.log.redact import Redactor
from hermes_lab.log.thin import Thinner
from hermes_lab.log.writer import Writer

if TYPE_CHECKING:
    import duckdb

    from hermes_lab.log.maintain import Maintained
    from hermes_lab.log.prune import Params
    from hermes_lab.log.purge import Purged
    from hermes_lab.log.snapshot import Reader, Snapshot
    from hermes_lab.log.verify import Verification

logger = logging.getLogger(__name__)


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[log]` of `lab.toml`.

    Attributes:
        durability_ms: a writer commits at most this late; 0 commits every event before `append` returns.
        spill_over: payloads of more bytes than this are kept beside the log.
        rotate_at: bytes after which a live file is closed and sealed.
        seal_at: bytes of closed live files at which they are sealed when a writer closes or a query comes.
        seal_files: number of closed live files at which they are sealed likewise.
        memory_limit: memory that a query may take, such as "2GB"; empty for DuckDB's default (80% of the machine's).
        thin: kind of event -> how many are merged into one, for the kinds that may be; held back until the group is
            full or the writer flushes.
        growth_per_task: events a task above which `doctor` says that the log grows too fast.
    """

    durability_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 50
    spill_over: Annotated[int, msgspec.Meta(ge=1_024)] = 65_536
    rotate_at: Annotated[int, msgspec.Meta(ge=1)] = 32 << 20
    seal_at: Annotated[int, msgspec.Meta(ge=1)] = 8 << 20
    seal_files: Annotated[int, msgspec.Meta(ge=1)] = 32
    memory_limit: Annotated[str, msgspec.Meta(pattern=r"^(\d+(\.\d+)? ?([KMGT]i?B))?$")] = ""
    thin: dict[str, int] = {}
    growth_per_task: Annotated[int, msgspec.Meta(ge=1)] = 500

    def __post_init__(self) -> None:
        """Refuse a thinning policy that cannot be kept."""
        if thin.check_policy(self.thin) and not self.durability_ms:
            raise ValueError("thin needs a durability_ms above 0: an event that is held back is not on the disk")


class Log:
    """The log in the folder `events/` of a lab.

    >>> import tempfile
    >>> log = Log(Path(tempfile.mkdtemp()) / "events")
    >>> with log.writer() as writer:
    ...     event = writer.record(events.Action.FEEDBACK, name="like", task_id="t1")
    >>> log.sql("select action, name, task_id from events").fetchall()
    [('feedback', 'like', 't1')]
    """

    def __init__(self, folder: Path, settings: LogSettings | None = None, *, lab: Path | None = None) -> None:
        """Open the log in `folder`; nothing is made before something is written.

        Args:
            folder: the folder of the log.
            settings: see `LogSettings`.
            lab: the folder that SQL may read; the log's own by default.
        """
        self.layout = Layout(folder.absolute())
        self.settings = settings or LogSettings()
        self._lab = (lab or folder).absolute()
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._snapshot: Snapshot | None = None
        self._snapshot_state: tuple[object, ...] | None = None

    def writer(self, *, durability_ms: int | None = None, redactor: Redactor | None = None) -> Writer:
        """Return a new writer, a context manager; each process (and fork) needs its own.

        Args:
            durability_ms: instead of the setting; 0 makes every `append` wait for the disk.
            redactor: instead of the one that knows this process's environment.

        Raises:
            PermissionDeniedError, WriteError: the folder cannot be written.
            BusyError: a purge is running.
        """
        delay = self.settings.durability_ms if durability_ms is None else durability_ms
        return Writer(
            self.layout,
            redactor=redactor or Redactor(os.environ),
            # An event that is held back is not on the disk, which durability 0 promises.
            thinner=Thinner(thin.check_policy(self.settings.thin) if delay else {}),
            durability_ms=delay,
            spill_over=self.settings.spill_over,
            rotate_at=self.settings.rotate_at,
            on_closed_file=self._seal_when_due,
        )

    def sql(self, query: str, params: Params = ()) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation of a SELECT over the log: `.df()`, `.arrow()`, `.fetchall()`.

        It sees every event committed before the call, once. The views are `events` and `events_per_task`; bounds on
        `ts`, `task_id` or `episode_id` leave out files. Text that held lone surrogates is in its stored form, which
        `payload.restore_text` takes back.

        Args:
            query: one SELECT (also WITH, FROM-first, DESCRIBE, SUMMARIZE) or EXPLAIN of one.
            params: values for `?` or `$name`.

        Raises:
            QueryError: SQL that does not run, or does more than read the lab.
            CorruptLogError: the manifest or a live file cannot be read.
        """
        from hermes_lab.log import query as reading

        return reading.run(self.snapshot(), query, params)

    def events(self, where: str = "true", params: Params = ()) -> Iterator[events.Event]:
        """Yield events in order of their ids, with their text and payloads as they were given to the writer.

        Args:
            where: SQL condition over the columns of `events`.
            params: values for its parameters.

        Raises:
            QueryError: the condition does not run.
        """
        relation = self.sql(f"select * from events where {where} order by event_id", params)
        for batch in relation.to_arrow_reader(10_000):
            for row in batch.to_pylist():
                event = events.from_row(row)
                text = event.observation
                yield event if text is None else msgspec.structs.replace(event, observation=spill.unguard(text))

    def snapshot(self) -> Snapshot:
        """Return the present moment of the log as a database; the same object while nothing was written."""
        from hermes_lab.log.snapshot import Snapshot

        with self._lock:
            if self._unsealed_bytes() >= self.settings.seal_at:
                self._seal_when_due()
            reader = self._look()
            state = reader.state()
            if self._snapshot is None or state != self._snapshot_state:
                self._snapshot = Snapshot(
                    self.layout,
                    reader,
                    lab=self._lab,
                    memory_limit=self.settings.memory_limit or None,
                    scratch=self._scratch(),
                )
                self._snapshot_state = state
            return self._snapshot

    def _look(self) -> Reader:
        from hermes_lab.log.snapshot import Reader

        if self._reader is None:
            self._reader = Reader(self.layout)
        self._reader.look()
        return self._reader

    def seal(self, *, timeout_s: float = 30.0) -> Maintained:
        """Turn every closed live file into Parquet; see `maintain.seal`."""
        from hermes_lab.log import maintain

        return maintain.seal(self.layout, timeout_s=timeout_s)

    def compact(self, *, timeout_s: float = 30.0) -> Maintained:
        """Merge small segments into large ones; see `maintain.compact`."""
        from hermes_lab.log import maintain

        return maintain.compact(self.layout, timeout_s=timeout_s)

    def verify(self, *, expect_head: str | None = None) -> Verification:
        """Check the chain of the manifest, every segment and every spilled payload; see `verify.verify`."""
        from hermes_lab.log import verify

        return verify.verify(self.layout, expect_head=expect_head)

    def purge(self, column: str, value: str, *, by: str, reason: str) -> Purged:
        """Remove every event of a task (`task_id`) or session (`episode_id`) for good; see `purge.purge`."""
        from hermes_lab.log import purge

        redactor = Redactor(os.environ)
        return purge.purge(self.layout, column, value, by=redactor.text(by), reason=redactor.text(reason))

    def status(self) -> dict[str, Any]:
        """Return how much is in the log and in what state: counts, bytes, and what could not be read."""
        from hermes_lab.log import maintain

        with self._lock:
            reader = self._look()
            sealed = list(reader.manifest.segments.values())
            live = reader.live_table()
            live_rows = live.num_rows
            live_times = live["ts"].unique().to_pylist()
            return {
                "events": sum(s.rows for s in sealed) + live_rows,
                "segments": len(sealed),
                "small_segments": sum(map(len, maintain.mergeable(sealed).values())),
                "sealed_events": sum(s.rows for s in sealed),
                "sealed_bytes": sum(s.bytes for s in sealed),
                "live_files": len(reader.parts),
                "live_events": live_rows,
                "rejected_lines": reader.manifest.rejected + sum(part.rejected for part in reader.parts.values()),
                "torn_bytes": reader.manifest.torn_bytes,
                "first": min((*(s.first_ts for s in sealed), *live_times), default=None),
                "last": max((*(s.last_ts for s in sealed), *live_times), default=None),
                "head": reader.manifest.head,
            }

    def _unsealed_bytes(self) -> int:
        total = 0
        for path in live.names(self.layout.live):
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # sealed since it was listed
                continue
        return total

    def _seal_when_due(self) -> None:
        """Seal when enough has gathered. What goes wrong is logged, not raised: the events are safe as they are."""
        try:
            with live.closed_files(self.layout.live) as closed:
                size = sum(path.stat().st_size for path in closed)
                due = size >= self.settings.seal_at or len(closed) >= self.settings.seal_files
            if due:
                self.seal(timeout_s=0)
        except BusyError:
            logger.debug("somebody else is sealing %s", self.layout.folder)
        except (HermesLabError, OSError) as error:
            logger.warning("the log was not sealed (its events are safe in %s): %s", self.layout.live, error)

    def _scratch(self) -> Path | None:
        folder = self._lab / "cache" / "duckdb"
        return folder if os.access(self._lab, os.W_OK) else None
