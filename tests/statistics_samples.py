"""Made-up results of two versions whose true difference is known, for simulations: many samples at once."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from hermes_lab.comparing import statistics
from hermes_lab.comparing.betting import BETS, LOG_SHARES
from hermes_lab.comparing.estimate import MIN_CLUSTERS, MIN_DISCORDANT, MIN_PAIRS
from hermes_lab.comparing.sequential import TwoArmSequence


class Sample(NamedTuple):
    """Differences of pairs, shape (samples, pairs), the family of each, and the true mean difference."""

    differences: np.ndarray
    family: np.ndarray
    truth: float


def families(rng, samples, pairs, smallest=6, largest=12):
    """Return the family of each pair: families of 6 to 12 tasks, drawn anew for each sample."""
    sizes = rng.integers(smallest, largest + 1, (samples, pairs // smallest + 1))
    return (np.arange(pairs)[None, :, None] >= sizes.cumsum(1)[:, None, :]).sum(2)


def ranks(rng, family, correlation):
    """Return uniform numbers that hang together within a family (normal scores, intra-class correlation)."""
    shared = rng.standard_normal((family.shape[0], int(family.max()) + 1))
    own = rng.standard_normal(family.shape)
    return ndtr(np.sqrt(correlation) * np.take_along_axis(shared, family, 1) + np.sqrt(1 - correlation) * own)


def binary(discordance, effect):
    """Pairs won or lost by full marks, or tied."""
    lost, won = (discordance - effect) / 2, (discordance + effect) / 2

    def draw(rank, _other):
        return (rank > 1 - won) * 1.0 - (rank < lost)

    return draw, effect


def graded():
    """Scores of 0, 0.5 to 0.9 and 1 in both versions, alike in distribution, the same in about half of the pairs."""

    def grade(rank):
        return np.where(rank < 0.3, 0.0, np.where(rank < 0.55, 0.5 + np.floor((rank - 0.3) * 20) / 10, 1.0))

    def draw(rank, other):
        changed = (rank * 7919) % 1 < 0.5
        return np.where(changed, grade(other) - grade(rank), 0.0)

    return draw, 0.0


def rare_losses(share, gain_share):
    """Small gains in many pairs that exactly make up for the loss of full marks in a few, which may not be seen."""
    gain = share / gain_share

    def draw(rank, _other):
        return np.where(rank < share, -1.0, np.where(rank > 1 - gain_share, gain, 0.0))

    return draw, 0.0


def only_losses(share):
    """A few pairs lost and nothing gained."""

    def draw(rank, _other):
        return np.where(rank < share, -1.0, 0.0)

    return draw, -share


def draw_sample(rng, kind, samples, pairs, correlation=None):
    """Return a sample of a kind; with a correlation in families of 6 to 12 tasks, else each pair on its own."""
    draw, truth = kind
    if correlation is None:
        family = np.broadcast_to(np.arange(pairs), (samples, pairs))
        return Sample(draw(rng.random((samples, pairs)), rng.random((samples, pairs))), family, truth)
    family = families(rng, samples, pairs)
    return Sample(draw(ranks(rng, family, correlation), ranks(rng, family, correlation)), family, truth)


def by_family(sample):
    """Return the sums of differences and the number of pairs of each family, shape (samples, families)."""
    samples = sample.differences.shape[0]
    width = int(sample.family.max()) + 1
    place = (np.arange(samples)[:, None] * width + sample.family).ravel()
    sums = np.bincount(place, sample.differences.ravel(), samples * width).reshape(samples, width)
    sizes = np.bincount(place, minlength=samples * width).reshape(samples, width).astype(float)
    return sums, sizes


def interval(sample, level=0.95):
    """Return our interval of the mean difference of each sample."""
    sums, sizes = by_family(sample)
    pairs = sizes.sum(1, keepdims=True)
    mean = sums.sum(1, keepdims=True) / pairs
    influences = (sums - sizes * mean) / np.maximum(pairs - sizes, 1.0)
    return statistics.cluster_interval(mean[:, 0], influences, sizes, level)


def enough(sample):
    """Return which samples are not "too few"."""
    differing = (np.abs(sample.differences) > 1e-9).sum(1) >= MIN_DISCORDANT
    clusters = (by_family(sample)[1] > 0).sum(1) >= MIN_CLUSTERS
    return differing & clusters & (sample.differences.shape[1] >= MIN_PAIRS)


def kinds():
    """Return the kinds of data by name."""
    return {
        "binary, 20% discordant": binary(0.2, 0.0),
        "binary, 30% discordant": binary(0.3, 0.0),
        "binary, 30% discordant, +10 points": binary(0.3, 0.1),
        "binary, 50% discordant": binary(0.5, 0.0),
        "graded": graded(),
        "rare losses, 2%": rare_losses(0.02, 0.5),
        "rare losses, 5%": rare_losses(0.05, 0.5),
        "rare losses, 10%": rare_losses(0.1, 0.4),
    }


def ever_missed(differences, truth, level=0.95):
    """Return whether the sequence of each path ever missed the truth, looking after each value.

    The capital against the truth along all paths at once; test_sequential holds it against the class itself.
    """
    missed = np.zeros(len(differences), dtype=bool)
    for sign in (1.0, -1.0):
        scores = 0.5 * (1.0 + sign * differences)
        mean = 0.5 * (1.0 + sign * truth)
        capital = np.zeros(differences.shape)
        for bet, log_share in zip(BETS, LOG_SHARES, strict=True):
            capital += np.exp(log_share + np.cumsum(np.log1p(bet * (scores / mean - 1.0)), axis=1))
        missed |= (capital >= 2.0 / (1.0 - level)).any(axis=1)
    return missed


class Recorder:
    """Stands in for the settled differences of a `TwoArmSequence` and keeps them."""

    def __init__(self):
        self.values = []

    def update(self, values):
        self.values += values


def settled(scores, new):
    """Return the differences that a two-arm sequence makes of each path, filled up with 0, which moves no capital."""
    filled = np.zeros(scores.shape)
    for i, (path, arms) in enumerate(zip(scores, new, strict=True)):
        sequence, recorder = TwoArmSequence(), Recorder()
        sequence._settled = recorder
        sequence.update(path, arms)
        filled[i, : len(recorder.values)] = recorder.values
    return filled
