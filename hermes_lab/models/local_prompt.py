"""Write a request as the tokens of a prompt: by the model's own chat template, else as the Hermes text protocol.

Text from users, tools and models cannot forge a turn: special tokens of the tokenizer are broken by a blank in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import jinja2
import msgspec

from hermes_lab.models.base import Request, Role, Signature, Turn
from hermes_lab.models.prompt import chatml, function_form, hermes_turns

_PROTOCOL = re.compile(r"</?(?:tool_call|tool_response|tools|think|scratch_pad|schema)>")
_REMEMBERED = 256


class PromptError(ValueError):
    """The chat template refuses the conversation."""


class Prompter:
    """Writes prompts for one tokenizer.

    Attributes:
        native_tools: whether the chat template shows tools by itself.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Look at what the tokenizer's template can do.

        Args:
            tokenizer: as transformers loads it.
        """
        self._tokenizer = tokenizer
        template = tokenizer.chat_template
        self._has_template = bool(template)
        self._tool_template = tokenizer.get_chat_template(tools=[{}]) if template else ""
        self.native_tools = bool(re.search(r"\btools\b", self._tool_template))
        self._wraps_results = "tool_response" in self._tool_template
        self._special = _pattern(_special_texts(tokenizer))
        self._shared: dict[bytes, tuple[int, ...]] = {}

    def text(self, request: Request) -> str:
        """Return the prompt as text, up to where the model writes on (the frame's prefix included).

        Raises:
            PromptError: the template refuses the conversation.
        """
        return self._render(request.messages, request.tools) + request.frame.prefix

    def tokens(self, request: Request) -> list[int]:
        """Return the prompt as token ids.

        Raises:
            PromptError: the template refuses the conversation.
        """
        return self._encode(self.text(request))

    def shared(self, request: Request) -> tuple[int, ...]:
        """Return the tokens that every prompt with this system turn and these tools begins with; maybe none.

        It depends on nothing else in the request, so that it is the same whatever else is asked.
        """
        has_system = bool(request.messages) and request.messages[0].role is Role.SYSTEM
        opening = request.messages[:1] if has_system else ()
        key = msgspec.json.encode((opening, request.tools))
        if key not in self._shared:
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            try:
                # Two users whose words have nothing in common agree up to where the user's text begins.
                first, second = (
                    self._encode(self._render((*opening, Turn(Role.USER, words)), request.tools))
                    for words in ("Alpha", "7 zebras")
                )
            except PromptError:
                first = second = []
            self._shared[key] = tuple(first[: common_length(first, second)])
        return self._shared[key]

    def neutral(self, text: str) -> str:
        """Return `text` with a blank in each special token of the tokenizer, so that it is read as text."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens that the model wrote; special ones are shown."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _render(self, messages: Sequence[Turn], tools: Sequence[Signature]) -> str:
        native = self.native_tools and bool(tools)
        turns = self._native_turns(messages) if native else hermes_turns(messages, tools)
        plain = [Turn(turn.role, self.neutral(turn.content), turn.name) for turn in turns]
        if not self._has_template:
            return chatml(plain)
        offered = [self._neutral_value(function_form(tool)) for tool in tools] if native else None
        try:
            return self._apply(plain, offered)
        except jinja2.TemplateError as error:
            # Some templates know no system or tool role, or want the user and the assistant to take turns.
            if native:
                raise PromptError(f"the chat template refuses the conversation: {error}") from None
        try:
            return self._apply(_two_roles(plain), None)
        except jinja2.TemplateError as error:
            raise PromptError(f"the chat template refuses the conversation: {error}") from None

    def _apply(self, turns: Sequence[Turn], tools: list[Any] | None) -> str:
        messages = [
            {"role": str(turn.role), "content": turn.content} | ({"name": turn.name} if turn.name else {})
            for turn in turns
        ]
        text: str = self._tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, tokenize=False
        )
        return text

    def _native_turns(self, messages: Sequence[Turn]) -> list[Turn]:
        """Return the turns as a template with tools of its own wants them: results one a turn, in its own tags."""
        turns: list[Turn] = []
        for turn in messages:
            if turn.role is not Role.TOOL:
                turns.extend(hermes_turns([turn], ()))
                continue
            if not self._wraps_results:
                turns.append(turn)
                continue
            block = hermes_turns([turn], ())[0].content
            turns.append(Turn(Role.TOOL, block.split("\n", 1)[1].rsplit("\n", 1)[0], turn.name))
        return turns

    def _neutral_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.neutral(value)
        if isinstance(value, dict):
            return {self.neutral(str(key)): self._neutral_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._neutral_value(item) for item in value]
        return value


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two prompts begin with in common.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def _two_roles(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with the user and the assistant only, taking turns, the user first."""
    told = [Turn(Role.ASSISTANT if turn.role is Role.ASSISTANT else Role.USER, turn.content) for turn in turns]
    if not told or told[0].role is Role.ASSISTANT:
        told.insert(0, Turn(Role.USER, ""))
    return [
        Turn(role, "\n\n".join(turn.content for turn in group))
        for role, group in groupby(told, key=lambda turn: turn.role)
    ]


def _special_texts(tokenizer: Any) -> set[str]:
    """Return the texts that the tokenizer reads as one special token, without the tags of the Hermes protocol."""
    texts = {str(text) for text in tokenizer.all_special_tokens}
    for token in tokenizer.added_tokens_decoder.values():
        if token.special or token.content.startswith("<|"):
            texts.add(token.content)
    return {text for text in texts if len(text) > 1 and not _PROTOCOL.fullmatch(text)}


def _pattern(texts: set[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
