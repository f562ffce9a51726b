"""The commands about skills: `skills list`, `show`, `match`, `check`, `import`, `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import hints, show

if TYPE_CHECKING:
    from hermes_lab.importers.base import SetAside
    from hermes_lab.skills.library import Library
    from hermes_lab.skills.skill import Skill

_NEWLINE = "\n"
_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), help="Of the skills in this folder, instead of the lab's."
)


@click.group(epilog='Example: hermes-lab skills match "帮我写周报"')
def skills() -> None:
    """Look at the skills that were approved, check them, and bring others in for approval."""


def _standing(lab_path: str | None) -> Library:
    from hermes_lab.lab import open_lab
    from hermes_lab.skills.library import standing

    return standing(open_lab(lab_path, create=False).log)


def _library(lab_path: str | None, folder: Path | None) -> tuple[Library, tuple[SetAside, ...]]:
    """Return the skills of the lab, or of a folder with what could not be read of it."""
    if folder is None:
        return _standing(lab_path), ()
    from hermes_lab.skills.folders import read_folder
    from hermes_lab.skills.library import Library

    read = read_folder(folder.expanduser())
    return Library(one.skill for one in read.found), read.set_aside


def _say_aside(set_aside: tuple[SetAside, ...]) -> None:
    for one in set_aside:
        click.echo(f"set aside: {show.visible(one.where)}: {show.visible(one.reason)}", err=True)


@skills.command("list", epilog="Example: hermes-lab skills list --folder ~/.hermes/skills")
@_folder_option
@show.json_option
@click.pass_obj
def list_(lab_path: str | None, folder: Path | None, as_json: bool) -> None:
    """List the skills, what they are for, and how long they are."""
    from hermes_lab.compress import estimate_tokens

    library, set_aside = _library(lab_path, folder)
    rows = [(one.name, estimate_tokens(one.body), ", ".join(one.tags), one.description) for one in library]
    columns = ["skill", "tokens", "tags", "description"]
    if as_json:
        show.print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show.print_table(columns, rows)
    _say_aside(set_aside)


@skills.command("show", epilog="Example: hermes-lab skills show order-refund")
@click.argument("name")
@_folder_option
@show.json_option
@click.pass_obj
def show_(lab_path: str | None, name: str, folder: Path | None, as_json: bool) -> None:
    """Print a skill: its SKILL.md as it stands, or all that is known of it with --json."""
    from hermes_lab.errors import MissingError

    library, _ = _library(lab_path, folder)
    skill = library.get(name)
    if skill is None:
        listing = hints.command(lab_path, "skills", "list", *(["--folder", folder] if folder else []))
        raise MissingError(f"there is no skill {name!r}: see `{listing}`")
    if as_json:
        show.print_json(_record(skill))
    else:
        click.echo(show.visible(skill.text, keep="\n\t").rstrip(_NEWLINE))


def _record(skill: Skill) -> dict[str, Any]:
    return {**skill._asdict(), "needs": skill.needs._asdict()}


@skills.command(epilog='Example: hermes-lab skills match "where is my parcel?"')
@click.argument("query")
@click.option("--limit", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--type", "task_type", metavar="TYPE", help="The type of the task.")
@_folder_option
@show.json_option
@click.pass_obj
def match(
    lab_path: str | None, query: str, limit: int, task_type: str | None, folder: Path | None, as_json: bool
) -> None:
    """Say which skills a query triggers, and by which words."""
    from hermes_lab.skills.library import trigger_of
    from hermes_lab.skills.triggers import weigh, words

    library, _ = _library(lab_path, folder)
    asked = words(query)
    rows = []
    for skill, score in library.triggered(query, task_type, limit):
        held = weigh(trigger_of(skill), library.index.weights)
        rows.append((skill.name, round(score, 3), [word for word in asked if word in held]))
    if as_json:
        show.print_json([{"skill": name, "score": score, "words": shared} for name, score, shared in rows])
    elif rows:
        show.print_table(["skill", "score", "words"], [(name, score, " ".join(shared)) for name, score, shared in rows])
    else:
        click.echo(f"none of {len(library)} skills is triggered")


@skills.command(epilog="Example: hermes-lab skills check ~/.hermes/skills")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--suite", default="desk", show_default=True, help="Whose tools there are.")
@show.json_option
@click.pass_obj
def check(lab_path: str | None, folder: Path | None, suite: str, as_json: bool) -> int:
    """Look for troubles in a library, the lab's or a folder's, and say what to do; exits with 1 at a problem.

    Where there is a lab, the queries in its log show which skills are never triggered.
    """
    from hermes_lab.errors import MissingError
    from hermes_lab.lab import default_path, open_lab
    from hermes_lab.skills import checks
    from hermes_lab.suites.registry import open_suite

    library, set_aside = _library(lab_path, folder)
    tools = open_suite(suite, default_path(lab_path).absolute()).toolbox()
    try:
        queries = checks.recorded_queries(open_lab(lab_path, create=False).log)
    except MissingError:
        queries = None
    found = checks.check(library, tools=tools, queries=queries)
    if as_json:
        aside = [one._asdict() for one in set_aside]
        show.print_json({"skills": len(library), "findings": [one._asdict() for one in found], "set_aside": aside})
    else:
        for one in found:
            about = "".join(f"{name}: " for name in one.skills[:1])
            click.echo(show.visible(f"{one.severity}: {one.kind}: {about}{one.what}"))
            click.echo(f"    why: {show.visible(one.why)}")
            click.echo(f"    do: {show.visible(one.remedy)}")
            if one.where is not None:
                click.echo(f"    in: {show.visible(one.where)}")
        _say_aside(set_aside)
        click.echo(f"{len(library)} skills, {len(found)} findings, {len(set_aside)} set aside")
    return 1 if set_aside or any(one.severity == "problem" for one in found) else 0


@skills.command("import", epilog="Example: hermes-lab skills import ~/.hermes")
@click.argument("path", type=click.Path(path_type=Path, readable=False))
@show.json_option
@click.pass_obj
def import_(lab_path: str | None, path: Path, as_json: bool) -> None:
    """Propose the skills of a folder; nothing is written before a person approves.

    PATH is a ~/.hermes, its folder of skills, any other folder with skills, or one SKILL.md.
    """
    import os

    from hermes_lab.lab import open_lab
    from hermes_lab.log.redact import Redactor
    from hermes_lab.proposals import open_queue
    from hermes_lab.skills.importing import import_skills

    lab = open_lab(lab_path)
    done = import_skills(lab.log, open_queue(lab), path.expanduser(), redactor=Redactor(os.environ))
    if as_json:
        show.print_json({**done._asdict(), "set_aside": [one._asdict() for one in done.set_aside]})
        return
    click.echo(f"proposed {len(done.proposed)} skills; {done.known} known already; {len(done.set_aside)} set aside")
    _say_aside(done.set_aside)
    if done.proposed:
        click.echo(f"Now: {hints.command(lab_path, 'review')}")


@skills.command(epilog="Example: hermes-lab skills export ../skills")
@click.argument("folder", type=click.Path(path_type=Path))
@show.json_option
@click.pass_obj
def export(lab_path: str | None, folder: Path, as_json: bool) -> None:
    """Write the approved skills as a new folder, NAME/SKILL.md each; an earlier export is replaced."""
    from hermes_lab.skills import folders

    count = folders.export(_standing(lab_path), folder.expanduser())
    if as_json:
        show.print_json({"folder": str(folder), "skills": count})
    else:
        click.echo(f"wrote {count} skills to {folder}")
