"""Choose the next token of one reply from the model's logits: the likeliest, or drawn by a seed of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LogitsError(ValueError):
    """The model's logits are no numbers, as an overflow in a narrow dtype makes them."""


class Choice(NamedTuple):
    """A token, and its log-probability among those allowed; `free` says whether there was more than one."""

    token: int
    log_probability: float
    free: bool


class Chooser:
    """Chooses the tokens of one reply.

    A draw depends on the seed and the step only, never on the other rows of a batch.
    """

    def __init__(self, temperature: float = 0.0, top_p: float = 1.0, seed: int = 0) -> None:
        """Begin a reply.

        Args:
            temperature: 0 for the likeliest.
            top_p: share of the probability that is drawn from.
            seed: of the drawing.
        """
        self._temperature = temperature
        self._top_p = top_p
        self._random = np.random.Generator(np.random.Philox(key=seed % (1 << 64)))

    def choose(self, logits: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> Choice:
        """Return the next token.

        Args:
            logits: one for each token of the vocabulary.
            allowed: which of them may come next; None for all.

        Raises:
            LogitsError: the logits are no numbers.
        """
        tokens = None if allowed is None else np.flatnonzero(allowed)
        scores = (logits if tokens is None else logits[tokens]).astype(np.float64)
        top = scores.max()
        if not np.isfinite(top):
            raise LogitsError("the model's logits are not finite: use dtype float32 or bfloat16")
        logs = scores - (top + np.log(np.exp(scores - top).sum()))
        place = int(scores.argmax()) if self._temperature == 0 else self._draw(scores)
        token = place if tokens is None else int(tokens[place])
        return Choice(token, float(logs[place]), len(scores) > 1)

    def _draw(self, scores: NDArray[np.float64]) -> int:
        scaled = (scores - scores.max()) / self._temperature
        weights = np.exp(scaled)
        weights /= weights.sum()
        if self._top_p < 1:
            order = np.argsort(-weights, kind="stable")
            reached = np.cumsum(weights[order])
            outside = order[int(np.searchsorted(reached, self._top_p)) + 1 :]
            weights[outside] = 0
        # In the order of the tokens, so that two of nearly the same weight may swap places without a change.
        reached = np.cumsum(weights)
        place = int(np.searchsorted(reached, self._random.random() * reached[-1], side="right"))
        return min(place, int(np.flatnonzero(weights)[-1]))
