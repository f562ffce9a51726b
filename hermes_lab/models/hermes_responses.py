r"""Read and write `<tool_response>` blocks: what tools answered, in a `tool` turn of a Hermes conversation.

>>> parse_responses(render_response("add", 3))[0].content
3
>>> [response.content for response in parse_responses("<tool_response>\nNo such file\n</tool_response>")]
['No such file']

A response is JSON or plain text, so nothing here is an error: what cannot be read as JSON is text. Time is
linear for the same reasons as in `hermes_blocks`: stretches between tags do not overlap, and of the reads
that pass a tag no more than one is inside each kind of string at any character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hermes_lab.models.exact_json import JsonError, dump, read_exact
from hermes_lab.models.tolerant_json import read

OPEN = "<tool_response>"
CLOSE = "</tool_response>"

_TAG = re.compile("</?tool_response>")
_BLANKS = re.compile(r"\s*+")
_ENVELOPE = {"name", "content", "tool_call_id"}


@dataclass(frozen=True, slots=True)
class Response:
    """What one tool answered.

    Attributes:
        name: the tool's name, if the block gave one. In logs it goes by position and can be wrong.
        content: any JSON value, or the plain text of the block.
        raw: the text it was read from, a part of the input, with its tags.
        repaired: whether the end tag was missing or the JSON was not proper; plain text needs no repair.
        call_id: the id of the call it answers, if the block gave one.
    """

    name: str | None
    content: Any
    raw: str
    repaired: bool
    call_id: str | None = None


def parse_responses(text: str) -> tuple[Response, ...]:
    """Return the responses in `text`, a `tool` turn; none if it has no `<tool_response>` tag.

    No text makes it raise; it takes time linear in the length of the text.
    """
    tags = list(_TAG.finditer(text))
    responses = []
    index = 0
    while index < len(tags):
        if tags[index].group() == OPEN:
            response, index = _read_response(text, tags, index)
            responses.append(response)
        else:
            index += 1
    return tuple(responses)


def render_response(name: str, content: Any) -> str:
    """Return the text of a response, such that `parse_responses` finds exactly this response in it.

    Raises:
        ValueError: a number that is not finite, too many digits or levels of nesting.
        TypeError: a name or key that is not text, or a value that JSON does not have.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a tool is text")
    return f"{OPEN}\n{dump({'name': name, 'content': content})}\n{CLOSE}"


def _read_response(text: str, tags: list[re.Match[str]], index: int) -> tuple[Response, int]:
    """Return the response that the open tag at `index` begins, and the index of the tag to go on with."""
    start = tags[index].start()
    position = tags[index].end()
    following = index + 1
    limit = tags[following].start() if following < len(tags) else len(text)
    body = text[position:limit]
    repaired = False
    try:
        value = read_exact(body)
    except JsonError:
        value = body.strip("\r\n")
        if body.lstrip()[:1] in ("{", "["):
            # Either not quite JSON, or a string in it holds the tag.
            found = _read_mending(text, tags, following, position)
            repaired = True
            if found:
                value, repaired, following = found
    closed = following < len(tags) and tags[following].group() == CLOSE
    limit = tags[following].start() if following < len(tags) else len(text)
    raw = text[start : tags[following].end() if closed else limit]
    repaired = repaired or not closed
    following = following + 1 if closed else following
    if isinstance(value, dict) and "content" in value and value.keys() <= _ENVELOPE:
        name, call_id = value.get("name"), value.get("tool_call_id")
        name = name if isinstance(name, str) else None
        call_id = call_id if isinstance(call_id, str) else None
        return Response(name, value["content"], raw, repaired, call_id), following
    return Response(None, value, raw, repaired), following


def _read_mending(text: str, tags: list[re.Match[str]], following: int, position: int) -> tuple[Any, bool, int] | None:
    """Return a value read past tags in its strings, whether it was repaired, and the tag after it."""
    try:
        reading = read(text, position)
    except JsonError:
        return None
    while following < len(tags) and tags[following].start() < reading.end:
        following += 1
    limit = tags[following].start() if following < len(tags) else len(text)
    blanks = _BLANKS.match(text, reading.end)
    if blanks is None or blanks.end() < limit:
        return None
    return reading.value, reading.repaired, following
