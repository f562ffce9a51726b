r"""What a version says about itself, and the commit message that holds it: the message, then trailers in Git's form.

>>> first = Version(name="v1.0", config="c-32e26f91f601", message="A plain start", by="Li Wei", approver="王芳")
>>> print(to_message(first).decode())
v1.0: A plain start
<BLANKLINE>
Config: c-32e26f91f601
Proposed-by: Li Wei
Approved-by: 王芳
<BLANKLINE>
>>> from_message(to_message(first)) == first
True
"""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from collections.abc import Mapping

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.versions import content

MAJOR = 1
MOST_MESSAGE_CHARS = 20_000
_MOST_LINE_CHARS = 500

_NAME = re.compile(rf"v{MAJOR}\.(0|[1-9][0-9]{{0,8}})\Z")
_CONFIG, _PARENT, _RESTORES = "Config", "Parent", "Restores"
_BY, _APPROVER, _SCORES, _EVIDENCE = "Proposed-by", "Approved-by", "Scores", "Evidence"


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the agent's configuration.

    Attributes:
        name: `v1.0`, `v1.1` and so on, without a gap.
        config: the content's hash, `c-...`; a version that was rolled back to has the hash of the older one.
        message: what changed and why.
        by: who proposed it: a person, or the part of hermes-lab that did.
        approver: who let it in: a person or a named rule.
        parent: the version before it; None for the first.
        restores: the version whose content this one brings back; None for a new one.
        evidence: ids of the events that it rests on.
        scores: figures by name; None for an unknown one.
        ts: when it was committed, UTC, to the second; None before that.
        commit: the Git commit; empty before that.
    """

    name: str
    config: str
    message: str
    by: str
    approver: str
    parent: str | None = None
    restores: str | None = None
    evidence: tuple[str, ...] = ()
    scores: dict[str, float | None] = {}
    ts: dt.datetime | None = None
    commit: str = ""

    def says_the_same_as(self, other: Version) -> bool:
        """Return whether both are one commit, tried twice: all that the message holds is the same."""
        return to_message(self) == to_message(other)


def number_of(name: str) -> int | None:
    """Return the number of a version's name; None where `name` is none.

    >>> number_of("v1.12"), number_of("v1.012"), number_of("c-32e26f91f601")
    (12, None, None)
    """
    match = _NAME.match(name)
    return int(match[1]) if match else None


def name_of(number: int) -> str:
    """Return the name of the version with a number, counted from 0."""
    return f"v{MAJOR}.{number}"


def check(version: Version) -> None:
    """Refuse what a commit message cannot hold, or what nobody answers for.

    Raises:
        ConfigError: the message says which part is wrong.
    """
    for what, text in (("the author", version.by), ("the approver", version.approver)):
        if not any(char.isalnum() for char in text):
            raise ConfigError(f"{what} of a version must be named, and {text!r} is no name")
        _check_line(what, text)
    for event in version.evidence:
        _check_line("an event id of the evidence", event)
    for name, score in version.scores.items():
        _check_line("the name of a score", name)
        if score is not None and not math.isfinite(score):
            raise ConfigError(f"the score {name!r} is {score}: an unknown score is None")
    _check_message(version.message)


def clean_message(text: str) -> str:
    """Return a message with line ends of one kind and without blanks around it."""
    return text.replace("\r\n", "\n").strip()


def to_message(version: Version) -> bytes:
    """Return the commit message."""
    lines = [f"{_CONFIG}: {version.config}"]
    lines += [f"{_PARENT}: {version.parent}"] if version.parent else []
    lines += [f"{_RESTORES}: {version.restores}"] if version.restores else []
    lines += [f"{_BY}: {version.by}", f"{_APPROVER}: {version.approver}"]
    if version.scores:
        lines.append(f"{_SCORES}: {_json(version.scores)}")
    lines += [f"{_EVIDENCE}: {event}" for event in version.evidence]
    return "\n".join([f"{version.name}: {version.message}", "", *lines, ""]).encode()


def from_message(data: bytes) -> Version:
    """Return what a commit message of ours says; without `ts` and `commit`.

    Raises:
        ValueError: it is not one that `to_message` wrote.
    """
    # Our trailers are the last paragraph and hold no blank line, so a message may well have some of its own.
    head, _, trailers = data.decode().rpartition("\n\n")
    name, colon, message = head.partition(": ")
    if not colon or number_of(name) is None:
        raise ValueError("its message names no version")
    singles: dict[str, str] = {}
    evidence = []
    for line in trailers.split("\n"):
        key, _, value = line.partition(": ")
        if key == _EVIDENCE:
            evidence.append(value)
        elif key:
            singles[key] = value
    version = Version(
        name=name,
        config=singles.get(_CONFIG, ""),
        message=message,
        by=singles.get(_BY, ""),
        approver=singles.get(_APPROVER, ""),
        parent=singles.get(_PARENT),
        restores=singles.get(_RESTORES),
        evidence=tuple(evidence),
        scores=msgspec.json.decode(singles.get(_SCORES, "{}"), type=dict[str, float | None]),
    )
    if not content.is_hash_name(version.config) or to_message(version) != data:
        raise ValueError("its message is not of the form that hermes-lab writes")
    return version


def _json(scores: Mapping[str, float | None]) -> str:
    return msgspec.json.encode(scores, order="sorted").decode()


def _check_line(what: str, text: str) -> None:
    if not text.strip() or text != text.strip() or len(text) > _MOST_LINE_CHARS:
        raise ConfigError(f"{what} is blank, has blanks around it, or more than {_MOST_LINE_CHARS} characters")
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text):
        raise ConfigError(f"{what} holds a line end or a character that cannot be seen: {text!a}")


def _check_message(text: str) -> None:
    if not any(char.isalnum() for char in text):
        raise ConfigError("a version needs a message that says what changed and why")
    if len(text) > MOST_MESSAGE_CHARS:
        raise ConfigError(f"the message has more than {MOST_MESSAGE_CHARS} characters: leave some to the evidence")
    if any(unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t" for char in text):
        raise ConfigError(f"the message holds a control character: {text!a}")
