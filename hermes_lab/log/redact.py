r"""Takes secrets out of events before they touch the disk, and out of effects before they are hashed.

A secret is a value of this process's own secret environment variables, something of a well-known form (the keys of
`redact_shapes.SHAPES`, a PEM private key, a password in a URL), or what stands under a secret's name
(`password=...`, `"api_key": "..."`). It becomes `[redacted:<kind>]`. JSON stays JSON of the same structure: its
string literals are decoded, redacted and encoded again, JSON text within them likewise, and every other character
stays as it was.

>>> redactor = Redactor.patterns_only()
>>> print(redactor.text('{"note": "密钥sk-' + "a1B2" * 8 + '", "max_tokens": 512, "password": "hunter2"}'))
{"note": "密钥[redacted:api_key]", "max_tokens": 512, "password": "[redacted:password]"}
>>> redactor.value({"argv": ["deploy", "--token", "abcd1234"]})
{'argv': ['deploy', '--token', '[redacted:token]']}

Accepted limits. Nothing is guessed from entropy: a secret of no known form under no telling name stays. So do
passwords under 6 characters, other named values under 8, numbers in JSON, values that read like words, paths or code
(`token: expired`, `password=form.password`), and secrets in base64, split over strings, in cookies, in arguments such
as `curl -u user:password` and in pairs such as `{"name": "TOKEN", "value": "..."}`. A password in a URL ends at a
double quote, and at a raw `@` that comes before a raw `/`. A placeholder of digits and letters is taken for a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from hermes_lab.log import redact_patterns, redact_rules, redact_shapes
from hermes_lab.log.redact_environ import secrets_of
from hermes_lab.log.redact_names import marker, name_kind, named_value

# One redaction can make room for another: a boundary appears, or text becomes JSON. Two rounds settle all but what
# is built against this; the limit keeps the time linear for that.
_ROUNDS = 8

_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
_FLAG = re.compile(rf"--[A-Za-z0-9_-]*(?i:{'|'.join(names for _, names in redact_patterns.NAMES)})", re.ASCII)


class Redactor:
    """Redacts with the patterns and, where given an environment, its secret values. Built once; never changes."""

    __slots__ = ("_environ", "_match", "_names")

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take the secret values out of `environ`, such as `os.environ`."""
        secrets = secrets_of(environ)
        self._names = tuple(secret.name for secret in secrets)
        forms = [secret.expression for secret in secrets]
        # Markers come first, so that a value such as "api_key" is never found in one.
        with_groups = "|".join((redact_patterns.MARKER, *(f"({form})" for form in forms)))
        self._environ = redact_rules.compile_re2(with_groups) if forms else None
        shapes = (f"{shape.before}(?:{shape.secret})" for shape in redact_shapes.SHAPES)
        suspect = "|".join((*shapes, *redact_patterns.SUSPECT, *forms))
        self._match = redact_rules.compile_filter(suspect)

    @classmethod
    def patterns_only(cls) -> Redactor:
        """Return a redactor that knows no environment."""
        return cls({})

    def __repr__(self) -> str:
        """Name the variables, never their values."""
        return f"<Redactor of the patterns and {', '.join(self._names) or 'no variables'}>"

    def suspects(self, line: bytes) -> bool:
        """Tell whether a line of the log may hold a secret: never False where `text` would change a field of it."""
        return self._match(line) is not None

    def text(self, text: str) -> str:
        """Return `text` without its secrets; the very same object where there are none.

        JSON text stays JSON text: same structure, same characters outside the strings that held secrets.
        """
        if self._match(_bytes(text)) is None or (not _may_nest(text) and _is_json(text)):
            return text
        for _ in range(_ROUNDS):
            clean = self._step(text)
            if clean == text:
                break
            text = clean
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value without its secrets; the very same object where there are none.

        Agrees with `text`: `loads(text(dumps(x))) == value(x)`, unless a key of an object, once redacted, is the same
        as a later key. On a string by itself it is `text`, save that the text of a number counts as plain text here.
        """
        for _ in range(_ROUNDS):
            clean = self._value_step(value, "", None)
            if clean is value:
                break
            value = clean
        return value

    # One round. Each `_..._step` returns the very object that it was given where it changes nothing.

    def _step(self, text: str) -> str:
        data = _bytes(text)
        if self._match(data) is None:
            return text
        if _may_nest(text) and _is_json(text):
            return self._json_step(text)
        clean = redact_rules.plain(self._without_environ(data))
        return text if clean == data else clean.decode("utf-8", "surrogatepass")

    def _without_environ(self, data: bytes) -> bytes:
        if self._environ is None:
            return data
        spans = []
        for match in self._environ.finditer(data):
            if match.lastindex is not None:
                spans.append((*match.span(), marker(f"env:{self._names[match.lastindex - 1]}")))
        return redact_rules.replaced(data, spans)

    def _string_step(self, text: str, name: str, kind: str | None) -> str:
        """Redact a string that stands under `name`, whole where that is the name of a secret."""
        clean = self._step(text)
        if kind is None:
            return clean
        whole = named_value(kind, name, clean)
        return clean if whole is None else whole

    def _key_step(self, key: str, seen: Container[str]) -> str:
        """Redact a key, numbered where `seen` holds the same one, so that no element is lost."""
        clean = self._step(key)
        if clean is key:
            return key
        numbered, n = clean, 1
        while numbered in seen:
            n += 1
            numbered = f"{clean}#{n}"
        return numbered

    def _value_step(self, value: Any, name: str, kind: str | None) -> Any:
        if isinstance(value, str):
            return self._string_step(value, name, kind)
        if isinstance(value, dict):
            return self._dict_step(value)
        if isinstance(value, list | tuple):
            return self._list_step(value, name, kind)
        return value

    def _list_step(self, value: list[Any] | tuple[Any, ...], name: str, kind: str | None) -> Any:
        clean = []
        flag = ""
        for item in value:
            clean.append(self._value_step(item, flag or name, name_kind(flag) if flag else kind))
            flag = _flag(item)
        if all(new is old for new, old in zip(clean, value, strict=True)):
            return value
        return clean if isinstance(value, list) else tuple(clean)

    def _dict_step(self, value: dict[Any, Any]) -> dict[Any, Any]:
        clean: dict[Any, Any] = {}
        same = True
        for key, item in value.items():
            is_text = isinstance(key, str)
            new_item = self._value_step(item, key if is_text else "", name_kind(key) if is_text else None)
            new_key = self._key_step(key, clean) if is_text else key
            same = same and new_item is item and new_key is key
            clean[new_key] = new_item
        return value if same else clean

    def _json_step(self, text: str) -> str:
        """Do to JSON text what `_value_step` does to its value, and leave all else as it is written."""
        pieces: list[str] = []
        done = 0
        for start, end, clean in self._changed_strings(text):
            pieces += (text[done:start], json.dumps(clean, ensure_ascii=False))
            done = end
        return "".join((*pieces, text[done:])) if pieces else text

    def _changed_strings(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where in JSON text the literals with secrets are, and the strings to put there."""
        stack = [_Frame(False, "", None)]
        for token in _JSON_TOKEN.finditer(text):
            frame = stack[-1]
            literal = token.group()
            if literal in ("{", "["):
                stack.append(_Frame(literal == "{", *frame.context()))
            elif literal in ("}", "]"):
                stack.pop()
            elif literal == ",":
                frame.next_item()
            else:
                string = json.loads(literal) if "\\" in literal else literal[1:-1]
                clean = self._frame_step(frame, string)
                if clean is not string:
                    yield token.start(), token.end(), clean

    def _frame_step(self, frame: _Frame, string: str) -> str:
        if not frame.at_key:
            frame.last_flag = _flag(string)
            return self._string_step(string, *frame.context())
        clean = self._key_step(string, frame.keys)
        frame.keys.add(clean)
        frame.name, frame.kind, frame.at_key = string, name_kind(string), False
        return clean


class _Frame:
    """An object or list that is being read, and the name under which its next value stands."""

    __slots__ = ("at_key", "flag", "is_object", "keys", "kind", "last_flag", "name")

    def __init__(self, is_object: bool, name: str, kind: str | None) -> None:
        self.is_object = self.at_key = is_object
        self.keys: set[str] = set()
        self.name, self.kind = name, kind
        self.flag = self.last_flag = ""

    def context(self) -> tuple[str, str | None]:
        return (self.flag, name_kind(self.flag)) if self.flag else (self.name, self.kind)

    def next_item(self) -> None:
        if self.is_object:
            self.at_key = True
        else:
            self.flag, self.last_flag = self.last_flag, ""


def _flag(item: object) -> str:
    """Return an item such as `--password`, whose value is the next item of a list; else nothing."""
    return item if isinstance(item, str) and item.startswith("--") and _FLAG.fullmatch(item) else ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _may_nest(text: str) -> bool:
    return text.lstrip(" \t\r\n")[:1] in ("{", "[", '"')


def _is_json(text: str) -> bool:
    """Tell whether this is JSON; text nested too deep for Python counts as plain."""
    try:
        # Numbers stay text: nobody looks at them, and Python refuses very long ones.
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True
