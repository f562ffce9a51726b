"""A small index of the task and episode ids in a segment, by which a query leaves out files without opening them.

A Bloom filter (the kept library `rbloom`): it may say "perhaps" for an id that is not there, never "no" for one that
is. About one byte an id at two wrong answers in a hundred.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

import rbloom

_WRONG_SHARE = 0.02
KINDS = ("task_id", "episode_id")
"""The columns that are indexed."""


def build(ids: Iterable[tuple[str, str]], count: int) -> str:
    """Return the index, as text, of `count` pairs of (column, id)."""
    bloom = rbloom.Bloom(max(count, 1), _WRONG_SHARE, _hash)
    bloom.update(ids)
    return base64.b85encode(bloom.save_bytes()).decode()


class Index:
    """A built index, opened for questions."""

    def __init__(self, text: str) -> None:
        """Open what `build` returned."""
        self._bloom = rbloom.Bloom.load_bytes(base64.b85decode(text), _hash)

    def may_hold(self, column: str, value: str) -> bool:
        """Return False only where no row of the segment has `value` in `column`."""
        return (column, value) in self._bloom


def _hash(pair: tuple[str, str]) -> int:
    # Python's own hash differs from process to process, so it cannot be stored. rbloom takes 128 signed bits.
    digest = hashlib.blake2b("\0".join(pair).encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big", signed=True)
