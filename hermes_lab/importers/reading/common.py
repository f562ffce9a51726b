"""What importers share: what a tool's result says of success, and (from `values`) how values are read.

The lines of a large file are read in `lines`.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from hermes_lab.events import ErrorKind, Status
from hermes_lab.importers.reading.values import (
    OBSERVATION_CHARS,
    RAW_CHARS,
    Arguments,
    amount,
    content_text,
    count,
    decode_text,
    digest,
    known,
    observation_text,
    parse_json,
    parse_result,
    read_arguments,
    set_aside,
    too_deep,
    unique,
    when,
)

__all__ = [
    "OBSERVATION_CHARS",
    "RAW_CHARS",
    "Arguments",
    "Outcome",
    "amount",
    "content_text",
    "count",
    "decode_text",
    "digest",
    "error_kind",
    "infer_status",
    "known",
    "observation_text",
    "parse_json",
    "parse_result",
    "read_arguments",
    "set_aside",
    "too_deep",
    "unique",
    "when",
]


class Outcome(NamedTuple):
    """What a result says of the call that it answers; None where it says nothing."""

    status: Status | None
    error_kind: ErrorKind | None
    confidence: float | None

    def columns(self) -> dict[str, Any]:
        """Return the known parts as columns of an event."""
        return {name: value for name, value in self._asdict().items() if value is not None}


_EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "exit_status")
_GOOD = {"ok", "success", "succeeded", "completed", "complete", "done"}
_BAD = {"error", "failed", "failure", "fail", "exception"}
_FAILED_TEXT = re.compile(
    r"\s*[\[(<{*#]*\s*(?:(?:tool|execution|runtime|fatal|unexpected|internal|[a-z_.]{1,40})?[ _-]?"
    r"(?:error|exception)\b(?=\s*(?:$|[:\])>(!,-]|executing|calling|running|while|in\b|occurred))"
    r"|traceback \(most recent|fatal:|failed\b|failure:|tool execution failed|tool call failed|could not "
    r"|cannot (?:open|read|find|access|execute|run|connect)|unable to |错误|出错|失败|异常)",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            ErrorKind.REPEATED_CALL,
            r"times in a row|repeated (?:exact|call|identical)|already (?:called|tried) with",
        ),
        (ErrorKind.RATE_LIMITED, r"rate.?limit|too many requests|\b429\b|限流"),
        (ErrorKind.TIMEOUT, r"timed? ?out|timeout|deadline exceeded|超时"),
        (
            ErrorKind.UNKNOWN_TOOL,
            r"unknown tool|no such tool|tool '?\S{1,80}'? (?:not found|does not exist|is not)",
        ),
        (
            ErrorKind.NO_PERMISSION,
            r"permission denied|not permitted|forbidden|unauthori[sz]ed|access denied|user denied|denied by"
            r"|\b40[13]\b|权限|拒绝",
        ),
        (
            ErrorKind.NOT_FOUND,
            r"not found|no such file|does not exist|doesn't exist|\b404\b|不存在|未找到|找不到",
        ),
        (
            ErrorKind.BAD_ARGUMENTS,
            r"invalid (?:argument|parameter|json)|missing \d* ?required|unexpected keyword|validation error"
            r"|required (?:argument|parameter|property)|参数",
        ),
        (ErrorKind.MEMORY_LIMIT, r"out of memory|memoryerror|cannot allocate memory|内存不足"),
        (ErrorKind.CONTEXT_LENGTH, r"context (?:length|window)|maximum context|too many tokens"),
        (ErrorKind.CONNECTION, r"connection|connect to|name resolution|network is unreachable|ssl|dns|连接"),
        (ErrorKind.SERVER_ERROR, r"internal server error|bad gateway|service unavailable|\b50[0234]\b"),
        (ErrorKind.TOOL_UNAVAILABLE, r"unavailable|not available|not installed|not configured|disabled"),
    )
)


def error_kind(text: str) -> ErrorKind:
    """Return the kind of failure that an error message names, `tool_failed` where it names none.

    >>> str(error_kind("cat: x.txt: No such file or directory"))
    'not_found'
    """
    text = text[:4_000]
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), ErrorKind.TOOL_FAILED)


def infer_status(result: object) -> Outcome:
    """Return what a tool's result says of success, where its source has no flag for that.

    The confidence says how plainly it was said: 0.95 for an exit code or a success flag, 0.9 for an `error`
    key, 0.8 for an object without any of these, 0.7 for an error prefix, 0.6 for any other text.

    Args:
        result: text (perhaps JSON), a dict, a list of content parts, or None for no result at all.

    >>> infer_status('{"output": "cat: x: No such file or directory", "exit_code": 1}')[:2]
    (<Status.ERROR: 'error'>, <ErrorKind.NOT_FOUND: 'not_found'>)
    >>> infer_status("3 files")
    Outcome(status=<Status.OK: 'ok'>, error_kind=None, confidence=0.6)
    """
    if result is None:
        return Outcome(None, None, None)
    if isinstance(result, dict):
        return _object_outcome(result)
    text = content_text(result)
    if text.lstrip()[:1] == "{" and isinstance(found := _leading_object(text), dict):
        return _object_outcome(found)
    if _FAILED_TEXT.match(text):
        return _failed(text, 0.7)
    return Outcome(Status.OK, None, 0.6)


def _leading_object(text: str) -> object:
    """Return the JSON object that the text begins with; agents append hints after it."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return None


def _object_outcome(result: dict[str, Any]) -> Outcome:
    message = result.get("error") or result.get("stderr") or result.get("message") or result.get("output") or ""
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, default=repr)
    state = result.get("status")
    state = state.lower() if isinstance(state, str) else ""
    if state in ("denied", "blocked", "rejected"):
        return Outcome(Status.DENIED, ErrorKind.NO_PERMISSION, 0.9)
    code = next((result[key] for key in _EXIT_CODES if type(result.get(key)) is int), None)
    if code is not None and not (code == 0 or _excused(result)):
        return Outcome(Status.TIMEOUT, ErrorKind.TIMEOUT, 0.95) if code == 124 else _failed(text, 0.95)
    flags = [result.get("success"), result.get("ok"), _negated(result.get("isError", result.get("is_error")))]
    if False in flags:
        return _failed(text, 0.95)
    if result.get("error"):
        return _failed(text, 0.9)
    if state in _BAD or state in ("timeout", "timed_out"):
        return _failed(f"{state} {text}", 0.9)
    return Outcome(Status.OK, None, 0.95 if code is not None or True in flags or state in _GOOD else 0.8)


def _excused(result: dict[str, Any]) -> bool:
    """Return whether the tool itself says that its exit code is no failure (grep that found nothing)."""
    return "not an error" in str(result.get("exit_code_meaning", ""))


def _negated(flag: object) -> bool | None:
    return not flag if isinstance(flag, bool) else None


def _failed(text: str, confidence: float) -> Outcome:
    kind = error_kind(text)
    return Outcome(Status.TIMEOUT if kind is ErrorKind.TIMEOUT else Status.ERROR, kind, confidence)
