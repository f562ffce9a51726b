"""Read and write JSON exactly, refusing whatever would not come back as it was.

Python's `json` is quick and lenient: it reads NaN, keeps the last of two equal keys, turns 1e999 into
infinity, writes numbers as keys, and fails by recursion. Here each of these is a `JsonError` (or, in `dump`,
a `ValueError` or `TypeError`), so that what a model wrote and what is run, logged and shown again is the
same.

>>> read_exact(dump({"q": "tea", "n": [1, None]}))
{'q': 'tea', 'n': [1, None]}
>>> read_exact('{"n": NaN}')
Traceback (most recent call last):
hermes_lab.models.exact_json.JsonError: NaN is not JSON
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 160
"""Levels of nesting in one value. It leaves room below the 200 that an event payload may have."""

# A lone surrogate; a high one followed by a low one is left alone, for their escapes would be read as one
# character.
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


class JsonError(ValueError):
    """A text that holds no value that can be read without doubt.

    Attributes:
        position: the character at which reading stopped.
        open_quote: where a string began that the text never closes, else None.
    """

    def __init__(self, reason: str, position: int, open_quote: int | None = None) -> None:
        """Keep the reason as the message."""
        super().__init__(reason)
        self.position = position
        self.open_quote = open_quote


def read_exact(text: str) -> Any:
    """Return the value that `text` is, blanks around it aside, forgiving nothing.

    Raises:
        JsonError: the text is not one JSON value; or it has a key twice in one object, a number that is not
        finite or has too many digits, or too many levels. `position` is only rough here.
    """
    try:
        value = _EXACT.decode(text)
    except RecursionError:
        raise JsonError(f"more than {MAX_DEPTH} levels deep", 0) from None
    except ValueError as error:
        raise JsonError(str(error), 0) from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _too_deep(value):
        raise JsonError(f"more than {MAX_DEPTH} levels deep", 0)
    return value


def dump(value: Any) -> str:
    """Return the JSON text of `value` that `read_exact` reads back, and that UTF-8 can hold.

    Raises:
        ValueError: a number that is not finite, too many digits or levels, or a value that holds itself.
        TypeError: a key that is not text, or a value that JSON does not have.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError(f"more than {MAX_DEPTH} levels deep") from None
    _check_keys(value)
    if _too_deep(value):
        raise ValueError(f"more than {MAX_DEPTH} levels deep")
    if text.isascii():
        return text
    return _LONE.sub(lambda lone: f"\\u{ord(lone.group()):04x}", text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number too large for a float")
    return number


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def _children(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [child for child in inner if isinstance(child, (dict, list, tuple))]


def _too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list, tuple)) else []
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _check_keys(value: Any) -> None:
    waiting = [value] if isinstance(value, (dict, list, tuple)) else []
    while waiting:
        parent = waiting.pop()
        if isinstance(parent, dict) and not all(isinstance(key, str) for key in parent):
            raise TypeError(f"a key that is not text, among {list(parent)[:5]}")
        waiting.extend(_children(parent))
