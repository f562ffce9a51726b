"""How a proposal is shown on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import show

if TYPE_CHECKING:
    from hermes_lab.proposals.standing import Standing
    from hermes_lab.proposals.steps import Proposal


def head(one: Proposal) -> None:
    """Print what a proposal is, where it comes from, and what became of it."""
    what = f"{one.memory.kind} for {one.memory.scope}" if one.memory else "skill"
    click.echo(f"{show.visible(one.name)}  {show.visible(what)}  from {one.source}, {one.ts:%Y-%m-%d %H:%M} UTC")
    click.echo(f"proposal {one.id}: {one.outcome}")
    if one.config_version:
        click.echo(f"learned under {show.visible(one.config_version)}")
    if one.decision:
        made = one.decision
        click.echo(f"decision {made.id} by {show.visible(made.by)}: {show.visible(made.reason)}")


def diff(standing: Standing, one: Proposal) -> list[str]:
    """Return a proposal as a diff against what it edits, or against nothing."""
    from hermes_lab.proposals import check

    old = ""
    if one.skill is not None and one.name in standing.skills and one.outcome == "pending":
        old = standing.skills[one.name].text
    return check.diff(old, one.approved_text, "as it stands" if old else "nothing", one.name)


def removed(standing: Standing, one: Proposal) -> list[str]:
    """Return the lines that an edit of a standing skill takes away."""
    from hermes_lab.proposals import check

    stands = standing.skills.get(one.name) if one.skill is not None and one.outcome == "pending" else None
    return check.removed_lines(stands.text, one.text) if stands else []


def plain(one: Proposal) -> dict[str, Any]:
    """Return a proposal as what JSON can hold."""
    import msgspec

    return {
        "proposal": one.id,
        "ts": one.ts,
        "state": str(one.outcome),
        "kind": str(one.memory.kind) if one.memory else "skill",
        "name": one.name,
        "source": str(one.source),
        "config_version": one.config_version,
        "run_id": one.run_id,
        "evidence": list(one.evidence),
        "text": one.text,
        "memory": msgspec.to_builtins(one.memory) if one.memory else None,
        "files": dict(one.skill.files) if one.skill else None,
        "conflicts": [found._asdict() for found in one.conflicts],
        "decision": one.decision._asdict() if one.decision else None,
    }
