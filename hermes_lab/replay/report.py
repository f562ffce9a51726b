"""What a replay came to: a row for each episode, tables of decisions kept, changed and unknown, and what to look at."""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_lab import payload
from hermes_lab.replay.changes import Change, ChangeKind, Mismatch, Verdict

if TYPE_CHECKING:
    import pandas as pd

_HARMFUL = {
    ChangeKind.LOST_TOOL,
    ChangeKind.BLOCKED_BY_CHECK,
    ChangeKind.OTHER_PERMISSION,
    ChangeKind.ENDED_EARLIER,
    ChangeKind.OTHER_TOOL,
    ChangeKind.OTHER_ARGUMENTS,
    ChangeKind.OTHER_END,
}
_GOOD = 1.0
_SHOWN_ROWS = 10


class EpisodeReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What the replay of one episode came to.

    Attributes:
        episode_id: of the episode.
        run_id: that it is of.
        task_id: of its task.
        task_type: of its task; "" where nobody said.
        config_version: that it ran under; None for an imported one.
        verdict: whether its decisions are kept, changed, or unknown since a question to the model differs.
        basis: what the verdict rests on: `log` (only what was recorded), `cached`, `live`, or `rules` (of an imported
            episode: what its agent decided is taken as given).
        assumed: of an unknown one, what it would be if the model said the same to the questions that differ.
        change: the first decision that changes; of an unknown one, under that assumption.
        context: the first change of what the model is shown or asked.
        decisions: how many were recorded.
        kept: how many of them are kept for certain.
        changed: how many are changed for certain.
        unknown: the others.
        assumed_kept: how many of the unknown ones are kept under the assumption.
        end_then: how it ended.
        end_now: how it ends now; None where that is unknown.
        score_then: its grade; None where it has none.
        score_now: its grade now, where it was played to the end in a world of its own.
        tokens_then: of its model calls; None where unknown.
        tokens_delta: tokens more (or less) now, where that is known.
        tokens_estimate: likewise, where it rests on the assumption and on an estimate of the prompts.
        usd_then: US dollars; None where unknown.
        usd_delta: US dollars more (or less) now, where that is known.
        usd_estimate: likewise by an estimate.
        effects: how many effects were held against the log.
        mismatches: of a replay under the same configuration.
        remarks: what is not certain about the replay.
    """

    episode_id: str
    verdict: Verdict
    basis: str
    run_id: str | None = None
    task_id: str | None = None
    task_type: str = ""
    config_version: str | None = None
    assumed: Verdict | None = None
    change: Change | None = None
    context: Change | None = None
    decisions: int = 0
    kept: int = 0
    changed: int = 0
    unknown: int = 0
    assumed_kept: int = 0
    end_then: str = ""
    end_now: str | None = None
    score_then: float | None = None
    score_now: float | None = None
    tokens_then: int | None = None
    tokens_delta: int | None = None
    tokens_estimate: int | None = None
    usd_then: float | None = None
    usd_delta: float | None = None
    usd_estimate: float | None = None
    effects: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def may_change(self) -> bool:
        """Tell whether a decision changes, for certain or under the assumption."""
        return Verdict.CHANGED in (self.verdict, self.assumed)

    def row(self) -> dict[str, Any]:
        """Return it as a flat row, of texts and numbers."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in ("change", "context"):
            change: Change | None = plain.pop(name)
            plain[name] = None if change is None else str(change.kind)
            plain[f"{name}_step"] = None if change is None else change.step
            plain[f"{name}_old"] = None if change is None else change.old
            plain[f"{name}_new"] = None if change is None else change.new
        plain["verdict"], plain["assumed"] = str(self.verdict), None if self.assumed is None else str(self.assumed)
        plain["mismatches"] = len(self.mismatches)
        plain["remarks"] = "; ".join(self.remarks)
        return plain


