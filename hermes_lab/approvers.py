"""Who answers when a call needs to be allowed: nobody, a person at the terminal, or a function."""

from __future__ import annotations

import getpass
import json
import os
import select
import sys
import termios
import threading
import time
import unicodedata
from collections.abc import Callable
from typing import IO, Any, Protocol

from hermes_lab.effects import Decision, Permit
from hermes_lab.tools.limits import TimeLimitError, TooManyLeftError, call_within
from hermes_lab.tools.results import message

_SHOWN_CHARS = 4_000
_YES = {"y", "yes", "是"}


class Approver(Protocol):
    """Answers a `Permit`. It never raises: what goes wrong is a no. Thread-safe."""

    def decide(self, permit: Permit, *, deadline_s: float) -> Decision:
        """Return the answer; after `deadline_s` seconds it is no."""


class Unattended:
    """Says no, because nobody is there to ask."""

    def decide(self, permit: Permit, *, deadline_s: float) -> Decision:  # noqa: ARG002 - the protocol's
        """Return no."""
        return Decision(allowed=False, by="unattended", reason=f"nobody was there to ask about {permit.tool}")


class Callback:
    """Asks a function, which returns a `Decision`, or whether it is allowed.

    >>> approver = Callback(lambda permit: permit.tool == "refund", by="ada")
    >>> permit = Permit(tool="refund", arguments={}, level="high_risk", reason="")
    >>> approver.decide(permit, deadline_s=5.0).allowed
    True

    Args:
        function: called with the `Permit`, on a thread of its own.
        by: who answers, where it does not say.
    """

    def __init__(self, function: Callable[[Permit], Decision | bool], by: str = "callback") -> None:
        self._function = function
        self._by = by

    def decide(self, permit: Permit, *, deadline_s: float) -> Decision:
        """Return the function's answer; no where it fails, takes too long, or returns anything else."""
        try:
            answer: Any = call_within(deadline_s, lambda: self._function(permit))
        except TimeLimitError:
            return Decision(allowed=False, by=self._by, reason=f"no answer within {deadline_s:.3g} s")
        except TooManyLeftError:
            return Decision(allowed=False, by=self._by, reason="too many questions are waiting for an answer")
        except Exception as error:  # noqa: BLE001 - foreign code: its failure is a no, whatever it is
            return Decision(allowed=False, by=self._by, reason=f"{type(error).__name__}: {message(error)}")
        if isinstance(answer, Decision):
            return answer
        if not isinstance(answer, bool):
            return Decision(allowed=False, by=self._by, reason=f"the answer was a {type(answer).__name__}")
        return Decision(allowed=answer, by=self._by)


class Terminal:
    """Asks the person at the terminal, one question at a time.

    Args:
        stdin: where the answer is typed; it must be a terminal, else the answer is no. None for standard input.
        stdout: where the question is shown. None for standard error, so that a program's output stays clean.
        person: who answers; None for the name of the account.
    """

    def __init__(self, stdin: IO[str] | None = None, stdout: IO[str] | None = None, person: str | None = None) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._person = person or _account()
        self._lock = threading.Lock()

    def decide(self, permit: Permit, *, deadline_s: float) -> Decision:
        """Show the call, and return yes only for `y`, `yes` or `是` and Enter within `deadline_s` seconds."""
        deadline = time.monotonic() + deadline_s
        if not self._lock.acquire(timeout=max(0.0, min(deadline_s, threading.TIMEOUT_MAX))):
            return self._no(f"another question was open for {deadline_s:.3g} s")
        try:
            if time.monotonic() >= deadline:
                return self._no(f"another question was open for {deadline_s:.3g} s")
            return self._ask(permit, deadline, deadline_s)
        except (OSError, ValueError, termios.error) as error:  # closed, hung up, or no descriptor
            return self._no(f"the terminal cannot be used: {error}")
        finally:
            self._lock.release()

    def _ask(self, permit: Permit, deadline: float, deadline_s: float) -> Decision:
        stdin = self._stdin or sys.stdin
        stdout = self._stdout or sys.stderr
        if stdin is None or not stdin.isatty():
            return Decision(allowed=False, by="unattended", reason="standard input is no terminal")
        source = stdin.fileno()
        termios.tcflush(source, termios.TCIFLUSH)  # what was typed before the question is no answer to it
        stdout.write(question(permit))
        stdout.flush()
        line = _read_line(source, deadline)
        if line is None:
            stdout.write("\nno answer: no\n")
            stdout.flush()
            return self._no(f"no answer within {deadline_s:.3g} s")
        allowed = line.strip().lower() in _YES
        return Decision(allowed=allowed, by=self._person, reason="" if allowed else "the person said no")

    def _no(self, reason: str) -> Decision:
        return Decision(allowed=False, by=self._person, reason=reason)


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without a name
        return "person"


def _read_line(source: int, deadline: float) -> str | None:
    """Return a line typed at a terminal; "" at its end, None where the time runs out."""
    typed = b""
    while not typed.endswith(b"\n"):
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(source, 1024)
        if not part:
            return ""
        typed += part
    return typed.decode("utf-8", "replace")


def question(permit: Permit) -> str:
    r"""Return the text that asks about `permit`, with every character in it made visible.

    >>> permit = Permit(tool="send", arguments={"to": "a\u202eb"}, level="high_risk", reason="it sends")
    >>> question(permit).splitlines()[:2]
    ['The agent wants to call send (high_risk): it sends', '{"to": "a\\u202eb"}']
    """
    shown = visible(json.dumps(permit.arguments, ensure_ascii=False, default=str))
    if len(shown) > _SHOWN_CHARS:
        half = _SHOWN_CHARS // 2
        shown = f"{shown[:half]} [... {len(shown) - 2 * half} characters left out ...] {shown[-half:]}"
    title = f"The agent wants to call {visible(permit.tool)} ({visible(permit.level)}): {visible(permit.reason)}"
    return f"{title}\n{shown}\nAllow it? [y/N] "


def visible(text: str) -> str:
    r"""Return `text` with controls, line breaks and invisible or direction-changing characters as escapes.

    >>> visible("ok\x1b[2J")
    'ok\\x1b[2J'
    """
    return "".join(char if _shows(char) else char.encode("unicode_escape").decode() for char in text)


def _shows(char: str) -> bool:
    return char == " " or (char.isprintable() and unicodedata.category(char) not in ("Cf", "Zs"))
