"""The command `replay`: take recorded episodes through their own or another configuration, without asking a model."""

from __future__ import annotations

from typing import Any

import click

from hermes_lab.cli import hints, settings, show

_MOST_SHOWN = 10


@click.command(epilog="Example: hermes-lab replay --set routing.shortlist=1")
@settings.config_options
@click.option("--run", metavar="RUN", help="Only the episodes of this run.")
@click.option("--where", metavar="SQL", default="true", help="Only episodes with an event for which this holds.")
@click.option("--episode", "episodes", metavar="ID", multiple=True, help="Only this episode; may be given repeatedly.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many, the earliest.")
@click.option(
    "--after",
    type=click.Choice(["stop", "cached", "live"]),
    default="stop",
    show_default=True,
    help="After the first answer that the record does not hold: stop, take one from anywhere in the log, or ask.",
)
@click.option("--no-record", is_flag=True, help="Do not write what came of it to the log.")
@show.json_option
@click.pass_obj
def replay(
    lab_path: str | None,
    /,
    config: str | None,
    changes: tuple[str, ...],
    run: str | None,
    where: str,
    episodes: tuple[str, ...],
    limit: int | None,
    after: Any,
    no_record: bool,
    as_json: bool,
) -> int:
    """Replay recorded episodes, and say which decisions are kept, changed or unknown.

    Without --config and --set each episode is replayed under its own configuration: every effect must be the recorded
    one, and the exit code is 1 where one is not. Else the first decision that changes is found.
    """
    from hermes_lab import replay as replaying
    from hermes_lab import runs
    from hermes_lab.lab import open_lab

    lab = open_lab(lab_path, create=False)
    chosen = None
    if config is not None or changes:
        chosen = settings.changed_config(runs.load_config(lab.path, config), changes)
    made = replaying.replay(
        lab,
        where=where,
        run=run,
        episodes=episodes or None,
        limit=limit,
        config=chosen,
        after=after,
        record=not no_record,
    )
    if as_json:
        show.print_json({**made.to_dict(), "by_type": _records(made.by_type()), "episodes": _records(made.to_frame())})
    else:
        _say(made, lab_path, recorded=not no_record)
    return 1 if made.mismatches else 0


def _say(made: Any, lab_path: str | None, *, recorded: bool) -> None:
    click.echo(show.visible(str(made), keep="\n"))
    if made.own_configuration:
        for one in made.mismatches[3:_MOST_SHOWN]:
            click.echo(show.visible(str(one)))
    elif made.episodes:
        _say_types(made)
        _say_looks(made)
    reasons: dict[str, int] = {}
    for one in made.not_replayed:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    for reason, count in list(reasons.items())[:_MOST_SHOWN]:
        click.echo(f"not replayed, {count}: {show.visible(reason)}")
    for remark, count in made.to_dict()["remarks"].items():
        click.echo(f"note, {count} episodes: {show.visible(remark)}")
    if recorded:
        query = f"select name, observation from events where run_id = '{made.replay_id}'"
        click.echo(f"What was recorded of it: {hints.command(lab_path, 'sql', query)}")


def _say_types(made: Any) -> None:
    columns = ["task type", "episodes", "kept", "changed", "unknown", "if the model says the same: kept", "changed"]
    columns += ["tokens", "tokens, estimated", "USD"]
    rows = [
        (
            row["task_type"] or "(none)",
            row["episodes"],
            row["kept"],
            row["changed"],
            row["unknown"],
            row["assumed_kept"],
            row["assumed_changed"],
            row["tokens_delta"],
            row["tokens_estimate"],
            row["usd_delta"],
        )
        for row in _records(made.by_type())
    ]
    show.print_table(columns, rows)
    click.echo("tokens and USD: more or less than then, of the episodes where that is known")


def _say_looks(made: Any) -> None:
    looks = _records(made.worth_a_look(_MOST_SHOWN))
    if not looks:
        return
    click.echo("Worth a look:")
    columns = ["why", "episode", "task type", "assumed", "first change"]
    show.print_table(
        columns,
        [
            (row["why"], row["episode_id"], row["task_type"], "yes" if row["assumed"] else "", row["change"])
            for row in looks
        ],
    )


def _records(frame: Any) -> list[dict[str, Any]]:
    """Return a frame as plain rows; what is unknown is None."""
    return [
        {key: None if isinstance(value, float) and value != value else value for key, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]
