"""The interval of a difference keeps its promises: by simulation, and in the properties that any interval must have."""

import numpy as np
import pytest
import statistics_samples as samples
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hermes_lab.comparing import betting, statistics

SAMPLES = 4000
COVERAGE, FALSE_BETTER = 0.935, 0.032


def rates(sample, low, high):
    """Return coverage and the share of intervals wholly above the truth, among samples that are not too few."""
    enough = samples.enough(sample)
    assert enough.sum() > SAMPLES / 3
    covered = (low <= sample.truth + 1e-9) & (sample.truth - 1e-9 <= high)
    above = low > sample.truth + 1e-9
    return covered[enough].mean(), above[enough].mean()


@pytest.mark.parametrize("correlation", [None, 0.3], ids=["independent", "families"])
@pytest.mark.parametrize("pairs", [50, 80, 200])
@pytest.mark.parametrize("kind", samples.kinds())
def test_the_interval_covers_and_seldom_says_better_falsely(kind, pairs, correlation):
    sample = samples.draw_sample(np.random.default_rng(pairs), samples.kinds()[kind], SAMPLES, pairs, correlation)
    found = samples.interval(sample)
    coverage, false_better = rates(sample, found.low, found.high)
    assert coverage >= COVERAGE
    assert false_better <= FALSE_BETTER


def test_the_simulation_catches_a_method_that_is_too_sure():
    """Student's t on families, with nothing added for losses that are rare, calls harmless versions better."""
    kind = samples.kinds()["rare losses, 5%"]
    sample = samples.draw_sample(np.random.default_rng(80), kind, SAMPLES, 80, 0.3)
    sums, sizes = samples.by_family(sample)
    count, mean = (sizes > 0).sum(1), sums.sum(1) / 80
    spread = ((sums - sizes * mean[:, None]) ** 2).sum(1) * count / (count - 1)
    reach = stats.t.ppf(0.975, count - 1) * np.sqrt(spread) / 80
    coverage, false_better = rates(sample, mean - reach, mean + reach)
    assert coverage < COVERAGE
    assert false_better > FALSE_BETTER


def test_too_few_families_of_unequal_size_are_not_trusted_too_much():
    """One family with most of the tasks is hardly more than one observation, and the interval knows."""
    rng = np.random.default_rng(1)
    family = np.broadcast_to(np.repeat(np.arange(5), [60, 10, 10, 10, 10]), (SAMPLES, 100))
    draw, truth = samples.binary(0.3, 0.0)
    sample = samples.Sample(draw(samples.ranks(rng, family, 0.3), None), family, truth)
    found = samples.interval(sample)
    coverage, false_better = rates(sample, found.low, found.high)
    assert coverage >= COVERAGE
    assert false_better <= FALSE_BETTER


def influences(differences, sizes=None):
    sizes = np.ones(len(differences)) if sizes is None else sizes
    mean = (differences * sizes).sum() / sizes.sum()
    return np.array(mean), (differences - mean) * sizes / (sizes.sum() - sizes), sizes


VALUES = st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.1, 1.0]), min_size=2, max_size=40).map(np.array)


@given(VALUES)
def test_the_interval_turns_round_with_the_versions(differences):
    mean, influence, sizes = influences(differences)
    one, other = (statistics.cluster_interval(sign * mean, sign * influence, sizes) for sign in (1, -1))
    np.testing.assert_allclose([one.low, one.high], [-other.high, -other.low], atol=1e-12)
    assert one.low < one.high
    assert one.low <= mean <= one.high


@given(VALUES, st.floats(0.5, 0.99))
def test_a_higher_level_is_never_shorter(differences, level):
    found = influences(differences)
    wide, narrow = statistics.cluster_interval(*found, 0.995), statistics.cluster_interval(*found, level)
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high


@given(VALUES)
def test_a_family_that_is_not_there_changes_nothing(differences):
    mean, influence, sizes = influences(differences)
    padded = statistics.cluster_interval(mean, np.append(influence, 0.0), np.append(sizes, 0.0))
    np.testing.assert_allclose(padded, statistics.cluster_interval(mean, influence, sizes))


def test_many_samples_at_once_are_each_alone():
    sample = samples.draw_sample(np.random.default_rng(0), samples.graded(), 20, 60, 0.3)
    together = samples.interval(sample)
    for i in range(20):
        one = samples.Sample(sample.differences[[i]], sample.family[[i]], 0.0)
        np.testing.assert_allclose([column[i] for column in together], np.concatenate(samples.interval(one)))


def test_ties_only_still_leave_room_for_what_was_not_seen():
    found = statistics.cluster_interval(*influences(np.zeros(100)))
    assert found.low < -0.02
    assert found.high > 0.02


def test_a_long_tail_of_losses_pushes_the_low_end_out():
    differences = np.array([0.1] * 150 + [0.0] * 45 + [-1.0] * 5)
    mean, influence, sizes = influences(differences)
    found = statistics.cluster_interval(mean, influence, sizes)
    assert mean - found.low > 1.2 * (found.high - mean)


def test_the_smallest_effect_is_found_four_times_in_five():
    rng = np.random.default_rng(4)
    sample = samples.draw_sample(rng, samples.binary(0.3, 0.0), SAMPLES, 200)
    found = samples.interval(sample)
    effect = statistics.smallest_effect(float(np.median(found.error)), 199)
    moved = samples.draw_sample(rng, samples.binary(0.3, effect), SAMPLES, 200)
    assert (samples.interval(moved).low > 0).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(("won", "lost"), [(12, 3), (0, 5), (40, 40), (1, 0)])
def test_mcnemar_is_the_exact_binomial_one(won, lost):
    n, k = won + lost, min(won, lost)
    tail = sum(stats.binom.pmf(i, n, 0.5) for i in range(k + 1))
    assert statistics.mcnemar(won, lost) == pytest.approx(min(1.0, 2 * tail))


def test_mcnemar_without_discordant_pairs_says_nothing():
    assert statistics.mcnemar(0, 0) is None


# --- betting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [samples.rare_losses(0.02, 0.5), samples.binary(0.1, 0.0), samples.only_losses(0.03)])
def test_the_betting_interval_covers_whatever_the_data(kind):
    sample = samples.draw_sample(np.random.default_rng(2), kind, 400, 60)
    found = np.array([betting.interval(row) for row in sample.differences])
    missed = (found[:, 0] > sample.truth) | (found[:, 1] < sample.truth)
    assert missed.mean() <= 0.05


@given(VALUES)
def test_the_betting_interval_holds_the_mean_and_turns_round(differences):
    low, high = betting.interval(differences)
    assert -1.0 <= low <= differences.mean() <= high <= 1.0
    turned = betting.interval(-differences)
    np.testing.assert_allclose([low, high], [-turned[1], -turned[0]], atol=1e-7)


@given(VALUES)
def test_the_order_of_bets_does_not_matter(differences):
    np.testing.assert_allclose(betting.interval(differences), betting.interval(differences[::-1]), atol=1e-9)


def test_capital_is_a_fair_game():
    """Exactly: over every outcome of six fair coins, the gambler's mean capital is what it was."""
    outcomes = [np.array([(i >> bit) & 1 for bit in range(6)], dtype=float) for i in range(64)]
    assert np.mean([np.exp(betting.log_capital(scores, 0.5)) for scores in outcomes]) == pytest.approx(1.0)


def test_weights_are_the_share_of_each_value():
    differences = np.array([1.0, -1.0] * 40)
    weights = np.array([3.0, 1.0] * 40)
    low, high = betting.interval(differences, weights=weights)
    assert low < 0.5 < high
    assert low > 0.0
