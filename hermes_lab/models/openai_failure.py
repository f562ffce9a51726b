"""Tell what a server's failure means: which kind it is, whether to try again, and when."""

from __future__ import annotations

import datetime as dt
import email.utils
import hashlib
import json
import re
from typing import Any, NamedTuple

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.openai_payload import well_formed

_RETRIED = {408, 425, 429, 500, 502, 503, 504, 529}
_REFUSALS = {400, 404, 415, 422, 501}
_FORMAT_WORDS = re.compile(r"response_?format|json_?(?:schema|object|mode)|json schema|guided|grammar|structured", re.I)
_TOO_LONG = re.compile(
    r"context_length|context (?:length|window|size)|exceed_context|max_model_len|too many (?:input )?tokens"
    r"|(?:prompt|input) is too long|reduce the length",
    re.I,
)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy", re.I)
_OUT_OF_MONEY = re.compile(r"insufficient_quota|billing", re.I)
_SECONDS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*")
_MOST_CHARS = 400


class Failure(NamedTuple):
    """A try that gave no reply.

    Attributes:
        kind: of the error.
        message: what the server said, shortened, without our key.
        retry: whether the same request may well succeed a moment later.
        wait_s: how long the server asks to wait; None where it does not say.
        refused_format: whether it seems to refuse the way in which the schema was asked for.
    """

    kind: ErrorKind
    message: str
    retry: bool = False
    wait_s: float | None = None
    refused_format: bool = False


def from_status(status: int, body: bytes, retry_after: str | None, now: dt.datetime) -> Failure:
    """Return what an answer of another status than 200 means.

    Args:
        status: the HTTP status.
        body: the body, of whatever form.
        retry_after: the header `Retry-After`.
        now: the time, with its zone; a date in the header is told against it.
    """
    said = _said(body)
    message = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if status in (401, 403):
        return Failure(ErrorKind.NO_PERMISSION, message)
    if status == 413 or (status >= 400 and status != 429 and _TOO_LONG.search(said)):
        return Failure(ErrorKind.CONTEXT_LENGTH, message)
    if status < 500 and _FILTERED.search(said):
        return Failure(ErrorKind.CONTENT_FILTER, message)
    retry = status in _RETRIED and not (status == 429 and _OUT_OF_MONEY.search(said))
    refused = status in _REFUSALS and _FORMAT_WORDS.search(said) is not None
    return Failure(_kind(status), message, retry, wait_s(retry_after, now) if retry else None, refused)


def from_error_object(error: Any) -> Failure:
    """Return what an `error` in a body of status 200 means; some servers report the failures behind them so."""
    said = said_by(error)
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500
    known = from_status(status, json.dumps({"error": said}).encode(), None, dt.datetime.now(dt.UTC))
    return known._replace(message=f"an error in place of a reply: {said}", refused_format=False)


def _kind(status: int) -> ErrorKind:
    if status == 408:
        return ErrorKind.TIMEOUT
    if status == 429:
        return ErrorKind.RATE_LIMITED
    if status == 404:
        return ErrorKind.NOT_FOUND
    return ErrorKind.SERVER_ERROR if status >= 500 else ErrorKind.OTHER


def _said(body: bytes) -> str:
    text = body[: 16 * _MOST_CHARS].decode("utf-8", "replace")
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return shortened(text)
    if isinstance(value, dict):
        for field in ("error", "detail", "message"):
            if value.get(field):
                return said_by(value[field])
    return shortened(text)


def said_by(error: Any) -> str:
    """Return the message of an error, which may be text or an object, with its code or type before it."""
    if not isinstance(error, dict):
        return shortened(error if isinstance(error, str) else as_text(error))
    labels = [error.get(field) for field in ("code", "type", "param")]
    parts = [label for label in labels if isinstance(label, str) and label]
    message = error.get("message")
    parts.append(message if isinstance(message, str) else as_text(error))
    return shortened(": ".join(dict.fromkeys(parts)))


def shortened(text: str) -> str:
    r"""Return `text` on one line and not too long, without control characters.

    >>> shortened("Bad\x1b[31m   request\n")
    'Bad [31m request'
    """
    visible = "".join(c if c.isprintable() else " " for c in well_formed(text[: 4 * _MOST_CHARS]))
    line = " ".join(visible.split())
    return line if len(line) <= _MOST_CHARS else line[: _MOST_CHARS - 3] + "..."


def as_text(value: Any) -> str:
    """Return the JSON text of what was read from JSON, or a few words where it is too deep to write again."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "a value that is nested too deeply"


def wait_s(retry_after: str | None, now: dt.datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait: a number or a date; None where it is neither.

    >>> now = dt.datetime(2026, 3, 16, 12, 0, tzinfo=dt.UTC)
    >>> wait_s("1.5", now), wait_s("Mon, 16 Mar 2026 12:01:00 GMT", now), wait_s("soon", now)
    (1.5, 60.0, None)
    """
    if retry_after is None:
        return None
    number = _SECONDS.fullmatch(retry_after)
    if number:
        return float(number.group(1))
    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000": in UTC, of an unknown zone
        date = date.replace(tzinfo=dt.UTC)
    return max(0.0, (date - now).total_seconds())


def backoff_s(first: float, retries: int, draw: str) -> float:
    """Return the seconds to wait before a retry: doubling, with jitter that depends on nothing but `draw`.

    The jitter (half to all of the wait) keeps requests that failed together from coming back together.

    Args:
        first: before the first retry, seconds.
        retries: retries so far.
        draw: the seed and whatever else tells this wait from another.
    """
    digest = hashlib.blake2b(draw.encode("utf-8", "replace"), digest_size=4).digest()
    share = int.from_bytes(digest, "big") / 2**32
    return min(60.0, first * 2.0**retries) * (0.5 + share / 2)
