"""Read the body in which an OpenAI-compatible server answers: the text, why it ended, and what it took."""

from __future__ import annotations

import json
import re
from typing import Any

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Finish, Reply, Request
from hermes_lab.models.exact_json import read_exact
from hermes_lab.models.hermes import render_call
from hermes_lab.models.hermes_blocks import CALL, CALL_END
from hermes_lab.models.openai_failure import Failure, as_text, from_error_object, shortened
from hermes_lab.models.openai_payload import well_formed

_THINK = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_ABORTED = {"abort", "error"}


def read_reply(body: bytes, request: Request, name: str) -> Reply | Failure:
    """Return the reply in a body of status 200, without its latency and attempts.

    Args:
        body: as it came.
        request: what was asked; the frame is put around what its schema binds.
        name: `Model.name`.
    """
    try:
        value = json.loads(body.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        return _broken(f"the reply is not JSON ({error}): {body[:80].decode('utf-8', 'replace')!r}")
    if not isinstance(value, dict):
        return _broken("the reply is JSON, but not an object")
    if value.get("error"):
        return from_error_object(value["error"])
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return _broken("the reply has no choices[0].message")
    why = choice.get("finish_reason")
    if isinstance(why, str) and why in _ABORTED:
        return _broken(f"the server broke off: finish_reason {why}")
    text = _text(message.get("content"))
    if text is None:
        return _broken("the content of the reply is not text")
    return _reply(message, text, why, request, name, read_usage(value.get("usage")))


def _reply(
    message: dict[str, Any], text: str, why: Any, request: Request, name: str, usage: dict[str, int | None]
) -> Reply:
    reasoning, text = _split_reasoning(message, text)
    calls = _native_calls(message.get("tool_calls"))
    was_cut = why == "length"
    if calls:
        text = "\n".join([text.strip(), *calls]) if text.strip() else "\n".join(calls)
    elif request.schema is not None:
        text = _framed(text, request, was_cut)
    else:
        text = _stopped(text, request.stop)
    refusal = message.get("refusal")
    if why == "content_filter" or (isinstance(refusal, str) and refusal):
        said = shortened(refusal) if isinstance(refusal, str) else ""
        finish, kind, error = Finish.ERROR, ErrorKind.CONTENT_FILTER, said or "the provider's filter held it back"
    elif was_cut and request.schema is not None:
        finish, kind = Finish.LENGTH, ErrorKind.CUT_OFF
        error = f"cut off after {request.max_tokens} tokens, within what the schema binds"
    else:
        finish, kind, error = Finish.LENGTH if was_cut else Finish.STOP, None, ""
    return Reply(
        text=text, model=name, finish=finish, reasoning=reasoning, error_kind=kind, error=error, **_usage_fields(usage)
    )


def holds_json(reply: Reply, request: Request) -> bool:
    """Return whether a reply to a request with a schema is JSON in the request's frame, or calls."""
    text = reply.text.strip()
    if text.startswith(CALL) and not request.frame.prefix.startswith(CALL):
        return True
    bound = text.removeprefix(request.frame.prefix.strip()).removesuffix(request.frame.suffix.strip())
    try:
        read_exact(bound)
    except ValueError:
        return False
    return True


def read_usage(usage: Any) -> dict[str, int | None]:
    """Return uncached input, cached input and output tokens; None for what the server does not say.

    >>> read_usage({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    {'input': 6, 'cached': 4, 'output': 2}
    """
    if not isinstance(usage, dict):
        return {"input": None, "cached": None, "output": None}
    prompt = _count(usage.get("prompt_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if prompt is not None and cached is not None:
        # The prompt's count holds the cached ones; more cached than read would be nonsense.
        cached = min(cached, prompt)
        prompt -= cached
    return {"input": prompt, "cached": cached, "output": _count(usage.get("completion_tokens"))}


def _usage_fields(usage: dict[str, int | None]) -> dict[str, Any]:
    return {f"{kind}_tokens": count for kind, count in usage.items()}


def _count(value: Any) -> int | None:
    # 2**53: what a column of the log, and JSON elsewhere, can hold.
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _broken(message: str) -> Failure:
    return Failure(ErrorKind.SERVER_ERROR, shortened(message), retry=True)


def _text(content: Any) -> str | None:
    """Return the text of a message's content: text, null, or a list of parts; None where it is none of these."""
    if content is None:
        return ""
    if isinstance(content, str):
        return well_formed(content)
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return well_formed("".join(part for part in parts if isinstance(part, str)))


def _split_reasoning(message: dict[str, Any], text: str) -> tuple[str, str]:
    """Return the reasoning, which stands in a field of its own or in `<think>` at the start, and the rest."""
    for field in ("reasoning_content", "reasoning"):
        apart = message.get(field)
        if isinstance(apart, str) and apart.strip():
            return well_formed(apart).strip(), text
    thought = _THINK.match(text)
    if thought:
        return thought.group(1).strip(), text[thought.end() :]
    return "", text


def _framed(text: str, request: Request, was_cut: bool) -> str:
    """Put the frame around what the schema binds.

    A server that binds nothing may have written a fence, or the frame itself. After a cut the frame stays open, for a
    closing tag would say that the JSON in it is whole.
    """
    inner = text.strip()
    fence = _FENCE.fullmatch(inner)
    if fence:
        inner = fence.group(1).strip()
    opening = request.frame.prefix.strip()
    if opening and inner.startswith(opening):
        return inner
    return request.frame.prefix + inner + ("" if was_cut else request.frame.suffix)


def _stopped(text: str, stops: tuple[str, ...]) -> str:
    """Cut `text` at the first of the stops; a server may know fewer of them, or leave the stop in."""
    places = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(places)] if places else text


def _native_calls(calls: Any) -> list[str]:
    """Return calls that the server itself parsed, in Hermes' text again."""
    if not isinstance(calls, list):
        return []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return [_call_text(function) for function in functions if isinstance(function, dict)]


def _call_text(function: dict[str, Any]) -> str:
    name, arguments = function.get("name"), function.get("arguments")
    try:
        value = read_exact(arguments) if isinstance(arguments, str) else arguments
        return well_formed(render_call(name or "", {} if value is None else value))
    except (TypeError, ValueError):  # render_call refuses it, or (JsonError) it is no JSON
        # Left as it is: reading the calls will say what is wrong with it.
        raw = arguments if isinstance(arguments, str) else as_text(arguments)
        return well_formed(f'{CALL}\n{{"name": {as_text(name)}, "arguments": {raw}}}\n{CALL_END}')
