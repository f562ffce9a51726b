"""The commands of `config`: the history of the agent's configuration, version by version."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hermes_lab.cli import show

if TYPE_CHECKING:
    from hermes_lab.versions import Version, Versions

_FILE = click.Path(dir_okay=False, path_type=Path)
_BY = click.option("--by", default=getpass.getuser, show_default="the login name", help="Who lets it in.")


@click.group(epilog="Example: hermes-lab config diff v1.2 v1.3")
def config() -> None:
    """Look at the versions of the agent's configuration, and go back to one.

    They are a Git repository in the lab's folder `configs`; `git log` there shows the same.
    """


@config.command()
@show.json_option
@click.pass_obj
def log(lab_path: str | None, /, as_json: bool) -> None:
    """List the versions, the newest first: who, why, and with what scores."""
    found = _versions(lab_path).log()
    if as_json:
        show.print_json([_plain(one) for one in found])
        return
    if not found:
        click.echo("no version was committed yet: `hermes-lab config commit` makes v1.0")
        return
    rows = [
        (one.name, one.config, f"{one.ts:%Y-%m-%d %H:%M}", one.by, one.approver, _scores(one), _title(one))
        for one in found
    ]
    show.print_table(["version", "config", "when (UTC)", "proposed by", "approved by", "scores", "what"], rows)


@config.command(name="show")
@click.argument("version", default="latest")
@show.json_option
@click.pass_obj
def show_version(lab_path: str | None, /, version: str, as_json: bool) -> None:
    """Show one version: what it says about itself, and its file."""
    found = _versions(lab_path).show(version)
    if as_json:
        show.print_json({**_plain(found.version), "content": msgspec.json.decode(found.text)})
        return
    one = found.version
    click.echo(f"{one.name} ({one.config}), {one.ts:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(show.visible(one.message, keep="\n"))
    click.echo(f"proposed by {show.visible(one.by)}, approved by {show.visible(one.approver)}")
    for label, text in (("restores", one.restores), ("scores", _scores(one)), ("evidence", ", ".join(one.evidence))):
        if text:
            click.echo(f"{label}: {show.visible(text)}")
    click.echo(show.visible(found.text, keep="\n"), nl=False)


@config.command()
@click.argument("old")
@click.argument("new", default="latest")
@show.json_option
@click.pass_obj
def diff(lab_path: str | None, /, old: str, new: str, as_json: bool) -> None:
    """Say what is different between two versions: in words, and line by line."""
    found = _versions(lab_path).diff(old, new)
    if as_json:
        show.print_json({"old": old, "new": new, "changes": [one._asdict() for one in found.changes]})
        return
    click.echo(show.visible(found.words, keep="\n"))
    if found.text:
        click.echo(show.visible(found.text, keep="\n"))


@config.command()
@click.argument("file", metavar="FILE|VERSION")
@click.option("--message", "-m", required=True, help="What changed and why.")
@_BY
@click.pass_obj
def commit(lab_path: str | None, /, file: str, message: str, by: str) -> None:
    """Make a configuration of yours the next version: a TOML or JSON file, or one that ran (c-...).

    It is a version, and no more: what it is worth is for `evaluate` and `compare` to say.
    """
    from hermes_lab import runs

    versions = _versions(lab_path, create=True)
    last = versions.latest()
    chosen = runs.load_config(_folder(lab_path, create=True), file)
    made = versions.commit(chosen, parent=last.name if last else None, by=by, approver=by, message=message)
    click.echo(f"{made.name} ({made.config})")


@config.command()
@click.argument("version")
@click.option("--reason", required=True, help="Why.")
@_BY
@click.pass_obj
def rollback(lab_path: str | None, /, version: str, reason: str, by: str) -> None:
    """Bring an older version's content back, as a new version: nothing is taken out of the history."""
    made = _versions(lab_path).rollback(version, by=by, reason=reason)
    click.echo(f"{made.name} ({made.config}), which holds what {made.restores} holds")


@config.command()
@click.argument("file", type=_FILE)
@click.pass_obj
def export(lab_path: str | None, /, file: Path) -> None:
    """Write the whole history into one new file, a Git bundle."""
    count = _versions(lab_path).export(file)
    click.echo(f"wrote {count} versions to {file}")


@config.command(name="import")
@click.argument("file", type=_FILE)
@click.pass_obj
def import_history(lab_path: str | None, /, file: Path) -> None:
    """Add the versions of an exported file that this lab has not; another history is refused."""
    count = _versions(lab_path, create=True).import_(file)
    click.echo(f"added {count} versions")


def _versions(lab_path: str | None, *, create: bool = False) -> Versions:
    from hermes_lab.versions import Versions

    return Versions(_folder(lab_path, create=create))


def _folder(lab_path: str | None, *, create: bool) -> Path:
    from hermes_lab.lab import open_lab

    return open_lab(lab_path, create=create).path


def _plain(version: Version) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(version)
    return plain


def _title(version: Version) -> str:
    return version.message.split("\n", 1)[0]


def _scores(version: Version) -> str:
    return ", ".join(
        f"{name} {'unknown' if score is None else format(score, '.4g')}" for name, score in version.scores.items()
    )
