"""Sequences: right at every look, the same however they were fed, and restored as they were."""

import json
import math

import numpy as np
import pytest
import statistics_samples as samples
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.comparing.betting import BETS, log_capital
from hermes_lab.comparing.sequential import GROUP, PairedSequence, SequenceError, TwoArmSequence

DIFFERENCES = st.lists(st.floats(-1.0, 1.0) | st.sampled_from([-1.0, 0.0, 1.0]), max_size=30)
SCORES = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60)


def fed(sequence, values):
    for value in values:
        sequence.update(*value) if isinstance(value, tuple) else sequence.update(value)
    return sequence


# --- error over many looks -------------------------------------------------------------------------------------------


def looks_that_missed(path, truth):
    """Return whether any interval missed the truth, looking after every value."""
    sequence, ever = PairedSequence(), False
    for value in path:
        sequence.update(value)
        low, high = sequence.interval()
        ever |= not low <= truth <= high
    return ever


PAIRED = {
    "binary": samples.binary(0.3, 0.0),
    "seldom": samples.binary(0.04, 0.0),
    "gain": samples.binary(0.2, 0.1),
    "rare losses": samples.rare_losses(0.02, 0.5),
}
PATHS, PEEKS = 4000, 1000
ALLOWED = 0.05 + 2 * (0.05 * 0.95 / PATHS) ** 0.5


@pytest.mark.parametrize("kind", PAIRED)
def test_looking_a_thousand_times_costs_no_error(kind):
    sample = samples.draw_sample(np.random.default_rng(1), PAIRED[kind], PATHS, PEEKS)
    assert samples.ever_missed(sample.differences, sample.truth).mean() <= ALLOWED


def test_the_class_gives_the_intervals_of_the_simulation():
    """Against a truth that about half of the paths refute, the class and the simulation name the same ones."""
    sample = samples.draw_sample(np.random.default_rng(4), samples.binary(0.5, 0.35), 40, 40)
    simulated = samples.ever_missed(sample.differences, 0.0)
    assert 5 < simulated.sum() < 35
    assert [looks_that_missed(path, 0.0) for path in sample.differences] == simulated.tolist()


def test_the_simulation_catches_looking_at_an_interval_for_one_look():
    sample = samples.draw_sample(np.random.default_rng(1), PAIRED["binary"], PATHS, PEEKS)
    steps = np.arange(1, PEEKS + 1)
    means = sample.differences.cumsum(1) / steps
    reach = 1.96 * np.sqrt(0.3 / steps)
    assert (np.abs(means) > reach)[:, 50:].any(axis=1).mean() > 3 * ALLOWED


@pytest.mark.parametrize("of_new", [0.5, 0.1])
@pytest.mark.parametrize("right", [0.5, 0.97])
def test_two_arms_of_any_size_keep_the_error(of_new, right):
    rng = np.random.default_rng(2)
    shape = (1000, PEEKS)
    differences = samples.settled((rng.random(shape) < right) * 1.0, rng.random(shape) < of_new)
    assert samples.ever_missed(differences, 0.0).mean() <= 0.05 + 2 * (0.05 * 0.95 / 1000) ** 0.5


def test_what_both_arms_share_at_a_time_is_no_difference():
    """Traffic that turns hard while the new version's share grows: a plain difference of means is far off."""
    rng = np.random.default_rng(3)
    hour = np.linspace(0.0, 1.0, 3000)
    new = rng.random(3000) < 0.2 + 0.6 * hour
    scores = (rng.random(3000) < 0.9 - 0.6 * hour) * 1.0
    sequence = TwoArmSequence()
    sequence.update(scores, new)
    control, treated = sequence.means
    low, high = sequence.interval()
    assert treated < control - 0.1
    assert low <= 0.0 <= high


def test_evidence_rarely_rises_where_there_is_nothing():
    """Ville: under no difference, an e-value ever reaches 20 in at most 5% of the paths."""
    sample = samples.draw_sample(np.random.default_rng(5), samples.rare_losses(0.03, 0.5), 300, 150)
    reached = 0
    for path in sample.differences:
        sequence, best = PairedSequence(), 0.0
        for value in path:
            sequence.update(value)
            best = max(best, sequence.evalue())
        reached += best >= 20
    assert reached <= 15


def test_evidence_is_a_fair_game_at_no_difference_and_an_unfair_one_below():
    """Exactly, over every outcome of four games: the mean e-value is 1 at a mean of 0, less for a worse version."""
    for won, wanted in ((0.5, 1.0), (0.4, None)):
        total = 0.0
        for outcome in range(16):
            values = [1.0 if (outcome >> bit) & 1 else -1.0 for bit in range(4)]
            chance = math.prod(won if value > 0 else 1 - won for value in values)
            total += chance * fed(PairedSequence(), values).evalue()
        assert total == pytest.approx(wanted) if wanted else total < 1.0


# --- power, and what it says -----------------------------------------------------------------------------------------


def test_a_real_gain_is_found_and_dated():
    rng = np.random.default_rng(6)
    sequence = PairedSequence()
    sequence.update(rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=600))
    low, high = sequence.interval()
    assert 0.0 < low < 0.1 < high
    assert sequence.evalue() > 20
    assert sequence.mean == pytest.approx(0.1, abs=0.06)


def test_two_arms_find_harm():
    rng = np.random.default_rng(7)
    sequence = TwoArmSequence()
    new = rng.random(1500) < 0.3
    sequence.update((rng.random(1500) < np.where(new, 0.6, 0.8)) * 1.0, new)
    low, high = sequence.interval()
    assert low < -0.2 < high < 0.0
    assert sequence.evalue() < 1.0


