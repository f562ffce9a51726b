"""Other people's logs: one module a format, found by looking at the file or by name.

To add a format, write a module as `base.Importer` says and name it in `FORMATS`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from hermes_lab.errors import ImportFormatError
from hermes_lab.importers.base import Importer
from hermes_lab.importers.driver import ImportSummary, import_with
from hermes_lab.log import Log

FORMATS = ("hermes_agent.state", "hermes_agent.sessions", "hermes_agent.sharegpt", "otlp.traces", "openai.chat")
"""Modules of this package, in the order in which they look at a file: the more telling formats first."""


def all_importers() -> list[Importer]:
    """Return every importer, in the order in which they look at a file."""
    return [cast(Importer, importlib.import_module(f"{__name__}.{module}")) for module in FORMATS]


def find(path: Path, format: str | None = None) -> Importer:
    """Return the importer of that name, or else the first one that recognises the file.

    Raises:
        ImportFormatError: there is no such name, or nobody recognises the file.
    """
    importers = all_importers()
    known = ", ".join(importer.NAME for importer in importers)
    if format is not None:
        for importer in importers:
            if format == importer.NAME:
                return importer
        raise ImportFormatError(f"there is no format {format!r}; the formats are {known}")
    for importer in importers:
        if importer.sniff(path):
            return importer
    raise ImportFormatError(
        f"{path} {_what_is_odd(path)}: it is in none of the formats that can be imported ({known}); "
        "if it is in one, give the format by its name"
    )


def _what_is_odd(path: Path) -> str:
    if path.is_dir():
        return "is a folder without hermes-agent's state.db; name the files in it"
    if not path.stat().st_size:
        return "is empty"
    return "was not recognised"


def import_file(log: Log, path: Path, *, format: str | None = None, **options: object) -> ImportSummary:
    """Import a file into a log; see `driver.import_with`, which takes the options.

    Raises:
        MissingError: there is no such file.
        ImportFormatError: nobody can read it, or nothing was found in it.
        BusyError: another import is running.
    """
    from hermes_lab.importers.driver import check_readable

    check_readable(path)
    return import_with(find(path, format), log, path, **options)  # type: ignore[arg-type]


__all__ = ["FORMATS", "ImportSummary", "all_importers", "find", "import_file"]
