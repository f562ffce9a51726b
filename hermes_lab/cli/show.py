"""Printing for people and for programs: tables, CSV, JSON, and text that cannot play tricks on a terminal."""

from __future__ import annotations

import csv
import json
import math
import shutil
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
    columns = _distinct(columns)
    click.echo("[", nl=False)
    separator = "\n"
    for row in rows:
        click.echo(separator + json.dumps(_plain(dict(zip(columns, row, strict=True))), ensure_ascii=False), nl=False)
        separator = ",\n"
    click.echo("\n]")


def _distinct(columns: Sequence[str]) -> list[str]:
    """Return the names with a number where one comes again: an object holds each name once."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV; null is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(visible, columns))
    for row in rows:
        writer.writerow(["" if value is None else visible(_text(value), keep="\n\t") for value in row])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table; on a terminal long cells are cut, and rows that do not fit at all are printed one by one.

    Into a pipe nothing is cut.
    """
    from rich.cells import cell_len

    rows = list(rows)
    columns = [visible(column) for column in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    natural = [max(cell_len(text) for text in texts) for texts in zip(columns, *cells, strict=True)]
    if not sys.stdout.isatty():
        _print_lines(columns, cells, natural, numeric)
        return
    width = shutil.get_terminal_size().columns
    room = width - len(_GAP) * (len(columns) - 1)
    if sum(min(length, _LEAST_WIDTH) for length in natural) > room:
        _print_records(columns, cells, width)
    else:
        _print_lines(columns, cells, _fit(natural, room), numeric)


_GAP = "  "
_LEAST_WIDTH = 10  # cells; a table whose columns cannot even have that is printed record by record


def _fit(natural: list[int], room: int) -> list[int]:
    """Return widths that fit into `room`: the short columns stay whole, the long ones share what is left.

    >>> _fit([3, 5, 400, 200, 8], 80)
    [3, 5, 32, 32, 8]
    """
    widths = [0] * len(natural)
    by_length = sorted(range(len(natural)), key=natural.__getitem__)
    for done, column in enumerate(by_length):
        widths[column] = min(natural[column], room // (len(natural) - done))
        room -= widths[column]
    return widths


def _print_lines(columns: Sequence[str], cells: list[list[str]], widths: list[int], numeric: list[bool]) -> None:
    from rich.cells import cell_len, set_cell_size

    def line(texts: Sequence[str]) -> str:
        padded = []
        for text, width, right in zip(texts, widths, numeric, strict=True):
            if cell_len(text) > width:
                padded.append(set_cell_size(text, width - 1) + "…")
            else:
                padded.append(" " * (width - cell_len(text)) + text if right else set_cell_size(text, width))
        return _GAP.join(padded).rstrip()

    click.echo(line(columns))
    click.echo(_GAP.join("─" * width for width in widths))
    for row in cells:
        click.echo(line(row))


def _print_records(columns: Sequence[str], cells: list[list[str]], width: int) -> None:
    from rich.cells import cell_len, set_cell_size

    label = max(map(cell_len, columns))
    for number, row in enumerate(cells, start=1):
        click.echo(f"── row {number} ".ljust(min(width, 40), "─"))
        for column, text in zip(columns, row, strict=True):
            shown = f"{set_cell_size(column, label)}  {text}".rstrip()
            click.echo(shown if cell_len(shown) <= width else set_cell_size(shown, width - 1) + "…")


def visible(text: str, keep: str = "") -> str:
    r"""Return `text` with control characters spelled out (but those in `keep`), for a log may hold anything.

    >>> visible("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c in keep or unicodedata.category(c) not in _INVISIBLE else c.encode("unicode_escape").decode()
        for c in text
    )


_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


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
