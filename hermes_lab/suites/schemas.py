"""Works out JSON Schemas from values that were seen, where nobody says what a tool takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

_MAX_DEPTH = 8


def inferred(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a schema of type object that accepts each of `examples`; what stood in all of them is required.

    >>> inferred([{"city": "杭州", "days": 2}, {"city": "Oslo"}])["required"]
    ['city']
    """
    if not examples:
        return {"type": "object", "properties": {}, "required": []}
    return reduce(joined, [_schema_of(example, 0) for example in examples])


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts what either of two inferred schemas accepts.

    >>> joined({"type": "integer"}, {"type": "string"}), joined({"type": "integer"}, {"type": "number"})
    ({'type': ['integer', 'string']}, {'type': 'number'})
    """
    if not one or not other:
        return {}
    kinds = sorted(_kinds(one) | _kinds(other))
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    both = [part for part in (one, other) if "properties" in part]
    if both:
        schema["properties"] = _joined_properties(both)
        schema["required"] = [name for name in both[0]["required"] if name in both[-1]["required"]]
    items = [part["items"] for part in (one, other) if "items" in part]
    if items:
        schema["items"] = reduce(joined, items)
    return schema


def _joined_properties(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for part in objects:
        for name, schema in part["properties"].items():
            properties[name] = joined(properties[name], schema) if name in properties else schema
    return properties


def _kinds(schema: dict[str, Any]) -> set[str]:
    kind = schema["type"]
    return {kind} if isinstance(kind, str) else set(kind)


def _schema_of(value: Any, depth: int) -> dict[str, Any]:
    """Return the schema of one value; below a certain depth anything goes."""
    if depth > _MAX_DEPTH:
        return {}
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case dict():
            properties = {name: _schema_of(item, depth + 1) for name, item in value.items()}
            return {"type": "object", "properties": properties, "required": list(value)}
        case list():
            items = [_schema_of(item, depth + 1) for item in value]
            return {"type": "array", "items": reduce(joined, items)} if items else {"type": "array"}
        case _:
            return {"type": "null"} if value is None else {}
