"""Reading a statement for `conflicts`: what it is about, and in what another one could differ from it. Pure."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hermes_lab.conflicts import words
from hermes_lab.text import tokens


class Read(NamedTuple):
    """A statement, read.

    Attributes:
        about: stems of its words, without those that stand in another field or only frame it.
        ids: numbers of orders, tickets and the like.
        negated: whether it says not.
        poles: by pair of opposites, which side it takes.
        numbers: by unit ("" for none).
        values: by group of values that exclude each other.
        order: what comes first and what then, where it gives an order.
        updates: whether it says that it holds in place of something else.
    """

    about: frozenset[str]
    ids: frozenset[str]
    negated: bool
    poles: Mapping[int, int]
    numbers: Mapping[str, frozenset[str]]
    values: Mapping[int, frozenset[str]]
    order: tuple[frozenset[str], frozenset[str]] | None
    updates: bool


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return how many words two sets share, from 0 to 1: shared / the geometric mean of their numbers."""
    return len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0


@functools.lru_cache(maxsize=2048)
def words_of(text: str) -> frozenset[str]:
    """Return the words of a long text."""
    return frozenset(tokens(text))


_IDENTIFIER = re.compile(r"(?<![a-z0-9])[a-z]{1,8}-?\d[a-z0-9-]*")
_NUMBERED = re.compile(rf"(?<![a-z0-9])(?:{words.NUMBERED})")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_UNIT = re.compile(r"\s*([a-z%°$€£]+|[\u4e00-\u9fff])?")
_FIRST_THEN = (
    (re.compile(r"先(.+?)[,，、]?(?:再|然后|后)(.+)"), False),
    (re.compile(r"^before (.+?), (.+)"), True),
    (re.compile(r"(.+) before (.+)"), False),
    (re.compile(r"(.+) after (.+)"), True),
)
_UPDATE = re.compile(words.UPDATE)
_SUFFIX = re.compile(r"(?:ies|ing|ed|es|s|e)$")


def _forms(groups: Iterable[str]) -> dict[str, str]:
    """Return, by each form of the values of a group, the value that it is a form of."""
    return {form.lower(): value.split("|")[0] for value in " ".join(groups).split() for form in value.split("|")}


_VALUES = {
    form: (place, value) for place, group in enumerate(words.EXCLUSIVE) for form, value in _forms([group]).items()
}
_POLES = {
    word: (place, side)
    for place, pair in enumerate(words.OPPOSITES)
    for side, text in enumerate(pair)
    for word in text.split()
}


def _alternatives(terms: Iterable[str]) -> str:
    return "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))


# Chinese has no blanks, so its terms are searched for, the longest first.
_CHINESE_TERMS = re.compile(
    f"(?P<value>{_alternatives(term for term in _VALUES if not term.isascii())})"
    f"|(?P<pole>{_alternatives(term for term in _POLES if not term.isascii())})"
    f"|(?P<negation>{_alternatives(words.NEGATIONS_CHINESE)})"
    f"|(?P<frame>{_alternatives(words.FRAME_CHINESE)})"
)
_FRAMING = re.compile(f"(?:{_alternatives((*words.NEGATIONS_CHINESE, *words.FRAME_CHINESE))})")
_SHORT_NOT = re.compile(r"\b[a-z]+n't\b|'s\b")
_ENGLISH_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?")


@functools.lru_cache(maxsize=8192)
def read(text: str) -> Read:
    """Return what a statement says."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    updates = _UPDATE.search(plain) is not None
    ids = {"".join(found.split()) for found in _NUMBERED.findall(plain)} | set(_IDENTIFIER.findall(plain))
    left = _IDENTIFIER.sub(" ", _NUMBERED.sub(_without_number, plain))
    numbers, left = _take_numbers(left)
    notes = _Notes()
    left = _CHINESE_TERMS.sub(notes.chinese, left)
    left = _ENGLISH_WORD.sub(notes.english, left)
    return Read(
        frozenset(_stem(token) for token in tokens(left)),
        frozenset(ids),
        notes.negations % 2 == 1,
        notes.poles,
        numbers,
        {group: frozenset(values) for group, values in notes.values.items()},
        _order(plain),
        updates,
    )


class _Notes:
    """What was met while the words of a statement were read; each method returns what to leave in its place."""

    def __init__(self) -> None:
        self.negations = 0
        self.poles: dict[int, int] = {}
        self.values: dict[int, set[str]] = {}

    def chinese(self, match: re.Match[str]) -> str:
        term = match.group()
        if match.lastgroup == "value":
            self._value(term)
        elif match.lastgroup == "pole":
            self._pole(term)
        elif match.lastgroup == "negation":
            self.negations += 1
        return " "

    def english(self, match: re.Match[str]) -> str:
        word = match.group().removesuffix("'s")
        if word in words.NEGATIONS_ENGLISH or word.endswith("n't"):
            self.negations += 1
        elif word in _VALUES:
            self._value(word)
        elif word in _POLES:
            self._pole(word)
        elif word not in words.FRAME_ENGLISH:
            return word
        return " "

    def _value(self, term: str) -> None:
        group, value = _VALUES[term]
        self.values.setdefault(group, set()).add(value)

    def _pole(self, term: str) -> None:
        pair, side = _POLES[term]
        self.poles[pair] = side


@functools.lru_cache(maxsize=2048)
def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words, opposites and values among them, without negations and mere framing.

    >>> sorted(stems("Never close tickets in Chinese"))
    ['chines', 'clos', 'ticket']
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    plain = _FRAMING.sub(" ", _SHORT_NOT.sub(" ", plain))
    kept = [word for word in tokens(plain) if word not in words.FRAME_ENGLISH and word not in words.NEGATIONS_ENGLISH]
    return frozenset(_stem(word) for word in kept)


def _without_number(match: re.Match[str]) -> str:
    return _NUMBER.sub(" ", match.group()) + " "


def _take_numbers(text: str) -> tuple[dict[str, frozenset[str]], str]:
    """Return the numbers by their unit, and the text without them; the unit stays, for it says what it is about."""
    found: dict[str, set[str]] = {}
    for match in _NUMBER.finditer(text):
        unit = _UNIT.match(text, match.end())
        name = _stem(unit.group(1)) if unit and unit.group(1) else ""
        found.setdefault(name, set()).add(match.group().replace(",", ""))
    return {name: frozenset(numbers) for name, numbers in found.items()}, _NUMBER.sub(" ", text)


def _order(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return what comes first and what comes then, where a statement gives an order."""
    for pattern, reversed_ in _FIRST_THEN:
        match = pattern.search(text)
        if match:
            sides = [frozenset(_stem(token) for token in tokens(part)) for part in match.groups()]
            return (sides[1], sides[0]) if reversed_ else (sides[0], sides[1])
    return None


def _stem(word: str) -> str:
    """Return an English word without its ending, so that `closing` meets `closes`; others as they are."""
    return _SUFFIX.sub("", word) if word.isascii() and len(word) > 3 else word
