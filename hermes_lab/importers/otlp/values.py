"""Values of OTLP JSON: ids, times and attributes in each of the forms that exporters write."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from typing import Any

from hermes_lab.importers.reading import common

_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]+)")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_VALUE_KEYS = {
    "stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue",
    "string_value", "bool_value", "int_value", "double_value", "array_value", "kvlist_value", "bytes_value",
}  # fmt: skip
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_ROOTS = {"gen_ai", "llm", "openinference", "tool", "input", "output", "session", "traceloop", "retrieval"}
_ROOTS |= {"embedding", "error", "agent", "reranker", "ai", "mcp", "graph", "conversation", "langfuse", "exception"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ID_BYTES = (8, 16)
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**16, 10**3))  # seconds, milliseconds, microseconds


def field(item: dict[str, Any], *names: str) -> Any:
    """Return the first of the fields that is there, also where it is spelled in snake case."""
    for name in names:
        if name in item:
            return item[name]
        snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
        if snake in item:
            return item[snake]
    return None


def read_id(value: object) -> str:
    """Return a trace's or span's id as lower-case hex, whether it came as hex or base64; "" for none.

    >>> read_id("5B8EFFF798038103"), read_id("W47/95gDgQM="), read_id("0000000000000000")
    ('5b8efff798038103', '5b8efff798038103', '')
    """
    if not isinstance(value, str) or not (value := value.strip()):
        return ""
    found = _HEX.fullmatch(value)
    is_hex = found is not None and len(found[1]) % 2 == 0
    text = found[1].lower() if found and is_hex else _base64_id(value) or storable(value)
    return text if text.strip("0") else ""


def _base64_id(value: str) -> str | None:
    if not _BASE64.fullmatch(value):
        return None
    padded = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
    try:
        raw = base64.b64decode(padded, altchars=b"-_" if re.search("[-_]", padded) else None, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw.hex() if len(raw) in _ID_BYTES else None


def storable(text: str) -> str:
    """Return text that a database can hold: lone surrogates in their escaped form."""
    return text.encode("utf-8", "backslashreplace").decode()


def read_nanos(value: object, naive: dt.tzinfo) -> int | None:
    """Return a time in nanoseconds since 1970, None for none.

    Args:
        value: a number or its text, in nanoseconds (or, where that could not be, in a larger unit), or ISO 8601 text.
        naive: the zone of ISO text that has none.
    """
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,19}", value.strip()):
        time = common.when(value, naive)
        return None if time is None else (time - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value) if isinstance(value, float) else int(value)
        unit = next((unit for below, unit in _UNITS if number < below), 1)
        nanos = int(number * unit)
    except (OverflowError, ValueError):
        return None
    return nanos if 0 < nanos < 2**63 else None


def time_of(nanos: int | None) -> dt.datetime | None:
    """Return the aware UTC time of nanoseconds since 1970, to the microsecond."""
    return None if nanos is None else _EPOCH + dt.timedelta(microseconds=nanos // 1000)


def read_attributes(value: object) -> dict[str, Any]:
    """Return attributes by their dotted names, from the OTLP list of keys and values or from a plain (nested) map."""
    if isinstance(value, list):
        pairs = ((pair.get("key"), read_value(pair.get("value") or None)) for pair in value if isinstance(pair, dict))
        return {key: item for key, item in pairs if isinstance(key, str)}
    if not isinstance(value, dict):
        return {}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found[key] = read_value(item)
        if key in _ROOTS and isinstance(item, dict):
            _flatten(key, item, found)
    return found


def _flatten(prefix: str, value: dict[str, Any], found: dict[str, Any]) -> None:
    """Add the values of a nested map under their dotted names, the maps in between included."""
    for key, item in value.items():
        name = f"{prefix}.{key}"
        found.setdefault(name, read_value(item))
        if isinstance(item, dict):
            _flatten(name, item, found)


def read_value(value: Any) -> Any:
    """Return the value of an OTLP `AnyValue`; a plain value as it is."""
    if isinstance(value, list):
        return [read_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        return {key: read_value(item) for key, item in value.items()} if value else {}
    kind, inner = next(iter(value.items()))
    if kind not in _VALUE_KEYS:
        return {kind: read_value(inner)}
    kind = kind.replace("_value", "Value")
    if kind == "intValue":
        return int(inner) if isinstance(inner, str) and re.fullmatch(r"-?[0-9]{1,4000}", inner) else inner
    if kind == "doubleValue":
        return _double(inner)
    if kind == "arrayValue":
        values = inner.get("values") if isinstance(inner, dict) else inner
        return [read_value(item) for item in values] if isinstance(values, list) else []
    if kind == "kvlistValue":
        values = inner.get("values") if isinstance(inner, dict) else inner
        return read_attributes(values)
    return _bytes(inner) if kind == "bytesValue" else inner


def _double(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value in _FLOATS:
        return _FLOATS[value]
    try:
        return float(value)
    except ValueError:
        return value


def _bytes(value: object) -> object:
    """Return bytes as text where they are text, else their base64 form as it came."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return value


def read_status(status: object) -> str | None:
    """Return "ok" or "error" as a span's status says, None where it was left unset."""
    code = field(status, "code", "statusCode") if isinstance(status, dict) else status
    if code in (1, 2) and not isinstance(code, bool):
        return "ok" if code == 1 else "error"
    text = code.upper() if isinstance(code, str) else ""
    if text in ("2", "ERROR", "STATUS_CODE_ERROR", "STATUSCODE.ERROR"):
        return "error"
    return "ok" if text in ("1", "OK", "STATUS_CODE_OK", "STATUSCODE.OK") else None


def indexed(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the objects of a list that was flattened with an index in its names, in order.

    >>> indexed({"llm.tools.0.tool.name": "find", "llm.tools.1.tool.name": "read"}, "llm.tools.")
    [{'tool.name': 'find'}, {'tool.name': 'read'}]
    """
    objects: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            index, _, rest = name[len(prefix) :].partition(".")
            if index.isascii() and index.isdigit() and len(index) < 7 and rest:
                objects.setdefault(int(index), {})[rest] = value
    return [objects[index] for index in sorted(objects)]
