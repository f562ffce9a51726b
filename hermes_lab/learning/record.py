"""What a reflection came to, as an event: nothing, as a rule."""

from __future__ import annotations

from typing import NamedTuple

from hermes_lab.kinds import Action, Status
from hermes_lab.log import Writer


class Learned(NamedTuple):
    """What a reflection proposed.

    Attributes:
        memories: ids of the proposals of memories.
        skills: ids of the proposals of skills.
        refused: drafts that the queue refused, with its reasons.
        tokens: estimated tokens that went in.
    """

    memories: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def nothing(self) -> bool:
        """Whether nothing was worth keeping."""
        return not self.memories and not self.skills


def record(
    writer: Writer,
    name: str,
    learned: Learned,
    *,
    run_id: str,
    config_version: str | None,
    trigger: str,
    skill: dict[str, str] | None = None,
) -> None:
    """Write a reflection down; `skill` is evidence for a skill: its pattern, the episode and its event."""
    output = {**learned._asdict(), "nothing": learned.nothing}
    if skill is not None:
        output["skill"] = skill
    writer.record(
        Action.REFLECTION,
        name=name,
        run_id=run_id,
        config_version=config_version,
        input={"trigger": trigger},
        output=output,
        status=Status.OK,
    )
