"""What an event is: one flat schema, declared once here and used for JSON lines, Arrow, Parquet and SQL.

An event is an effect of an episode with its outcome, or a step of evolution, with what it cost and where it
belongs. Unknown is None, never 0. Writing is strict (`encode`), reading is tolerant (`decode`): a line of an older
schema reads with None in the columns that it lacks.
"""

from __future__ import annotations

import datetime as dt
import re
import types
import typing
from typing import Annotated, Any

import msgspec

from hermes_lab import payload
from hermes_lab.errors import EventError
from hermes_lab.kinds import Action as Action
from hermes_lab.kinds import ErrorKind as ErrorKind
from hermes_lab.kinds import Status as Status
from hermes_lab.kinds import Tier as Tier

SCHEMA_VERSION = 1
"""Written into every event; readers accept it and every older one."""


def _doc(text: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=text, **limits)


Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
EventId = Annotated[str, msgspec.Meta(min_length=36, max_length=36)]
ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
"""What an event_id, a UUIDv7, looks like. (Checked apart from the type: in the type it would double its cost.)"""


# Factories, since `omit_defaults` leaves plain defaults out of the line, and these two must be in it.
def _one() -> float:
    return 1.0


def _current_schema() -> int:
    return SCHEMA_VERSION


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of the log. Its fields, in this order, are the columns of every form that the log takes.

    >>> now = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
    >>> e = Event(event_id="01a22d30-901c-75dc-8711-516ab210cc12", ts=now, action=Action.FEEDBACK, name="like")
    >>> decode(encode(e)) == e
    True
    """

    event_id: Annotated[EventId, _doc("UUIDv7: unique, ordered by time")]
    ts: Annotated[dt.datetime, _doc("when, in UTC, to the microsecond", tz=True)]
    run_id: Annotated[str | None, _doc("the run, round or import that it belongs to")] = None
    episode_id: Annotated[str | None, _doc("one attempt at one task")] = None
    task_id: Annotated[str | None, _doc("the task; several episodes may share it")] = None
    task_type: Annotated[str | None, _doc("what kind of task it is")] = None
    step: Annotated[Count | None, _doc("order within the episode, from 0")] = None
    action: Annotated[Action, _doc("the kind of event, from the closed list `Action`")]
    name: Annotated[str | None, _doc("the tool, model, skill, rule or version that acted")] = None
    input: Annotated[str | None, _doc("JSON text of what went in, whole")] = None
    output: Annotated[str | None, _doc("JSON text of what came out, whole")] = None
    observation: Annotated[str | None, _doc("the short text that the agent saw of the output")] = None
    status: Annotated[Status | None, _doc("how it came out, from the closed list `Status`")] = None
    error_kind: Annotated[ErrorKind | None, _doc("why not ok, from the closed list `ErrorKind`")] = None
    input_tokens: Annotated[Count | None, _doc("tokens read, without the cached ones")] = None
    cached_tokens: Annotated[Count | None, _doc("tokens read from a provider's cache")] = None
    output_tokens: Annotated[Count | None, _doc("tokens written")] = None
    latency_ms: Annotated[Amount | None, _doc("milliseconds from asking to the whole answer")] = None
    cost_usd: Annotated[Amount | None, _doc("US dollars")] = None
    quota: Annotated[Amount | None, _doc("units of a quota that it used")] = None
    from_cache: Annotated[bool | None, _doc("true when our own cache served it; the cost is the first one's")] = None
    tier: Annotated[Tier | None, _doc("model tier that answered: light or strong")] = None
    confidence: Annotated[Share | None, _doc("how sure the event is of its own content, 0 to 1")] = None
    weight: Annotated[Amount, _doc("how many events this one stands for: count with sum(weight)")] = msgspec.field(
        default_factory=_one
    )
    config_version: Annotated[str | None, _doc("version of the agent's configuration at work")] = None
    channel: Annotated[str | None, _doc("where the request came from: notebook, terminal, telegram ...")] = None
    parent_id: Annotated[str | None, _doc("event_id of the event that caused this one")] = None
    request_hash: Annotated[str | None, _doc("hash of the effect, after redaction: the key of replay")] = None
    schema_version: Annotated[int, _doc("version of this schema that wrote it", ge=0, le=2**15 - 1)] = msgspec.field(
        default_factory=_current_schema
    )


PAYLOADS = ("input", "output", "observation")
"""The columns that may be long, and so may be spilled beside the log."""

JSON_COLUMNS = ("input", "output")
"""The columns whose text is JSON."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode
# Any character that `payload.store_text` must look at has this prefix in UTF-8.
_RESERVED_PREFIX = b"\xf4\x8f"
_is_id = re.compile(ID_PATTERN.removesuffix("$") + r"\Z").match


class Column(typing.NamedTuple):
    """A column of the log: its name, the SQL type DuckDB gives it, whether it may be null, and what it means."""

    name: str
    sql_type: str
    nullable: bool
    doc: str


def columns() -> tuple[Column, ...]:
    """Return the columns of the log in order, read off the fields of `Event`."""
    hints = typing.get_type_hints(Event, include_extras=True)
    return tuple(_column(field.name, hints[field.name]) for field in msgspec.structs.fields(Event))


def _column(name: str, hint: Any) -> Column:
    doc = next(m.description for m in hint.__metadata__[::-1] if m.description)
    kind = typing.get_args(hint)[0]
    nullable = typing.get_origin(kind) in (types.UnionType, typing.Union)
    if nullable:
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
    base = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    if name == "schema_version":
        return Column(name, "SMALLINT", nullable, doc)
    return Column(name, _SQL_TYPES.get(base, "VARCHAR"), nullable, doc)


