"""A moment of the log as a DuckDB database: sealed segments and live files, every committed event exactly once.

Nothing is copied but the live part. The order of reading makes it right without locks: live files first, then the
manifest. A file that was sealed in between is in the manifest and its live rows are dropped; one that was sealed
before was not listed at all.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import duckdb
import duckdb.func
import pyarrow as pa

from hermes_lab import events
from hermes_lab.errors import CorruptLogError
from hermes_lab.log import live, spill, tables
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import Manifest, Segment
from hermes_lab.sql_files import read_sql

DAMAGED = (
    "A sealed file of this log is lost or damaged: `hermes-lab log verify` says which ones; restore them from a copy."
)
"""What to say when DuckDB cannot read a segment."""


class LivePart(NamedTuple):
    """The whole lines of one live file that were read so far."""

    offset: int
    tables: tuple[pa.Table, ...]
    rejected: int


@dataclass
class Reader:
    """Follows a log's files, reading at each look only what is new."""

    layout: Layout
    manifest: Manifest = field(init=False)
    parts: dict[str, LivePart] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start before the manifest's first entry."""
        self.manifest = Manifest(self.layout.manifest)

    def look(self) -> None:
        """Bring `manifest` and `parts` to the present, together exact.

        Raises:
            CorruptLogError, ConfigError: see `Manifest.refresh` and `tables.from_lines`.
        """
        seen = {}
        for path in live.names(self.layout.live):
            part = self.parts.get(path.name, LivePart(0, (), 0))
            try:
                if path.stat().st_size < part.offset:  # a failed write that was taken back: read it again
                    part = LivePart(0, (), 0)
                data = live.read_from(path, part.offset)
            except FileNotFoundError:
                continue
            if data:
                table, rejected = tables.from_lines(data)
                part = LivePart(part.offset + len(data), (*part.tables, table), part.rejected + len(rejected))
            seen[path.name] = part
        self.manifest.refresh()
        self.parts = {name: part for name, part in seen.items() if name not in self.manifest.consumed}

    def state(self) -> tuple[object, ...]:
        """Return what tells one moment from another."""
        return (self.manifest.seq, *((name, part.offset) for name, part in sorted(self.parts.items())))

    def live_table(self) -> pa.Table:
        """Return the live events as one table."""
        parts = [table for part in self.parts.values() for table in part.tables]
        return pa.concat_tables(parts) if parts else tables.SCHEMA.empty_table()


class Snapshot:
    """One moment of a log, as a locked-down DuckDB database with the view `events` and the views upon it.

    SQL on it can read the lab's folder and nothing else: no other file, no network, no change of a setting.

    Attributes:
        layout: where the log lies.
        segments: the sealed files by path.
        seq: number of the manifest's last step.
        head: hash of that step.
        live_bytes: whole bytes of each live file.
    """

    def __init__(
        self, layout: Layout, reader: Reader, *, lab: Path, memory_limit: str | None, scratch: Path | None
    ) -> None:
        """Build the database from what `reader` saw last.

        Args:
            layout: where the log lies.
            reader: has looked.
            lab: the folder that SQL may read.
            memory_limit: how much memory queries may take, as DuckDB writes it ("2GB"); None for DuckDB's default.
            scratch: folder for what does not fit into memory; None for none.
        """
        self.layout = layout
        self.segments = dict(reader.manifest.segments)
        self.seq, self.head = reader.manifest.seq, reader.manifest.head
        self.live_bytes = {name: part.offset for name, part in reader.parts.items()}
        self._live = reader.live_table()
        self._made: set[str] = set()
        self.connection = duckdb.connect(":memory:")
        self._configure(lab, memory_limit, scratch)
        try:
            self._define_views()
        except duckdb.Error as error:
            raise CorruptLogError(f"{error}\n{DAMAGED}") from None
        self.connection.execute("set enable_external_access = false")
        self.connection.execute("set lock_configuration = true")

    def _configure(self, lab: Path, memory_limit: str | None, scratch: Path | None) -> None:
        run = self.connection.execute
        # For the whole database: a cursor does not take over what only our connection was told.
        run("set global TimeZone = 'UTC'")
        run("set python_enable_replacements = false")
        run("set temp_directory = ?", [str(scratch) if scratch else ""])
        run("set allowed_directories = [?]", [str(lab)])
        if memory_limit:
            run("set memory_limit = ?", [memory_limit])

    def _define_views(self) -> None:
        self.connection.create_function(
            "unspill",
            # No method of ours: the database would hold us, and we it, for ever, with its threads. And nothing that
            # can be freed: a relation may outlive us, and calls it still.
            _unspill,
            ["varchar", "varchar"],
            "varchar",
            type=duckdb.func.ARROW,
        )
        # A table, since a registered Arrow table would be seen by this connection only and not by its cursors.
        self.connection.register("arrow_live_events", self._live)
        self.connection.execute("create table live_events as select * from arrow_live_events")
        self.connection.unregister("arrow_live_events")
        everything = list(self.segments.values())
        self.connection.execute(f"create view stored_events as {self._rows(everything)}")
        self.connection.execute(self._events_view("events", everything))
        self.connection.execute(read_sql(__package__, "events_per_task"))

    def view_of(self, segments: list[Segment]) -> str:
        """Return the name of a view like `events` over these segments and the live files only."""
        digest = hashlib.sha256("\n".join(s.path for s in segments).encode()).hexdigest()
        name = f"events_{digest[:16]}"
        if name not in self._made:
            self.connection.execute(self._events_view(name, segments))
            self._made.add(name)
        return name

    def _events_view(self, name: str, segments: list[Segment]) -> str:
        columns = ",\n    ".join(_select_column(c.name, _spill_key(self.layout.spill)) for c in events.columns())
        return read_sql(__package__, "events").format(name=name, columns=columns, rows=f"({self._rows(segments)})")

    def _rows(self, segments: list[Segment]) -> str:
        """Return the SELECT of these segments' and the live events as they are stored."""
        scans = []
        if segments:
            paths = ", ".join(_quote(str(self.layout.folder / s.path)) for s in segments)
            # Only older schemas need every file's columns looked at, which opens every file.
            older = any(s.schema_version < events.SCHEMA_VERSION for s in segments)
            by_name = ", union_by_name = true" if older else ""
            scans.append(f"select * from read_parquet([{paths}]{by_name}, hive_partitioning = false)")
        if self._live.num_rows or not scans:
            scans.append("select * from live_events")
        return "\nunion all by name\n".join(scans)


_spill_folders: dict[str, Path] = {}  # of every lab that this process has looked at; SQL can name no other folder


def _spill_key(folder: Path) -> str:
    key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    _spill_folders[key] = folder
    return key


def _unspill(stubs: pa.ChunkedArray, keys: pa.ChunkedArray) -> pa.Array:
    pairs = zip(stubs.to_pylist(), keys.to_pylist(), strict=True)
    return pa.array([spill.load(_spill_folders[key], stub) for stub, key in pairs], pa.string())


def _select_column(name: str, spill_key: str) -> str:
    if name not in events.PAYLOADS:
        return name
    whole = f"unspill({name}, '{spill_key}')"
    return f"case when starts_with({name}, '{spill.STUB_START}') then {whole} else {name} end as {name}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
