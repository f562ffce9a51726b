r"""Finds the secrets among environment variables, and writes the expressions that find their values in text.

A value counts when its variable's name says that it is a secret and it is distinctive enough to be looked for
everywhere: at least 8 characters, no path, no URL without a password, no plain word or two such as `production`.

>>> [secret.name for secret in secrets_of({"DB_PASSWORD": "correct-Horse-9", "AUTH_MODE": "enabled", "HOME": "/root"})]
['DB_PASSWORD']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hermes_lab import payload

MAX_LENGTH = 1 << 14
"""Values longer than this are taken for data."""

_SECRET_NAME = re.compile(
    r"(?i)API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION"
    r"|(?:^|_)(?:O?AUTH|TOKEN|KEY|PASS|PWD|PAT)(?:_|$)|TOKEN$"
)
_PUBLIC_NAME = re.compile(r"(?i)PUBLIC|(?:^|_)(?:OLD)?PWD$|^GPG_KEY$|MAX_TOKENS")
_PASSWORD_NAME = re.compile(r"(?i)PASS|PWD")
# A path begins in lower case (or as on macOS); base64 that begins with a slash seldom does.
_PATH = re.compile(
    r"(?:(?:~|\.{1,2}|[A-Za-z]:)[/\\]|/(?:[a-z][a-z0-9._-]*(?:/|$)|Users/|Library/|Applications/)).*",
    re.DOTALL,
)
_PLAIN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^@]*")
_WORDS = re.compile(r"(?:[A-Z]?[a-z]{1,14}|[A-Z]{1,14})(?:[-_ .](?:[A-Z]?[a-z]{1,14}|[A-Z]{1,14}))?")

_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


class Secret(NamedTuple):
    """A secret variable: its name, and the RE2 expression, over bytes, of its value in all its forms."""

    name: str
    expression: str


def secrets_of(environ: Mapping[str, str]) -> list[Secret]:
    """Return the secrets of `environ`, the longest first, since one value may be the start of another."""
    names: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        if is_secret(name, value):
            names.setdefault(value.strip(), re.sub(r"\W", "_", name, flags=re.ASCII))
    longest_first = sorted(names.items(), key=lambda item: (-len(item[0]), item[0]))
    return [Secret(name, "".join(map(_forms, value))) for value, name in longest_first]


def is_secret(name: str, value: str) -> bool:
    """Tell whether the value of this variable is to be looked for in text."""
    value = value.strip()
    if not _SECRET_NAME.search(name) or _PUBLIC_NAME.search(name) or not 8 <= len(value) <= MAX_LENGTH:
        return False
    if value.isdecimal():
        return _PASSWORD_NAME.search(name) is not None
    if "[redacted:" in value or len(set(value)) < 3:
        return False
    return not any(known.fullmatch(value) for known in (_PATH, _PLAIN_URL, _WORDS))


def _forms(char: str) -> str:
    r"""Return the expression of one character: as it is, JSON-escaped any number of times, or URL-encoded.

    >>> _forms("a"), _forms("/")
    ('a', '(?:%(?i:2f)|\\\\+u(?i:002f)|\\\\*\\x2f)')
    """
    if char.isascii() and char.isalnum():
        return char
    raw = char.encode("utf-8", "surrogatepass")
    # The longest form first: the first one that matches wins, and % alone is the start of %25.
    forms = ["".join(f"%(?i:{byte:02x})" for byte in raw)]
    units = char.encode("utf-16-be", "surrogatepass")
    forms.append("".join(rf"\\+u(?i:{units[i : i + 2].hex()})" for i in range(0, len(units), 2)))
    if char in _ESCAPES:
        forms.append(r"\\+" + _ESCAPES[char])
    if char == " ":
        forms.append(r"\+")
    if not char.isascii():
        forms.append(_literal(payload.store_text(char).encode()))
    forms.append(r"\\+" if char == "\\" else (r"\\*" if char in "\"'/" else "") + _literal(raw))
    return f"(?:{'|'.join(dict.fromkeys(forms))})"


def _literal(raw: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in raw)
