"""One recorded episode under another configuration: what is kept, what changes, and what that saves."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_lab.config import AgentConfig
from hermes_lab.loop_acts import View
from hermes_lab.permissions import PermissionRule
from hermes_lab.replay.changes import ChangeKind, Mismatch, Verdict
from hermes_lab.replay.drive import Drive
from hermes_lab.replay.effects import Keys
from hermes_lab.replay.exact import Reproduction
from hermes_lab.replay.imported import replay_imported
from hermes_lab.replay.recording import Recording
from hermes_lab.replay.report import EpisodeReplay, NotReplayed


class Other:
    """One episode under another configuration.

    Attributes:
        recording: the episode.
        assuming: the drive that takes the model to say the same.
        following: the drive that is carried on with answers from outside; None where nothing has to be answered.
    """

    def __init__(
        self, recording: Recording, config: AgentConfig, view: View, keys: Keys, remarks: tuple[str, ...]
    ) -> None:
        """Drive the episode as far as its own record answers."""
        self.recording = recording
        self.assuming = Drive(recording, config, view, keys, assume=True)
        self.assuming.advance()
        self.following: Drive | None = None
        self._parts = config, view, keys
        self._remarks = remarks

    def follow(self) -> Drive | None:
        """Begin the drive that is to be carried on, where there is anything to carry on."""
        if self.verdict is Verdict.KEPT:
            return None
        self.following = Drive(self.recording, *self._parts, assume=False)
        self.following.advance()
        return self.following

    @property
    def verdict(self) -> Verdict:
        """What the record alone says."""
        drive = self.assuming
        if drive.change is not None and drive.change.kind is not ChangeKind.UNANSWERED and not drive.change.assumed:
            return Verdict.CHANGED
        return Verdict.KEPT if drive.sure and drive.change is None else Verdict.UNKNOWN

    @property
    def assumed(self) -> Verdict | None:
        """What it would be if the model said the same; None where that need not be assumed."""
        if self.verdict is not Verdict.UNKNOWN:
            return None
        change = self.assuming.change
        if change is None:
            return Verdict.KEPT
        return Verdict.UNKNOWN if change.kind is ChangeKind.UNANSWERED else Verdict.CHANGED

    def result(self, basis: str, score: float | None) -> EpisodeReplay:
        """Return what it came to; `basis` says where the answers of `following` come from, `score` is its grade."""
        followed = self.following
        if followed is not None and followed.ending is not None:
            return self._followed(followed, basis, score)
        drive, verdict = self.assuming, self.verdict
        changed = 1 if verdict is Verdict.CHANGED and drive.kept < len(drive.recorded) else 0
        kept = drive.certain
        complete = drive.ending is not None or drive.change is None
        remarks = self._remarks if followed is None else (*self._remarks, *followed.remarks)
        known = complete and not drive.usage.estimated
        return EpisodeReplay(
            **_about(self.recording),
            verdict=verdict,
            basis="log",
            assumed=self.assumed,
            change=drive.change,
            context=drive.context,
            decisions=len(drive.recorded),
            kept=kept,
            changed=changed,
            unknown=len(drive.recorded) - kept - changed,
            assumed_kept=drive.kept - kept,
            end_now=None if drive.ending is None or self.assumed is not None else str(drive.ending.end),
            remarks=remarks,
            effects=len(self.recording.entries),
            **_saved(self.recording, drive, known=known, estimated=complete and drive.usage.estimated),
        )

    def _followed(self, drive: Drive, basis: str, score: float | None) -> EpisodeReplay:
        assert drive.ending is not None  # noqa: S101 - looked at by the caller
        kept = drive.kept_in_place()
        return EpisodeReplay(
            **_about(self.recording),
            verdict=Verdict.KEPT if drive.change is None else Verdict.CHANGED,
            basis=basis,
            change=drive.change,
            context=drive.context,
            decisions=len(drive.recorded),
            kept=kept,
            changed=len(drive.recorded) - kept,
            end_now=str(drive.ending.end),
            score_now=score,
            remarks=(*self._remarks, *drive.remarks),
            effects=len(self.recording.entries),
            **_saved(self.recording, drive, known=True, estimated=False),
        )


def same(recording: Recording, found: Reproduction, remarks: tuple[str, ...]) -> EpisodeReplay:
    """Return what a replay under an episode's own configuration came to."""
    if found.inferred:
        remarks = (*remarks, "which failures were transient is not recorded, and was found by trying")
    mismatches = tuple(_because(one, remarks) for one in found.mismatches)
    return EpisodeReplay(
        **_about(recording),
        verdict=Verdict.CHANGED if mismatches else Verdict.KEPT,
        basis="log",
        end_now=None if found.ending is None else str(found.ending.end),
        effects=found.effects,
        mismatches=mismatches,
        remarks=remarks,
    )


def imported(
    recording: Recording, config: AgentConfig, rules: tuple[PermissionRule, ...]
) -> EpisodeReplay | NotReplayed:
    """Return what our rules say to an imported episode."""
    found = replay_imported(recording, config, rules)
    if isinstance(found, str):
        return NotReplayed(recording.episode_id, found)
    changed = 0 if found.change is None else 1
    return EpisodeReplay(
        **_about(recording),
        verdict=Verdict.CHANGED if changed else Verdict.KEPT,
        basis="rules",
        change=found.change,
        decisions=found.calls,
        kept=found.kept,
        changed=min(changed, found.calls - found.kept),
        unknown=max(0, found.calls - found.kept - changed),
        remarks=found.remarks,
        effects=found.calls,
    )


def _because(mismatch: Mismatch, remarks: tuple[str, ...]) -> Mismatch:
    known = [part for part in (mismatch.because, *remarks) if part]
    return msgspec.structs.replace(mismatch, because="; ".join(known))


def _about(recording: Recording) -> dict[str, Any]:
    return {
        "episode_id": recording.episode_id,
        "run_id": recording.run_id,
        "task_id": recording.task_id,
        "task_type": recording.task_type or "",
        "config_version": recording.config_version,
        "end_then": recording.end,
        "score_then": recording.score,
        "tokens_then": recording.tokens,
        "usd_then": recording.usd,
    }


def _saved(recording: Recording, drive: Drive, *, known: bool, estimated: bool) -> dict[str, Any]:
    """Return tokens and money more (or less) than then, under the names of `EpisodeReplay`."""
    kind = "delta" if known else "estimate"
    if not known and not estimated:
        return {}
    tokens, usd = drive.usage.tokens, drive.usage.usd
    return {
        f"tokens_{kind}": None if tokens is None or recording.tokens is None else tokens - recording.tokens,
        f"usd_{kind}": None if usd is None or recording.usd is None else usd - recording.usd,
    }
