"""Queries kept as files: one query a file, in the folder `sql` beside the module that runs it."""

from __future__ import annotations

import functools
import importlib.resources


@functools.cache
def read_sql(package: str, name: str) -> str:
    """Return the text of `sql/<name>.sql` in a package, named by its `__package__`."""
    return importlib.resources.files(package).joinpath("sql", f"{name}.sql").read_text("utf-8")
