"""Episodes of two made-up versions, as the evaluator gives them."""

import numpy as np
import pandas as pd

TYPES = ("问数", "search")


def penalty(ratio):
    """DESIGN.md 5's penalty."""
    steps = np.where(ratio <= 1.3, 0.5 * (ratio - 1.2), 0.05 + (ratio - 1.3))
    return np.clip(np.where(ratio <= 1.2, 0.0, steps), 0.0, 0.5)


def episodes(completion, *, version="v1", family_size=10, tokens=1000.0, seconds=5.0, base=None, **columns):
    """Return one attempt per value of `completion`, with every column of the evaluator; others override."""
    completion = np.asarray(completion, dtype=float)
    n = len(completion)
    family = np.arange(n) // family_size
    frame = {
        "episode_id": [f"{version}-{i}" for i in range(n)],
        "run_id": f"run-{version}",
        "suite": "desk",
        "task_id": [f"任务 {i}" for i in range(n)],
        "family": [f"族 {i}" for i in family],
        "task_type": [TYPES[i % len(TYPES)] for i in family],
        "seed": 0,
        "config_version": version,
        "channel": None,
        "difficulty": None,
        "began": pd.Timestamp("2026-11-30", tz="UTC"),
        "ended": pd.Timestamp("2026-11-30", tz="UTC"),
        "how": "completed",
        "finished": True,
        "completion": completion,
        "completion_source": "grader",
        "effectiveness": 0.9,
        "safety": 1.0,
        "feedback": np.nan,
        "base": 0.5 * completion + 0.45 if base is None else base,
        "tokens": tokens,
        "seconds": seconds,
        "usd": np.nan,
    }
    counts = ("calls", "searches", "ineffective_searches", "repeats", "tool_errors", "denied", "overstepped")
    frame |= dict.fromkeys((*counts, "out_of_scope", "secrets"), 0)
    return pd.DataFrame(frame | columns)


def two_versions(pairs, seed=0, old=0.6, new=0.75, family_size=10, **columns):
    """Return an old and a new version on the same tasks, right with these chances, costs drawn at random."""
    rng = np.random.default_rng(seed)
    versions = []
    for version, chance in (("v1", old), ("v2", new)):
        drawn = {"tokens": 1000 * rng.lognormal(0, 0.4, pairs), "seconds": 5 * rng.lognormal(0, 0.4, pairs)}
        completion = (rng.random(pairs) < chance) * 1.0
        versions.append(episodes(completion, version=version, family_size=family_size, **drawn | columns))
    return versions
