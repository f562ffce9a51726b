"""Comparing two versions while results come in: intervals and evidence that hold at every look.

`PairedSequence` takes differences of the same task under both versions (the gate); `TwoArmSequence` takes scores of two
separate streams (the canary). One may look after each value and stop whenever one likes: the chance that the interval
ever misses the true difference is at most 1 - level. The intervals are betting ones (`hermes_lab.comparing.betting`).

What must hold: values come one after the other, and given those before it each has the same expected difference. Values
that hang together (tasks of one family, repeated attempts at one task) break that: give their mean, as one value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermes_lab.comparing import betting
from hermes_lab.errors import HermesLabError

BINS = 2000
"""Differences are kept to one thousandth, each bound from values rounded against it, so that the state stays small."""

GROUP = 4
"""Scores of each arm that must wait before they are settled. Fewer waste evidence where arms come in runs."""

_ROUNDING = 1e-9
_NANO = 1e9


class SequenceError(HermesLabError, ValueError):
    """A value or a saved state that a sequence cannot take."""

    exit_code = 65


class PairedSequence:
    """An interval of the mean of differences in [-1, 1] that holds at every look, and evidence against "no better".

    The same values give the same result in any order and in any number of updates; memory does not grow with them. An
    interval can be wider than an earlier one was; all of them hold together.

    Args:
        level: the chance that every interval ever given covers the true mean difference.

    Raises:
        SequenceError: the level is not between 0 and 1.

    Example:
        >>> sequence = PairedSequence()
        >>> sequence.update([1.0, 0.0, 0.0, 1.0, -1.0] * 40)
        >>> low, high = sequence.interval()
        >>> low > 0, sequence.evalue() > 20
        (True, True)
        >>> PairedSequence.from_state(sequence.state()).interval() == (low, high)
        True
    """

    def __init__(self, level: float = 0.95) -> None:
        self.level = _checked_level(level)
        self._down = np.zeros(BINS + 1, dtype=np.int64)
        self._up = np.zeros(BINS + 1, dtype=np.int64)
        self._nanos = 0

    @property
    def n(self) -> int:
        """How many differences were taken."""
        return int(self._down.sum())

    @property
    def mean(self) -> float | None:
        """The mean of the differences so far; None before the first."""
        return self._nanos / _NANO / self.n if self.n else None

    def update(self, values: ArrayLike) -> None:
        """Take differences, in any number.

        Raises:
            SequenceError: one is not a number in [-1, 1]; none of them is taken.
        """
        checked = _checked(values, -1.0, 1.0)
        scaled = (checked + 1.0) * (BINS / 2)
        self._down += np.bincount(np.floor(scaled + _ROUNDING).astype(np.int64), minlength=BINS + 1)
        self._up += np.bincount(np.ceil(scaled - _ROUNDING).astype(np.int64), minlength=BINS + 1)
        # Whole numbers add up to the same sum in any order.
        self._nanos += int(np.rint(checked * _NANO).astype(np.int64).sum())

    def interval(self) -> tuple[float, float]:
        """Return the interval of the mean difference, low and high; (-1.0, 1.0) before the first value."""
        if not self.n:
            return -1.0, 1.0
        alpha = 0.5 * (1.0 - self.level)
        scores, counts = _occupied(self._down)
        low = betting.lower_bound(scores, alpha, counts)
        scores, counts = _occupied(self._up[::-1])
        high = 1.0 - betting.lower_bound(scores, alpha, counts)
        return 2.0 * low - 1.0, 2.0 * high - 1.0

    def log_evalue(self) -> float:
        """Return the natural log of `evalue()`, which does not overflow."""
        if not self.n:
            return 0.0
        scores, counts = _occupied(self._down)
        return betting.log_capital(scores, 0.5, counts)

    def evalue(self) -> float:
        """Return the evidence against "the mean difference is at most 0", valid at every look.

        If no value's expected difference is above 0, the chance that this ever reaches 1/alpha is at most alpha.
        E-values of several rounds may be averaged, and those of rounds that used fresh tasks multiplied.
        """
        return math.exp(min(self.log_evalue(), 700.0))

    def state(self) -> dict[str, Any]:
        """Return everything that the sequence knows as plain values that JSON can hold."""
        return {"level": self.level, "down": _sparse(self._down), "up": _sparse(self._up), "nanos": self._nanos}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the sequence that `state()` described.

        Raises:
            SequenceError: the state is not one that `state()` gave.
        """
        try:
            sequence = cls(state["level"])
            sequence._down, sequence._up = _dense(state["down"]), _dense(state["up"])
            sequence._nanos = int(state["nanos"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SequenceError(f"this is no saved state of a paired sequence ({error}): start from the log") from error
        if sequence._down.sum() != sequence._up.sum():
            raise SequenceError("the saved state of a paired sequence contradicts itself: start from the log")
        return sequence


class TwoArmSequence:
    """An interval of the difference in mean score between a new version and a control, each with its own tasks.

    Scores wait until each arm has some, then are settled as differences between a score of the smaller side and the
    mean of its share of the larger one. So arms of any sizes lose little, and what both arms share at one time, such
    as an hour of hard tasks, cancels out. Which scores are settled together depends on the order of arrival alone,
    never on when somebody looks, nor on the scores.

    Args:
        level: the chance that every interval ever given covers the true difference.

    Raises:
        SequenceError: the level is not between 0 and 1.

    Example:
        >>> sequence = TwoArmSequence()
        >>> sequence.update([0.9, 0.2, 0.8, 0.3] * 100, new=[True, False, True, False] * 100)
        >>> sequence.interval()[0] > 0
        True
        >>> sequence.n
        (200, 200)
    """

    def __init__(self, level: float = 0.95) -> None:
        self._settled = PairedSequence(level)
        self._waiting: tuple[list[float], list[float]] = ([], [])
        self._n = [0, 0]
        self._nanos = [0, 0]

    @property
    def level(self) -> float:
        """The chance that every interval ever given covers the true difference."""
        return self._settled.level

    @property
    def n(self) -> tuple[int, int]:
        """How many scores were taken: of the control, of the new version."""
        return self._n[0], self._n[1]

    @property
    def means(self) -> tuple[float | None, float | None]:
        """The mean score so far, of the control and of the new version; None before the first of each."""
        control, new = (nanos / _NANO / n if n else None for nanos, n in zip(self._nanos, self._n, strict=True))
        return control, new

    @property
    def waiting(self) -> tuple[int, int]:
        """How many scores of each arm are not settled, so not in the interval yet."""
        return len(self._waiting[0]), len(self._waiting[1])

    def update(self, scores: ArrayLike, new: Sequence[bool] | NDArray[np.bool_]) -> None:
        """Take scores in the order in which they came.

        Args:
            scores: values in [0, 1].
            new: for each, whether the new version earned it; else the control did.

        Raises:
            SequenceError: a score is not a number in [0, 1], or the two differ in length; none of them is taken.
        """
        checked = _checked(scores, 0.0, 1.0)
        arms = np.atleast_1d(np.asarray(new, dtype=bool))
        if arms.shape != checked.shape:
            raise SequenceError(f"{checked.size} scores came with {arms.size} arms: give one for each")
        differences: list[float] = []
        for score, arm in zip(checked.tolist(), arms.astype(int).tolist(), strict=True):
            self._waiting[arm].append(score)
            self._n[arm] += 1
            self._nanos[arm] += round(score * _NANO)
            if len(self._waiting[1 - arm]) >= GROUP and len(self._waiting[arm]) >= GROUP:
                differences += _settle(*self._waiting)
                self._waiting = ([], [])
        self._settled.update(differences)

    def interval(self) -> tuple[float, float]:
        """Return the interval of (new - control), low and high; (-1.0, 1.0) before the first scores are settled."""
        return self._settled.interval()

    def log_evalue(self) -> float:
        """Return the natural log of `evalue()`, which does not overflow."""
        return self._settled.log_evalue()

    def evalue(self) -> float:
        """Return the evidence against "the new version is no better", as `PairedSequence.evalue`."""
        return self._settled.evalue()

    def state(self) -> dict[str, Any]:
        """Return everything that the sequence knows as plain values that JSON can hold."""
        waiting = [list(scores) for scores in self._waiting]
        return {"settled": self._settled.state(), "waiting": waiting, "n": list(self._n), "nanos": list(self._nanos)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the sequence that `state()` described.

        Raises:
            SequenceError: the state is not one that `state()` gave.
        """
        try:
            sequence = cls()
            sequence._settled = PairedSequence.from_state(state["settled"])
            control, new = (_checked(scores, 0.0, 1.0).tolist() for scores in state["waiting"])
            sequence._waiting = (control, new)
            sequence._n = [int(count) for count in state["n"]]
            sequence._nanos = [int(nanos) for nanos in state["nanos"]]
        except (KeyError, TypeError, ValueError) as error:
            raise SequenceError(
                f"this is no saved state of a two-arm sequence ({error}): start from the log"
            ) from error
        return sequence


def _settle(control: list[float], new: list[float]) -> list[float]:
    """Return differences (new - control): the longer list is shared out evenly, in its order, over the shorter one."""
    pairs = min(len(control), len(new))
    return [_share(new, i, pairs) - _share(control, i, pairs) for i in range(pairs)]


def _share(scores: list[float], i: int, parts: int) -> float:
    part = scores[i * len(scores) // parts : (i + 1) * len(scores) // parts]
    return sum(part) / len(part)


def _checked_level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise SequenceError(f"a level is a chance between 0 and 1, such as 0.95, not {level!r}")
    return float(level)


def _checked(values: ArrayLike, low: float, high: float) -> betting.Floats:
    checked = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    # A NaN compares false, so it is among those refused. A rounding error past the bounds is no wrong value.
    inside = (checked >= low - _ROUNDING) & (checked <= high + _ROUNDING)
    if not inside.all():
        wrong = int(np.flatnonzero(~inside)[0])
        raise SequenceError(
            f"value {wrong} is {checked[wrong]}: give numbers from {low:g} to {high:g}, no unknown ones"
        )
    return np.clip(checked, low, high)


def _occupied(bins: NDArray[np.int64]) -> tuple[betting.Floats, betting.Floats]:
    """Return the scores in [0, 1] that occurred, and how often."""
    present = np.flatnonzero(bins)
    return present / BINS, bins[present].astype(np.float64)


def _sparse(bins: NDArray[np.int64]) -> list[list[int]]:
    return [[int(i), int(bins[i])] for i in np.flatnonzero(bins)]


def _dense(pairs: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    bins = np.zeros(BINS + 1, dtype=np.int64)
    for place, count in pairs:
        if not 0 <= place <= BINS or count < 0:
            raise ValueError(f"bin {place} with count {count}")
        bins[place] += count
    return bins
