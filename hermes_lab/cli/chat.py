"""The command `chat`: talk with the agent on the terminal; every turn is recorded."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

import click

from hermes_lab.cli import hints, settings, show

if TYPE_CHECKING:
    from hermes_lab.conversation import Conversation

_HELP = "/good and /bad rate the last answer (a note may follow), /why shows what led to it, /quit ends."
_NEWLINE = "\n"


@click.command(epilog="Example: hermes-lab chat --set routing.shortlist=3")
@click.option("--suite", default="desk", show_default=True, help="Whose tools the agent may use.")
@settings.config_options
@click.pass_obj
def chat(lab_path: str | None, /, suite: str, config: str | None, changes: tuple[str, ...]) -> int:
    """Talk with the agent; in a pipe, each line of standard input is said to it.

    /good, /bad, /why and /quit are commands. Ctrl-C stops an answer that takes too long; Ctrl-D, or Ctrl-C while
    nothing is being answered, ends the conversation. Calls that need a person are asked about here.
    """
    from hermes_lab import runs
    from hermes_lab.approvers import Terminal
    from hermes_lab.lab import open_lab

    _prepare_input()
    lab = open_lab(lab_path)
    chosen = settings.changed_config(runs.load_config(lab.path, config), changes)
    with lab.converse(suite, config=chosen, channel="terminal", approver=Terminal()) as talk:
        click.echo(f"conversation {talk.conversation_id}; {_HELP}", err=True)
        code = _converse(talk)
        if talk.exchanges:
            query = (
                f"select step, action, name, status, observation from events where run_id = '{talk.conversation_id}'"
            )
            click.echo(f"What happened: {hints.command(lab_path, 'sql', query)}", err=True)
    proposed = sum(len(one.memories) + len(one.skills) for one in talk.learning.learned)
    if proposed:
        click.echo(f"Proposed to be kept, for you to decide: {hints.command(lab_path, 'review', 'list')}", err=True)
    return code


def _prepare_input() -> None:
    """Let bytes that are no UTF-8 come in as U+FFFD, and lines be edited where a person types them."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):  # not every Python has it
            import readline  # noqa: F401 - `input` uses it once it is there


def _converse(talk: Conversation) -> int:
    """Take lines until the end; return the code of an error that no answer followed."""
    code = 0
    while True:
        line = _next_line()
        if line is None or line == "/quit":
            return code
        if line.startswith("/"):
            _command(talk, line)
        elif line:
            code = _say(talk, line)


def _next_line() -> str | None:
    """Return what the user typed, without blanks around it; None at the end of the input."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.strip() if line else None
    try:
        return input("> ").strip()
    except EOFError:
        click.echo()
        return None


def _command(talk: Conversation, line: str) -> None:
    from hermes_lab.errors import MissingError

    word, _, rest = line.partition(" ")
    try:
        if word in ("/good", "/bad"):
            talk.feedback("like" if word == "/good" else "dislike", rest.strip())
            click.echo("noted", err=True)
        elif word == "/why":
            show.print_table(["step", "action", "name", "status", "what was seen"], talk.why())
        else:
            click.echo(_HELP, err=True)
    except MissingError as error:  # nothing was said yet
        click.echo(str(error), err=True)


def _say(talk: Conversation, line: str) -> int:
    """Say a line and print the answer; a model that cannot be used is told, so that it can be mended meanwhile."""
    from hermes_lab.errors import ConfigError, MissingError

    try:
        click.echo(show.visible(talk.ask(line).text, keep=_NEWLINE))
    except (ConfigError, MissingError) as error:
        click.echo(f"error: {show.visible(str(error), keep=_NEWLINE)}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        if not sys.stdin.isatty():
            raise
        click.echo("\nstopped; /quit or Ctrl-D ends the conversation", err=True)
    return 0
