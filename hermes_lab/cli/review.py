"""The command `review`: the approval queue of memories and skills, which only a person empties."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hermes_lab.cli import hints, review_text, show

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.proposals import Queue

F = TypeVar("F", bound=Callable[..., Any])
_LINES = "\n"


def signed_options(command: F) -> F:
    """Give a command the options `--by` (default: the login name) and `--reason`, which is asked for."""
    command = click.option("--reason", required=True, metavar="TEXT", help="Why; recorded.")(command)
    return click.option(
        "--by", default=_login, metavar="NAME", help="The person who decides; recorded. [default: your login name]"
    )(command)


def open_queue(lab_path: str | None) -> tuple[Lab, Queue]:
    """Return the lab and its queue.

    Raises:
        MissingError: there is no lab.
    """
    from hermes_lab import proposals
    from hermes_lab.lab import open_lab

    lab = open_lab(lab_path, create=False)
    return lab, proposals.open_queue(lab)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name
        return ""


@click.group(
    invoke_without_command=True, epilog='Example: hermes-lab review approve m-3f9a01c2d4 --reason "she said so"'
)
@click.pass_context
def review(context: click.Context) -> None:
    """Decide on memories and skills that were proposed; without a command, list what waits.

    Nothing that was proposed reaches a prompt before a person approves it. Every decision is an event with a name and
    a reason, and can be undone.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@review.command("list", epilog="Example: hermes-lab review list --all --json")
@click.option("--all", "all_", is_flag=True, help="Also what was decided already.")
@show.json_option
@click.pass_obj
def list_(lab_path: str | None, all_: bool = False, as_json: bool = False) -> None:
    """List the proposals that wait, oldest first."""
    from hermes_lab.proposals import check

    _, queue = open_queue(lab_path)
    found = queue.standing().proposals if all_ else queue.pending()
    if as_json:
        show.print_json([review_text.plain(one) for one in found])
        return
    rows = []
    for one in found:
        worries = [found.kind for found in one.conflicts] + ["look" for _ in check.concerns(one)]
        kind = str(one.memory.kind) if one.memory else "skill"
        first = one.text.strip().splitlines()[0] if one.memory and one.text.strip() else ""
        rows.append((one.id[-8:], one.outcome, kind, one.name, one.source, ", ".join(dict.fromkeys(worries)), first))
    if rows:
        show.print_table(["id", "state", "kind", "name", "source", "mind", "text"], rows)
        click.echo(f"Look closer: {hints.command(lab_path, 'review', 'show', rows[0][0])}", err=True)
    else:
        click.echo("nothing waits")
    _warn_of_refused(queue)


def _warn_of_refused(queue: Queue) -> None:
    refused = queue.refused()
    for one in refused[:5]:
        click.echo(
            f"counts for nothing: {one.action} {show.visible(one.name or '')} ({one.id}): {one.reason}", err=True
        )
    if len(refused) > len(refused[:5]):
        click.echo(f"... and {len(refused) - 5} more such events", err=True)


@review.command("show", epilog="Example: hermes-lab review show 3f9a01c2")
@click.argument("id_", metavar="ID")
@show.json_option
@click.pass_obj
def show_(lab_path: str | None, id_: str, as_json: bool) -> None:
    """Show a proposal: as a diff, with its evidence, what it is in conflict with, and what to mind.

    ID is the end of an id that `review list` shows, a whole one, a memory's id, or a skill's name.
    """
    from hermes_lab.proposals import check, deciding

    _, queue = open_queue(lab_path)
    proposal = queue.find(id_)
    standing = queue.standing()
    found = deciding.find_conflicts(standing, proposal, proposal.text, None)
    worries = check.concerns(proposal)
    evidence = [line for line in queue.audit(proposal.id) if line.what == "evidence"]
    removed = review_text.removed(standing, proposal)
    if as_json:
        plain = review_text.plain(proposal)
        plain |= {"evidence": [line._asdict() for line in evidence], "concerns": worries, "removed_lines": removed}
        plain |= {"conflicts": [{**one._asdict(), "kind": str(one.kind)} for one in found]}
        show.print_json(plain)
        return
    review_text.head(proposal)
    for line in review_text.diff(standing, proposal):
        click.echo(show.visible(line))
    if removed:
        click.echo(f"takes away {len(removed)} lines of the standing text:")
        for line in removed:
            click.echo(f"  - {show.visible(line)}")
    for event in evidence:
        click.echo(f"evidence  {event.ts:%Y-%m-%d %H:%M}  {show.visible(event.detail)}")
    if not evidence:
        click.echo(f"evidence  none: {proposal.source}")
    for conflict in found:
        click.echo(f"{conflict.kind} {show.visible(conflict.other)} ({conflict.why}):")
        click.echo(f"  new: {show.visible(conflict.texts[0])}")
        click.echo(f"  old: {show.visible(conflict.texts[1])}")
    for worry in worries:
        click.echo(f"mind: {show.visible(worry)}")


