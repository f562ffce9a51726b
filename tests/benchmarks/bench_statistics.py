"""Whether the statistics keep their promises, by simulation; each figure with its Monte Carlo standard error.

    python tests/benchmarks/bench_statistics.py            # everything, some ten minutes
    python tests/benchmarks/bench_statistics.py intervals  # or one of: intervals, whole, sequences, power, speed

`sequences` also shows `ville` beside ours where it is installed (`pip install --target /tmp/peers ville`).
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, "/tmp/peers")

import statistics_samples as samples

from hermes_lab.comparing.contrast import Cost, Rows
from hermes_lab.comparing.estimate import estimate, judge
from hermes_lab.comparing.sequential import PairedSequence, TwoArmSequence

REPLICATIONS = 20_000
RESAMPLES = 400
WHOLE = 4_000
PATHS = 4_000
PEEKS = 1_000


def share(hits: np.ndarray) -> str:
    """A share in percent with its Monte Carlo error."""
    if not hits.size:
        return "      -      "
    mean = float(hits.mean())
    error = math.sqrt(max(mean * (1 - mean), 1 / hits.size) / hits.size)
    return f"{100 * mean:5.2f} (±{100 * error:.2f})"


# --- fixed intervals -------------------------------------------------------------------------------------------------


def percentile_bootstrap(sample: samples.Sample, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The usual choice, for comparison: families drawn anew, 2.5% and 97.5% of the means."""
    sums, sizes = samples.by_family(sample)
    counts = (sizes > 0).sum(1)
    low, high = np.zeros(len(sums)), np.zeros(len(sums))
    for count in np.unique(counts):
        chosen = counts == count
        weights = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)
        means = (sums[chosen, :count] @ weights.T) / (sizes[chosen, :count] @ weights.T)
        low[chosen], high[chosen] = np.quantile(means, [0.025, 0.975], axis=1)
    return low, high


def student(sample: samples.Sample) -> tuple[np.ndarray, np.ndarray]:
    """Clustered Student's t with nothing added, for comparison."""
    sums, sizes = samples.by_family(sample)
    pairs, count = sizes.sum(1), (sizes > 0).sum(1)
    mean = sums.sum(1) / pairs
    spread = ((sums - sizes * mean[:, None]) ** 2).sum(1) * count / (count - 1)
    reach = stats.t.ppf(0.975, count - 1) * np.sqrt(spread) / pairs
    return mean - reach, mean + reach


def intervals() -> None:
    rng = np.random.default_rng(20261130)
    print(f"\nFixed intervals, nominal 95%, {REPLICATIONS:,} samples a cell (bootstrap: 4,000), percent; coverage and")
    print("false better are of the samples that are not too few. False better: the interval lies wholly above the true")
    print("difference; for a difference of 0 that is the verdict 'better'.\n")
    ours = "| data | tasks | n | too few | coverage | false better | missed, of all samples "
    print(ours + "| t: coverage | t: false better | bootstrap: coverage | bootstrap: false better |")
    print("|" + " --- |" * 11)
    edge = {
        "binary, 10% discordant": samples.binary(0.1, 0.0),
        "binary, 10% discordant, +10 points": samples.binary(0.1, 0.1),
        "only losses, 10%": samples.only_losses(0.1),
    }
    for correlation, tasks in ((None, "independent"), (0.3, "families of 6-12, ICC 0.3")):
        for pairs in (50, 80, 200):
            for name, kind in (samples.kinds() | edge).items():
                sample = samples.draw_sample(rng, kind, REPLICATIONS, pairs, correlation)
                print(f"| {name} | {tasks} | {pairs} | {interval_cells(sample, rng)} |", flush=True)


def interval_cells(sample: samples.Sample, rng: np.random.Generator) -> str:
    enough = samples.enough(sample)
    ours = samples.interval(sample)
    covered, above = verdicts(ours.low, ours.high, sample.truth)
    cells = [share(~enough), share(covered[enough]), share(above[enough]), share(~covered & enough)]
    low, high = student(sample)
    covered, above = verdicts(low, high, sample.truth)
    cells += [share(covered[enough]), share(above[enough])]
    few = samples.Sample(sample.differences[:4000], sample.family[:4000], sample.truth)
    low, high = percentile_bootstrap(few, rng)
    covered, above = verdicts(low, high, sample.truth)
    return " | ".join([*cells, share(covered[enough[:4000]]), share(above[enough[:4000]])])


def verdicts(low: np.ndarray, high: np.ndarray, truth: float) -> tuple[np.ndarray, np.ndarray]:
    # A rounding error is no miss: a sum of tenths that should be 0 is not quite.
    return (low <= truth + 1e-9) & (truth - 1e-9 <= high), low > truth + 1e-9


# --- the whole estimate: types, costs, penalties, unpaired arms -------------------------------------------------------


