"""Divides the tasks of a suite that has no generator into splits that share no family."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from hermes_lab.tasks import Split, Task

SHARES = {Split.TRAFFIC: 0.4, Split.REGRESSION: 0.3, Split.FRESH: 0.3}
"""How large each split is to be, as a share of the tasks."""

T = TypeVar("T", bound=Task)


def split_by_family(tasks: Sequence[T], seed: int = 0) -> list[T]:
    """Return the tasks in their order, each with its split; the same seed divides them the same way.

    Families come in an order drawn from the seed, and each goes to the split that lacks the most tasks.
    """
    sizes = Counter(task.family for task in tasks)
    room = {split: share * len(tasks) for split, share in SHARES.items()}
    chosen: dict[str, Split] = {}
    for family in sorted(sizes, key=lambda name: drawn(seed, name)):
        chosen[family] = max(room, key=lambda split: room[split])
        room[chosen[family]] -= sizes[family]
    return [msgspec.structs.replace(task, split=chosen[task.family]) for task in tasks]


def drawn(seed: int, name: str) -> str:
    """Return a key that orders names at random, the same on every machine for the same seed."""
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).hexdigest()


def split_sizes(tasks: Iterable[Task]) -> dict[str, int]:
    """Return how many tasks each split holds; tasks of no split count as "none"."""
    return dict(Counter(task.split.value if task.split else "none" for task in tasks))
