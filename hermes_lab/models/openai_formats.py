"""Remember which way of asking for a schema a server takes, so that each refusal is met once."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_lab.models.openai_payload import Format

_FIXED = {"json_schema": Format.JSON_SCHEMA, "json_object": Format.JSON_OBJECT, "prompt": Format.PROMPT}
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


class Formats:
    """What one server took and refused so far.

    A refusal of a way that never worked counts for the server; of one that worked before, only for that schema (some
    servers know fewer keywords of JSON Schema than others).

    >>> formats = Formats("auto")
    >>> formats.choose({}), formats.refused(Format.JSON_SCHEMA, {}), formats.choose({"type": "object"})
    (<Format.JSON_SCHEMA: 0>, True, <Format.JSON_OBJECT: 1>)
    """

    def __init__(self, wanted: str) -> None:
        """Start with the best way; where `wanted` is not "auto", it is the only one."""
        self._is_fixed = wanted != "auto"
        self._of_server = _FIXED.get(wanted, Format.JSON_SCHEMA)
        self._of_schema: dict[bytes, Format] = {}
        self._worked: set[Format] = set()

    def choose(self, schema: dict[str, Any] | None) -> Format:
        """Return how to ask for `schema` next."""
        if schema is None or not self._of_schema:
            return self._of_server
        return max(self._of_server, self._of_schema.get(_key(schema), self._of_server))

    def worked(self, form: Format) -> None:
        """Note that a schema asked for in this way gave JSON."""
        self._worked.add(form)

    def has_worked(self, form: Format) -> bool:
        """Return whether a schema asked for in this way ever gave JSON."""
        return form in self._worked

    def refused(self, form: Format, schema: dict[str, Any] | None) -> bool:
        """Note that the server refused this way; return whether there is another one to try."""
        if schema is None or self._is_fixed or form is Format.PROMPT:
            return False
        following = Format(form + 1)
        if form in self._worked:
            self._of_schema[_key(schema)] = following
        else:
            self._of_server = max(self._of_server, following)
        return True


def _key(schema: dict[str, Any]) -> bytes:
    try:
        return _encode(schema)
    except (RecursionError, TypeError, ValueError):
        return b""  # it cannot be sent either, which the caller finds out
