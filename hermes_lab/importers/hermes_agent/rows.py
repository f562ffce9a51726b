"""Reads one row of hermes-agent's messages, as it stands in the database or in an export.

Columns vary by version: those that are missing are unknown, those that are not known here are left alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hermes_lab.importers.hermes_agent.copies import CallMark, Mark
from hermes_lab.importers.hermes_agent.store import StoredRow
from hermes_lab.importers.reading.common import content_text, parse_json, read_arguments
from hermes_lab.importers.reading.values import digest, when

_JSON_CONTENT = "\x00json:"
_SUMMARY_START = re.compile(r"\s*\[CONTEXT (?:COMPACTION|SUMMARY)\b")
_SUMMARY_END = re.compile(r"---\s*END OF CONTEXT SUMMARY\b[^\n]*?---")
_PRIOR_START = re.compile(r"\s*\[PRIOR CONTEXT\b[^\]\n]*\]\s*")
_PRIOR_END = re.compile(r"\s*\[END OF PRIOR CONTEXT\b[^\]\n]*\]\s*")


class Call(NamedTuple):
    """A call as a row holds it.

    Attributes:
        ids: its ids; some providers give two.
        name: the tool, or None where the call cannot be read.
        arguments: a dict, text, or whatever stands there.
        raw: the whole entry, kept where it cannot be read.
    """

    ids: tuple[str, ...]
    name: str | None
    arguments: Any
    raw: Any


@dataclass(slots=True)
class Row:
    """One message: its decoded content and calls, its time, about how many characters it holds, all of its columns."""

    where: str
    role: str
    content: Any
    calls: list[Call]
    answers: str | None
    ts: dt.datetime | None
    size: int
    fields: Mapping[str, Any]

    def mark(self, session: int) -> Mark:
        """Return what is to be known of the row to tell what becomes of it."""
        rest = split_summary(self.content)
        flagged = bool(self.fields.get("_compressed_summary")) and not self.calls
        calls = tuple(CallMark(c.ids, digest(c.name, read_arguments(c.arguments).value)) for c in self.calls)
        return Mark(
            session,
            self.role,
            digest(self.role, self.content, self.answers, [c.raw for c in self.calls]),
            None if self.ts is None else self.ts.timestamp(),
            calls,
            self.answers,
            self.fields.get("active") not in (0, False, "0"),
            self.fields.get("compacted") in (1, True, "1"),
            rest is not None or flagged,
            None if rest is None or rest.message is None else digest(self.role, rest.message, None, []),
        )


class Parted(NamedTuple):
    """Content with a summary, parted from the message that it was merged with, if any."""

    summary: str
    message: str | None


def split_summary(content: object) -> Parted | None:
    """Return the summary that a message's content holds and the rest, None where it holds no summary."""
    text = content_text(content)
    if "CONTEXT" not in text:
        return None
    if (end := _PRIOR_END.search(text)) and _SUMMARY_START.match(text, end.end()):
        before = _PRIOR_START.sub("", text[: end.start()], count=1).strip()
        return Parted(text[end.end() :], before or None)
    if not _SUMMARY_START.match(text):
        return None
    if (end := _SUMMARY_END.search(text)) is None:
        return Parted(text, None)
    return Parted(text[: end.end()], text[end.end() :].strip() or None)


def has_role(fields: Mapping[str, Any]) -> bool:
    """Return whether the columns of a message say who speaks; without that it cannot be read."""
    return isinstance(fields.get("role"), str) and bool(fields["role"])


def read_row(stored: StoredRow, naive: dt.tzinfo) -> Row:
    """Return the row of a stored message, which must have a role."""
    fields = stored.fields
    role = str(fields["role"])
    answers = fields.get("tool_call_id")
    return Row(
        stored.where,
        role,
        decode_content(fields.get("content")),
        read_calls(fields.get("tool_calls")),
        str(answers) if role == "tool" and answers not in (None, "") else None,
        when(fields.get("timestamp"), naive),
        stored.size,
        fields,
    )


def decode_content(content: object) -> Any:
    """Return a message's content: text, or what stands behind a NUL and `json:` as JSON text."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "surrogateescape")
    if not isinstance(content, str) or not content.startswith(_JSON_CONTENT):
        return content
    try:
        return parse_json(content.removeprefix(_JSON_CONTENT))
    except ValueError:
        return content


def read_calls(calls: object) -> list[Call]:
    """Return the calls of a row: a list, or JSON text of one; what cannot be read gets no name."""
    if calls in (None, "", [], {}):
        return []
    entries: object = calls
    try:
        for _ in range(2):  # old versions encoded the text twice
            entries = parse_json(entries) if isinstance(entries, str | bytes) else entries
    except ValueError:
        return [Call((), None, None, calls if isinstance(calls, str) else repr(calls))]
    if entries is None:
        return []
    return [_read_call(entry) for entry in (entries if isinstance(entries, list) else [entries])]


def _read_call(entry: object) -> Call:
    if not isinstance(entry, dict):
        return Call((), None, None, entry)
    function = entry.get("function")
    function = function if isinstance(function, dict) else entry
    found = (entry.get("id"), entry.get("call_id"))
    ids = tuple(dict.fromkeys(str(i) for i in found if isinstance(i, str | int) and i != ""))
    name = function.get("name")
    return Call(ids, name if isinstance(name, str) and name else None, function.get("arguments"), entry)
