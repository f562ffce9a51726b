"""What is not ours, handled with care: code whose failure is a fact to report, and values of any size to show."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_MAX_CHARS = 300


def attempt(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, None] | tuple[None, str]:
    """Return what `function` returns and None, or None and what it raised, as text.

    >>> attempt(int, "12"), attempt(int, "twelve")[0]
    ((12, None), None)
    """
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the one place in suites that says so
        return None, f"{type(error).__name__}: {error}"[:_MAX_CHARS]


def shown(value: Any) -> str:
    """Return a short text of a value for a reason, whatever its size and depth.

    >>> shown("x" * 100), shown({"city": "杭州"})
    ("'xxxxxxxxxxxx...xxxxxxxxxxxxx'", "{'city': '杭州'}")
    """
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no int of more than 4,300 digits
        return f"a {type(value).__name__} too large to show"
