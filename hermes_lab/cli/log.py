"""The commands that look after the log: `log status`, `verify`, `seal`, `compact`, `purge`, `export`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from hermes_lab.cli import show


@click.group(epilog="Example: hermes-lab log verify")
def log() -> None:
    """Look after the event log."""


def _open(lab_path: str | None) -> Any:
    from hermes_lab.lab import open_lab

    return open_lab(lab_path, create=False)


def _say(done: Any, as_json: bool, sentence: str) -> None:
    if as_json:
        show.print_json(done._asdict())
    else:
        click.echo(sentence)


@log.command(epilog="Example: hermes-lab log status --json")
@show.json_option
@click.pass_obj
def status(lab_path: str | None, as_json: bool) -> None:
    """Say how much is in the log and in what state."""
    values = _open(lab_path).log.status()
    if as_json:
        show.print_json(values)
        return
    for name, value in values.items():
        text = "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
        click.echo(f"{name.replace('_', ' '):15} {text}".rstrip())


@log.command(epilog="Example: hermes-lab log verify --expect 3f9a... (the head of an earlier check)")
@click.option("--expect", metavar="HEAD", help="The head of an earlier check; finds a chain whose end was cut off.")
@show.json_option
@click.pass_obj
def verify(lab_path: str | None, expect: str | None, as_json: bool) -> int:
    """Find every segment that was changed, lost or added; exits with 1 when there is one."""
    found = _open(lab_path).log.verify(expect_head=expect)
    if as_json:
        counts = {k: v for k, v in vars(found).items() if k not in ("problems", "notes")}
        show.print_json(
            {"ok": found.ok, **counts, "problems": [p._asdict() for p in found.problems], "notes": found.notes}
        )
        return 0 if found.ok else 1
    for problem in found.problems:
        click.echo(f"{problem.kind}: {show.visible(problem.where)}: {problem.what}")
    for note in found.notes:
        click.echo(f"note: {show.visible(note)}")
    verdict = "ok" if found.ok else f"{len(found.problems)} problems"
    click.echo(
        f"{verdict}: {found.segments} segments with {found.rows:,} events in {found.entries} entries, "
        f"{found.live_rows:,} events not sealed yet; head {found.head}"
    )
    return 0 if found.ok else 1


@log.command(epilog="Example: hermes-lab log seal")
@show.json_option
@click.pass_obj
def seal(lab_path: str | None, as_json: bool) -> None:
    """Turn the live files of finished or dead writers into Parquet now.

    It happens by itself when enough has gathered.
    """
    done = _open(lab_path).log.seal()
    _say(done, as_json, f"sealed {done.rows:,} events into {done.added:,} files" if done.added else "nothing to seal")


@log.command(epilog="Example: hermes-lab log compact")
@show.json_option
@click.pass_obj
def compact(lab_path: str | None, as_json: bool) -> None:
    """Merge small Parquet files into large ones."""
    done = _open(lab_path).log.compact()
    merged = f"merged {done.removed:,} files with {done.rows:,} events into {done.added:,}"
    _say(done, as_json, merged if done.removed else "nothing to merge: no day has two small files")


@log.command(epilog='Example: hermes-lab log purge --session s-17 --by "Li Wei" --reason "asked to be forgotten"')
@click.option("--task", metavar="ID", help="Remove every event of this task.")
@click.option("--session", metavar="ID", help="Remove every event of this session (episode).")
@click.option("--by", required=True, metavar="NAME", help="Who asks for it; recorded.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; recorded.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@show.json_option
@click.pass_obj
def purge(
    lab_path: str | None, task: str | None, session: str | None, by: str, reason: str, yes: bool, as_json: bool
) -> None:
    """Remove personal data for good: every event of a task or a session, with its payloads.

    The removal is recorded with a hash of the id, and later imports leave that id out.
    """
    if (task is None) == (session is None):
        raise click.UsageError("give either --task or --session")
    column, value = ("task_id", task) if task is not None else ("episode_id", session)
    lab = _open(lab_path)
    if not yes:
        [(count,)] = lab.log.sql(f"select count(*) from events where {column} = ?", [value]).fetchall()
        if count and not click.confirm(f"Remove {count:,} events with {column} {value!r} for good?", err=True):
            raise click.ClickException("nothing was purged")
    done = lab.purge(column, value, by=by, reason=reason)
    removed = f"removed {done.events:,} events, {done.payloads:,} long payloads and {done.set_aside:,} rows set aside"
    _say(done, as_json, removed)


@log.command(epilog="Example: hermes-lab log export ../for-ann --since 2026-11-01 --task order-17")
@click.argument("destination", metavar="DIR", type=click.Path())
@click.option("--task", multiple=True, metavar="ID", help="Only this task; may be given several times.")
@click.option("--session", multiple=True, metavar="ID", help="Only this session (episode); may be given several times.")
@click.option("--since", type=click.DateTime(), help="Only events at this time (UTC) or later.")
@click.option("--until", type=click.DateTime(), help="Only events before this time (UTC).")
@show.json_option
@click.pass_obj
def export(
    lab_path: str | None,
    destination: str,
    task: tuple[str, ...],
    session: tuple[str, ...],
    since: dt.datetime | None,
    until: dt.datetime | None,
    as_json: bool,
) -> None:
    """Write a new lab with the events, or a slice of them, to hand to somebody else.

    It has a manifest of its own: `hermes-lab --lab DIR log verify`.
    """
    conditions: list[tuple[str, list[Any]]] = []
    for column, ids in (("task_id", task), ("episode_id", session)):
        if ids:
            conditions.append((f"{column} in ({', '.join('?' * len(ids))})", list(ids)))
    for operator, time in ((">=", since), ("<", until)):
        if time is not None:
            conditions.append((f"ts {operator} ?", [time.replace(tzinfo=dt.UTC)]))
    where = " and ".join(condition for condition, _ in conditions) or "true"
    params = [value for _, values in conditions for value in values]
    done = _open(lab_path).export(destination, where, params)
    _say(done, as_json, f"exported {done.events:,} events and {done.payloads:,} long payloads to {destination}")
