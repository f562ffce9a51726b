"""Printing for people and for programs: tables, CSV, JSON, and text that cannot play tricks on a terminal."""

from __future__ import annotations

import csv
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from hermes_lab import payload

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Give a command the option `--json` (parameter `as_json`)."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def print_json(value: object) -> None:
    """Print one JSON document; NaN and infinities, which JSON has not, become null."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def print_json_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a JSON array of objects, one a line, as they come."""
    click.echo("[", nl=False)
    separator = "\n"
    for row in rows:
        click.echo(separator + json.dumps(_plain(dict(zip(columns, row, strict=True))), ensure_ascii=False), nl=False)
        separator = ",\n"
    click.echo("\n]")


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV; null is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if value is None else visible(_text(value), keep="\n\t\r") for value in row])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table that fits the terminal; into a pipe it is as wide as it needs to be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(column), justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    terminal = sys.stdout.isatty()
    Console(width=None if terminal else 10_000, highlight=False, soft_wrap=not terminal).print(table)


def visible(text: str, keep: str = "") -> str:
    r"""Return `text` with control characters spelled out (but those in `keep`), for a log may hold anything.

    >>> visible("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c in keep or unicodedata.category(c)[0] != "C" else c.encode("unicode_escape").decode() for c in text
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return visible(_text(value))


def _text(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(_plain(value), ensure_ascii=False)
        if isinstance(value, dict | list)
        else str(value)
    )


def _plain(value: Any) -> Any:
    """Return `value` as what JSON can hold."""
    if isinstance(value, str):
        return visible_surrogates(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)


def visible_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates, which it cannot, stay in the form that the log holds."""
    return payload.store_text(text) if any("\ud800" <= c <= "\udfff" for c in text) else text
