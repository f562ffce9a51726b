"""Handing a log, or a slice of it, to somebody else: a new, sealed, verifiable log with a manifest of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from hermes_lab.errors import MissingError, WriteError
from hermes_lab.log import files, maintain, query, segments, spill, tables, verify
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import Manifest
from hermes_lab.log.prune import Params
from hermes_lab.log.snapshot import Snapshot


class Exported(NamedTuple):
    """What an export wrote."""

    events: int
    segments: int
    payloads: int


def export(snapshot: Snapshot, where: str, params: Params, destination: Layout) -> Exported:
    """Write the events for which `where` holds to a new log.

    Args:
        snapshot: the moment of the log to export.
        where: SQL condition over the columns of `events`.
        params: values for its parameters.
        destination: where the new log goes; there must be none yet.

    Raises:
        WriteError: there is a log already, or the disk is full; a half-written export is removed.
        MissingError: no event satisfies the condition.
        QueryError: the condition does not run.
    """
    if destination.manifest.exists():
        raise WriteError(f"{destination.folder} holds a log already: export to a new folder")
    # The condition sees events with their payloads; what is copied are the rows as stored, so that spilled payloads
    # stay stubs and travel as files.
    condition = "true" if where == "true" else f"event_id in (select event_id from events where {where})"
    relation = query.run(snapshot, f"select * from stored_events where {condition}", params)
    with files.disk_errors(f"exporting to {destination.folder}"):
        destination.create()
        try:
            done = _write(relation, snapshot.layout, destination)
        except duckdb.Error as error:
            raise query.explain_error(error) from None
        finally:
            if not destination.manifest.exists():
                shutil.rmtree(destination.folder)
    if not done.events:
        raise MissingError("no event satisfies these bounds; nothing was exported")
    return done


def _write(relation: duckdb.DuckDBPyRelation, source: Layout, destination: Layout) -> Exported:
    rows = 0
    needed: set[str] = set()
    with segments.Builder(destination) as builder:
        for batch in relation.to_arrow_reader(50_000):
            table = maintain.to_schema(pa.Table.from_batches([batch]), tables.SCHEMA.names)
            rows += table.num_rows
            needed |= verify.spills_of(table)
            builder.add(table)
        if not rows:
            return Exported(0, 0, 0)
        _copy_payloads(source, destination, needed)
        added = segments.publish(destination, Manifest(destination.manifest), "export", builder)
    return Exported(rows, len(added), len(needed))


def _copy_payloads(source: Layout, destination: Layout, digests: set[str]) -> None:
    for digest in digests:
        path = spill.file_of(source.spill, digest)
        target: Path = spill.file_of(destination.spill, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        files.atomic_write(target, path.read_bytes())
