"""Rows that an import could not take, kept in a file with their reasons, so that nothing is lost silently."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.importers.base import SetAside
from hermes_lab.log import Log
from hermes_lab.log.redact import Redactor

_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


class Aside:
    """The file of rows that could not be imported: one a source, written anew by each import of it.

    Attributes:
        count: rows that were set aside.
        first: where the first one stands and why it was, in brackets; "" for none.
        file: where they are, once the `with` block has ended; None where there are none.
    """

    def __init__(self, log: Log, source: Path, redactor: Redactor) -> None:
        name = hashlib.sha256(str(source.absolute()).encode(errors="surrogateescape")).hexdigest()[:16]
        self._path = log.layout.rejected / f"import-{name}.jsonl"
        self._temporary = self._path.with_suffix(".tmp")
        self._redactor = redactor
        self._file: Any = None
        self.count = 0
        self.first = ""
        self.file: Path | None = None

    def __enter__(self) -> Aside:
        """Begin; the file is made with its first row."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Put the file in place of that of the last import of this source, if there is one."""
        if self._file is None:
            return
        self._file.close()
        os.replace(self._temporary, self._path)
        self.file = self._path

    def add(self, row: SetAside) -> None:
        """Write a row, without its secrets."""
        if self._file is None:
            self._path.parent.mkdir(exist_ok=True)
            self._file = open(self._temporary, "wb")  # noqa: SIM115 - closed by __exit__
            self.first = f"({row.where}: {row.reason})"
        self.count += 1
        texts = {name: payload.store_text(self._clean(text)) for name, text in row._asdict().items()}
        self._file.write(msgspec.json.encode(texts) + b"\n")

    def _clean(self, text: str) -> str:
        """Return `text` without secrets, also where a broken line spells one with escapes for letters."""
        spelled = _UNICODE_ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)
        clean = self._redactor.text(spelled)
        return self._redactor.text(text) if clean == spelled else clean