@review.command(epilog='Example: hermes-lab review approve 3f9a01c2 --reason "seen in three episodes"')
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--imports", is_flag=True, help="Approve all imports that wait, but for what needs a look.")
@click.option("--replace", multiple=True, metavar="MEMORY", help="A memory that this one takes the place of.")
@click.option("--keep-both", is_flag=True, help="Leave what it contradicts or repeats as it is.")
@signed_options
@show.json_option
@click.pass_obj
def approve(
    lab_path: str | None,
    ids: tuple[str, ...],
    imports: bool,
    replace: tuple[str, ...],
    keep_both: bool,
    by: str,
    reason: str,
    as_json: bool,
) -> int:
    """Approve proposals: from now on they are active."""
    if bool(ids) == imports:
        raise click.UsageError("give either ids or --imports")
    _, queue = open_queue(lab_path)
    if imports:
        return _approve_imports(queue, by, reason, as_json)
    made = [
        {"proposal": id_, "decision": queue.approve(id_, by=by, reason=reason, replaces=replace, keep_both=keep_both)}
        for id_ in ids
    ]
    _say(made, as_json, "approved", lab_path)
    return 0


def _approve_imports(queue: Queue, by: str, reason: str, as_json: bool) -> int:
    approved, left = queue.approve_imports(by=by, reason=reason)
    if as_json:
        show.print_json({"approved": approved, "left": [one._asdict() for one in left]})
        return 0
    click.echo(f"approved {len(approved)}, left {len(left)} to be looked at")
    for one in left:
        click.echo(f"  {one.proposal[-8:]} {show.visible(one.name)}: {show.visible(one.reason, keep=_LINES)}")
    return 0


@review.command(epilog='Example: hermes-lab review reject 3f9a01c2 --reason "true of one customer only"')
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@signed_options
@show.json_option
@click.pass_obj
def reject(lab_path: str | None, ids: tuple[str, ...], by: str, reason: str, as_json: bool) -> None:
    """Reject proposals; the same is not proposed again."""
    _, queue = open_queue(lab_path)
    made = [{"proposal": id_, "decision": queue.reject(id_, by=by, reason=reason)} for id_ in ids]
    _say(made, as_json, "rejected", lab_path)


@review.command(epilog='Example: hermes-lab review edit 3f9a01c2 --text "Reply in Chinese." --reason "shorter"')
@click.argument("id_", metavar="ID")
@click.option("--text", metavar="TEXT", help="The new text, instead of an editor.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file with the new text.")
@click.option("--replace", multiple=True, metavar="MEMORY", help="A memory that this one takes the place of.")
@click.option("--keep-both", is_flag=True, help="Leave what it contradicts or repeats as it is.")
@signed_options
@show.json_option
@click.pass_obj
def edit(
    lab_path: str | None,
    id_: str,
    text: str | None,
    file: Path | None,
    replace: tuple[str, ...],
    keep_both: bool,
    by: str,
    reason: str,
    as_json: bool,
) -> None:
    """Change a proposal's text, and approve it so; both texts stay in the log."""
    _, queue = open_queue(lab_path)
    proposal = queue.find(id_)
    if text is not None and file is not None:
        raise click.UsageError("give either --text or --file")
    edited = file.read_text("utf-8") if file else text
    if edited is None:
        edited = click.edit(proposal.text, extension=".md")
        if edited is None:
            raise click.ClickException("nothing was changed, so nothing was decided")
    if proposal.memory is not None:
        edited = edited.strip()
    decision = queue.approve(proposal.id, by=by, reason=reason, edited=edited, replaces=replace, keep_both=keep_both)
    _say([{"proposal": proposal.id, "decision": decision}], as_json, "approved as edited", lab_path)


@review.command(epilog='Example: hermes-lab review undo 7c2b44e1 --reason "wrong customer"')
@click.argument("id_", metavar="DECISION")
@signed_options
@show.json_option
@click.pass_obj
def undo(lab_path: str | None, id_: str, by: str, reason: str, as_json: bool) -> None:
    """Undo a decision or a retraction; what was proposed waits again."""
    _, queue = open_queue(lab_path)
    event = queue.undo(id_, by=by, reason=reason)
    if as_json:
        show.print_json({"decision": id_, "undone_by": event})
    else:
        click.echo(f"undone: {id_}")


@review.command(epilog="Example: hermes-lab review audit m-3f9a01c2d4")
@click.argument("id_", metavar="ID")
@show.json_option
@click.pass_obj
def audit(lab_path: str | None, id_: str, as_json: bool) -> None:
    """Say who did what to a memory, skill or proposal, when, why and on what evidence."""
    _, queue = open_queue(lab_path)
    lines = queue.audit(id_)
    if as_json:
        show.print_json([line._asdict() for line in lines])
        return
    for line in lines:
        who = f" by {line.by}" if line.by else ""
        why = f" ({line.reason})" if line.reason else ""
        click.echo(f"{line.ts:%Y-%m-%d %H:%M:%S}  {show.visible(f'{line.what}{who}: {line.detail}{why}')}")


def _say(made: list[dict[str, str]], as_json: bool, what: str, lab_path: str | None) -> None:
    if as_json:
        show.print_json(made)
        return
    for one in made:
        click.echo(f"{what}: {one['proposal']}; to undo: {hints.command(lab_path, 'review', 'undo', one['decision'])}")
