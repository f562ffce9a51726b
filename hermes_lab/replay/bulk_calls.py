"""Recorded calls in bulk: batches of columns out of a log or a table, and judging each different input only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_lab import payload
from hermes_lab.errors import QueryError
from hermes_lab.lab import Lab
from hermes_lab.sql_files import read_sql

if TYPE_CHECKING:
    import pandas as pd

Source = Union[Lab, pa.Table, "pd.DataFrame"]
"""Where calls come from: a lab, or a table."""

_BATCH = 65_536
_MOST_KNOWN = 500_000  # inputs that are remembered; then it begins anew
_MOST_CODES = 2**62
_SAMPLE = 100


class AffectedCall(msgspec.Struct, frozen=True):
    """A call that comes out otherwise: where it is recorded, its tool, and why."""

    episode_id: str
    event_id: str
    tool: str
    why: str


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says to recorded calls.

    Attributes:
        rule: which rule it was.
        calls: how many calls were looked at.
        affected: how many of them come out otherwise.
        affected_episodes: how many episodes these are of.
        by_tool: affected calls by tool.
        by_reason: affected calls by what happens to them.
        sample: the first affected calls.
        judged: how many different inputs were judged; equal ones were judged once.
        seconds: that it took.
    """

    rule: str
    calls: int
    affected: int
    affected_episodes: int
    by_tool: dict[str, int]
    by_reason: dict[str, int]
    sample: tuple[AffectedCall, ...]
    judged: int
    seconds: float

    def to_frame(self) -> pd.DataFrame:
        """Return the sample as a frame."""
        import pandas as pd

        return pd.DataFrame(
            [msgspec.structs.asdict(one) for one in self.sample], columns=AffectedCall.__struct_fields__
        )

    def __str__(self) -> str:
        """Say it in one line."""
        share = f" ({self.affected / self.calls:.1%})" if self.calls else ""
        return (
            f"{self.rule}: {self.affected:,} of {self.calls:,} calls{share} in {self.affected_episodes:,} episodes "
            f"come out otherwise; {self.judged:,} different inputs, {self.seconds:.2f} s"
        )


Finding = tuple[str, str]
"""What happens to a call, in a word, and why, in a sentence."""


class Tally:
    """Counts the affected calls, exactly, and keeps the first few."""

    def __init__(self) -> None:
        """Start with none."""
        self.calls = self.affected = 0
        self.by_tool: dict[str, int] = {}
        self.by_reason: dict[str, int] = {}
        self.sample: list[AffectedCall] = []
        self._episodes: set[str] = set()

    def add(self, batch: pa.RecordBatch, found: Sequence[Finding | None], places: Any) -> None:
        """Count a batch.

        Args:
            batch: with the columns `episode_id`, `event_id` and `tool`.
            found: what happens, and a longer text of why; None where a call comes out as it did.
            places: for each row the place in `found`, an integer array.
        """
        is_affected = np.array([one is not None for one in found], dtype=bool)
        rows = np.flatnonzero(is_affected[places])
        if not len(rows):
            return
        self.affected += len(rows)
        chosen = batch.take(pa.array(rows))
        for counted in pc.value_counts(chosen["tool"]).to_pylist():
            tool = payload.restore_text(counted["values"])
            self.by_tool[tool] = self.by_tool.get(tool, 0) + counted["counts"]
        for one, count in zip(found, np.bincount(places, minlength=len(found)).tolist(), strict=True):
            if one is not None:
                self.by_reason[one[0]] = self.by_reason.get(one[0], 0) + count
        self._episodes.update(pc.unique(chosen["episode_id"]).to_pylist())
        room = _SAMPLE - len(self.sample)
        for row, of in zip(rows[:room], chosen.slice(0, room).to_pylist(), strict=True):
            episode, event, tool = (payload.restore_text(of[name]) for name in ("episode_id", "event_id", "tool"))
            _, why = found[places[row]] or ("", "")
            self.sample.append(AffectedCall(episode, event, tool, why))

    def result(self, rule: str, judged: int, seconds: float) -> Bulk:
        """Return what was counted."""
        return Bulk(
            rule=rule,
            calls=self.calls,
            affected=self.affected,
            affected_episodes=len(self._episodes - {""}),
            by_tool=dict(sorted(self.by_tool.items())),
            by_reason=dict(sorted(self.by_reason.items())),
            sample=tuple(self.sample),
            judged=judged,
            seconds=seconds,
        )


def batches(
    source: Source, query: str, columns: Sequence[str], params: Sequence[Any], **conditions: str
) -> Iterator[Any]:
    """Yield record batches with `columns`, of a lab by the query of that name, or of a table that has them.

    Args:
        source: the lab or table.
        query: name of the query, which is formatted with `conditions`.
        columns: of the table.
        params: of the query.
        conditions: SQL by name.

    Raises:
        QueryError: the condition does not run, or the table lacks a column.
    """
    if isinstance(source, Lab):
        text = read_sql(__package__, query).format(**conditions)
        yield from source.log.sql(text, list(params)).to_arrow_reader(_BATCH)
        return
    table = source if isinstance(source, pa.Table) else pa.Table.from_pandas(source, preserve_index=False)
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise QueryError(f"the table of calls has no column {missing[0]!r}: it needs {', '.join(columns)}")
    for batch in table.select(list(columns)).to_batches(max_chunksize=_BATCH):
        if batch.num_rows:
            yield batch


class Judged:
    """Judges each different input of some columns once, and remembers what it found.

    Attributes:
        count: how many inputs were judged.
    """

    def __init__(self, judge: Callable[..., Any]) -> None:
        """Use `judge`, which is called with the values of the columns, and may depend on nothing else."""
        self.count = 0
        self._judge = judge
        self._known: dict[tuple[str, ...], Any] = {}

    def of(self, columns: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return what was found, and for each row the place in it, an integer array."""
        codes, values = _combined(columns)
        different, places = np.unique(codes, return_inverse=True)
        first = np.empty(len(different), dtype=np.int64)
        first[places[::-1]] = np.arange(len(codes) - 1, -1, -1)
        keys = zip(*(_at(column, first) for column in values), strict=True)
        return [self._find(key) for key in keys], places

    def _find(self, key: tuple[str, ...]) -> Any:
        if key in self._known:
            return self._known[key]
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._judge(*key)
        self._known[key] = found
        self.count += 1
        return found


def _combined(columns: Sequence[Any]) -> tuple[Any, list[tuple[Any, list[str]]]]:
    """Return one integer for each row, equal for rows that are equal in every column, and each column's codes."""
    encoded = [pc.dictionary_encode(column) for column in columns]
    values = [(one.indices.to_numpy(zero_copy_only=False), one.dictionary) for one in encoded]
    codes, different = np.zeros(len(columns[0]), dtype=np.int64), 1
    for indices, dictionary in values:
        if different * (len(dictionary) + 1) > _MOST_CODES:
            known, codes = np.unique(codes, return_inverse=True)
            different = len(known)
        codes = codes * (len(dictionary) + 1) + indices
        different *= len(dictionary) + 1
    return codes, values


def _at(column: tuple[Any, Any], rows: Any) -> list[str]:
    indices, dictionary = column
    taken = dictionary.take(pa.array(indices[rows])).to_pylist()
    return [text if text.isascii() else payload.restore_text(text) for text in taken]


def arguments_of(text: str) -> Any:
    """Return the arguments of a call from their JSON text in the log."""
    return payload.loads(text) if '"$' in text else json.loads(text)
