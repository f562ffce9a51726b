"""The command `run`: work on a suite's tasks, show progress, and sum up what became of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import click

from hermes_lab.cli import hints, settings, show
from hermes_lab.tasks import Split


@click.command(epilog="Example: hermes-lab run desk --limit 16")
@click.argument("suite", default="desk")
@click.option(
    "--split",
    type=click.Choice([*(split.value for split in Split), "all"]),
    help="Which tasks  [default: traffic; all of an imported suite]",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many tasks.")
@settings.config_options
@click.option("--seed", type=int, default=0, show_default=True, help="Draws tokens and fresh tasks.")
@click.option("--attempts", type=click.IntRange(min=1), default=1, show_default=True, help="Tries of each task.")
@click.option("--resume", metavar="RUN", help="Go on with a run that was stopped, given the same options.")
@click.option("--dry-run", is_flag=True, help="Only say what the run is expected to take.")
@click.option("--ask/--no-ask", default=False, help="Ask on the terminal where a call needs a person; else it is no.")
@show.json_option
@click.pass_obj
def run(
    lab_path: str | None,
    /,
    suite: str,
    config: str | None,
    changes: tuple[str, ...],
    dry_run: bool,
    ask: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Let the agent work on the tasks of SUITE, and record everything that it does.

    It says what the run is expected to take, then shows progress, then a table by task type. Ctrl-C stops it and keeps
    what was done; `--resume RUN` with the same options goes on.
    """
    from hermes_lab import runs
    from hermes_lab.approvers import Terminal, Unattended
    from hermes_lab.lab import open_lab

    lab = open_lab(lab_path)
    chosen = settings.changed_config(runs.load_config(lab.path, config), changes)
    plan = lab.plan(suite, config=chosen, **options)
    expected = plan.estimate()
    if dry_run:
        _say_estimate(expected, plan.done_before, as_json)
        return
    click.echo(f"run {plan.run_id}: {_estimate_text(expected)}", err=True)
    if plan.done_before:
        click.echo(_done_text(plan.done_before), err=True)
    try:
        with _progress(expected.episodes, quiet=as_json) as on_progress:
            done = plan.go(approver=Terminal() if ask else Unattended(), on_progress=on_progress)
    except KeyboardInterrupt:
        if runs.was_begun(lab, plan.run_id):
            given = {"config": config, "set": changes, **options, "ask": ask, "resume": plan.run_id}
            click.echo(f"to go on: {hints.command(lab_path, 'run', suite, *_given(given))}", err=True)
        raise
    frame = done.by_type()
    if as_json:
        show.print_json({"run_id": done.run_id, "config_version": done.config_version, "by_type": _records(frame)})
        return
    _say_result(frame, done.run_id, lab_path)


def _given(options: dict[str, Any]) -> list[Any]:
    """Return options as they are written on a command line; those that hold the default are left out."""
    words: list[Any] = []
    for name, value in options.items():
        if value is None or value is False or (name, value) in (("seed", 0), ("attempts", 1)):
            continue
        if value is True:
            words.append(f"--{name}")
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{name}", one]
    return words


def _estimate_text(expected: Any) -> str:
    money = "" if expected.usd is None else f", {expected.usd:.2f} USD"
    return (
        f"{expected.episodes} episodes, about {expected.model_calls:,} model calls, {expected.tokens:,} tokens, "
        f"{expected.minutes:.1f} minutes{money} ({expected.basis})"
    )


def _say_estimate(expected: Any, done_before: int, as_json: bool) -> None:
    if as_json:
        show.print_json({**expected._asdict(), "done_before": done_before})
        return
    click.echo(_estimate_text(expected))
    if done_before:
        click.echo(_done_text(done_before))


def _done_text(done_before: int) -> str:
    return f"{done_before} episodes are done already and are not run again"


@contextlib.contextmanager
def _progress(of: int, *, quiet: bool) -> Iterator[Callable[[Any], None] | None]:
    """Show a bar on a terminal, and a line every tenth of the way elsewhere; both on stderr."""
    if quiet:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(of)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("the model is loading", total=of)

        def advance(progress: Any) -> None:
            bar.update(task, completed=progress.done, description=_last(progress))

        yield advance


def _lines(of: int) -> Callable[[Any], None]:
    every = max(1, of // 10)

    def advance(progress: Any) -> None:
        if progress.done % every == 0 or progress.done == of:
            click.echo(f"{progress.done}/{of} episodes, {progress.seconds:.0f} s, {_last(progress)}", err=True)

    return advance


def _last(progress: Any) -> str:
    task, ending, grade = progress.last
    score = "" if grade is None or grade.score is None else f" {grade.score:g}"
    return f"{progress.model_calls:,} model calls, {progress.tokens:,} tokens; {task.type}: {ending.end}{score}"


def _say_result(frame: Any, run_id: str, lab_path: str | None) -> None:
    columns = ["task type", "episodes", "completion", "full marks", "calls", "tokens", "seconds", "not completed"]
    rows = [
        (
            row.task_type,
            row.episodes,
            _figure(row.completion, 3),
            row.full_marks,
            _figure(row.calls, 1),
            _figure(row.tokens, 0),
            _figure(row.seconds, 1),
            row.not_completed,
        )
        for row in frame.itertuples()
    ]
    show.print_table(columns, rows)
    click.echo("completion: mean grade; calls, tokens and seconds: means of an episode (it waits for its batch)")
    query = (
        f"select task_id, step, action, name, status, observation from events where run_id = '{run_id}' "
        "order by episode_id, step"
    )
    click.echo(f"What happened: {hints.command(lab_path, 'sql', query, '--limit', 40)}")


def _figure(value: Any, digits: int) -> str:
    return "" if value is None or value != value else f"{value:.{digits}f}"


def _records(frame: Any) -> list[dict[str, Any]]:
    return [{key: None if value != value else value for key, value in row.items()} for row in frame.to_dict("records")]
