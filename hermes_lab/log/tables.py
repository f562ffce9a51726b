"""Events as Arrow tables: the schema, and JSON lines read in bulk with bad lines named instead of dropped.

Every line is first decoded by msgspec with the very type that wrote it. Arrow's and DuckDB's JSON readers alone will
not do: they accept what is no event (an unknown action, a naive time), add rows of nulls, or crash on a line `null`.
Lines that are known to be events may then go through Arrow's reader, which turns many of them into columns on several
cores; the few that it refuses (a key twice, nanoseconds) are turned into columns here.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from hermes_lab import events
from hermes_lab.errors import ConfigError, EventError
from hermes_lab.events import Event

_ARROW_TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "SMALLINT": pa.int16(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}

SCHEMA = pa.schema([(c.name, _ARROW_TYPES[c.sql_type]) for c in events.columns()])
"""The columns of the log as an Arrow schema."""

_PARSE = pyarrow.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
_READ = pyarrow.json.ReadOptions(block_size=1 << 20, use_threads=False)
_MANY = 1 << 20  # bytes from which Arrow's reader is worth its start

_decode_lines = msgspec.json.Decoder(Event).decode_lines
_values = operator.attrgetter(*SCHEMA.names)


class Rejected(NamedTuple):
    """A line that is no event: its number from 1 within what was read, why, and its bytes."""

    line: int
    reason: str
    raw: bytes


def from_lines(data: bytes) -> tuple[pa.Table, list[Rejected]]:
    """Return the events of whole JSON lines, in their stored form, as a table of `SCHEMA`, and the lines that are none.

    Raises:
        ConfigError: an event of a newer schema than this hermes-lab knows.
    """
    try:
        found = _decode_lines(data)
    except (msgspec.DecodeError, RecursionError):
        found = []
    # Fewer or more events than lines: a blank line, two events on one, or one on two. They are looked at one by one.
    if len(found) == data.count(b"\n"):
        table = _to_table(found, data)
        if pc.all(pc.match_substring_regex(table["event_id"], events.ID_PATTERN)).as_py() is not False:
            return table, []
    found, rejected = _separate(data)
    return _to_table(found), rejected


def _to_table(found: list[Event], data: bytes = b"") -> pa.Table:
    """Return `found` as a table; `data` are their lines, where each event is a line."""
    newest = max((event.schema_version for event in found), default=0)
    if newest > events.SCHEMA_VERSION:
        raise _newer(newest)
    if not found:
        return SCHEMA.empty_table()
    if len(data) >= _MANY:
        try:
            table = pyarrow.json.read_json(pa.BufferReader(data), read_options=_READ, parse_options=_PARSE)
        except pa.ArrowInvalid:  # also where a line is longer than a block
            table = None
        if table is not None and table.num_rows == len(found) and not _lacks_defaults(table):
            return table
    columns = zip(*map(_values, found), strict=True)
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _lacks_defaults(table: pa.Table) -> bool:
    """Return whether Arrow left a null where `Event` fills in what an older schema lacks."""
    return any(table[name].null_count for name in ("weight", "schema_version"))


def _separate(data: bytes) -> tuple[list[Event], list[Rejected]]:
    good, rejected = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            good.append(events.decode_stored(line))
        except EventError as error:
            _check_not_newer(line)
            rejected.append(Rejected(number, str(error), line))
    return good, rejected


class _Version(msgspec.Struct):
    schema_version: int = 0


def _check_not_newer(line: bytes) -> None:
    """Raise when a line cannot be read because a newer hermes-lab wrote it: that is no damage."""
    try:
        version = msgspec.json.decode(line, type=_Version).schema_version
    except (msgspec.DecodeError, RecursionError):
        return
    if version > events.SCHEMA_VERSION:
        raise _newer(version)


def _newer(version: int) -> ConfigError:
    return ConfigError(
        f"the log holds events of schema {version}, and this hermes-lab knows schemas up to "
        f"{events.SCHEMA_VERSION}: upgrade hermes-lab to read them"
    )
