"""How the next command is written: hints that a person can copy into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def command(lab_path: str | None, *words: object) -> str:
    """Return the text of a hermes-lab command on the same lab, quoted for a shell.

    >>> command("my lab", "run", "desk", "--limit", 3)
    "hermes-lab --lab 'my lab' run desk --limit 3"
    """
    lab: Sequence[object] = ("--lab", lab_path) if lab_path else ()
    return shlex.join(str(word) for word in ("hermes-lab", *lab, *words))
