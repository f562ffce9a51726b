"""The command `grade`: a person looks at a few percent of graded episodes, corrects grades, and sees the agreement."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import hints, show

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.review import Graded

_MOST_SHOWN = 2000


@click.command(epilog="Example: hermes-lab grade            (asks about each episode that was drawn)")
@click.option("--episode", metavar="ID", help="Correct the grade of this one.")
@click.option("--score", type=click.FloatRange(0, 1), help="With --episode: its grade, 0 to 1.")
@click.option("--note", default="", help="With --episode: why.")
@click.option("--by", help="Who grades  [default: the login name].")
@click.option("--share", type=click.FloatRange(0, 1), help="Share of episodes drawn  [default: the scoring's, 5%].")
@click.option("--list", "only_list", is_flag=True, help="Only list the episodes that were drawn.")
@click.option("--agreement", "only_agreement", is_flag=True, help="Only say how far people and graders agree.")
@show.json_option
@click.pass_obj
def grade(
    lab_path: str | None,
    /,
    episode: str | None,
    score: float | None,
    note: str,
    by: str | None,
    share: float | None,
    only_list: bool,
    only_agreement: bool,
    as_json: bool,
) -> None:
    """Grade episodes yourself: those that were drawn by chance, or one that is named.

    Your grade stands in place of the grader's. Agreement is reported from those drawn.
    """
    from hermes_lab import review
    from hermes_lab.lab import open_lab
    from hermes_lab.scoring import scoring_of

    lab = open_lab(lab_path, create=False)
    who = by or getpass.getuser()
    if episode is not None:
        if score is None:
            raise click.UsageError("--episode needs --score, from 0 to 1")
        review.correct(lab, episode, score, by=who, note=note)
        click.echo(f"{episode}: {score:g} by {who}")
        return
    if score is not None or note:
        raise click.UsageError("--score and --note go with --episode")
    drawn = [] if only_agreement else review.drawn(lab, scoring_of(lab.path).review_share if share is None else share)
    if only_list:
        _print_drawn(drawn, as_json, lab_path)
        return
    if not as_json:
        _ask_about(lab, drawn, who)
    _print_agreement(review.agreement(lab), as_json)


def _print_drawn(drawn: list[Graded], as_json: bool, lab_path: str | None) -> None:
    if as_json:
        show.print_json([one._asdict() for one in drawn])
        return
    show.print_table(
        ["episode", "task type", "grader", "grade"],
        [(one.episode_id, one.task_type or "", one.grader or "", one.grade) for one in drawn],
    )
    if drawn:
        words = ("grade", "--episode", drawn[0].episode_id, "--score", "1")
        click.echo(f"To grade one: {hints.command(lab_path, *words)}")


def _ask_about(lab: Lab, drawn: list[Graded], who: str) -> None:
    """Show each episode and take a grade; a blank line leaves one out, the end of the input ends it."""
    from hermes_lab import review

    for place, one in enumerate(drawn, start=1):
        click.echo(f"\n── {place} of {len(drawn)}: {one.task_type or ''} {one.episode_id} ".ljust(60, "─"))
        for line in _lines_of(lab, one.episode_id):
            click.echo(line)
        score = _asked_score()
        if score is None:
            continue
        review.correct(lab, one.episode_id, score, by=who, sampled=True)
        click.echo(f"(the grader {one.grader} gave {one.grade:g})")  # only now, so that it does not lead the person


def _lines_of(lab: Lab, episode_id: str) -> list[str]:
    """Return what an episode was asked and did, without its grade."""
    from hermes_lab.sql_files import read_sql

    prompt = "select input->>'$.task.prompt' from events where episode_id = ? and action = 'task_started'"
    asked = [row[0] for row in lab.log.sql(prompt, [episode_id]).fetchall() if row[0]]
    lines = [f"asked: {show.visible(text)[:_MOST_SHOWN]}" for text in asked]
    for _, action, name, status, seen in lab.log.sql(read_sql("hermes_lab", "episode_steps"), [episode_id]).fetchall():
        if action in ("tool_called", "code_executed", "retrieval", "tool_checked", "task_ended"):
            what = " ".join(str(part) for part in (action, name, status) if part)
            lines.append(f"{what}: {show.visible(str(seen or ''))[:_MOST_SHOWN]}")
    return lines


def _asked_score() -> float | None:
    while True:
        try:
            typed: Any = click.prompt("grade 0 to 1 (blank: leave out)", default="", show_default=False)
        except click.Abort:
            click.echo()
            raise
        if not typed.strip():
            return None
        try:
            score = float(typed)
        except ValueError:
            score = -1.0
        if 0 <= score <= 1:
            return score
        click.echo("a number from 0 to 1, such as 0.7", err=True)


def _print_agreement(found: list[Any], as_json: bool) -> None:
    if as_json:
        show.print_json({"agreement": [one._asdict() for one in found]})
        return
    if not found[-1].episodes:
        click.echo("nobody has graded an episode that was drawn yet, so there is no agreement to report")
        return
    show.print_table(
        ["grader", "episodes", "same grade", "share", "from", "to", "mean difference"],
        [
            (
                one.grader,
                one.episodes,
                one.same,
                *(round(x, 3) for x in (one.share, one.low, one.high)),
                round(one.mean_difference, 3),
            )
            for one in found
            if one.episodes
        ],
    )
    click.echo("share: of episodes drawn by chance that both gave the same grade, with its 95% interval (Wilson)")
