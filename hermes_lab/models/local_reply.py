"""Make the reply of what was written: text, reasoning kept apart, counts, and what went wrong."""

from __future__ import annotations

import re

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Finish, Reply
from hermes_lab.models.local_batch import Failure
from hermes_lab.models.local_decode import Writing
from hermes_lab.models.local_prompt import Prompter

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_THINK = "<think>"


def reply(writing: Writing, model: str, prompter: Prompter) -> Reply:
    """Return the reply that `writing` came to.

    A reply that was cut (by length, time or an error) carries its frame's prefix, and not its suffix.

    Args:
        writing: the ended reply.
        model: the name of the model.
        prompter: what wrote the prompt.
    """
    job = writing.job
    text = prompter.decode(writing.tokens) if writing.text is None else writing.text
    reasoning = ""
    frame = job.request.frame
    if not frame.prefix and job.binding is None:
        opened = prompter.text(job.request).rstrip().endswith(_THINK)
        reasoning, text = split_reasoning(text, opened=opened)
    finish = writing.finish or Finish.STOP
    kind, error = _what_failed(writing)
    return Reply(
        text=frame.prefix + text + (frame.suffix if finish is Finish.STOP else ""),
        model=model,
        finish=finish,
        reasoning=reasoning,
        error_kind=kind,
        error=error,
        input_tokens=len(job.prompt),
        cached_tokens=0,
        output_tokens=writing.counted,
        latency_ms=round(writing.milliseconds, 3),
        confidence=writing.confidence,
    )


def failed_reply(failure: Failure, model: str) -> Reply:
    """Return the reply to a request that was not decoded."""
    return Reply(
        text="",
        model=model,
        finish=Finish.ERROR,
        error_kind=failure.kind,
        error=failure.message,
        input_tokens=failure.input_tokens,
        output_tokens=0,
        latency_ms=0.0,
    )


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str, str]:
    """Return the reasoning at the start of a reply, and the rest.

    Args:
        text: what the model wrote.
        opened: whether the prompt ended with the tag that opens it.

    >>> split_reasoning("<think>One and one.</think>Two.")
    ('One and one.', 'Two.')
    """
    found = _THOUGHT.match(_THINK + text if opened else text)
    if found:
        return found[1].strip(), (_THINK + text if opened else text)[found.end() :]
    if opened or text.lstrip().startswith(_THINK):  # cut before it ended
        return text.lstrip().removeprefix(_THINK).strip(), ""
    return "", text


def _what_failed(writing: Writing) -> tuple[ErrorKind | None, str]:
    if writing.finish is Finish.TIMEOUT:
        return ErrorKind.TIMEOUT, writing.error
    if writing.finish is Finish.ERROR:
        return ErrorKind.OTHER, writing.error
    if writing.finish is Finish.LENGTH and writing.job.binding is not None:
        return ErrorKind.CUT_OFF, f"the reply was cut at {writing.job.max_tokens} tokens, within its schema"
    return None, ""
