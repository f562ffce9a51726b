"""The command `evaluate`: the scores of a lab's versions, and what stands behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hermes_lab.cli import hints, show

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(command: F) -> F:
    """Give a command the options `versions`, `runs`, `suite` and `since`, which choose episodes, and `scoring`."""
    for option in (
        click.option("--scoring", metavar="FILE", help="Weights and thresholds  [default: the lab's scoring.toml]."),
        click.option("--since", metavar="TIME", help="Only episodes that began then or later, such as 2026-11-30."),
        click.option("--suite", help="Only runs of this suite."),
        click.option("--run", "runs", metavar="RUN", multiple=True, help="Only this run; may be given again."),
        click.option("--version", "versions", metavar="VERSION", multiple=True, help="Only this configuration."),
    ):
        command = option(command)
    return command


def selected(versions: tuple[str, ...], runs: tuple[str, ...], suite: str | None, since: str | None) -> Any:
    """Return what `selection_options` chose as a `scored.Selection`.

    Raises:
        click.UsageError: a time that is none.
    """
    import datetime as dt

    from hermes_lab.scored import Selection

    time = None
    if since is not None:
        try:
            time = dt.datetime.fromisoformat(since)
        except ValueError as error:
            raise click.UsageError(f"--since {since}: {error}; write 2026-11-30 or 2026-11-30T08:00+08:00") from None
        time = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return Selection(versions=versions or None, runs=runs or None, suite=suite, since=time)


@click.command(epilog="Example: hermes-lab evaluate --suite desk --by type")
@selection_options
@click.option("--baseline", type=click.Choice(["frozen", "recent"]), help="Cost baseline  [default: frozen, if any].")
@click.option(
    "--by",
    type=click.Choice(["version", "type", "difficulty", "proofs", "gaming"]),
    default="version",
    show_default=True,
    help="What to show a row for.",
)
@click.option("--freeze", "frozen_by", metavar="NAME", help="Freeze the cost baseline and scores, in your name.")
@show.json_option
@click.pass_obj
def evaluate(
    lab_path: str | None,
    /,
    baseline: str | None,
    by: str,
    frozen_by: str | None,
    scoring: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Score what the agent did: one composite a version, with the dimensions and the cost that it is made of.

    Episodes that ended in an error, a time-out, a denial or without a grade count like any other, and are shown.
    """
    from hermes_lab import evaluator
    from hermes_lab.lab import open_lab

    lab = open_lab(lab_path, create=False)
    selection = selected(**chosen)
    if frozen_by is not None:
        frozen = evaluator.freeze_baseline(lab, selection, by=frozen_by, scoring=scoring)
        click.echo(f"the baseline is {frozen.source}", err=True)
    found = evaluator.evaluate(lab, selection, scoring=scoring, baseline=baseline)
    difficulties = evaluator.by_difficulty(lab, selection, scoring=scoring) if by == "difficulty" else None
    if as_json:
        extra = {} if difficulties is None else {"difficulties": evaluator.records(difficulties)}
        show.print_json(found.to_dict() | extra)
        return
    frame = {"version": found.versions, "type": found.types, "proofs": found.proofs, "gaming": found.gaming}.get(
        by, difficulties
    )
    _print(frame, _COLUMNS[by])
    click.echo(f"scored by {found.scoring.version}; cost baseline: {found.baseline.source}")
    for line in _notes(found, by):
        click.echo(line)
    if by == "version" and len(found.versions) > 1:
        names = [str(name) for name in found.versions["config_version"][-2:]]
        click.echo(f"Is the last one better? {hints.command(lab_path, 'compare', *names)}")


_SCORES = ["composite", "base", "penalty", "completion", "effectiveness", "safety", "feedback", "tokens", "seconds"]
_COLUMNS = {
    "version": ["config_version", "episodes", *_SCORES, "unscored", "errors", "timeouts", "denied_ends", "unfinished"],
    "type": ["config_version", "task_type", "episodes", *_SCORES, "r", "unscored", "errors", "timeouts", "denied_ends"],
    "difficulty": [
        "config_version",
        "difficulty",
        "episodes",
        "completion",
        "base",
        "effectiveness",
        "safety",
        "tokens",
    ],
    "proofs": ["config_version", "episodes", "first_attempt_success", "turns_to_success", "known_error_share"],
    "gaming": [
        "config_version",
        "episodes",
        "completion",
        "tokens",
        "tokens_a_success",
        "searches",
        "ineffective_share",
        "no_call_share",
        "refusal_share",
    ],
}


def _print(frame: Any, columns: list[str]) -> None:
    from hermes_lab.evaluator import records

    rows = [[_figure(row.get(column)) for column in columns] for row in records(frame)]
    show.print_table([column.replace("_", " ") for column in columns], rows)


def _figure(value: Any) -> Any:
    """Return a value as the table shows it: what is unknown says so."""
    if value is None:
        return "unknown"
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _notes(found: Any, by: str) -> list[str]:
    """Return what a reader must know besides: unknown composites and why, what is left out, signs of gaming."""
    notes = []
    for row in found.versions.itertuples():
        if len(row.unknown_types):
            types = ", ".join(str(name) for name in row.unknown_types)
            notes.append(f"{row.config_version}: no success to take a cost baseline from, so no composite: {types}")
        if row.at_work + row.left_out:
            notes.append(
                f"{row.config_version}: not counted: {row.at_work:.0f} episodes at work, "
                f"{row.left_out:.0f} cancelled or made again"
            )
    for row in found.gaming.itertuples() if by in ("version", "gaming") else ():
        signs = [
            text
            for flag, text in (
                (row.is_bought, "completion rose with its cost: bought?"),
                (row.is_spraying, "more searches, and more of them in vain: spraying?"),
                (row.is_over_cautious, "more episodes without any call, and no better for it: over-cautious?"),
            )
            if flag
        ]
        notes += [f"{row.config_version}: {sign}" for sign in signs]
    return notes
