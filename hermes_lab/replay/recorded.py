"""Writes what a replay came to as events. None of them belongs to an episode, so that none changes its score.

The ids of the episodes stand inside `output`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_lab.effects import Ask
from hermes_lab.kinds import Action, Status
from hermes_lab.log.writer import Writer
from hermes_lab.models.base import Reply
from hermes_lab.recorder import reply_columns, reply_output
from hermes_lab.replay.report import EpisodeReplay, Replay

CHANNEL = "replay"
"""Where the events of a replay come from."""

OWN = "their own"
"""What is written for a version where each episode is replayed under its own."""


def record_changed(writer: Writer, replay_id: str, version: str | None, one: EpisodeReplay) -> None:
    """Write that a replay changes an episode."""
    plain = msgspec.to_builtins(one)
    writer.record(
        Action.CANDIDATE_REPLAYED,
        name=version or OWN,
        run_id=replay_id,
        config_version=version,
        channel=CHANNEL,
        input={"episode_id": one.episode_id, "config_version": one.config_version},
        output={key: value for key, value in plain.items() if value not in (None, "", [], ())},
        observation=None if one.change is None else str(one.change),
        status=Status.OK,
    )


def record_replay(writer: Writer, made: Replay) -> None:
    """Write the replay itself: the versions, and the summary."""
    summary = made.to_dict()
    writer.record(
        Action.CANDIDATE_REPLAYED,
        name=made.config_version or OWN,
        run_id=made.replay_id,
        config_version=made.config_version,
        channel=CHANNEL,
        input={"replayed_versions": summary["replayed_versions"], "config_version": made.config_version},
        output=summary,
        observation=str(made),
        status=Status.ERROR if made.mismatches else Status.OK,
    )
    writer.flush()


def record_question(
    writer: Writer, replay_id: str, version: str | None, content: dict[str, Any], ask: Ask, reply: Reply, key: str
) -> None:
    """Write a question that a live replay put to a model, with its cost."""
    writer.record(
        Action.GENERATION,
        **reply_columns(reply),
        run_id=replay_id,
        config_version=version,
        channel=CHANNEL,
        input=content,
        output=reply_output(reply),
        tier=ask.tier,
        request_hash=key,
    )
