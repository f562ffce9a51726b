"""What a user asks to be remembered, found by words, English and Chinese: meant to miss rather than to invent."""

from __future__ import annotations

import re
from typing import NamedTuple

from hermes_lab.memory import Kind

_SENTENCE = re.compile(r"[^.!?。！？\n;；]+(?:\.\d[^.!?。！？\n;；]*)*[.!?。！？]?")
_INTENT = re.compile(
    r"\b(?:remember|always|never|prefer|from now on|in (?:the )?future|don'?t forget|keep in mind|by default)\b"
    r"|记住|记得|以后|今后|偏好|总是|永远|不要再|别再|默认|我喜欢|我习惯",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(
    r"\b(?:never|must not|must|don'?t ever|only ever)\b|不要再|别再|绝不|不得|必须|永远不", re.IGNORECASE
)
_PREFERENCE = re.compile(
    r"\b(?:always|prefer|from now on|in (?:the )?future|by default|like|want)\b"
    r"|以后|今后|偏好|总是|永远|默认|喜欢|习惯|希望",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^\s*(?:(?:please|pls|ok(?:ay)?|and|also|so)[,\s]+)*"
    r"(?:remember(?:\s+that)?|don'?t forget(?:\s+that)?|keep in mind(?:\s+that)?)"
    r"[\s,:]*|^\s*(?:请|麻烦)?(?:你)?(?:帮我)?(?:记住|记得)[，,：:\s]*",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"[?？]\s*$|^\s*(?:do|did|can|could|would|will|are|is)\s+you\b|(?:吗|么|呢)[?？。]?\s*$", re.IGNORECASE
)
_SHORTEST = 6
_LONGEST = 300


class Wish(NamedTuple):
    """Something to be remembered: the text, and what sort of thing it says."""

    text: str
    kind: Kind


def has_intent(text: str) -> bool:
    """Tell whether a text holds a word that asks for something to be kept.

    >>> has_intent("请记住我的地址"), has_intent("Where is my order?")
    (True, False)
    """
    return _INTENT.search(text) is not None


def wish_in(text: str) -> Wish | None:
    """Return the first sentence that asks for something to be kept, without its "remember that"; None for none.

    A question is none: "do you always ship by air?" says nothing about what the user wants.

    >>> wish_in("Hi. Please remember that I am allergic to nuts. Thanks!")
    Wish(text='I am allergic to nuts.', kind=<Kind.FACT: 'fact'>)
    >>> wish_in("以后请用中文回答。").kind.value
    'preference'
    >>> wish_in("Do you always ship by air?") is None
    True
    """
    for match in _SENTENCE.finditer(text):
        sentence = match.group().strip()
        if not has_intent(sentence) or _QUESTION.search(sentence):
            continue
        kept = _OPENING.sub("", sentence).strip(" ,，:：")
        if _SHORTEST <= len(kept) <= _LONGEST or (not kept.isascii() and 3 <= len(kept) <= _LONGEST):
            return Wish(kept, _kind(sentence))
    return None


def _kind(sentence: str) -> Kind:
    if _CONSTRAINT.search(sentence):
        return Kind.CONSTRAINT
    return Kind.PREFERENCE if _PREFERENCE.search(sentence) else Kind.FACT