_SQL_TYPES: dict[Any, str] = {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", dt.datetime: "TIMESTAMP WITH TIME ZONE"}


def encode(event: Event, *, written_json: bool = False) -> bytes:
    """Return the JSON line of `event`, without the newline, in the form that the log holds.

    Args:
        event: what to write.
        written_json: whether `payload.dumps` made its `input` and `output`, so that they need no second look.

    Raises:
        EventError: a value of the wrong type, out of its range or list, a naive time, NaN, or text in `input` or
            `output` that is not JSON. The message names the field.
    """
    event = _in_utc(event)
    if not written_json:
        event = _with_sound_json(event)
    try:
        line = _encode(event)
    except UnicodeEncodeError:
        line = _encode_stored(event)
    except (TypeError, OverflowError, AttributeError):
        raise _unencodable(event) from None
    if b"\xf4" in line and _RESERVED_PREFIX in line:  # a search for one byte is ten times quicker
        line = _encode_stored(event)
    # Decoding what was just encoded applies every check of the schema in C, and comparing finds whatever JSON
    # would have changed without a word (NaN becomes null).
    try:
        back = _decode(line)
    except msgspec.ValidationError as error:
        raise EventError(f"{_what(event)}: {str(error).replace('$.', '')}{_hint(event)}") from None
    if back != event:
        _refuse_changed(event, back)
    _check_written(back)
    return line


def decode(line: bytes | str) -> Event:
    """Return the event of one JSON line, with its text as it was given to `encode`.

    Tolerant of older schemas (missing columns are None) and of columns that it does not know.

    Raises:
        EventError: not JSON, or not an event.
    """
    return _restore(decode_stored(line))


def decode_stored(line: bytes | str) -> Event:
    """Return the event of one JSON line with its text in the form that the log holds; see `decode`.

    Raises:
        EventError: not JSON, or not an event.
    """
    try:
        event = _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:  # a ValidationError is one, too
        raise EventError(f"not an event: {error}") from None
    if not _is_id(event.event_id):
        raise EventError(f"not an event: event_id {event.event_id!r} is no UUIDv7")
    return event


def from_row(row: dict[str, Any]) -> Event:
    """Return the event of one row of the log, a dict by column name; times must be aware.

    Raises:
        EventError: a row that is no event.
    """
    try:
        return _restore(msgspec.convert(row, Event))
    except msgspec.ValidationError as error:
        raise EventError(f"not an event: {error}") from None


def _in_utc(event: Event) -> Event:
    ts = event.ts
    if not isinstance(ts, dt.datetime) or ts.tzinfo is dt.UTC or ts.tzinfo is None:
        return event
    try:
        return msgspec.structs.replace(event, ts=ts.astimezone(dt.UTC))
    except OverflowError:
        raise EventError(f"{_what(event)}: ts {ts} lies outside the years 1 to 9999 in UTC") from None


def _with_sound_json(event: Event) -> Event:
    """Return `event` with its payloads as every reader of JSON accepts them."""
    changed: dict[str, Any] = {}
    for column in JSON_COLUMNS:
        text = getattr(event, column)
        if text is None:
            continue
        if not isinstance(text, str):
            raise EventError(f"{_what(event)}: {column} is a {type(text).__name__}: pass payload.dumps(value)")
        try:
            checked = payload.check_json(text)
        except EventError as error:
            raise EventError(f"{_what(event)}: {column} {error}") from None
        if checked is not text:
            changed[column] = checked
    return msgspec.structs.replace(event, **changed) if changed else event


def _check_written(event: Event) -> None:
    """Refuse what a reader may meet but a writer may not write."""
    if not _is_id(event.event_id):
        raise EventError(f"{_what(event)}: event_id {event.event_id!r} is no UUIDv7: leave it to the writer's record()")
    if event.schema_version > SCHEMA_VERSION:
        raise EventError(
            f"{_what(event)}: schema_version {event.schema_version} is newer than this hermes-lab's {SCHEMA_VERSION}"
        )


def _map_text(event: Event, change: typing.Callable[[str], str]) -> Event:
    texts = {field: getattr(event, field) for field in event.__struct_fields__}
    changed = {k: change(v) for k, v in texts.items() if type(v) is str}
    return msgspec.structs.replace(event, **changed)


def _unencodable(event: Event) -> EventError:
    for field in event.__struct_fields__:
        try:
            _encode(getattr(event, field))
        except (TypeError, OverflowError, AttributeError) as error:
            return EventError(f"{_what(event)}: {field}: {error}")
        except UnicodeEncodeError:
            continue
    return EventError(f"{_what(event)} cannot be written as JSON")


def _encode_stored(event: Event) -> bytes:
    return _encode(_map_text(event, payload.store_text))


def _restore(event: Event) -> Event:
    return _map_text(event, payload.restore_text)


def _what(event: Event) -> str:
    return f"event {event.action!s}" if event.name is None else f"event {event.action!s} of {event.name!r}"


def _hint(event: Event) -> str:
    naive = isinstance(event.ts, dt.datetime) and event.ts.tzinfo is None
    return ": give ts a time zone, such as datetime.now(datetime.UTC)" if naive else ""


def _refuse_changed(event: Event, back: Event) -> None:
    """Say which field JSON would have changed; text in its stored form is no change."""
    for field in event.__struct_fields__:
        given, stored = getattr(event, field), getattr(back, field)
        if isinstance(stored, str):
            stored = payload.restore_text(stored)
        if given != stored:
            raise EventError(f"{_what(event)}: {field} is {given!r}, which the log would change to {stored!r}")
