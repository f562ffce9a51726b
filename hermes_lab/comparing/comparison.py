"""What a comparison of two versions found, as one frozen value that shows itself as text, JSON, frames and HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["better", "worse", "no difference shown", "too few"]
"""What is said of the new version, from the interval of the primary endpoint alone."""


class ArmCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one version's attempts came to; every one of them is in the comparison.

    Attributes:
        attempts: all attempts.
        tasks: pairs of task and seed.
        unfinished: attempts that have no end.
        unscored: attempts that counted 0 because nobody could score them, the unfinished ones among them.
        ungraded: attempts with no completion grade.
        tokens_unknown: attempts whose tokens are not known.
        seconds_unknown: attempts whose time is not known.
        ended: how attempts ended, and how many each way.
    """

    attempts: int
    tasks: int
    unfinished: int
    unscored: int
    ungraded: int
    tokens_unknown: int
    seconds_unknown: int
    ended: dict[str, int]


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """One measure beside the endpoint: described, never judged.

    Attributes:
        name: the measure.
        old: its mean in the old version, over tasks where both versions have it (unpaired: over its attempts).
        new: its mean in the new version, over the same tasks.
        difference: new - old.
        known: how many tasks that is (unpaired: attempts of both).
    """

    name: str
    old: float | None
    new: float | None
    difference: float | None
    known: int


class TypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one task type gave, with no verdict of its own.

    Attributes:
        task_type: the type.
        old_tasks: pairs (unpaired: attempts) of the old version.
        new_tasks: pairs (unpaired: attempts) of the new version.
        share: its weight in the whole.
        old_score: mean score before the penalty.
        new_score: mean score before the penalty.
        old_cost: cost over the baseline's; None where it is not known in both.
        new_cost: cost over the baseline's; None where it is not known in both.
        old_penalty: what that costs.
        new_penalty: what that costs.
        difference: new - old, penalties taken off; None for a type that one version lacks.
    """

    task_type: str
    old_tasks: int
    new_tasks: int
    share: float
    old_score: float | None
    new_score: float | None
    old_cost: float | None
    new_cost: float | None
    old_penalty: float
    new_penalty: float
    difference: float | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the new version is better, how sure that is, and everything that speaks against it.

    Attributes:
        labels: the old version and the new one.
        verdict: what is said of the new one.
        endpoint: the one measure that decides.
        paired: whether the same tasks were compared with each other; if not, the evidence is weaker.
        difference: the endpoint of the new version less that of the old one; None when nothing can be compared.
        interval: its interval, over families; None with fewer than two.
        level: the coverage of every interval here.
        pairs: tasks that both ran (unpaired: attempts of the version that has fewer).
        clusters: families that they come from (unpaired: of the version that has fewer).
        discordant: pairs whose endpoint differs; None when unpaired.
        won: pairs with full marks for completion in the new version only; None when unpaired.
        lost: pairs with full marks in the old version only; None when unpaired.
        mcnemar: exact p-value of `won` against `lost`; None when there are none.
        betting: interval of the mean difference in score (before penalties), which assumes nothing but the bounds, so
            losses that are rare do not fool it; None when unpaired.
        smallest_effect: the smallest true difference that these tasks would have shown with 80% power.
        arms: what the attempts of each version came to.
        dimensions: all other measures.
        types: the task types.
        only_old: tasks that only the old version ran.
        only_new: tasks that only the new version ran.
        warnings: what a reader must know before believing the verdict.
        scoring_hash: hash of the scoring file behind the scores.
    """

    labels: tuple[str, str]
    verdict: Verdict
    endpoint: str
    paired: bool
    difference: float | None
    interval: tuple[float, float] | None
    level: float
    pairs: int
    clusters: int
    discordant: int | None
    won: int | None
    lost: int | None
    mcnemar: float | None
    betting: tuple[float, float] | None
    smallest_effect: float | None
    arms: tuple[ArmCounts, ArmCounts]
    dimensions: tuple[Dimension, ...]
    types: tuple[TypeRow, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    warnings: tuple[str, ...]
    scoring_hash: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; what is not known is None."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return msgspec.json.encode(self).decode()

    def to_frame(self) -> pd.DataFrame:
        """Return the other measures, one row each: name, old, new, difference, known."""
        return _frame(self.dimensions, Dimension)

    def by_type(self) -> pd.DataFrame:
        """Return the task types, one row each."""
        return _frame(self.types, TypeRow)

    def save_html(self, path: Path | str) -> None:
        """Write one HTML file that needs no other; the file is whole or absent.

        Raises:
            WriteError: the disk did not take it.
            MissingError: its folder does not exist.
            PermissionDeniedError: the folder may not be written.
        """
        from hermes_lab.comparing import html
        from hermes_lab.log import files

        with files.disk_errors(f"writing {path}"):
            files.atomic_write(Path(path), html.page(self).encode())

    def _repr_html_(self) -> str:
        from hermes_lab.comparing import html

        return html.fragment(self)

    def __str__(self) -> str:
        """Return the comparison in a few lines of text."""
        from hermes_lab.comparing import text

        return "\n".join([text.headline(self), *text.facts(self), *self.warnings])


def _frame(rows: tuple[msgspec.Struct, ...], kind: type[msgspec.Struct]) -> pd.DataFrame:
    import pandas as pd

    columns = list(kind.__struct_fields__)
    return pd.DataFrame([msgspec.structs.astuple(row) for row in rows], columns=columns)
