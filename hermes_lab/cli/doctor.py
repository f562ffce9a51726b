"""The command `doctor`: what is wrong with this installation or lab, why, and what to do."""

from __future__ import annotations

import click

from hermes_lab.cli import show


@click.command(epilog="Example: hermes-lab doctor --json")
@show.json_option
@click.pass_obj
def doctor(lab_path: str | None, as_json: bool) -> int:
    """Look for known troubles and say what to do about each; exits with 1 when there is one."""
    from hermes_lab.doctor import examine

    checks = examine(lab_path)
    if as_json:
        show.print_json([check._asdict() for check in checks])
    else:
        show.print_table(["check", "state", "what was found"], [(c.name, c.state, c.found) for c in checks])
        for check in checks:
            if check.remedy:
                click.echo(f"{check.name}: {check.remedy}")
    return 1 if any(check.state == "trouble" for check in checks) else 0
