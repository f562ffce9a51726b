"""Whether a call may run: the deny and ask rules of `lab.toml`, and the permission levels of the tools.

Rules are read by code, not by a model. They see text both as it is and as it looks: full-width and other compatible
forms as their plain characters, and what is invisible left out. Letters of another script that look alike are
different letters to them.
"""

from __future__ import annotations

import enum
import fnmatch
import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import re2

from hermes_lab.errors import ConfigError
from hermes_lab.tasks import ANY_TYPE
from hermes_lab.tools.base import Level, Spec


class Verdict(enum.StrEnum):
    """What is to be done with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Ruling(NamedTuple):
    """What `decide` found: the verdict, the name of the rule (or the level) that gave it, and why."""

    verdict: Verdict
    by: str
    reason: str


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls that are denied, or that a person is asked about.

    Attributes:
        decision: deny or ask.
        name: what the log calls it; unique, where it is given.
        tool: the tools it is about, with `*` and `?`.
        argument: the argument it looks at, with dots for what is nested; None for all of them, keys too.
        pattern: a regular expression (re2) that is searched in the argument's text; "" for any.
        task_type: the task types it is about, with `*` and `?`.
        reason: what the model and the person are told.

    Raises:
        ConfigError: the pattern is no regular expression.
    """

    decision: Literal["deny", "ask"]
    name: str = ""
    tool: Annotated[str, msgspec.Meta(min_length=1)] = "*"
    argument: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    pattern: str = ""
    task_type: Annotated[str, msgspec.Meta(min_length=1)] = ANY_TYPE
    reason: str = ""

    def __post_init__(self) -> None:
        """Check the pattern now, at load."""
        try:
            _compiled(self.pattern)
        except (re2.error, UnicodeEncodeError) as error:
            said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
            called = f"the permission rule {self.name!r}" if self.name else "a permission rule"
            raise ConfigError(
                f"{called} (tool {self.tool!r}): the pattern {self.pattern!r} is no regular expression of re2: {said}"
            ) from None


class PermissionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `[permissions]` of `lab.toml`.

    Attributes:
        rules: see `PermissionRule`.
        timeout_s: seconds that a person has to answer; then the answer is no.

    Raises:
        ConfigError: two rules have the same name.
    """

    rules: tuple[PermissionRule, ...] = ()
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0

    def __post_init__(self) -> None:
        """Check that the log can tell the rules apart."""
        names = [rule.name for rule in self.rules if rule.name]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"two permission rules are named {twice[0]!r}: give each a name of its own")


def decide(rules: Sequence[PermissionRule], spec: Spec, arguments: Mapping[str, Any], task_type: str) -> Ruling:
    """Return what is to be done with a call: a rule that denies wins over one that asks, and that over the level.

    >>> spec = Spec("refund", "Pay back.", {"type": "object"}, Level.HIGH_RISK)
    >>> rule = PermissionRule(decision="deny", name="cap", tool="refund", argument="amount", pattern="^[0-9]{4,}")
    >>> decide([rule], spec, {"amount": 2500}, "returns")
    Ruling(verdict=<Verdict.DENY: 'deny'>, by='cap', reason="the rule 'cap' denies it")
    >>> decide([rule], spec, {"amount": 25}, "returns").verdict.value
    'ask'
    """
    asked: Ruling | None = None
    call = _Call(spec.name, arguments, task_type)
    for number, rule in enumerate(rules):
        if (asked and rule.decision == "ask") or not call.matches(rule):
            continue
        by = rule.name or f"rules[{number}]"
        if rule.decision == "deny":
            return Ruling(Verdict.DENY, by, rule.reason or f"the rule {by!r} denies it")
        asked = Ruling(Verdict.ASK, by, rule.reason or f"the rule {by!r} asks a person")
    if asked:
        return asked
    by = f"level:{spec.level.value}"
    if spec.level is Level.HIGH_RISK:
        return Ruling(Verdict.ASK, by, f"{spec.name} is high_risk, so a person is asked")
    return Ruling(Verdict.ALLOW, by, f"{spec.name} is {spec.level.value}, and no rule is against it")


class _Call:
    """A call as rules see it. What several rules look at is worked out once."""

    def __init__(self, tool: str, arguments: Mapping[str, Any], task_type: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._task_type = task_type
        self._seen: dict[str | None, tuple[bool, list[str]]] = {}

    def matches(self, rule: PermissionRule) -> bool:
        """Tell whether `rule` is about this call."""
        if not _glob(self._tool, rule.tool) or not _glob(self._task_type, rule.task_type):
            return False
        if rule.argument is None and not rule.pattern:
            return True
        present, forms = self._look(rule.argument)
        if not rule.pattern:
            return present
        search = _compiled(rule.pattern).search
        return any(search(form) is not None for form in forms)

    def _look(self, argument: str | None) -> tuple[bool, list[str]]:
        """Return whether there is such an argument (None: any), and its texts in every form."""
        if argument not in self._seen:
            places = [self._arguments] if argument is None else list(_at(self._arguments, _plain(argument).split(".")))
            self._seen[argument] = bool(places), [form for text in _texts(places) for form in _forms(text)]
        return self._seen[argument]


def _glob(name: str, pattern: str) -> bool:
    return pattern in (ANY_TYPE, name) or fnmatch.fnmatchcase(name, pattern)


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True  # a line break must not hide what follows it
    return re2.compile(pattern, options)


def _at(value: Any, path: list[str]) -> Iterator[Any]:
    """Give what stands at a dotted path: keys may hold dots themselves, and a list stands for each of its items."""
    if not path:
        yield value
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _at(item, path[1:] if path[0] == str(place) else path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            steps = _plain(str(key)).split(".")
            if path[: len(steps)] == steps:
                yield from _at(item, path[len(steps) :])


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Give the text of every value and key within `values`, and what the items of a list say one after another."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from map(str, value)
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
            if len(value) > 1:
                yield " ".join(text for item in value if (text := _scalar(item)) is not None)
        else:
            yield _scalar(value) or ""
            if isinstance(value, float) and value.is_integer():
                yield str(int(value))


def _scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Mapping | list | tuple):
        return None
    # Python refuses to write out an integer of more than 4,300 digits; `Decimal` does not.
    return format(Decimal(value), "f") if isinstance(value, int) else str(value)


# Characters that show nothing: controls but for tab and line breaks, the format characters (zero-width, soft hyphen,
# direction marks, tags), variation selectors, and a few fillers and joiners that count as letters or marks.
_FILLERS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_FILLERS |= {chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))}
_SURROGATE = re.compile("[\ud800-\udfff]")


def _invisible(char: str) -> bool:
    if char in "\t\n\r":
        return False
    return char in _FILLERS or unicodedata.category(char) in ("Cc", "Cf")


def _plain(text: str) -> str:
    """Return `text` as it looks: without what is invisible, and with compatible forms as their plain characters."""
    if text.isascii() and text.isprintable():
        return text
    for _ in range(2):  # taking a character away can let others combine, and NFKC can bring an invisible one forth
        text = unicodedata.normalize("NFKC", "".join(char for char in text if not _invisible(char)))
    return text


def _forms(text: str) -> Iterator[str]:
    """Give the forms of `text` that a pattern is searched in."""
    raw = _SURROGATE.sub("\ufffd", text)  # re2 takes no lone surrogate
    yield raw
    plain = _plain(_SURROGATE.sub("", text))
    if plain != raw:
        yield plain
