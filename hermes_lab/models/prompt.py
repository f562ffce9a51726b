r"""Write a conversation with tools as the Hermes text protocol has it, and as ChatML.

The tools stand in the system turn, results of tools in one `tool` turn, each in its own tags. What users, models and
tools wrote cannot forge a turn or a tag: in JSON such text is escaped, which changes nothing about its value; elsewhere
a blank breaks it.

>>> add = Signature("add", "Add two numbers.", {"type": "object", "properties": {}})
>>> result = Turn(Role.TOOL, '{"sum": 3}', name="add")
>>> system, user, tool = hermes_turns([Turn(Role.USER, "1 + 2?"), result], [add])
>>> "<tools>" in system.content, tool.content
(True, '<tool_response>\n{"name": "add", "content": {"sum": 3}}\n</tool_response>')
>>> chatml([user])
'<|im_start|>user\n1 + 2?<|im_end|>\n<|im_start|>assistant\n'
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from hermes_lab.models.base import Role, Signature, Turn
from hermes_lab.models.exact_json import read_exact
from hermes_lab.models.hermes import parse
from hermes_lab.models.hermes_responses import render_response

DEFAULT_SYSTEM = "You are a function calling AI model."
"""The system text of a conversation that has tools and says nothing itself."""

_BEFORE_TOOLS = "These are the tools that you may call, each with the JSON Schema of its parameters:"
_AFTER_TOOLS = """\
A call is a JSON object with the name of a tool and its arguments. Write every call within tags of its own:
<tool_call>
{"name": <tool>, "arguments": {<parameter>: <value>}}
</tool_call>
Results come back within <tool_response></tool_response>."""

_JSON_MODE = "Answer with JSON that is valid against this schema, and with nothing else:"

# Where a tag of the protocol or a special token begins. In JSON "<" may be written as an escape, so that no
# string of a result can end the block around it.
_TAG_START = re.compile(r"<(?=\||/?(?:tool_call|tool_response|tools|think|scratch_pad|schema)>)")
_ESCAPED = r"\\u003c"
_CHATML_TOKEN = re.compile(r"<\|(?=im_(?:start|end)\|>)")


def hermes_turns(messages: Sequence[Turn], tools: Sequence[Signature]) -> tuple[Turn, ...]:
    """Return the turns of a conversation in the Hermes text protocol.

    The first turn is a system turn that names the tools (made if missing; with no tools it stays as it is).
    Consecutive turns of tools become one, with a `<tool_response>` block for each.

    Args:
        messages: the conversation; a tool's `content` is JSON text, and what is not JSON is taken as plain text.
        tools: in the order in which they are listed.
    """
    turns = list(messages)
    if tools:
        has_system = bool(turns) and turns[0].role is Role.SYSTEM
        text = turns.pop(0).content if has_system else DEFAULT_SYSTEM
        turns.insert(0, Turn(Role.SYSTEM, f"{text}\n\n{tools_text(tools)}" if text.strip() else tools_text(tools)))
    written: list[Turn] = []
    for role, group in groupby(turns, key=lambda turn: turn.role):
        if role is Role.TOOL:
            written.append(Turn(Role.TOOL, "\n".join(_response(turn) for turn in group)))
        elif role is Role.ASSISTANT:
            written.extend(Turn(role, _shielded_calls(turn.content)) for turn in group)
        else:
            written.extend(group)
    return tuple(written)


def tools_text(tools: Iterable[Signature]) -> str:
    """Return what the system turn says about the tools and how to call them."""
    listed = _compact([function_form(tool) for tool in tools])
    return f"{_BEFORE_TOOLS}\n<tools> {_TAG_START.sub(_ESCAPED, listed)} </tools>\n{_AFTER_TOOLS}"


def json_turns(turns: Sequence[Turn], schema: dict[str, Any]) -> tuple[Turn, ...]:
    """Return `turns` with the system turn asking for JSON of `schema`: for models whose decoding nothing binds."""
    asked = f"{_JSON_MODE}\n<schema>\n{_TAG_START.sub(_ESCAPED, _compact(schema))}\n</schema>"
    if turns and turns[0].role is Role.SYSTEM:
        return (Turn(Role.SYSTEM, f"{turns[0].content}\n\n{asked}"), *turns[1:])
    return (Turn(Role.SYSTEM, asked), *turns)


def function_form(tool: Signature) -> dict[str, Any]:
    """Return a signature in the form that OpenAI's API and chat templates take."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def chatml(turns: Iterable[Turn], prefix: str = "") -> str:
    """Return turns as ChatML text, ending where the assistant writes on.

    Args:
        turns: as `hermes_turns` gives them.
        prefix: the beginning of the assistant's turn, ours and trusted.
    """
    written = [f"<|im_start|>{turn.role}\n{plain(turn.content)}<|im_end|>\n" for turn in turns]
    return f"{''.join(written)}<|im_start|>assistant\n{prefix}"


def plain(text: str) -> str:
    """Return `text` with a blank in each ChatML token, so that it is read as text.

    >>> plain("<|im_end|> is a token")
    '< |im_end|> is a token'
    """
    return _CHATML_TOKEN.sub("< |", text)


def wording() -> str:
    """Return a fingerprint of how prompts are written here, for the fingerprints of models that use it."""
    tool = Signature("tool", "text", {"type": "object"})
    turns = [Turn(role, "{}") for role in (Role.USER, Role.ASSISTANT, Role.TOOL)]
    written = chatml(json_turns(hermes_turns(turns, [tool]), {"type": "object"}))
    return hashlib.sha256(written.encode()).hexdigest()[:12]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _response(turn: Turn) -> str:
    """Return the block of one result; tags and special tokens in its strings are escaped as JSON may be."""
    name = turn.name or ""
    try:
        block = render_response(name, read_exact(turn.content))
    except ValueError:  # no JSON (a JsonError), or nested too deeply to stand in a block
        block = render_response(name, turn.content)
    opening, body, closing = block.split("\n")  # JSON text has no line break
    return f"{opening}\n{_TAG_START.sub(_ESCAPED, body)}\n{closing}"


def _shielded_calls(text: str) -> str:
    """Escape special tokens inside the calls of an assistant's turn, where that leaves the call as it is."""
    if "<|" not in text:
        return text
    for call in parse(text).calls:
        escaped = call.raw.replace("<|", r"\u003c|")
        again = parse(escaped).calls
        if len(again) == 1 and (again[0].name, again[0].arguments) == (call.name, call.arguments):
            text = text.replace(call.raw, escaped)
    return text
