"""What a tool returned, made into JSON that the log and the model take, and cut to a length."""

from __future__ import annotations

import math
import re
from pathlib import PurePath
from typing import Any

import msgspec

from hermes_lab.tools.base import ToolError

MESSAGE_CHARS = 1000
"""Length to which the message of a failure is cut."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


def plain(value: Any) -> Any:
    """Return `value` as JSON values.

    NaN and infinities, which JSON lacks, become null; a lone surrogate becomes U+FFFD; a set becomes a sorted list;
    dates, `Decimal`, `UUID` and paths become text; dataclasses, Structs and numpy values become what they hold.

    >>> plain({"when": {3, 1}, 7: (1.5, float("nan"))})
    {'when': [1, 3], '7': [1.5, None]}

    Raises:
        ToolError: it holds something that has no JSON form, holds itself, or is nested too deeply.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise ToolError("the tool's result holds itself or is nested too deeply to be JSON") from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ToolError(f"the tool's result is no JSON: {message(error)}") from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is dict:
        return {_key(key): _plain(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_plain(item) for item in value]
    held = msgspec.to_builtins(value, order="deterministic", str_keys=True, enc_hook=_unknown)
    return _plain(held) if type(held) in _JSON_TYPES else _plain(_unknown(held))


_BASES: tuple[type[Any], ...] = (str, int, float, dict, list, tuple)
_JSON_TYPES = {str, bool, int, float, dict, list, tuple, type(None)}


def _key(key: Any) -> str:
    if type(key) is str:
        return key if key.isascii() else _SURROGATE.sub("\ufffd", key)
    text = _plain(key)
    if isinstance(text, bool | float | int) or text is None:
        return _encode(text).decode()
    if isinstance(text, str):
        return text
    raise TypeError(f"a {type(key).__name__} cannot be a key in JSON")


def _unknown(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    for kind in _BASES:  # a subclass of a JSON type, such as a str of some library
        if isinstance(value, kind):
            return kind(value)
    to_list = getattr(value, "tolist", None)  # numpy's arrays and scalars, without importing numpy
    if callable(to_list):
        return to_list()
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} has no JSON form")


def fit(value: Any, chars: int) -> Any:
    """Return JSON `value`, or, where its text is longer than `chars`, the beginning of the text, marked as cut.

    >>> fit([1, 2, 3], 100)
    [1, 2, 3]
    >>> fit("a long text", 5)
    {'cut': True, 'chars': 13, 'text': '"a lo'}
    """
    encoded = _encode(value)
    if len(encoded) <= chars:
        return value
    text = encoded.decode()
    if len(text) <= chars:
        return value
    return {"cut": True, "chars": len(text), "text": text[:chars]}


def message(error: BaseException) -> str:
    """Return the text of a foreign exception in at most `MESSAGE_CHARS`; its `__str__` may be broken itself."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - foreign code: an exception that cannot say what it is must not pass for ours
        text = "(its text cannot be shown)"
    text = _SURROGATE.sub("\ufffd", text)
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"
