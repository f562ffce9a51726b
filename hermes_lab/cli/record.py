"""The commands that bring logs in and query them: `import` and `sql`."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from hermes_lab.cli import show
from hermes_lab.errors import HermesLabError


def _list(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hermes_lab.importers import all_importers

        show.print_table(["format", "what it reads"], [(i.NAME, i.LABEL) for i in all_importers()])
        context.exit()


@click.command("import", epilog="Example: hermes-lab import ~/.hermes trajectory_samples.jsonl")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--format", "format_", metavar="NAME", help="The format, instead of a look at the file; `--list` names them."
)
@click.option(
    "--timezone", default="UTC", show_default=True, help="Zone of times that have none, such as Asia/Shanghai."
)
@click.option(
    "--list",
    "list_",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the formats.",
)
@show.json_option
@click.pass_obj
def import_(lab_path: str | None, paths: tuple[Path, ...], format_: str | None, timezone: str, as_json: bool) -> int:
    """Bring the logs of other agents into the lab.

    The format is found by looking at the file. Importing a file again adds only what is new in it. Rows that cannot be
    read are set aside with line and reason.
    """
    from hermes_lab.lab import open_lab

    zone = _zone(timezone)
    lab = open_lab(lab_path)
    done, code = [], 0
    for path in paths:
        try:
            with _progress(path) as advance:
                summary = lab.import_log(path, format=format_, naive_times=zone, advance=advance)
        except HermesLabError as error:
            click.echo(f"error: {show.visible(str(error), keep=chr(10))}", err=True)
            code = error.exit_code
            continue
        done.append(summary)
        if not as_json:
            _say_imported(summary)
    if as_json:
        show.print_json([summary._asdict() for summary in done])
    elif any(summary.imported for summary in done):
        lab_option = f"--lab {lab_path} " if lab_path else ""
        click.echo(f'Now ask: hermes-lab {lab_option}sql "select action, name, sum(weight) from events group by all"')
    return code


@click.command(
    epilog="Example: hermes-lab sql \"select name, sum(weight) from events where action = 'tool_called' group by 1\""
)
@click.argument("query")
@click.option("--format", "format_", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    help="Rows of a table to print; 0 prints all.",
)
@show.json_option
@click.pass_obj
def sql(lab_path: str | None, query: str, format_: str, limit: int, as_json: bool) -> None:
    """Query the log with SQL (DuckDB's); - reads the query from standard input.

    The views are `events` and `events_per_task`; `describe events` lists the columns. Count with sum(weight): an event
    can stand for several.
    """
    from hermes_lab.lab import open_lab
    from hermes_lab.log.query import rows

    if query == "-":
        query = sys.stdin.read()
    columns, found = rows(open_lab(lab_path, create=False).log.snapshot(), query)
    if as_json or format_ == "json":
        show.print_json_rows(columns, found)
    elif format_ == "csv":
        show.print_csv(columns, found)
    else:
        _print_some(columns, found, limit)


def _print_some(columns: list[str], rows: Iterator[tuple[Any, ...]], limit: int) -> None:
    shown = []
    for row in rows:
        shown.append(row)
        if limit and len(shown) == limit:
            break
    show.print_table(columns, shown)
    if next(rows, None) is not None:
        click.echo(f"... more than {limit} rows; --limit 0 prints all", err=True)


def _zone(name: str) -> dt.tzinfo:
    try:
        return dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(
            f"{name!r} is no time zone; give one such as Asia/Shanghai", param_hint="--timezone"
        ) from None


def _no_bar(_done: int, _total: int) -> None:
    """Show nothing."""


@contextlib.contextmanager
def _progress(path: Path) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield _no_bar
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(show.visible(path.name), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _say_imported(summary: Any) -> None:
    parts = [
        f"imported {summary.imported:,} events of {summary.episodes:,} episodes",
        f"skipped {summary.skipped:,} that were there",
    ]
    if summary.purged:
        parts.append(f"left out {summary.purged:,} that were purged")
    parts.append(f"set aside {summary.set_aside:,} rows")
    click.echo(f"{show.visible(summary.path)} ({summary.format}): {', '.join(parts)}; {summary.seconds:.1f} s")
    if summary.set_aside:
        click.echo(f"  the rows set aside and the reasons: {show.visible(summary.set_aside_file)}")
