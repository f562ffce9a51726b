"""Which messages of a conversation are new, where every request repeats those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class History:
    """Which messages of a conversation are new, when every request may carry those before it.

    A message is known by its content and by the one before it, counted: "yes" said twice is two messages.
    """

    def __init__(self) -> None:
        """Start with a conversation of no message."""
        self._known: Counter[tuple[str | None, str]] = Counter()
        self._said: set[str] = set()

    def fresh(self, digests: Sequence[str], continued: bool) -> list[int]:
        """Return the positions in `digests` (a request's messages, in order) of those that are new, and note them.

        Args:
            digests: one a message.
            continued: whether the request may repeat what came before; if not, all of it is new.
        """
        local: Counter[tuple[str | None, str]] = Counter()
        new = []
        before: str | None = None
        for i, digest in enumerate(digests):
            key = (before, digest)
            local[key] += 1
            known = digest in self._said if i == 0 else local[key] <= self._known[key]
            if not (continued and known):
                new.append(i)
            before = digest
        for key, times in local.items():
            self._known[key] = max(self._known[key], times) if continued else self._known[key] + times
        self._said.update(digests)
        return new
