"""Every request, whatever its channel, becomes one `Message` with a task id and a task type.

A missing type is recognised by the words that the request shares with labelled ones (Chinese: character bigrams),
and the guess says how sure it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hermes_lab.tasks import Exchange, Message, Task
from hermes_lab.text import tokens

UNKNOWN_TYPE = "unknown"
"""The type of a request that is like none of the labelled ones."""

NEIGHBOURS = 5
"""So many of the likest labelled requests decide on a type."""


class Guess(NamedTuple):
    """A recognised task type, and how sure it is, from 0 to 1."""

    task_type: str
    confidence: float


class TypeRecognizer:
    """Recognises task types from labelled requests.

    >>> recognizer = TypeRecognizer([("Where is my order?", "orders"), ("Book a visit on Monday", "visits")])
    >>> recognizer.recognise("order status please").task_type
    'orders'
    >>> recognizer.recognise("xyzzy")
    Guess(task_type='unknown', confidence=0.0)
    """

    def __init__(self, labelled: Iterable[tuple[str, str]]) -> None:
        """Take pairs of a request and its type."""
        self._examples = [(frozenset(tokens(text)), task_type) for text, task_type in labelled]
        shared = Counter(word for words, _ in self._examples for word in words)
        self._rarity = {word: math.log(1 + len(self._examples) / count) for word, count in shared.items()}

    def recognise(self, text: str) -> Guess:
        """Return the type that the likest labelled requests vote for, each with its likeness."""
        words = set(tokens(text))
        whole = math.fsum(self._rarity.get(word, 1.0) for word in words)
        if not whole:
            return Guess(UNKNOWN_TYPE, 0.0)
        scored = [(self._likeness(words, known, whole), task_type) for known, task_type in self._examples]
        best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:NEIGHBOURS]
        if not best:
            return Guess(UNKNOWN_TYPE, 0.0)
        votes: Counter[str] = Counter()
        for score, task_type in best:
            votes[task_type] += score  # type: ignore[assignment]
        winner, weight = max(votes.items(), key=lambda item: (item[1], item[0]))
        share = weight / sum(votes.values())
        # Sure only where the votes agree and the best one shares much of the request.
        return Guess(winner, round(min(1.0, share * best[0][0]), 3))

    def _likeness(self, words: set[str], known: frozenset[str], whole: float) -> float:
        return math.fsum(self._rarity[word] for word in words & known) / whole


def receive(
    text: str,
    *,
    channel: str,
    task_id: str,
    task_type: str | None = None,
    sender: str | None = None,
    recognizer: TypeRecognizer | None = None,
) -> Message:
    """Return the message that a request makes.

    Args:
        text: what was said.
        channel: where it came from.
        task_id: the task that it opens or goes on with.
        task_type: its type, where the sender named it.
        sender: who said it.
        recognizer: guesses a type that is not named; without one it is `unknown`.
    """
    if task_type is not None:
        guess = Guess(task_type, 1.0)
    elif recognizer is not None:
        guess = recognizer.recognise(text)
    else:
        guess = Guess(UNKNOWN_TYPE, 0.0)
    return Message(
        text=text,
        channel=channel,
        task_id=task_id,
        task_type=guess.task_type,
        type_confidence=guess.confidence,
        sender=sender,
    )


def to_task(message: Message, *, suite: str, tools: Sequence[str], history: Sequence[Exchange] = ()) -> Task:
    """Return the task that a message asks for; nothing grades it but its user."""
    return Task(
        id=message.task_id,
        family=message.channel,
        type=message.task_type,
        prompt=message.text,
        suite=suite,
        tools=tuple(tools),
        history=tuple(history),
    )
