"""The command line: `hermes-lab COMMAND`. Thin: every command opens a lab, calls it and prints what came back."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from hermes_lab.cli import (
    chat,
    compare,
    config,
    doctor,
    evaluate,
    grade,
    log,
    memory,
    models,
    record,
    replay,
    review,
    run,
    show,
    skills,
    suite,
    tools,
)
from hermes_lab.errors import HermesLabError

NEWLINE = "\n"

_EPILOG = """
\b
Example:
  hermes-lab run desk --limit 24
  hermes-lab chat
  hermes-lab import ~/.hermes
  hermes-lab sql "select action, name, sum(weight) from events group by 1, 2"

\b
Exit codes: 0 fine; 1 a check found a problem (verify, doctor); 2-5 belong to
reports; 64 wrong usage; 65 bad data or SQL, nothing found; 66 no such file, lab
or id; 70 a fault of ours; 74 the disk did not take it; 75 busy, try again;
77 not permitted; 78 a wrong lab.toml or a lab of a newer hermes-lab; 130 stopped.
"""


@click.group(epilog=_EPILOG, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--lab", metavar="DIR", help="The lab's folder [default: $HERMES_LAB_HOME, else data/lab].")
@click.version_option(package_name="hermes-lab")
@click.pass_context
def cli(context: click.Context, lab: str | None) -> None:
    """See what an agent really did, let it improve, and be certain that it did not get worse."""
    context.obj = lab
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (
    run.run,
    chat.chat,
    evaluate.evaluate,
    compare.compare,
    replay.replay,
    config.config,
    grade.grade,
    suite.suite,
    tools.tools,
    models.models,
    memory.memory,
    review.review,
    skills.skills,
    record.import_,
    record.sql,
    log.log,
    doctor.doctor,
):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code; the entry point `hermes-lab`."""
    # A terminal that cannot show a character gets its code, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = cli.main(arguments, prog_name="hermes-lab", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        if "--lab" in error.message:
            click.echo("Put --lab before the command: hermes-lab --lab DIR sql ...", err=True)
        return 64
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; what was recorded so far is kept", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except HermesLabError as error:
        click.echo(f"error: {show.visible(str(error), keep=NEWLINE)}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has had enough. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        from hermes_lab.log import files

        found = files.explain(error, "this command")
        click.echo(f"error: {show.visible(str(found), keep=NEWLINE)}", err=True)
        return found.exit_code
    return result if isinstance(result, int) else 0
