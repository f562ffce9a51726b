r"""Decides what a name tells: whether a secret stands under it, and whether a value there is one.

>>> named_value("password", "DB_PASSWORD", "hunter2"), named_value("password", "DB_PASSWORD", "${DB_PASSWORD}")
('[redacted:password]', None)
"""

from __future__ import annotations

import functools
import re

from hermes_lab.log import redact_patterns as table

LONG = 200
"""Nothing longer than this is a placeholder or code; so no rejected value is read more than this far again."""

MARKED = re.compile(rf"\s*{table.MARKER}(?:#[0-9]+)?(?:\s|\\+[nrt])*")
"""A value that was redacted already; keys that became the same have numbers."""

SCHEME = re.compile(r"(?i)(bearer|basic|token|bot|apikey|digest|negotiate|key)(?:[ \t]|\\+t)+")
"""What stands before the credentials of a header, and stays."""

WORDS_ONLY = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_.]?[A-Z][a-z]{2,}|[-_.](?:[a-z]+|[A-Z]+))*")
"""Text without a digit that reads like words, in any of the ways that code joins them."""

_CODE_NAME = re.compile(r"[a-z]+(?:[-_][a-z]+|[A-Z][a-z]+)*|[A-Z]+(?:_[A-Z]+)*")
# Names that stand over ordinary words and numbers as well.
_AMBIGUOUS = ("token", "credential", "authorization")
# A run of backslashes is read once, not once from each of them: (?<!\\) and possessive quantifiers see to that.
_ESCAPED = re.compile(r"(?<!\\)\\++u([0-9a-fA-F]{4})")
_NAME_END = re.compile(
    "(?:" + "|".join(f"(?P<{kind}>{expression})" for kind, expression in table.NAMES) + r")\Z",
    re.IGNORECASE | re.ASCII,
)


def marker(kind: str) -> str:
    """Return what stands where a secret stood."""
    return f"[redacted:{kind}]"


@functools.lru_cache(maxsize=4096)
def _short_name_kind(name: str) -> str | None:
    found = _NAME_END.search(name)
    if found is None:
        return next((kind for kind, word in table.CJK_NAMES if name.endswith(word)), None)
    if found.lastgroup == "token" and table.NOT_SECRET_TOKEN.search(name[: found.start()]):
        return None
    return found.lastgroup


def name_kind(name: str) -> str | None:
    """Return the kind of secret that stands under `name`, or None; what counts is how the name ends.

    >>> name_kind("OPENAI_API_KEY"), name_kind("clientSecret"), name_kind("eos_token"), name_kind("max_tokens")
    ('api_key', 'secret', None, None)
    """
    return _short_name_kind(name[-64:])


def named_value(kind: str, name: str, value: str) -> str | None:
    """Return what to put in place of all of `value`, which stands under a secret's name; None to leave it.

    The scheme before credentials stays: `Basic [redacted:basic]`.
    """
    scheme = SCHEME.match(value) if kind == "authorization" else None
    kept = scheme.group() if scheme else ""
    secret = value[len(kept) :]
    if MARKED.fullmatch(secret) or not _is_secret(kind, name, secret, schemed=scheme is not None):
        return None
    if scheme and scheme.group(1).lower() in ("basic", "bearer"):
        kind = scheme.group(1).lower()
    return kept + marker(kind)


def _is_secret(kind: str, name: str, value: str, *, schemed: bool = False) -> bool:
    """Tell a secret from a placeholder, a word, a path, or code that names one."""
    value = unescape(value).strip()
    if len(value) < (6 if kind == "password" else 8):
        return False
    if len(value.split(None, 1)) > 1:
        return kind == "private_key" or (kind in ("password", "secret") and _is_phrase(value))
    if len(value) > LONG:
        return True
    if value.lower() in table.WORDS or table.PLACEHOLDER.match(value) or table.PATH.match(value):
        return False
    if value.isascii() and value.isdecimal():
        return kind not in _AMBIGUOUS
    if not any(char.isascii() and char.isalnum() for char in value):
        return False
    wordy = kind in _AMBIGUOUS and not schemed and len(value) <= 24
    if wordy and WORDS_ONLY.fullmatch(value):
        return False
    return not (_CODE_NAME.fullmatch(value) and _names_secret(value, name))


def unescape(text: str) -> str:
    r"""Return text with the characters of its \uXXXX escapes, escaped any number of times."""
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text)


def _is_phrase(value: str) -> bool:
    """Tell a pass phrase from a sentence about one."""
    if len(value) > LONG or value[0] in ",;:.)]}+&|":
        return False
    return len(value.split()) <= 12 and not table.ABOUT.search(value)


def _names_secret(value: str, name: str) -> bool:
    """Tell whether a value is the name of a secret: the same as its own, or several words that end like one."""
    if value.lower() == name.lower() or name.lower().endswith(value.lower()):
        return True
    return name_kind(value) is not None and re.search(r"[-_]|[a-z][A-Z]", value) is not None
