"""Which skills a query triggers: the overlap of its words with theirs, weighted by field and by rarity. Pure.

Words are those of `text.tokens` (Chinese: pairs of neighbouring characters), English ones without their endings. A
word counts by the field that holds it and by how few skills of the library share it. An index is prepared once for a
library; the same skills give the same index, whatever the order they come in.

Overlap needs a shared word, and the more skills there are, the more share one. Measured (`bench_skills.py`): recall at
3 stays above 0.9 up to about `SERVED` skills by different authors, and falls sooner among skills that repeat each
other's phrases. The seam for larger libraries is `Index`: whatever has its `match` can stand in its place, such as an
index over embeddings.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from hermes_lab.text import tokens

QUERY_CHARS = 4000
"""Of a longer query only the first and the last half of so many characters are looked at."""

SERVED = 250
"""Skills up to which overlap alone found the right one among three in 9 of 10 queries, English and Chinese, where they
are of different authors; among skills that repeat each other's phrases that ends sooner."""

_ENGLISH = """
use used using user users want wants need needs help make makes ask asks give gives tell show take look find finds new
way thing things get set write writes create creates add put know see go come one two three first last today yesterday
tomorrow now here
"""
_CHINESE = """
使用 用户 需要 想要 进行 帮忙 帮助 给我 我想 我要 今天 明天 现在 这篇 这份 这张 这段 一份 根据 并给 给出 为什
"""
_STOP_WORDS = frozenset(_ENGLISH.split() + _CHINESE.split())
_LEAST_STEMMED = 4  # characters; shorter words have no ending to lose


class Weights(NamedTuple):
    """How much the words of each field count, and from which score on a skill is triggered.

    They were set on `tests/skills/dev_pairs.jsonl`, never on the pairs that are reported.

    Attributes:
        name: a word of the skill's name.
        tags: one of its tags.
        description: one of its description.
        headings: one of its headings.
        threshold: the least score.
        near_best: a skill whose score is below this share of the best one's is not triggered.
    """

    name: float = 1.0
    tags: float = 1.0
    description: float = 0.6
    headings: float = 0.2
    threshold: float = 0.4
    near_best: float = 0.7


WEIGHTS = Weights()


class Trigger(NamedTuple):
    """What a skill may be triggered by.

    Attributes:
        name: of the skill, unique within the library.
        tags: words or phrases that name its subject.
        description: what it does and when to use it.
        headings: of its body, a line each.
    """

    name: str
    tags: Sequence[str] = ()
    description: str = ""
    headings: str = ""


class Match(NamedTuple):
    """A skill that a query triggers, and its score, 0 and up."""

    name: str
    score: float


def words(text: str) -> list[str]:
    """Return the words of a text that triggers compare, each once, in order.

    >>> words("Use this when the user is reviewing commits")
    ['review', 'commit']
    """
    return list(dict.fromkeys(stem(word) for word in tokens(clipped(text)) if not is_stop_word(word)))


def clipped(text: str) -> str:
    """Return what is looked at of a text: all, or the first and the last half of `QUERY_CHARS`."""
    if len(text) <= QUERY_CHARS:
        return text
    half = QUERY_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def is_stop_word(word: str) -> bool:
    """Return whether a word, as `text.tokens` gives it, says nothing about which skill is meant."""
    return word in _STOP_WORDS


@functools.lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """Return an English word without its ending, by Porter's second algorithm; any other word as it is.

    >>> stem("commits"), stem("reviewing"), stem("订单")
    ('commit', 'review', '订单')
    """
    if len(word) < _LEAST_STEMMED or not (word.isascii() and word.isalpha()):
        return word
    stemmed: str = _stemmer().stemWord(word)
    return stemmed


@functools.cache
def _stemmer() -> Any:
    import snowballstemmer  # type: ignore[import-untyped]

    return snowballstemmer.EnglishStemmer()


def weigh(trigger: Trigger, weights: Weights = WEIGHTS) -> dict[str, float]:
    """Return the weight of every word that a trigger holds: that of the best field it stands in.

    >>> weigh(Trigger("refunds", description="Pay money back."))
    {'pay': 0.6, 'money': 0.6, 'back': 0.6, 'refund': 1.0}
    """
    found: dict[str, float] = {}
    for text, weight in (
        (trigger.headings, weights.headings),
        (trigger.description, weights.description),
        ("\n".join(trigger.tags), weights.tags),
        (trigger.name, weights.name),
    ):
        for word in words(text):
            found[word] = max(weight, found.get(word, 0.0))
    return found


class Index:
    """The triggers of a library, prepared for matching.

    A score is the sum, over the words that a query shares with a skill, of their field's weight times their rarity,
    divided by the square root of one more than the rarity of all words that the query shares with the library. Rarity
    goes from 1, for a word of one skill, towards 0.

    >>> index = Index([Trigger("refunds", ["money back"], "Pay back an order."), Trigger("tracking", ["parcel"])])
    >>> [match.name for match in index.match("Where is my parcel?")]
    ['tracking']
    """

    def __init__(self, triggers: Iterable[Trigger], weights: Weights = WEIGHTS) -> None:
        """Prepare `triggers`; of two with one name the last in order of all their fields counts."""
        by_name = {one.name: weigh(one, weights) for one in sorted(triggers, key=repr)}
        self.weights = weights
        self.names = tuple(sorted(by_name))
        shared: dict[str, int] = {}
        for name in self.names:
            for word in by_name[name]:
                shared[word] = shared.get(word, 0) + 1
        most = math.log1p(len(self.names)) or 1.0
        self.rarity = {word: math.log1p(len(self.names) / count) / most for word, count in shared.items()}
        self._postings: dict[str, list[tuple[int, float]]] = {word: [] for word in shared}
        for place, name in enumerate(self.names):
            for word, weight in by_name[name].items():
                self._postings[word].append((place, weight * self.rarity[word]))

    def match(self, query: str, limit: int = 3, only: Container[str] | None = None) -> tuple[Match, ...]:
        """Return the skills that a query triggers, the best first; equal scores in order of their names.

        Args:
            query: what was asked.
            limit: at most so many.
            only: names that may be triggered; None for all.
        """
        found = self.scores(query)
        if only is not None:
            found = {place: score for place, score in found.items() if self.names[place] in only}
        if not found:
            return ()
        least = max(self.weights.threshold, self.weights.near_best * max(found.values()))
        passed = [(-score, place) for place, score in found.items() if score >= least]
        return tuple(Match(self.names[place], -score) for score, place in heapq.nsmallest(limit, passed))

    def scores(self, query: str) -> dict[int, float]:
        """Return the score, by place in `names`, of every skill that shares a word with the query."""
        found: dict[int, float] = {}
        known = 0.0
        # In order of the query's words, so that sums come out the same to the last bit in every process.
        for word in words(query):
            postings = self._postings.get(word)
            if postings is None:
                continue
            known += self.rarity[word]
            for place, weight in postings:
                found[place] = found.get(place, 0.0) + weight
        whole = math.sqrt(1.0 + known)
        return {place: round(score / whole, 6) for place, score in found.items()}

    def rule(self, name: str) -> dict[str, float]:
        """Return the trigger rule of one skill: what each of its words adds to a score before the division.

        Raises:
            KeyError: no such skill.
        """
        if name not in self.names:
            raise KeyError(name)
        place = self.names.index(name)
        return {word: weight for word, postings in self._postings.items() for at, weight in postings if at == place}