def penalty(ratio: np.ndarray) -> np.ndarray:
    """DESIGN.md 5."""
    steps = np.where(ratio <= 1.3, 0.5 * (ratio - 1.2), 0.05 + (ratio - 1.3))
    return np.clip(np.where(ratio <= 1.2, 0.0, steps), 0.0, 0.5)


class Whole(NamedTuple):
    """Rows of both arms, and the true difference in composite."""

    rows: Rows
    truth: float
    discordant: int | None


MEAN_COSTS = np.array([[1000.0, 1300.0, 900.0], [1250.0, 1300.0, 1400.0]])
"""By arm and type; the baseline is 1000 in each."""

LOG_SPREAD = 0.5


RIGHT = {"graded": None, "50% right": 0.5, "95% right": 0.95}


def one_whole(rng: np.random.Generator, n: int, paired: bool, cost_moves: bool, right: float | None) -> Whole:
    """Three task types, families of 6 to 12, scores that hang together in a family, log-normal costs."""
    arms, truth = [], 0.0
    for arm in (0, 1):
        family = samples.families(rng, 1, n)[0] if arm == 0 or not paired else arms[0].cluster
        shared = rng.standard_normal(n)[family]
        hidden = math.sqrt(0.3) * shared + math.sqrt(0.7) * rng.standard_normal(n)
        graded = np.clip(0.75 + 0.25 * hidden, 0.0, 1.0)
        base = graded if right is None else (hidden < stats.norm.ppf(right)) * 1.0
        kind = family % 3
        means = MEAN_COSTS[arm if cost_moves else 0][kind]
        tokens, seconds = (means * rng.lognormal(-(LOG_SPREAD**2) / 2, LOG_SPREAD, n) for _ in range(2))
        code = family if arm == 0 or paired else family + 1000
        arms.append(Rows(np.full(n, arm), code, kind, base, tokens, seconds))
    if cost_moves:
        change = penalty(MEAN_COSTS[1] / 1000) - penalty(MEAN_COSTS[0] / 1000)
        # A third of the families has each type, the first types one more where they do not divide evenly.
        shares = np.bincount(np.concatenate([rows.kind for rows in arms]), minlength=3) / (2 * n)
        truth = -float(shares @ change)
    joined = Rows(*(np.concatenate(columns) for columns in zip(*arms, strict=True)))
    differing = int((np.abs(arms[1].score - arms[0].score) > 1e-9).sum())
    return Whole(joined, truth, differing if paired else None)


def whole() -> None:
    rng = np.random.default_rng(7)
    print(f"\nThe whole estimate on composites (three types, families of 6-12, penalties), {WHOLE:,} samples a cell\n")
    print("| arms | scores | costs | n | too few | coverage | false better |")
    print("|" + " --- |" * 7)
    baseline = np.full(3, 1000.0)
    cost = Cost(penalty, baseline, baseline)
    for paired, scores, moves, n in itertools.product((True, False), RIGHT, (False, True), (50, 80, 200)):
        cells = whole_cells(rng, n, paired, moves, RIGHT[scores], cost)
        arms, costs = "paired" if paired else "unpaired", "differ" if moves else "alike"
        print(f"| {arms} | {scores} | {costs} | {n} | {cells} |", flush=True)


def whole_cells(rng: np.random.Generator, n: int, paired: bool, moves: bool, right: float | None, cost: Cost) -> str:
    few, covered, above = (np.zeros(WHOLE, dtype=bool) for _ in range(3))
    for i in range(WHOLE):
        one = one_whole(rng, n, paired, moves, right)
        found = estimate(one.rows, 3, int(one.rows.cluster.max()) + 1, cost)
        few[i] = judge(found, one.discordant) == "too few"
        if found.interval is not None:
            covered[i] = found.interval[0] <= one.truth <= found.interval[1]
            above[i] = found.interval[0] > one.truth
    return f"{share(few)} | {share(covered[~few])} | {share(above[~few])}"


# --- sequences -------------------------------------------------------------------------------------------------------


def paired_paths(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    shape = (PATHS, PEEKS)
    yield "binary, 30% discordant", rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=shape)
    yield "binary, 4% discordant", rng.choice([-1.0, 0.0, 1.0], p=[0.02, 0.96, 0.02], size=shape)
    rank = rng.random(shape)
    yield "rare losses, 2%", np.where(rank < 0.02, -1.0, np.where(rank > 0.5, 0.04, 0.0))
    rank = rng.random(shape)
    yield "rare losses, 0.5%", np.where(rank < 0.005, -1.0, np.where(rank > 0.5, 0.01, 0.0))
    yield "uniform", rng.uniform(-1.0, 1.0, shape)


