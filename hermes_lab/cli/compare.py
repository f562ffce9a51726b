"""The command `compare`: whether a new version is better than an old one, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hermes_lab.cli import show


@click.command(epilog="Example: hermes-lab compare c-32e26f91f601 c-9a0b1c2d3e4f --html report.html")
@click.argument("old")
@click.argument("new")
@click.option(
    "--endpoint",
    type=click.Choice(["composite", "completion", "base"]),
    default="composite",
    show_default=True,
    help="What decides.",
)
@click.option("--suite", help="Only episodes of this suite.")
@click.option("--scoring", metavar="FILE", help="Weights and thresholds  [default: the lab's scoring.toml].")
@click.option("--baseline", type=click.Choice(["frozen", "recent"]), help="Cost baseline  [default: frozen, if any].")
@click.option("--level", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True, help="Of the intervals.")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a page, too.")
@show.json_option
@click.pass_obj
def compare(lab_path: str | None, /, old: str, new: str, html: Path | None, as_json: bool, **options: Any) -> None:
    """Compare the version or run NEW with OLD on the tasks that both did: a verdict with its interval.

    Tasks are paired by id and seed, and families of tasks are what chance is taken over. The verdict is better, worse,
    no difference shown, or too few to tell.
    """
    from hermes_lab.lab import open_lab

    found = open_lab(lab_path, create=False).compare(old, new, **options)
    if html is not None:
        found.save_html(html)
        click.echo(f"wrote {html}", err=True)
    if as_json:
        show.print_json(found.to_dict())
        return
    click.echo(show.visible(str(found), keep="\n"))