def test_before_the_first_value_nothing_is_known():
    assert PairedSequence().interval() == (-1.0, 1.0)
    assert (PairedSequence().evalue(), PairedSequence().mean, PairedSequence().n) == (1.0, None, 0)
    sequence = TwoArmSequence()
    sequence.update([1.0] * 10, [True] * 10)
    assert sequence.interval() == (-1.0, 1.0)
    assert (sequence.n, sequence.means, sequence.waiting) == ((0, 10), (None, 1.0), (0, 10))


def test_no_score_is_lost():
    sequence = TwoArmSequence()
    sequence.update([0.0] * 30 + [1.0] * GROUP, [False] * 30 + [True] * GROUP)
    assert sequence.waiting == (0, 0)
    assert sequence._settled.n == GROUP
    assert sequence._settled.mean == 1.0


def test_the_capital_is_that_of_the_published_process():
    """The product of 1 + bet (x - m), mixed over the bets, by hand."""
    values = np.array([1.0, -1.0, 0.5])
    shares = np.sqrt(BETS) / np.sqrt(BETS).sum()
    by_hand = sum(
        share * math.prod(1 + bet * (value - 0.0) for value in values) for bet, share in zip(BETS, shares, strict=True)
    )
    assert fed(PairedSequence(), values).evalue() == pytest.approx(by_hand)
    assert math.exp(log_capital((values + 1) / 2, 0.5)) == pytest.approx(by_hand)


def test_a_huge_amount_of_evidence_is_still_a_number():
    sequence = PairedSequence()
    sequence.update(np.ones(5000))
    assert math.isfinite(sequence.evalue())
    assert sequence.log_evalue() > 2000
    assert sequence.interval()[0] > 0.99


def test_rounding_is_always_against_the_version():
    """Differences that fall between two thousandths: the ends never gain from it."""
    exact, rounded = PairedSequence(), PairedSequence()
    exact.update([0.3] * 200)
    rounded.update([0.3004] * 200)
    assert rounded.interval()[0] == exact.interval()[0]
    assert rounded.interval()[1] > exact.interval()[1]
    assert rounded.mean == pytest.approx(0.3004)


# --- the same however it was fed -------------------------------------------------------------------------------------


@given(DIFFERENCES, st.integers(0, 30), st.randoms())
def test_order_and_portions_do_not_matter(values, cut, random):
    whole = PairedSequence()
    whole.update(values)
    mixed = list(values)
    random.shuffle(mixed)
    assert fed(PairedSequence(), [mixed[:cut], mixed[cut:]]).state() == whole.state()
    low, high = whole.interval()
    assert -1.0 <= low <= high <= 1.0


@given(SCORES, st.integers(0, 60))
def test_two_arms_do_not_depend_on_when_somebody_looked(arrivals, cut):
    scores, new = [score for score, _ in arrivals], [arm for _, arm in arrivals]
    whole, parts = TwoArmSequence(), TwoArmSequence()
    whole.update(scores, new)
    parts.update(scores[:cut], new[:cut])
    parts.interval()
    parts.update(scores[cut:], new[cut:])
    assert parts.state() == whole.state()


@given(DIFFERENCES, DIFFERENCES)
def test_a_restart_changes_nothing(before, after):
    sequence = fed(PairedSequence(0.9), [before])
    restored = PairedSequence.from_state(json.loads(json.dumps(sequence.state())))
    for one in (sequence, restored):
        one.update(after)
    assert restored.state() == sequence.state()
    assert (restored.interval(), restored.evalue(), restored.mean) == (
        sequence.interval(),
        sequence.evalue(),
        sequence.mean,
    )


@given(SCORES, SCORES)
def test_a_restart_of_two_arms_changes_nothing(before, after):
    sequence = TwoArmSequence(0.9)
    sequence.update([score for score, _ in before], [arm for _, arm in before])
    restored = TwoArmSequence.from_state(json.loads(json.dumps(sequence.state())))
    for one in (sequence, restored):
        one.update([score for score, _ in after], [arm for _, arm in after])
    assert restored.state() == sequence.state()
    assert (restored.level, restored.interval(), restored.means) == (0.9, sequence.interval(), sequence.means)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.001, 1.5])
def test_a_wrong_difference_is_refused_and_nothing_taken(value):
    sequence = PairedSequence()
    with pytest.raises(SequenceError, match=r"value 1 is .*from -1 to 1"):
        sequence.update([0.5, value])
    assert sequence.n == 0


@pytest.mark.parametrize("value", [math.nan, -0.5, 2.0])
def test_a_wrong_score_is_refused_and_nothing_taken(value):
    sequence = TwoArmSequence()
    with pytest.raises(SequenceError, match="from 0 to 1"):
        sequence.update([0.5, value], [True, False])
    assert (sequence.n, sequence.waiting) == ((0, 0), (0, 0))


def test_each_score_needs_an_arm():
    with pytest.raises(SequenceError, match="2 scores came with 1 arms"):
        TwoArmSequence().update([0.5, 0.5], [True])


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan])
def test_a_level_is_a_chance(level):
    with pytest.raises(SequenceError, match="between 0 and 1"):
        PairedSequence(level)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"level": 0.95, "down": [[5000, 1]], "up": [], "nanos": 0},
        {"level": 0.95, "down": [[1, 1]], "up": [], "nanos": 0},
        {"level": 0.95, "down": 7, "up": [], "nanos": 0},
    ],
)
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(SequenceError, match="start from the log"):
        PairedSequence.from_state(state)
    with pytest.raises(SequenceError, match="start from the log"):
        TwoArmSequence.from_state({"settled": state, "waiting": [[], []], "n": [0, 0], "nanos": [0, 0]})