def two_arm_paths(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    shape = (PATHS, PEEKS)
    hour = np.arange(PEEKS) / PEEKS
    for of_new in (0.5, 0.1):
        new = rng.random(shape) < of_new
        yield f"half right, {of_new:.0%} new", samples.settled((rng.random(shape) < 0.5) * 1.0, new)
        yield f"98% right, {of_new:.0%} new", samples.settled((rng.random(shape) < 0.98) * 1.0, new)
        drift = 0.9 - 0.6 * hour
        yield (
            f"90% right falling to 30% in both, {of_new:.0%} new",
            samples.settled((rng.random(shape) < drift) * 1.0, new),
        )
        rare = np.where(rng.random(shape) < 0.02, 0.0, 0.9 + 0.1 * rng.random(shape))
        yield f"rare losses in both, {of_new:.0%} new", samples.settled(rare, new)


def sequences() -> None:
    rng = np.random.default_rng(3)
    print(f"\nSequences, nominal 95%: ever missed the truth (0) in {PEEKS:,} looks, one a value, {PATHS:,} paths\n")
    print("| sequence | data | ever missed |")
    print("|" + " --- |" * 3)
    for kind, paths in (("paired", paired_paths(rng)), ("two arms", two_arm_paths(rng))):
        for name, differences in paths:
            print(f"| {kind} | {name} | {share(samples.ever_missed(differences, 0.0))} |", flush=True)
    print("\nWidth of the paired interval at one look (mean of 20 paths), Student's t for that one look, and ville's\n")
    print("| data | n | ours | t, one look | ville |")
    print("|" + " --- |" * 5)
    for n in (50, 100, 200, 500, 2000, 10_000):
        for name, chances in (("30% discordant, +10", [0.1, 0.7, 0.2]), ("10% discordant, +6", [0.02, 0.9, 0.08])):
            paths = rng.choice([-1.0, 0.0, 1.0], p=chances, size=(20, n))
            ours, once, other = (
                np.mean([width(path) for path in paths]) for width in (our_width, t_width, ville_width)
            )
            print(f"| {name} | {n:,} | {ours:.3f} | {once:.3f} | {'-' if np.isnan(other) else f'{other:.3f}'} |")


def our_width(path: np.ndarray) -> float:
    sequence = PairedSequence()
    sequence.update(path)
    low, high = sequence.interval()
    return high - low


def t_width(path: np.ndarray) -> float:
    return 2 * float(stats.t.ppf(0.975, len(path) - 1)) * float(path.std(ddof=1)) / math.sqrt(len(path))


def ville_width(path: np.ndarray) -> float:
    if importlib.util.find_spec("ville") is None:
        return math.nan
    from ville import BettingCS

    low, high = BettingCS(bounds=(-1, 1), grid=2001).fit(path).interval()
    return high - low


# --- power and speed -------------------------------------------------------------------------------------------------


def power() -> None:
    rng = np.random.default_rng(5)
    print(f"\nPower: verdict 'better' at a true +10 points in completion, percent, {REPLICATIONS:,} samples a cell\n")
    print("| tasks | n | 20% discordant | 30% discordant | 40% discordant |")
    print("|" + " --- |" * 5)
    for correlation, tasks in ((None, "independent"), (0.3, "families of 6-12, ICC 0.3")):
        for n in (120, 200, 480):
            cells = []
            for discordance in (0.2, 0.3, 0.4):
                sample = samples.draw_sample(rng, samples.binary(discordance, 0.1), REPLICATIONS, n, correlation)
                cells.append(share((samples.interval(sample).low > 0) & samples.enough(sample)))
            print(f"| {tasks} | {n} | {' | '.join(cells)} |", flush=True)


def speed() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(-1.0, 1.0, 10_000)
    sequence = PairedSequence()
    print("\nSpeed")
    print(
        f"- 10,000 differences, one update each: {timed(lambda: [sequence.update([value]) for value in values]):.3f} s"
    )
    look, evidence = timed(sequence.interval), timed(sequence.evalue)
    print(f"- a look at them: {1000 * look:.1f} ms, an e-value: {1000 * evidence:.2f} ms")
    new = rng.random(10_000) < 0.2
    arms = TwoArmSequence()
    print(f"- 10,000 scores of two arms: {timed(lambda: arms.update(np.abs(values), new)):.3f} s")
    from compare_episodes import penalty as charge
    from compare_episodes import two_versions

    from hermes_lab.comparing.compare import compare

    for pairs in (200, 100_000):
        old, new_version = two_versions(pairs, seed=1)
        baseline = {"问数": (1000.0, 5.0), "search": (1000.0, 5.0)}
        seconds = timed(lambda: compare(old, new_version, penalty=charge, baseline=baseline))  # noqa: B023
        print(f"- compare() on {pairs:,} pairs: {seconds:.2f} s")


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


SECTIONS = {"intervals": intervals, "whole": whole, "sequences": sequences, "power": power, "speed": speed}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
