"""What the commands about suites print: a suite at a glance, one task with its grader, drafts made of the log."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import hints, show

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.suites.stored import StoredTask
    from hermes_lab.tasks import Task

_MOST_FAMILIES = 40
_MOST_SHOWN = 10
_SHORT = 100
_LONG = 400


def tasks_of(opened: Any, split: str | None) -> list[Task]:
    """Return the tasks of a suite, those that wait for a person too; None for every split."""
    from hermes_lab.suites.stored import StoredSuite

    return opened.tasks(split, unconfirmed=True) if isinstance(opened, StoredSuite) else opened.tasks(split)


def found(tasks: list[Task], task_id: str, name: str) -> Task:
    """Return the task of an id.

    Raises:
        MissingError: there is none; the message names those that come closest.
    """
    import difflib

    from hermes_lab.errors import MissingError

    for task in tasks:
        if task.id == task_id:
            return task
    ids = [task.id for task in tasks]
    close = difflib.get_close_matches(task_id, ids, n=3, cutoff=0.4) or ids[:3]
    raise MissingError(f"the suite {name!r} has no task {task_id!r}: there are {', '.join(close)} and others")


def show_suite(lab_path: str | None, name: str, tasks: list[Task]) -> None:
    """Print what a suite holds: its types, its families, and what waits for a person."""
    size = counts(tasks)
    click.echo(f"{name}: {size['tasks']} tasks ({sizes(size['splits'])})\n")
    columns = ["type", "tasks", "families", "splits", "difficulty", "Chinese", "tempting"]
    show.print_table(columns, [(kind, *row.values()) for kind, row in types(tasks).items()])
    known = families(tasks)
    click.echo()
    shown = [(one["id"], one["type"], one["split"], one["tasks"]) for one in known[:_MOST_FAMILIES]]
    show.print_table(["family", "type", "split", "tasks"], shown)
    if len(known) > _MOST_FAMILIES:
        click.echo(f"... {len(known) - _MOST_FAMILIES} more families; --json prints all")
    waiting = to_confirm(tasks)
    if waiting:
        click.echo(f"\n{len(waiting)} tasks wait for a person and are not run: {', '.join(waiting[:_MOST_SHOWN])}")
        click.echo(f"Read one: {hints.command(lab_path, 'suite', 'show', name, '--task', waiting[0])}")
    elif tasks:
        click.echo(f"\nRead one: {hints.command(lab_path, 'suite', 'show', name, '--task', tasks[0].id)}")


def show_task(task: Task, as_json: bool) -> None:
    """Print one task with its prompt, tools and grader."""
    values = plain(task)
    if as_json:
        show.print_json(values)
        return
    split = task.split.value if task.split else "none"
    for label, text in (
        ("task", task.id),
        ("family", task.family),
        ("type", f"{task.type}, difficulty {task.difficulty}, {task.language}, split {split}"),
        ("tools", ", ".join(task.tools) or "none"),
        ("ends with", "a final answer" if task.answer_by == "text" else "its first sound turn of calls"),
        ("environment", _shortened(json.dumps(values.get("environment", {}), ensure_ascii=False), _LONG)),
    ):
        click.echo(f"{label:12} {show.visible(text)}")
    if getattr(task, "confirmed", True) is False:
        click.echo(f"{'confirmed':12} no: it is not run before a person has confirmed it")
    for note in getattr(task, "notes", ()):
        click.echo(f"{'note':12} {show.visible(note)}")
    for exchange in task.history:
        click.echo(f"\nuser before: {show.visible(exchange.user, keep=chr(10))}")
        click.echo(f"agent before: {show.visible(exchange.agent, keep=chr(10))}")
    click.echo(f"\nprompt:\n{show.visible(task.prompt, keep=chr(10))}\n")
    click.echo(f"grader:\n{_grader_text(task)}")


def show_drafts(lab_path: str | None, lab: Lab, name: str, tasks: tuple[StoredTask, ...], added: int) -> None:
    """Print tasks that were made of logged episodes, each with the grader that is proposed."""
    click.echo(f"suite {name}: {added} new drafts of {len(tasks)} episodes")
    for task in tasks[:_MOST_SHOWN]:
        click.echo(f"\n{task.id} ({show.visible(task.type)}): {show.visible(_shortened(task.prompt, _SHORT))}")
        click.echo(f"proposed grader: {_grader_text(task)}")
        for note in task.notes:
            click.echo(f"note: {show.visible(note)}")
    if len(tasks) > _MOST_SHOWN:
        click.echo(f"\n... and {len(tasks) - _MOST_SHOWN} more; --json prints all")
    file = lab.path / "suites" / name / "tasks.jsonl"
    click.echo(f"\nMend the graders in {file}, then: {hints.command(lab_path, 'suite', 'confirm', name, tasks[0].id)}")


def _grader_text(task: Task) -> str:
    grader = plain(task).get("grader")
    if grader is None:
        return "none"
    return show.visible(json.dumps(grader, ensure_ascii=False, indent=2), keep="\n")


def plain(task: Task) -> dict[str, Any]:
    """Return a task as JSON values."""
    from hermes_lab import payload

    values: dict[str, Any] = payload.plain(task)
    return values


def counts(tasks: list[Task]) -> dict[str, Any]:
    """Return how many tasks there are, in all and in each split."""
    from hermes_lab.suites.splitting import split_sizes

    return {"tasks": len(tasks), "splits": split_sizes(tasks)}


def types(tasks: list[Task]) -> dict[str, dict[str, Any]]:
    """Return a row for each task type."""
    rows = {}
    for kind in sorted({task.type for task in tasks}):
        those = [task for task in tasks if task.type == kind]
        difficulty = sorted(Counter(task.difficulty for task in those).items())
        rows[kind] = {
            "tasks": len(those),
            "families": len({task.family for task in those}),
            "splits": sizes(counts(those)["splits"]),
            "difficulty": ", ".join(f"{number} x {level}" for level, number in difficulty),
            "chinese": sum(task.language == "zh" for task in those),
            "tempting": sum(task.tempting for task in those),
        }
    return rows


def families(tasks: list[Task]) -> list[dict[str, Any]]:
    """Return a row for each family of each type and split."""
    number_of = Counter((task.type, task.family, task.split.value if task.split else None) for task in tasks)
    keys = sorted(number_of, key=lambda key: (key[0], key[1], key[2] or ""))
    return [{"id": key[1], "type": key[0], "split": key[2], "tasks": number_of[key]} for key in keys]


def to_confirm(tasks: list[Task]) -> list[str]:
    """Return the ids of the tasks that wait for a person."""
    return [task.id for task in tasks if getattr(task, "confirmed", True) is False]


def sizes(splits: dict[str, int]) -> str:
    """Return the sizes of splits as text."""
    return ", ".join(f"{name} {number}" for name, number in splits.items())


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"
