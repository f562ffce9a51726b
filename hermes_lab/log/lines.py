"""Makes the lines of the log: events as JSON, secrets taken out, long payloads stored beside it under their hash.

Secrets are taken out of a line as late as may be, so that many lines can be searched at once; the writer calls `clean`
on all that it is about to write.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hermes_lab import events
from hermes_lab.events import Event
from hermes_lab.log import files, spill
from hermes_lab.log.layout import Layout
from hermes_lab.log.redact import Redactor


class LineMaker:
    """Makes lines for one writer. Thread-safe, since it changes nothing but files that are named by their content."""

    def __init__(self, layout: Layout, redactor: Redactor, spill_over: int) -> None:
        """Make lines for the log at `layout`; payloads of more bytes than `spill_over` go beside it."""
        self._layout = layout
        self._redactor = redactor
        self._spill_over = spill_over

    def make(self, event: Event, *, written_json: bool = False) -> bytes:
        """Return the line of `event`, its long payloads stored beside the log. Secrets may be in it still (`clean`).

        Args:
            event: to be written.
            written_json: whether `payload.dumps` made its `input` and `output`, so that they need no second look.

        Raises:
            EventError: the event is not one that the log takes.
            WriteError: the disk did not take a long payload.
        """
        event = _guard_stubs(event)
        line = events.encode(event, written_json=written_json)
        if len(line) <= self._spill_over:
            return line
        if self._redactor.suspects(line):  # what is spilled touches the disk here and now
            event = _redacted(event, self._redactor)
        with files.disk_errors("storing a long payload"):
            return events.encode(self._spilled(event))

    def clean(self, batch: Sequence[bytes]) -> bytes:
        """Return the lines of a batch as they go to the disk, secrets taken out.

        A whole batch is looked through at once, for half the price of line by line.
        """
        data = b"\n".join(batch) + b"\n"
        if not self._redactor.suspects(data):
            return data
        return b"".join(self._clean_line(line) + b"\n" for line in batch)

    def _clean_line(self, line: bytes) -> bytes:
        if not self._redactor.suspects(line):
            return line
        return events.encode(_redacted(events.decode(line), self._redactor))

    def _spilled(self, event: Event) -> Event:
        stubs = {}
        for column in events.PAYLOADS:
            text = getattr(event, column)
            if text is not None and len(text) > self._spill_over // len(events.PAYLOADS):
                self._layout.create_spill()
                stubs[column] = spill.store(self._layout.spill, text)
        return msgspec.structs.replace(event, **stubs) if stubs else event


def _guard_stubs(event: Event) -> Event:
    guarded = {}
    for column in events.PAYLOADS:
        text = getattr(event, column)
        if isinstance(text, str) and text.startswith('{"$'):
            safe = spill.guard(text)
            if safe != text and not (column in events.JSON_COLUMNS and text.startswith('{"$$')):
                guarded[column] = safe
    return msgspec.structs.replace(event, **guarded) if guarded else event


def _redacted(event: Event, redactor: Redactor) -> Event:
    changed = {}
    for column in event.__struct_fields__:
        text = getattr(event, column)
        if type(text) is str:
            clean = redactor.text(text)
            if clean is not text:
                changed[column] = clean
    return msgspec.structs.replace(event, **changed) if changed else event
