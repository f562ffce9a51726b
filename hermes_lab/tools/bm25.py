"""BM25: which of many token lists fit a query best."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence


class Bm25:
    """An index over token lists, scored as Robertson and Zaragoza's BM25 with an idf that is never negative.

    >>> index = Bm25([["red", "fox"], ["red", "hen"], ["blue", "fox", "fox"]])
    >>> [place for place, score in index.search(["fox"], 2)]
    [2, 0]

    Args:
        documents: the token list of each document.
        k1: how soon further occurrences of a word stop to count.
        b: how much long documents are held back, 0 to 1.
    """

    def __init__(self, documents: Iterable[Sequence[str]], *, k1: float = 1.2, b: float = 0.75) -> None:
        lengths: list[int] = []
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, document in enumerate(documents):
            lengths.append(len(document))
            for token, count in Counter(document).items():
                postings[token].append((place, count))
        mean = sum(lengths) / len(lengths) if lengths else 0.0
        self._weights: dict[str, list[tuple[int, float]]] = {}
        for token, found in postings.items():
            idf = math.log(1 + (len(lengths) - len(found) + 0.5) / (len(found) + 0.5))
            self._weights[token] = [
                (place, idf * count * (k1 + 1) / (count + k1 * (1 - b + b * lengths[place] / mean)))
                for place, count in found
            ]

    def search(self, query: Iterable[str], k: int) -> list[tuple[int, float]]:
        """Return the `k` best documents that hold any token of `query`, as (place, score), the best first.

        Equal scores stand in the order of the documents.
        """
        scores: dict[int, float] = defaultdict(float)
        for token in dict.fromkeys(query):
            for place, weight in self._weights.get(token, ()):
                scores[place] += weight
        return heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0]))
