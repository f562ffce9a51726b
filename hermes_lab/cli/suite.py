"""The commands about suites of tasks: `suite list`, `show`, `import`, `from-log`, `confirm`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hermes_lab.cli import hints, show, suite_text
from hermes_lab.tasks import Split

_SPLITS = click.Choice([split.value for split in Split])


@click.group(epilog="Example: hermes-lab suite show desk")
def suite() -> None:
    """Look at suites of tasks, and bring others in."""


@suite.command("list", epilog="Example: hermes-lab suite list")
@show.json_option
@click.pass_obj
def list_(lab_path: str | None, as_json: bool) -> None:
    """List the suites, the built-in one and those of the lab, with how many tasks each split holds."""
    from hermes_lab.lab import default_path
    from hermes_lab.suites.registry import list_suites

    rows = list_suites(default_path(lab_path).absolute())
    if as_json:
        show.print_json([row._asdict() for row in rows])
        return
    columns = ["suite", "kind", "tasks", "splits", "to confirm", "about"]
    show.print_table(
        columns, [(r.name, r.kind, r.tasks, suite_text.sizes(r.splits), r.unconfirmed or None, r.note) for r in rows]
    )


@suite.command("show", epilog="Example: hermes-lab suite show desk --split traffic")
@click.argument("name")
@click.option("--split", type=_SPLITS, help="Only the tasks of this split.")
@click.option("--task", "task_id", metavar="ID", help="Show one task: its prompt, tools and grader.")
@show.json_option
@click.pass_obj
def show_(lab_path: str | None, name: str, split: str | None, task_id: str | None, as_json: bool) -> None:
    """Say what a suite holds: its task types, families and splits, or one task with its grader."""
    from hermes_lab.lab import default_path
    from hermes_lab.suites.registry import open_suite

    opened = open_suite(name, default_path(lab_path).absolute())
    chosen = suite_text.tasks_of(opened, split)
    if task_id is not None:
        suite_text.show_task(suite_text.found(chosen, task_id, name), as_json)
        return
    if as_json:
        about = {
            "suite": name,
            "tasks": len(chosen),
            "types": suite_text.types(chosen),
            "families": suite_text.families(chosen),
        }
        show.print_json({**about, "ids": [task.id for task in chosen], "to_confirm": suite_text.to_confirm(chosen)})
        return
    suite_text.show_suite(lab_path, name, chosen)


@suite.command("import", epilog="Example: hermes-lab suite import bfcl bfcl_eval.whl --category simple_python")
@click.argument("format_", metavar="FORMAT", type=click.Choice(["bfcl"]))
@click.argument("path", metavar="DIR", type=click.Path(path_type=Path, readable=False))
@click.option("--category", "categories", metavar="NAME", multiple=True, required=True, help="May be given repeatedly.")
@click.option("--name", metavar="NAME", help="Of the suite, which then holds all the categories  [default: bfcl-NAME]")
@click.option("--limit", type=click.IntRange(min=1), help="The first so many tasks of each category.")
@click.option("--seed", type=int, default=0, show_default=True, help="Divides the families into splits.")
@click.option("--replace", is_flag=True, help="Replace a suite of the same name.")
@show.json_option
@click.pass_obj
def import_(
    lab_path: str | None,
    /,
    format_: str,
    path: Path,
    categories: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Bring in a benchmark's own files: FORMAT is bfcl, DIR the wheel or folder of bfcl-eval.

    Categories: simple_python, multiple, parallel, irrelevance, live_simple and the others of a single turn.
    """
    del format_  # there is one so far, and `click.Choice` has refused any other
    from hermes_lab.lab import open_lab

    written = open_lab(lab_path).import_suite(path, categories, **options)
    if as_json:
        show.print_json([{"suite": one.name, **suite_text.counts(one.tasks())} for one in written])
        return
    for one in written:
        counts = suite_text.counts(one.tasks())
        click.echo(f"suite {one.name}: {counts['tasks']} tasks ({suite_text.sizes(counts['splits'])})")
    click.echo(f"Now: {hints.command(lab_path, 'run', written[0].name, '--limit', 20)}")


@suite.command("from-log", epilog="Example: hermes-lab suite from-log --where \"name = 'diverged'\" --name failures")
@click.option("--episode", "episodes", metavar="ID", multiple=True, help="This episode; may be given repeatedly.")
@click.option("--where", metavar="SQL", help="Episodes with an event for which this holds.")
@click.option("--name", default="from-log", show_default=True, help="Of the suite that the tasks are added to.")
@click.option("--split", type=_SPLITS, default=Split.REGRESSION.value, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many episodes.")
@show.json_option
@click.pass_obj
def from_log(
    lab_path: str | None,
    episodes: tuple[str, ...],
    where: str | None,
    name: str,
    split: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Make tasks of logged episodes, so that real failures enter a suite.

    Each is a draft with a proposed grader, which a person reads, mends and confirms; until then it is not run.
    """
    from hermes_lab.lab import open_lab

    if not episodes and where is None:
        raise click.UsageError("say which episodes: --episode ID, or --where with a condition over `events`")
    conditions = [f"({where})"] if where is not None else []
    if episodes:
        conditions.append(f"episode_id in ({', '.join('?' * len(episodes))})")
    lab = open_lab(lab_path, create=False)
    content, added = lab.suite_from_log(
        " and ".join(conditions), list(episodes), name=name, split=Split(split), limit=limit
    )
    if as_json:
        show.print_json({"suite": name, "added": added, "tasks": [suite_text.plain(task) for task in content.tasks]})
        return
    suite_text.show_drafts(lab_path, lab, name, content.tasks, added)


@suite.command(epilog="Example: hermes-lab suite confirm from-log log-01a2 log-77fe")
@click.argument("name")
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Every task that waits.")
@show.json_option
@click.pass_obj
def confirm(lab_path: str | None, name: str, ids: tuple[str, ...], all_: bool, as_json: bool) -> None:
    """Say that the graders of tasks are right, so that the tasks are run."""
    from hermes_lab.lab import open_lab

    if bool(ids) == all_:
        raise click.UsageError("name the tasks to confirm, or give --all")
    done = open_lab(lab_path, create=False).confirm_tasks(name, None if all_ else ids)
    if as_json:
        show.print_json({"suite": name, "confirmed": done})
    else:
        click.echo(f"confirmed {done} tasks of {name}")
