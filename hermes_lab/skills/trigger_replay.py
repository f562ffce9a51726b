"""Replaying trigger rules over many recorded queries at once, with the same result as asking one by one.

The words of the queries are found once (`Recorded`): those of each distinct query once, however often it was asked,
and those of each stretch between two blanks once, however many queries hold it. After that a rule costs two sums over
arrays, whatever the number of words that it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hermes_lab.skills.triggers import Index, clipped, is_stop_word, stem
from hermes_lab.text import tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SKIPPED = -1  # number of a stop word


class Recorded:
    """Recorded queries with their words as numbers.

    >>> from hermes_lab.skills.triggers import Trigger
    >>> index = Index([Trigger("refunds", ["money back"]), Trigger("tracking", ["parcel"])])
    >>> Recorded(["Where is my parcel?", "Hello"]).fires(index, "tracking").tolist()
    [True, False]

    Attributes:
        vocabulary: the words, each at its number.
        word_ids: the words of the distinct queries, one after another, each once a query; shape (words,).
        query_of: the number of the distinct query that each belongs to; shape (words,).
        distinct: for every query as recorded, the number of the distinct query that it is; shape (queries,).
    """

    def __init__(self, queries: Iterable[str]) -> None:
        """Find the words of `queries`."""
        import numpy as np

        places: dict[str, int] = {}
        self.distinct: npt.NDArray[np.int64] = np.asarray(
            [places.setdefault(query, len(places)) for query in queries], dtype=np.int64
        )
        stretches = _Stretches()
        flat: list[int] = []
        lengths: list[int] = []
        for query in places:
            found = stretches.words_of(query)
            flat.extend(found)
            lengths.append(len(found))
        self.vocabulary = tuple(stretches.numbers.words)
        self.word_ids: npt.NDArray[np.int64] = np.asarray(flat, dtype=np.int64)
        self.query_of: npt.NDArray[np.int64] = np.repeat(np.arange(len(places)), np.asarray(lengths, dtype=np.int64))
        self._size = len(places)

    def scores(self, index: Index, name: str) -> npt.NDArray[np.float64]:
        """Return the score of one skill's rule for every query, as `Index.scores` does; shape (queries,).

        Raises:
            KeyError: no such skill.
        """
        import numpy as np

        whole = np.sqrt(1.0 + self._sums(index.rarity))
        return np.round(self._sums(index.rule(name)) / whole, 6)[self.distinct]

    def fires(self, index: Index, name: str) -> npt.NDArray[np.bool_]:
        """Return whether one skill's rule fires on each query, whatever other skills do; shape (queries,).

        Raises:
            KeyError: no such skill.
        """
        return self.scores(index, name) >= index.weights.threshold

    def _sums(self, weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Return, for every distinct query, the sum of the weights of its words, in the order of the words."""
        import numpy as np

        by_id = np.fromiter((weights.get(word, 0.0) for word in self.vocabulary), np.float64, len(self.vocabulary))
        worth = by_id[self.word_ids]
        # Most words of most queries weigh nothing in one rule.
        heavy = np.flatnonzero(worth)
        sums = np.bincount(self.query_of[heavy], weights=worth[heavy], minlength=self._size)
        return np.asarray(sums, dtype=np.float64)


class _Numbers(dict[str, int]):
    """The number of every token that was met: that of its stem, or `_SKIPPED` for a stop word."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, int] = {}

    def __missing__(self, token: str) -> int:
        number = _SKIPPED if is_stop_word(token) else self.words.setdefault(stem(token), len(self.words))
        self[token] = number
        return number


class _Stretches(dict[str, tuple[int, ...]]):
    """The numbers of the words of every stretch of text without a blank that was met."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = _Numbers()

    def __missing__(self, stretch: str) -> tuple[int, ...]:
        found = tuple(number for token in tokens(stretch) if (number := self.numbers[token]) != _SKIPPED)
        self[stretch] = found
        return found

    def words_of(self, query: str) -> list[int]:
        """Return the numbers of a query's words, each once, in the order of `triggers.words`."""
        # No word reaches over a blank, so the words of a query are those of its stretches.
        found = map(self.__getitem__, clipped(query).split())
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))