class NotReplayed(msgspec.Struct, frozen=True):
    """An episode that cannot be replayed, and why."""

    episode_id: str
    reason: str


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of recorded episodes.

    Attributes:
        replay_id: `where run_id = ...` finds its events.
        config_version: of the configuration that was replayed; None for each episode's own.
        own_configuration: whether nothing was to be otherwise: each effect must be the recorded one.
        after: what came after the first change: stop, cached or live.
        episodes: what each came to.
        not_replayed: those that cannot be replayed.
        model_calls: questions that were put to a model.
        seconds: that it took.
    """

    replay_id: str
    config_version: str | None
    own_configuration: bool
    after: str
    episodes: tuple[EpisodeReplay, ...]
    not_replayed: tuple[NotReplayed, ...] = ()
    model_calls: int = 0
    seconds: float = 0.0

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """Every effect that is not what was recorded, under the configuration that it was recorded with."""
        return tuple(found for one in self.episodes for found in one.mismatches)

    @property
    def cut_off(self) -> int:
        """How many of the episodes have no end in the log, as after a kill."""
        return sum(one.basis == "log" and not one.end_then for one in self.episodes)

    @property
    def reproduced(self) -> int:
        """How many episodes came out as they were recorded, all effects the same."""
        return sum(one.verdict is Verdict.KEPT and not one.mismatches for one in self.episodes)

    @property
    def effects(self) -> int:
        """How many effects were held against the log."""
        return sum(one.effects for one in self.episodes)

    def changed(self, kind: ChangeKind | None = None) -> list[EpisodeReplay]:
        """Return the episodes of which a decision changes, for certain or under the assumption, of one kind or any."""
        wanted = [one for one in self.episodes if one.may_change]
        return [one for one in wanted if kind is None or (one.change is not None and one.change.kind is kind)]

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each episode; see `EpisodeReplay`."""
        import pandas as pd

        empty = EpisodeReplay(episode_id="", verdict=Verdict.UNKNOWN, basis="")
        return pd.DataFrame([one.row() for one in self.episodes], columns=list(empty.row()))

    def by_type(self) -> pd.DataFrame:
        """Return episodes and decisions kept, changed and unknown by task type, with one row for all."""
        import pandas as pd

        types = sorted({one.task_type for one in self.episodes})
        rows = [_summed(name, [one for one in self.episodes if one.task_type == name]) for name in types]
        return pd.DataFrame([*rows, _summed("all", list(self.episodes))])

    def worth_a_look(self, most: int = _SHOWN_ROWS) -> pd.DataFrame:
        """Return the episodes worth a look: a success that would be lost, a failure that changes, the biggest saving.

        Within each, what is certain comes before what is assumed.
        """
        import pandas as pd

        ranked = sorted(((*_worth(one), one) for one in self.episodes), key=lambda item: (item[0], item[2].episode_id))
        chosen = [(why, one) for rank, why, one in ranked if why][:most]
        rows = [
            {
                "why": why,
                "episode_id": one.episode_id,
                "task_type": one.task_type,
                "score_then": one.score_then,
                "score_now": one.score_now,
                "change": None if one.change is None else str(one.change),
                "assumed": one.verdict is Verdict.UNKNOWN,
                "tokens": one.tokens_delta if one.tokens_delta is not None else one.tokens_estimate,
            }
            for why, one in chosen
        ]
        columns = ["why", "episode_id", "task_type", "score_then", "score_now", "change", "assumed", "tokens"]
        return pd.DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values, which is also what the log holds of it."""
        kinds = Counter(str(one.change.kind) for one in self.episodes if one.change is not None)
        contexts = Counter(str(one.context.kind) for one in self.episodes if one.context is not None)
        remarks = Counter(remark for one in self.episodes for remark in one.remarks)
        versions = Counter(one.config_version or "imported" for one in self.episodes)
        return {
            "replay_id": self.replay_id,
            "config_version": self.config_version,
            "own_configuration": self.own_configuration,
            "replayed_versions": dict(sorted(versions.items())),
            "after": self.after,
            "reproduced": self.reproduced,
            "cut_off": self.cut_off,
            **_summed("all", list(self.episodes)),
            "changes": dict(sorted(kinds.items())),
            "contexts": dict(sorted(contexts.items())),
            "effects": self.effects,
            "mismatches": len(self.mismatches),
            "first_mismatches": [str(found) for found in self.mismatches[:5]],
            "not_replayed": dict(Counter(one.reason for one in self.not_replayed).most_common(20)),
            "remarks": dict(remarks.most_common(20)),
            "model_calls": self.model_calls,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        total = len(self.episodes)
        if self.own_configuration:
            lines = [f"{self.reproduced} of {total} episodes reproduced, {self.effects:,} effects held against the log"]
            if self.cut_off:
                lines.append(
                    f"{self.cut_off} of them have no end in the log: they were held against it as far as it goes"
                )
            lines += [str(found) for found in self.mismatches[:3]]
            if len(self.mismatches) > 3:
                lines.append(f"... and {len(self.mismatches) - 3} more mismatches")
        else:
            total_row = _summed("all", list(self.episodes))
            under = self.config_version or "their own configurations and other rules"
            lines = [
                f"{total} episodes under {under}: {total_row['kept']} kept, {total_row['changed']} changed, "
                f"{total_row['unknown']} unknown (if the model says the same: {total_row['assumed_kept']} kept, "
                f"{total_row['assumed_changed']} changed)"
            ]
            kinds = Counter(str(one.change.kind) for one in self.episodes if one.change is not None)
            if kinds:
                lines.append("first changes: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
        if self.not_replayed:
            lines.append(f"{len(self.not_replayed)} episodes cannot be replayed: {self.not_replayed[0].reason}")
        return lines

    def _repr_html_(self) -> str:
        lines = "<br>".join(html.escape(payload.store_text(line)) for line in self._lines())
        parts = [f"<p>{lines}</p>", self.by_type().to_html(index=False, na_rep="", float_format="{:.4g}".format)]
        looks = self.worth_a_look()
        if len(looks):
            for column in ("task_type", "change"):
                looks[column] = [None if text is None else payload.store_text(text) for text in looks[column]]
            parts.append(looks.to_html(index=False, na_rep=""))
        return "".join(parts)


def _summed(name: str, rows: list[EpisodeReplay]) -> dict[str, Any]:
    verdicts = Counter(one.verdict for one in rows)
    assumed = Counter(one.assumed for one in rows if one.verdict is Verdict.UNKNOWN)
    return {
        "task_type": name,
        "episodes": len(rows),
        "kept": verdicts[Verdict.KEPT],
        "changed": verdicts[Verdict.CHANGED],
        "unknown": verdicts[Verdict.UNKNOWN],
        "assumed_kept": assumed[Verdict.KEPT],
        "assumed_changed": assumed[Verdict.CHANGED],
        "decisions": sum(one.decisions for one in rows),
        "decisions_kept": sum(one.kept for one in rows),
        "decisions_changed": sum(one.changed for one in rows),
        "decisions_unknown": sum(one.unknown for one in rows),
        "decisions_assumed_kept": sum(one.assumed_kept for one in rows),
        "tokens_delta": _total(one.tokens_delta for one in rows),
        "tokens_estimate": _total(one.tokens_estimate for one in rows),
        "usd_delta": _total(one.usd_delta for one in rows),
        "usd_estimate": _total(one.usd_estimate for one in rows),
    }


def _total(values: Any) -> Any:
    """Return the sum of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _worth(one: EpisodeReplay) -> tuple[tuple[float, ...], str]:
    """Return how an episode ranks among those worth a look, and why it is one; "" where it is none."""
    certain = 0.0 if one.verdict is Verdict.CHANGED else 1.0
    succeeded = one.end_then == "completed" if one.score_then is None else one.score_then >= _GOOD
    if one.mismatches:
        return (0.0, 0.0, 0.0), "it is not reproduced"
    if one.score_then is not None and one.score_now is not None and one.score_now != one.score_then:
        lost = one.score_now < one.score_then
        rank = 1.0 if lost else 2.0
        return (rank, certain, one.score_now - one.score_then), "its grade falls" if lost else "its grade rises"
    if one.may_change and one.basis == "rules":
        return (2.5, certain, 0.0), "our rules change it"
    if one.may_change and one.score_now is None:
        if succeeded and one.change is not None and one.change.kind in _HARMFUL:
            return (1.0, certain, 0.0), "a success that may be lost"
        if not one.end_then:
            return (2.5, certain, 0.0), "it was cut off, and changes"
        if not succeeded:
            return (2.0, certain, 0.0), "a failure that changes"
    saved = one.tokens_delta if one.tokens_delta is not None else one.tokens_estimate
    if saved is not None and saved < 0:
        return (3.0, certain, float(saved)), "tokens saved"
    return (9.0, 0.0, 0.0), ""
