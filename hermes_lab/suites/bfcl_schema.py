"""Turns BFCL's descriptions of arguments, whose types are those of Python, Java and JavaScript, into JSON Schema."""

from __future__ import annotations

from typing import Any

_TYPES = {
    "integer": "integer",
    "int": "integer",
    "byte": "integer",
    "short": "integer",
    "long": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "number": "number",
    "string": "string",
    "char": "string",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "arraylist": "array",
    "queue": "array",
    "stack": "array",
    "set": "array",
    "dict": "object",
    "object": "object",
    "hashmap": "object",
    "hashtable": "object",
}
_KEPT = ("description", "enum", "default", "format", "minimum", "maximum", "minItems", "maxItems", "pattern")


def to_json_schema(described: dict[str, Any], *, variables: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of what BFCL describes; a type that JSON does not have, such as `any`, allows everything.

    An object whose properties are listed takes no others, as BFCL counts an unexpected argument as wrong. An `enum` of
    single values that stands at an array is meant for its items.

    Args:
        described: a function's `parameters`, or one of them.
        variables: whether an array or object may also be the name of a variable, as in Java and JavaScript.

    >>> to_json_schema({"type": "tuple", "items": {"type": "float"}}), to_json_schema({"type": "any"})
    ({'type': 'array', 'items': {'type': 'number'}}, {})
    """
    schema: dict[str, Any] = {}
    kind = _TYPES.get(str(described.get("type", "")).lower())
    if kind is not None:
        schema["type"] = kind
    schema |= {key: described[key] for key in _KEPT if key in described}
    properties = described.get("properties")
    if kind == "object" and isinstance(properties, dict):
        schema["properties"] = {name: _argument(part, variables) for name, part in properties.items()}
        schema["required"] = [name for name in described.get("required") or () if name in properties]
        schema["additionalProperties"] = False
    if kind == "array":
        items = described.get("items")
        schema["items"] = to_json_schema(items) if isinstance(items, dict) else {}
        _move_enum(schema)
    return schema


def _argument(described: Any, variables: bool) -> dict[str, Any]:
    if not isinstance(described, dict):
        return {}
    schema = to_json_schema(described)
    if variables and schema.get("type") in ("array", "object"):
        schema["type"] = [schema["type"], "string"]
    return schema


def _move_enum(schema: dict[str, Any]) -> None:
    values = schema.get("enum")
    if isinstance(values, list) and not any(isinstance(value, list) for value in values):
        del schema["enum"]
        schema["items"].setdefault("enum", values)
