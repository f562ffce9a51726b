"""Turns the episodes of two versions into comparable tables, in which nothing that went wrong drops out.

An attempt that did not end, or that nobody could score, counts 0 (intention to treat): so does one without a completion
grade where another attempt at the same task has one, for else its score would be made of what is left. Costs that are
not known stay unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.errors import HermesLabError
from hermes_lab.payload import store_text

ENDPOINTS = ("composite", "completion", "base")
"""What can decide a comparison; a composite is made of base scores and costs."""

MEASURES = (
    "completion",
    "effectiveness",
    "safety",
    "feedback",
    "base",
    "tokens",
    "seconds",
    "usd",
    "calls",
    "searches",
    "ineffective_searches",
    "repeats",
    "tool_errors",
    "denied",
    "overstepped",
    "out_of_scope",
    "secrets",
)
"""Columns that are compared with no verdict."""

_TEXTS = ("episode_id", "suite", "task_id", "family", "task_type", "how")
_PLACES = ("cluster", "task_id", "seed", "task_type", "suite")
_COLUMNS = (*_TEXTS, "seed", "finished", *MEASURES)
_FULL_MARKS = 1.0 - 1e-9


class CompareError(HermesLabError, ValueError):
    """Two sets of episodes that cannot be compared as asked."""

    exit_code = 65


def attempts(a: pd.DataFrame, b: pd.DataFrame, endpoint: str) -> pd.DataFrame:
    """Return the attempts of both versions in one frame with their endpoint, none left out.

    Returns:
        One row per attempt: the columns of the input with `arm` (0: old, 1: new), `pair` (code of task and seed),
        `cluster` (code of the family, else of the task), `value` (the endpoint, 0 where it is not known), `full` (1.0
        for a completion with full marks) and `unscored` (whether the endpoint was not known).

    Raises:
        CompareError: an unknown endpoint, or a frame that lacks columns or holds a score outside 0 to 1.
    """
    if endpoint not in ENDPOINTS:
        raise CompareError(f"there is no endpoint {endpoint!r}: choose one of {', '.join(ENDPOINTS)}")
    frame = pd.concat([_typed(a, 0), _typed(b, 1)], ignore_index=True)
    # An attempt at no known task is nobody's pair.
    no_task = frame["task_id"].isna()
    frame.loc[no_task, "task_id"] = "(no task) " + frame.loc[no_task, "episode_id"].fillna("")
    frame["pair"] = frame.groupby(["task_id", "seed"], dropna=False, sort=True).ngroup()
    for column, otherwise in (("family", frame["task_id"]), ("task_type", "(no type)"), ("suite", "(no suite)")):
        # All attempts at a task must agree to which family it belongs: the first that knows says so.
        frame[column] = frame.groupby("task_id")[column].transform("first").fillna(otherwise)
    frame["cluster"] = pd.factorize(frame["family"], sort=True)[0]
    _score(frame, endpoint)
    return frame


def _score(frame: pd.DataFrame, endpoint: str) -> None:
    """Add `value`, `full` and `unscored`, each attempt by the same rule in both arms."""
    ended = frame["finished"]
    score = frame["completion" if endpoint == "completion" else "base"]
    known = ended & score.notna()
    if endpoint != "completion":
        graded_elsewhere = frame.groupby("pair")["completion"].transform("count") > 0
        known &= frame["completion"].notna() | ~graded_elsewhere
    frame["value"] = score.where(known, 0.0)
    frame["unscored"] = ~known
    frame["full"] = (frame["completion"].where(ended, 0.0).fillna(0.0) >= _FULL_MARKS).astype(float)


def average_pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair and arm with its attempts averaged.

    A cost that is unknown in some attempts is the mean of the rest; one that is unknown in all is unknown.

    Returns:
        The columns of `attempts` that are numbers or say where a pair belongs, with `shared` (whether the other arm has
        the pair too) and `left_out` (whether the other arm ran that suite with that seed, yet not this task).
    """
    rows = frame.groupby(["pair", "arm"], sort=True)
    averaged = rows[["value", "full", *MEASURES]].mean()
    averaged[list(_PLACES)] = rows[list(_PLACES)].first()
    table = averaged.reset_index()
    table["shared"] = table.groupby("pair")["arm"].transform("size") == 2
    both_ran = table.groupby(["suite", "seed"], dropna=False)["arm"].transform("nunique") == 2
    table["left_out"] = ~table["shared"] & both_ran
    return table


def suppose_worst(frame: pd.DataFrame, arm: int) -> pd.DataFrame:
    """Return the attempts with every unknown cost supposed to speak against a version.

    Its own unknown tokens and seconds become the highest known of the task type in either version, the other's become
    the lowest.
    """
    supposed = frame.copy()
    against = frame["arm"] == arm
    for measure in ("tokens", "seconds"):
        by_type = frame.groupby("task_type")[measure]
        worst = by_type.transform("max").where(against, by_type.transform("min"))
        supposed[measure] = frame[measure].fillna(worst)
    return supposed


def fail_left_out(table: pd.DataFrame, arm: int) -> pd.DataFrame:
    """Return the rows of both arms' pairs, and what a version left out as its failures, at the other's cost."""
    left = table[table["left_out"] & (table["arm"] != arm)]
    failed = left.assign(arm=arm, value=0.0)
    return pd.concat([table[table["shared"]], left, failed], ignore_index=True)


def _typed(episodes: pd.DataFrame, arm: int) -> pd.DataFrame:
    lacking = [name for name in _COLUMNS if name not in episodes.columns]
    if lacking:
        raise CompareError(f"the episodes of version {arm + 1} lack the columns {', '.join(lacking)}")
    typed = pd.DataFrame(index=range(len(episodes)))
    for name in _TEXTS:
        typed[name] = _texts(episodes[name])
    for name in MEASURES:
        typed[name] = pd.to_numeric(episodes[name]).to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        typed["seed"] = episodes["seed"].astype("Int64").to_numpy()
        typed["seed"] = typed["seed"].astype("Int64")
    except (TypeError, ValueError) as error:
        raise CompareError(f"a seed of version {arm + 1} is no whole number ({error})") from error
    typed["finished"] = episodes["finished"].fillna(False).to_numpy(dtype=bool)
    typed["arm"] = arm
    for name in ("completion", "base"):
        wrong = (typed[name] < 0.0) | (typed[name] > 1.0)
        if wrong.any():
            where = typed.loc[wrong, "episode_id"].iloc[0]
            raise CompareError(f"{name} of episode {where} is {typed.loc[wrong, name].iloc[0]}: scores lie in 0 to 1")
    return typed


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the texts of a column, None where there is none, in the form in which the log holds them."""
    known = column.notna()
    texts = column.astype(object).where(known, None)
    if column.dtype == object:
        # Such a column can hold what pandas's own texts cannot: lone surrogates, numbers.
        texts = texts.mask(known, texts[known].map(lambda text: store_text(str(text))))
    return texts.reset_index(drop=True)


def names(table: pd.DataFrame) -> list[str]:
    """Return what to call the pairs of a table's rows: the task, with its seed where there is one."""
    pairs = zip(table["task_id"], table["seed"], strict=True)
    return [task if pd.isna(seed) else f"{task} (seed {seed})" for task, seed in pairs]
