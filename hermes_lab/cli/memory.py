"""The command `memory`: what the agent remembers, what it was, and what past tasks came to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from hermes_lab.cli import hints, show
from hermes_lab.cli.review import open_queue, signed_options


@click.group(epilog='Example: hermes-lab memory search "refund" --outcome diverged')
def memory() -> None:
    """Look at what the agent remembers; what is new goes through `review`."""


@memory.command("list", epilog="Example: hermes-lab memory list --all")
@click.option("--all", "all_", is_flag=True, help="Also those that are not active.")
@click.option("--retest", is_flag=True, help="Only expired lessons that something is broken: try those tools again.")
@show.json_option
@click.pass_obj
def list_(lab_path: str | None, all_: bool, retest: bool, as_json: bool) -> None:
    """List the memories that are active."""
    import msgspec

    from hermes_lab.memory import State, for_retest

    _, queue = open_queue(lab_path)
    records = queue.standing().memories
    found = for_retest(records) if retest else [one for one in records if all_ or one.state is State.ACTIVE]
    if as_json:
        show.print_json([msgspec.to_builtins(one) for one in found])
        return
    if not found:
        click.echo("no memories")
        return
    rows = [
        (
            one.id,
            one.state,
            one.kind,
            one.scope,
            "yes" if one.pinned else "",
            f"{one.expires:%Y-%m-%d}" if one.expires else "",
            one.text,
        )
        for one in found
    ]
    show.print_table(["id", "state", "kind", "scope", "pinned", "expires", "text"], rows)


@memory.command("show", epilog="Example: hermes-lab memory show m-3f9a01c2d4")
@click.argument("id_", metavar="ID")
@show.json_option
@click.pass_obj
def show_(lab_path: str | None, id_: str, as_json: bool) -> None:
    """Show one memory with its story: who did what, when, why and on what evidence."""
    import msgspec

    from hermes_lab.errors import MissingError

    _, queue = open_queue(lab_path)
    found = next((one for one in queue.standing().memories if one.id == id_), None)
    if found is None:
        raise MissingError(f"there is no memory {id_!r}: `{hints.command(lab_path, 'memory', 'list', '--all')}`")
    plain: dict[str, Any] = msgspec.to_builtins(found)
    story = queue.audit(id_)
    if as_json:
        show.print_json({**plain, "audit": [line._asdict() for line in story]})
        return
    for name, value in plain.items():
        if value not in (None, [], ()):
            text = ", ".join(value) if isinstance(value, list | tuple) else str(value)
            click.echo(f"{name:15} {show.visible(text)}")
    for line in story:
        who = f" by {line.by}" if line.by else ""
        why = f" ({line.reason})" if line.reason else ""
        click.echo(f"{line.ts:%Y-%m-%d %H:%M:%S}  {show.visible(f'{line.what}{who}: {line.detail}{why}')}")


@memory.command(epilog='Example: hermes-lab memory search "退款" --tool issue_refund')
@click.argument("words", nargs=-1)
@click.option("--type", "task_type", metavar="TYPE", help="Only tasks of this type.")
@click.option("--tool", metavar="NAME", help="Only tasks in which this tool was called.")
@click.option("--outcome", metavar="END", help="Only tasks that ended so, such as completed or diverged.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Tasks to show.")
@show.json_option
@click.pass_obj
def search(
    lab_path: str | None,
    words: tuple[str, ...],
    task_type: str | None,
    tool: str | None,
    outcome: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Search the records of finished tasks; without words, the newest come first."""
    from hermes_lab.lab import open_lab
    from hermes_lab.memory import search as task_records

    log = open_lab(lab_path, create=False).log
    found = task_records.search(log, " ".join(words), task_type=task_type, tool=tool, outcome=outcome, limit=limit)
    if as_json:
        show.print_json([one._asdict() for one in found])
        return
    if not found:
        click.echo("no finished task fits")
        return
    rows = [(one.ts.strftime("%Y-%m-%d %H:%M"), one.task_type, one.outcome, one.request, one.result) for one in found]
    show.print_table(["when", "type", "outcome", "request", "result"], rows)


@memory.command("import", epilog="Example: hermes-lab memory import ~/.hermes")
@click.argument("path", type=click.Path(path_type=Path, readable=False))
@show.json_option
@click.pass_obj
def import_(lab_path: str | None, path: Path, as_json: bool) -> None:
    """Propose what hermes-agent remembered: its MEMORY.md and USER.md, or a folder that holds them.

    Importing again adds nothing. Nothing is active before a person approves it.
    """
    from hermes_lab import proposals
    from hermes_lab.lab import open_lab
    from hermes_lab.log.redact import Redactor
    from hermes_lab.proposals import memory_files

    lab = open_lab(lab_path)
    done = memory_files.import_memories(
        lab.log, proposals.open_queue(lab), path.expanduser(), redactor=Redactor(os.environ)
    )
    if as_json:
        show.print_json({**done._asdict(), "set_aside": [one._asdict() for one in done.set_aside]})
        return
    click.echo(f"proposed {len(done.proposed)}, known already {done.known}, set aside {len(done.set_aside)}")
    for one in done.set_aside:
        click.echo(f"  {show.visible(one.where)}: {show.visible(one.reason)}")
    if done.proposed:
        click.echo(f"Now decide: {hints.command(lab_path, 'review', 'approve', '--imports', '--reason', '...')}")


@memory.command(epilog='Example: hermes-lab memory retract m-3f9a01c2d4 --reason "no longer true"')
@click.argument("id_", metavar="ID")
@signed_options
@show.json_option
@click.pass_obj
def retract(lab_path: str | None, id_: str, by: str, reason: str, as_json: bool) -> None:
    """Take an active memory back; `review undo` brings it back."""
    _, queue = open_queue(lab_path)
    event = queue.retract(id_, by=by, reason=reason)
    if as_json:
        show.print_json({"memory": id_, "retraction": event})
    else:
        click.echo(f"retracted {id_}; to undo: {hints.command(lab_path, 'review', 'undo', event)}")


@memory.command(epilog='Example: hermes-lab memory pin m-3f9a01c2d4 --reason "must never be missed"')
@click.argument("id_", metavar="ID")
@click.option("--off", is_flag=True, help="Unpin it.")
@signed_options
@show.json_option
@click.pass_obj
def pin(lab_path: str | None, id_: str, off: bool, by: str, reason: str, as_json: bool) -> None:
    """Pin a memory, so that it stands whole in every prompt of its scope."""
    _, queue = open_queue(lab_path)
    decision = queue.pin(id_, by=by, reason=reason, pinned=not off)
    if as_json:
        show.print_json({"memory": id_, "pinned": not off, "decision": decision})
    else:
        done = "unpinned" if off else "pinned"
        click.echo(f"{done} {id_}; to undo: {hints.command(lab_path, 'review', 'undo', decision)}")
