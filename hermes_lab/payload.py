r"""Text and JSON that survive the log: every string and value comes back as it went in, or is refused by name.

Two things that Python holds do not fit into UTF-8 JSON, Arrow and DuckDB: lone surrogates in text, and NaN or
infinities in JSON. Both are carried in a reversible form, so that one odd tool result can neither be lost nor
break every query over the log:

- a lone surrogate U+D800..U+DFFF is stored as U+10F800..U+10FFFF (the end of the last private-use plane); a
  genuine character of that range is stored with U+10F7FF before it;
- NaN and infinities are stored as `{"$float": "NaN"}`; a genuine key `$float` or `$spill` (see `log.spill`) gets
  one more dollar sign.

>>> loads(dumps({"name": "\ud800", "score": float("-inf"), "id": 2**80}))
{'name': '\ud800', 'score': -inf, 'id': 1208925819614629174706176}
>>> dumps({"$float": "a genuine one"})
'{"$$float":"a genuine one"}'
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

import msgspec

from hermes_lab.errors import EventError

MAX_DEPTH = 200
"""Levels of nesting that a payload may have; deeper ones are refused (C stacks of readers are finite)."""

_ESCAPE = "\U0010f7ff"
_SHIFT = 0x10F800 - 0xD800
_TO_STORE = re.compile("[\ud800-\udfff\U0010f7ff-\U0010ffff]")
_TO_RESTORE = re.compile("\U0010f7ff([\U0010f7ff-\U0010ffff])|([\U0010f800-\U0010ffff])")
_RESERVED_KEY = re.compile(r"\$+(?:float|spill)")
# Every escape of a JSON text in turn, so that a backslash is never read twice; group 1 is a lone surrogate.
_JSON_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_fast_encode = msgspec.json.Encoder().encode
_fast_sorted = msgspec.json.Encoder(order="sorted").encode
_fast_decode = msgspec.json.Decoder().decode
_parses = msgspec.json.Decoder(msgspec.Raw).decode


def store_text(text: str) -> str:
    """Return `text` in the form that the log holds: valid Unicode, reversible by `restore_text`."""
    if text.isascii():
        return text
    return _TO_STORE.sub(_store_char, text)


def restore_text(text: str) -> str:
    """Return the text that `store_text` was given."""
    if text.isascii():
        return text
    return _TO_RESTORE.sub(_restore_char, text)


def _store_char(match: re.Match[str]) -> str:
    char = match.group()
    return chr(ord(char) + _SHIFT) if char <= "\udfff" else _ESCAPE + char


def _restore_char(match: re.Match[str]) -> str:
    genuine, shifted = match.groups()
    return genuine if genuine is not None else chr(ord(shifted) - _SHIFT)


def dumps(value: object) -> str:
    """Return `value` as compact JSON text that `loads` turns back into an equal value.

    Tuples become lists, as in all of JSON; text stays readable (no ASCII escapes).

    Args:
        value: None, bool, int (of any size), float, str, list, tuple, or dict with string keys, nested at most
            `MAX_DEPTH` deep.

    Raises:
        EventError: anything else; the message has the path to it, such as `$.rows[3].when`.
    """
    text = _plain_json(value)
    if text is not None:
        return text
    storable = _storable(value, "$", 0)
    try:
        return _encode(storable)
    except ValueError:
        # Python refuses to write ints of more than 4,300 digits unless told otherwise.
        raise EventError(
            f"an int of more than {sys.get_int_max_str_digits()} digits cannot be stored: pass it as text"
        ) from None


def _plain_json(value: object) -> str | None:
    """Return the JSON of a value that JSON holds as it is, or None where a closer look is needed.

    Five times quicker than that look. Whatever the encoder would change (NaN to null, a number as key to text, a date
    to text) does not come back equal, and so is found.
    """
    try:
        data = _fast_encode(value)
        if may_need_escapes(data) or _fast_decode(data) != value:
            return None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return data.decode()


def may_need_escapes(data: bytes) -> bool:
    """Tell whether JSON, as msgspec writes it, may hold a reserved key or be nested too deeply for the log."""
    if b"$" in data and b'"$' in data:  # a search for one byte is ten times quicker, and seldom finds one
        return True
    return len(data) > 2 * MAX_DEPTH and data.count(b"{") + data.count(b"[") > MAX_DEPTH


def canonical(value: object) -> bytes:
    r"""Return JSON bytes that are the same for equal values, whatever the order of their keys; for hashes and keys.

    >>> canonical({"b": 1, "a": "\ud800"}) == canonical({"a": "\ud800", "b": 1})
    True
    """
    try:
        return _fast_sorted(value)
    except UnicodeEncodeError:
        return _fast_sorted(_fast_decode(store_text(dumps(msgspec.to_builtins(value)))))


def plain(value: object) -> Any:
    """Return a struct, or what holds structs, as the plain values that its JSON reads back as, lists for tuples."""
    try:
        return _fast_decode(_fast_encode(value))
    except UnicodeEncodeError:
        return msgspec.to_builtins(value)


def loads(text: str) -> Any:
    """Return the value that `dumps` was given.

    Raises:
        EventError: `text` is not JSON.
    """
    try:
        return _restored(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise EventError(f"this payload is not JSON ({error}): {text[:80]!r}") from None


def check_json(text: str) -> str:
    r"""Return `text` when it is JSON that every reader of the log accepts.

    DuckDB fails a whole query over one lone `\ud800` escape, so such an escape becomes the character itself,
    which the log then carries as `store_text` says. Nothing else changes.

    Raises:
        EventError: `text` is not JSON.
    """
    if "\\ud" in text or "\\uD" in text:
        text = _JSON_ESCAPE.sub(_unescape_lone_surrogate, text)
    try:
        _parses(store_text(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise EventError(f"is not JSON text ({error}): pass payload.dumps(value)") from None
    return text


def _unescape_lone_surrogate(match: re.Match[str]) -> str:
    lone = match.group(1)
    return chr(int(lone, 16)) if lone else match.group()


def _storable(value: Any, path: str, depth: int) -> Any:
    """Return `value` with the reserved forms in place; the very same object where nothing needs one."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": _float_name(value)}
    if depth >= MAX_DEPTH:
        raise EventError(f"a payload may nest {MAX_DEPTH} levels, and this one goes on at {path[:80]}")
    if isinstance(value, dict):
        return _storable_dict(value, path, depth)
    if isinstance(value, list | tuple):
        return [_storable(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise EventError(f"{path} is a {kind.__name__}, which JSON cannot hold: turn it into text or numbers first")


def _storable_dict(value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise EventError(f"{path} has the key {key!r}, but keys of JSON objects are text: use str({key!r})")
        name = "$" + key if _RESERVED_KEY.fullmatch(key) else key
        stored[name] = _storable(item, f"{path}.{key}", depth + 1)
    return stored


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        key, item = next(iter(value.items()))
        if key == "$float" and isinstance(item, str) and item in _FLOATS:
            return _FLOATS[item]
    return {_restored_key(key): _restored(item) for key, item in value.items()}


def _restored_key(key: str) -> str:
    return key[1:] if key.startswith("$$") and _RESERVED_KEY.fullmatch(key) else key


def _float_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
