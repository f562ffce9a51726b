"""Texts that were searched for secrets and held none, so that no text of a run is searched twice."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_lab.log.redact import Redactor

_MOST_CHARS = 4 << 20  # that are remembered


class Searched:
    """What one redactor found to be clean: it would change no such text, nor JSON in which it stands as a string."""

    def __init__(self, redactor: Redactor) -> None:
        """Search with `redactor`."""
        self._redactor = redactor
        self._clean: set[str] = set()
        self._chars = 0

    def look_over(self, texts: Iterable[str]) -> bool:
        """Search texts together and remember those that are clean; tell whether all are known to be now.

        False where one may hold a secret, or cannot be searched as it is (a lone surrogate, a foreign part's mistake).
        """
        try:
            fresh = [text for text in texts if text not in self._clean]
            if not fresh:
                return True
            # Whatever a text holds is found in it here, too: what may come before a secret includes a line break.
            suspect = self._redactor.suspects("\n".join(fresh).encode())
        except (UnicodeEncodeError, TypeError):
            return False
        if not suspect:
            self._remember(fresh)
        return not suspect

    def _remember(self, texts: list[str]) -> None:
        if self._chars > _MOST_CHARS:
            self._clean.clear()
            self._chars = 0
        self._clean.update(texts)
        self._chars += sum(map(len, texts))
