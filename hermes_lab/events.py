"""What an event is: one flat schema, declared once here and used for JSON lines, Arrow, Parquet and SQL.

An event is an effect of an episode with its outcome, or a step of evolution, with what it cost and where it
belongs. Unknown is None, never 0. Writing is strict (`encode`), reading is tolerant (`decode`): a line of an older
schema reads with None in the columns that it lacks.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import types
import typing
from typing import Annotated, Any

import msgspec

from hermes_lab import payload
from hermes_lab.errors import EventError

SCHEMA_VERSION = 1
"""Written into every event; readers accept it and every older one."""


class Action(enum.StrEnum):
    """The kind of an event. The list is closed; `.doc` says what each one records.

    `.thinnable` marks the few kinds that are neither an effect of an episode nor a decision, a call, a cost or a
    matter of safety: only these may be merged before writing (`log.thin`).
    """

    doc: str
    thinnable: bool

    def __new__(cls, value: str, doc: str = "", thinnable: bool = False) -> Action:
        """Make a member of `value` that carries `doc`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        member.thinnable = thinnable
        return member

    MESSAGE_RECEIVED = "message_received", "a request or turn came in, from whatever channel"
    TASK_STARTED = "task_started", "an episode began on a task"
    TASK_ENDED = "task_ended", "an episode ended; output says how"
    TASK_RECORDED = "task_recorded", "the schema-bound record of a finished task"
    CONTEXT_ASSEMBLED = "context_assembled", "what went into the context, what was dropped, tokens by layer"
    COMPRESSED = "compressed", "short-term memory was compressed"
    ROUTED = "routed", "the candidate tools and their ranks"
    GENERATION = "generation", "a model was asked and answered"
    TOOL_CHECKED = "tool_checked", "a tool call passed or failed the deterministic checks"
    TOOL_CALLED = "tool_called", "a tool ran; input is the arguments, output the result"
    CODE_EXECUTED = "code_executed", "code ran in the sandbox"
    RETRIEVAL = "retrieval", "documents or memories were searched"
    PERMISSION_REQUESTED = "permission_requested", "a call needs a person or a rule to allow it"
    PERMISSION_DECIDED = "permission_decided", "the person or rule answered"
    REFLECTION = "reflection", "a step was judged done, needing a fix, or given up"
    ESCALATED = "escalated", "the work went to documents or to the strong tier"
    MEMORY_PROPOSED = "memory_proposed", "a memory waits for approval"
    MEMORY_WRITTEN = "memory_written", "an approved memory became active"
    MEMORY_RETRACTED = "memory_retracted", "a memory was taken back"
    SKILL_TRIGGERED = "skill_triggered", "a skill's text entered the context"
    SKILL_PROPOSED = "skill_proposed", "a skill, or a change to one, waits for approval"
    SKILL_WRITTEN = "skill_written", "an approved skill was written"
    CONFLICT_FOUND = "conflict_found", "two memories or skills contradict, duplicate or supersede each other"
    PROPOSAL_DECIDED = "proposal_decided", "a person decided on a proposal, with a reason"
    PROPOSAL_UNDONE = "proposal_undone", "such a decision was undone"
    FEEDBACK = "feedback", "the user liked, disliked or stayed silent"
    GRADED = "graded", "a grader or a person gave an episode its mark"
    EVALUATED = "evaluated", "a composite score was computed; it can be computed again", True
    ROUND_STARTED = "round_started", "a round of evolution began"
    ROUND_ENDED = "round_ended", "a round of evolution ended"
    SUGGESTION = "suggestion", "a reflector suggested a change; refused ones say why"
    CANDIDATE_PROPOSED = "candidate_proposed", "a candidate version was made of suggestions"
    CANDIDATE_REPLAYED = "candidate_replayed", "a candidate was replayed over history"
    GATE_DECIDED = "gate_decided", "the gate passed or refused a candidate, with every check's figure"
    CANARY_STARTED = "canary_started", "a version went to a share of the traffic"
    CANARY_OBSERVED = "canary_observed", "a periodic look at a running canary", True
    CANARY_HELD = "canary_held", "a canary was held where it is"
    ALARM = "alarm", "a safety alarm"
    PUBLISHED = "published", "a version became the current one"
    ROLLED_BACK = "rolled_back", "a version and the memories tagged with it were taken back"
    BASELINE_FROZEN = "baseline_frozen", "the scores that later versions are held against"
    PAUSED = "paused", "evolution was paused"
    RESUMED = "resumed", "evolution was resumed"
    IMPORTED = "imported", "an import from somebody else's log ended"
    PURGED = "purged", "personal data was removed from the log"


class Status(enum.StrEnum):
    """How an event came out; None where nobody knows."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    TIMEOUT = "timeout"
    INVALID = "invalid"
    CANCELLED = "cancelled"
    RETRACTED = "retracted"


class ErrorKind(enum.StrEnum):
    """Why an event did not come out ok. The list is closed, so that failures can be counted."""

    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    UNREADABLE_CALL = "unreadable_call"
    REPEATED_CALL = "repeated_call"
    PRECHECK_FAILED = "precheck_failed"
    NO_PERMISSION = "no_permission"
    OUT_OF_SCOPE = "out_of_scope"
    NOT_FOUND = "not_found"
    TOOL_FAILED = "tool_failed"
    TOOL_UNAVAILABLE = "tool_unavailable"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    CONTEXT_LENGTH = "context_length"
    CUT_OFF = "cut_off"
    CONTENT_FILTER = "content_filter"
    BUDGET = "budget"
    DIVERGED = "diverged"
    CRASHED = "crashed"
    OTHER = "other"


class Tier(enum.StrEnum):
    """Which model tier answered."""

    LIGHT = "light"
    STRONG = "strong"


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


def encode(event: Event) -> bytes:
    """Return the JSON line of `event`, without the newline, in the form that the log holds.

    Raises:
        EventError: a value of the wrong type, out of its range or list, a naive time, NaN, or text in `input` or
            `output` that is not JSON. The message names the field.
    """
    event = _normal(event)
    try:
        line = _encode(event)
    except UnicodeEncodeError:
        line = _encode_stored(event)
    except (TypeError, OverflowError, AttributeError):
        raise _unencodable(event) from None
    if _RESERVED_PREFIX in line:
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


def _normal(event: Event) -> Event:
    """Return `event` with its time in UTC and its payloads as every reader of JSON accepts them."""
    changed: dict[str, Any] = {}
    ts = event.ts
    if isinstance(ts, dt.datetime) and ts.tzinfo is not dt.UTC and ts.tzinfo is not None:
        try:
            changed["ts"] = ts.astimezone(dt.UTC)
        except OverflowError:
            raise EventError(f"{_what(event)}: ts {ts} lies outside the years 1 to 9999 in UTC") from None
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
