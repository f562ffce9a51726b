"""Values as sources write them, as an event holds them: content, arguments, results, numbers, times, keys.

What a source does not say, or says senselessly, is None.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from typing import Any, NamedTuple

import msgspec

from hermes_lab.importers.base import SetAside
from hermes_lab.payload import MAX_DEPTH

OBSERVATION_CHARS = 2_000
"""How much of a result's text an event keeps as its observation."""

RAW_CHARS = 10_000
"""How much of a bad row's text is kept beside the reason."""

# A payload wraps what the source nested by a few levels of its own.
_DEEPEST = MAX_DEPTH - 10


class Arguments(NamedTuple):
    """The arguments of a call: a dict, or the text that could not be read as one."""

    value: Any
    valid: bool


def set_aside(where: str, reason: str, raw: object) -> SetAside:
    """Return a bad row with as much of its text as is kept; `raw` may be text, bytes or any value."""
    if isinstance(raw, bytes):
        raw = raw[: 4 * RAW_CHARS].decode("utf-8", "replace")
    text = raw if isinstance(raw, str) else repr(raw)
    return SetAside(where, reason, text[:RAW_CHARS])


# ---------------------------------------------------------------- JSON and content


def parse_json(text: str | bytes) -> Any:
    r"""Return the value of a JSON text, read tolerantly: NaN, lone surrogates, raw control characters.

    >>> parse_json('{"a": NaN, "b": "\\ud800"}')
    {'a': nan, 'b': '\ud800'}

    Raises:
        ValueError: not JSON, not UTF-8, a number of thousands of digits, or too deep a nesting for the log.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        value = _parse_slowly(text)
    except RecursionError:
        raise ValueError(f"it nests deeper than {_DEEPEST} levels") from None
    if _brackets(text) > _DEEPEST and too_deep(value):
        raise ValueError(f"it nests deeper than {_DEEPEST} levels")
    return value


def _brackets(text: str | bytes) -> int:
    return text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")


def _parse_slowly(text: str | bytes) -> Any:
    if isinstance(text, bytes):
        text = decode_text(text)
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError(f"it nests deeper than {_DEEPEST} levels") from None


def decode_text(raw: bytes) -> str:
    """Return UTF-8 text, lone surrogates included.

    Raises:
        UnicodeDecodeError: (a ValueError) the bytes are not UTF-8.
    """
    return raw.decode("utf-8", "surrogatepass")


def too_deep(value: object, levels: int = _DEEPEST) -> bool:
    """Return whether `value` nests deeper than the log keeps, so that its row must be set aside."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return False
    return levels <= 0 or any(too_deep(item, levels - 1) for item in value if isinstance(item, dict | list | tuple))


def parse_result(content: object) -> Any:
    """Return a tool's result as the value to keep: a JSON object or array is parsed, the rest kept.

    >>> parse_result('{"exit_code": 0}'), parse_result("42 files")
    ({'exit_code': 0}, '42 files')
    """
    if not isinstance(content, str) or content.lstrip()[:1] not in ("{", "["):
        return content
    try:
        return parse_json(content)
    except ValueError:
        return content


def read_arguments(arguments: object) -> Arguments:
    """Return a call's arguments as a dict; text in place of one is parsed, no arguments are an empty dict.

    >>> read_arguments('{"path": "a.txt"}')
    Arguments(value={'path': 'a.txt'}, valid=True)
    >>> read_arguments('{"path": ')
    Arguments(value='{"path": ', valid=False)
    """
    if isinstance(arguments, dict):
        return Arguments(arguments, True)
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return Arguments({}, True)
    if not isinstance(arguments, str):
        return Arguments(arguments, False)
    value: object = arguments
    for _ in range(2):  # some servers encode the text twice
        try:
            value = parse_json(value) if isinstance(value, str) else value
        except ValueError:
            return Arguments(arguments, False)
    if value is None:
        return Arguments({}, True)
    return Arguments(value, True) if isinstance(value, dict) else Arguments(arguments, False)


def content_text(content: object) -> str:
    """Return the text of a message's content: text itself, the text parts of a list, else JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for text in map(_part_text, content) if text)
    return json.dumps(content, ensure_ascii=False, default=repr)


def _part_text(part: object) -> str:
    if isinstance(part, dict):
        text = part.get("text", part.get("content"))
        return text if isinstance(text, str) else ""
    return part if isinstance(part, str) else ""


def observation_text(content: object) -> str:
    """Return the part of a result's text that an event keeps as its observation."""
    return content_text(content)[:OBSERVATION_CHARS]


def known(**columns: Any) -> dict[str, Any]:
    """Return the columns that are not None: what is unknown is left out of an event."""
    return {name: value for name, value in columns.items() if value is not None}


# ---------------------------------------------------------------- numbers, times, keys


def count(value: object) -> int | None:
    """Return a count of tokens or calls as a source gives it, None where it is unknown or senseless.

    >>> count(12), count("12"), count(12.0), count(-1), count(True), count(None)
    (12, 12, 12, None, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"[0-9]{1,18}", value) else None
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) and value == int(value) else None
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def amount(value: object) -> float | None:
    """Return a cost or duration as a source gives it, None where it is unknown or senseless."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**1000 else None


def digest(*parts: object) -> str:
    """Return a short hash of JSON-like values, for keys of events that have no id in their source."""
    try:
        text = msgspec.json.encode(parts, order="sorted")
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError):
        text = json.dumps(parts, sort_keys=True, default=repr).encode()
    return hashlib.blake2b(text, digest_size=10).hexdigest()


def when(value: object, naive: dt.tzinfo = dt.UTC) -> dt.datetime | None:
    """Return the aware UTC time that a source means, None where it names none.

    Args:
        value: epoch seconds (a number, or its text), or ISO 8601 text.
        naive: the zone of ISO text that has none.

    >>> when(1767225600.25).isoformat(), when("2026-01-01T08:00:00+08:00").isoformat()
    ('2026-01-01T00:00:00.250000+00:00', '2026-01-01T00:00:00+00:00')
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str):
            return _read_time(value.strip(), naive)
        return dt.datetime.fromtimestamp(value, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _read_time(text: str, naive: dt.tzinfo) -> dt.datetime:
    if re.fullmatch(r"[0-9]{9,11}(\.[0-9]+)?", text):
        return dt.datetime.fromtimestamp(float(text), dt.UTC)
    time = dt.datetime.fromisoformat(text)
    return time.replace(tzinfo=time.tzinfo or naive).astimezone(dt.UTC)


def unique(key: str, seen: dict[str, int]) -> str:
    """Return `key`, with `#2`, `#3` ... where the same key came before in `seen`, which is updated."""
    seen[key] = seen.get(key, 0) + 1
    return key if seen[key] == 1 else f"{key}#{seen[key]}"
