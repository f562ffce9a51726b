"""What an event keeps of a model's or a tool's call: which result answers which call, how it came out, its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hermes_lab.events import ErrorKind, Status
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_messages import Call, Message


def tool_columns(call: Call | None, result: Message | None) -> dict[str, Any]:
    """Return the columns of the event that a tool was called, from the call, its result, or both."""
    columns: dict[str, Any] = {}
    if result is not None:
        columns |= common.known(
            name=result.name,
            output=common.parse_result(result.content),
            observation=common.observation_text(result.content) if result.content is not None else None,
        )
        columns |= common.infer_status(result.content).columns()
    if call is None:
        columns["confidence"] = min(columns.get("confidence", 0.5), 0.5)
        return columns
    columns |= common.known(name=call.name)
    if call.arguments is not None:
        arguments = common.read_arguments(call.arguments)
        columns["input"] = arguments.value
        if not arguments.valid:
            columns |= {"status": Status.INVALID, "error_kind": ErrorKind.BAD_ARGUMENTS}
            columns.pop("confidence", None)
    return columns


def pair_results(messages: Iterable[Message]) -> tuple[dict[tuple[int, int], Message], set[int]]:
    """Return the result of each call and which messages are results of no call.

    Pairs by call id (that of the latest message, where an id comes again); without an id by name or position among
    the calls of the last message that has any open.

    Returns:
        results: by (position of the message, position of the call in it).
        orphans: positions of the messages of role `tool` that answer no call.
    """
    results: dict[tuple[int, int], Message] = {}
    orphans: set[int] = set()
    waiting: list[tuple[tuple[int, int], Call]] = []
    for i, message in enumerate(messages):
        waiting += [((i, j), call) for j, call in enumerate(message.calls)]
        if message.role != "tool":
            continue
        at = _answered(message, waiting)
        if at is None:
            orphans.add(i)
        else:
            results[waiting.pop(at)[0]] = message
    return results, orphans


def _answered(result: Message, waiting: list[tuple[tuple[int, int], Call]]) -> int | None:
    if not waiting:
        return None
    if result.call_id is not None:
        same = [k for k, (_, call) in enumerate(waiting) if call.id == result.call_id]
        if same:
            return next(k for k in same if waiting[k][0][0] == waiting[same[-1]][0][0])
        candidates = [k for k, (_, call) in enumerate(waiting) if call.id is None]
    else:
        last = waiting[-1][0][0]
        candidates = [k for k, (place, _) in enumerate(waiting) if place[0] == last]
    named = [k for k in candidates if result.name in (None, waiting[k][1].name)]
    return next(iter(named or candidates), None)


_CUT_OFF = {"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"}
_FILTERED = {"content_filter", "content-filter", "safety", "content_filtered", "blocklist", "prohibited_content"}


def finish_columns(finish_reason: str | None) -> dict[str, Any]:
    """Return how an answer came out, as its finish reason says: it is there, so ok, but perhaps cut off."""
    reason = (finish_reason or "").lower()
    if reason == "error":
        return {"status": Status.ERROR, "error_kind": ErrorKind.OTHER}
    if reason in _CUT_OFF:
        return {"status": Status.OK, "error_kind": ErrorKind.CUT_OFF}
    if reason in _FILTERED:
        return {"status": Status.OK, "error_kind": ErrorKind.CONTENT_FILTER}
    return {"status": Status.OK}


def failure_columns(message: str, default: ErrorKind = ErrorKind.OTHER) -> dict[str, Any]:
    """Return how a call came out that its source says failed, from the error's name, code or message."""
    kind = common.error_kind(message)
    status = {ErrorKind.TIMEOUT: Status.TIMEOUT, ErrorKind.NO_PERMISSION: Status.DENIED}.get(kind, Status.ERROR)
    if "cancel" in message[:200].lower():
        status, kind = Status.CANCELLED, ErrorKind.OTHER
    return {"status": status, "error_kind": default if kind is ErrorKind.TOOL_FAILED else kind}


def token_columns(total_input: object, cached: object, output: object) -> dict[str, Any]:
    """Return the token columns where the source's input includes the cached tokens, as OpenAI's and OTel's does.

    Where the cached ones are unknown they are left out, and the input is all of it. A source whose cached tokens
    exceed its input does not include them after all.

    >>> token_columns(100, 80, 5)
    {'input_tokens': 20, 'cached_tokens': 80, 'output_tokens': 5}
    """
    tokens, from_cache = common.count(total_input), common.count(cached)
    if tokens is not None and from_cache is not None and from_cache <= tokens:
        tokens -= from_cache
    return common.known(input_tokens=tokens, cached_tokens=from_cache, output_tokens=common.count(output))
