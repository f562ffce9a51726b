"""The reflection on one conversation: after each turn by cheap rules, and on the whole of it at its end."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hermes_lab.config import MicroReflection
from hermes_lab.kinds import Tier
from hermes_lab.learning.drafting import Back
from hermes_lab.learning.full import reflect_on_session
from hermes_lab.learning.micro import Micro
from hermes_lab.learning.record import Learned
from hermes_lab.log import Writer

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.models.registry import Tiers


class SessionReflection:
    """Reflects on one conversation, with what `lab.toml` names as `learning.back_end`.

    Attributes:
        learned: what came of each look, in order.
    """

    def __init__(
        self,
        lab: Lab,
        writer: Writer,
        run_id: str,
        settings: MicroReflection,
        models: Tiers,
        *,
        writers: Collection[str] = (),
    ) -> None:
        """Begin.

        Args:
            lab: whose log the conversation is in.
            writer: of that log.
            run_id: the conversation.
            settings: when a turn is worth a look.
            models: of which the named tier drafts, where one is named.
            writers: names of the tools that change something.
        """
        from hermes_lab.proposals import open_queue

        self.learned: list[Learned] = []
        self._lab, self._writer, self._run_id = lab, writer, run_id
        self._is_on = lab.settings.learning.back_end != "off"
        self._models = models
        self._queue = open_queue(lab)
        self._micro = Micro(lab, self._queue, writer, run_id, settings, writers=writers, back=self._back)
        self._waiting = False
        self._turns = 0

    def turn_ended(self) -> None:
        """Note that a turn ended; it is looked at later, when the user's word on it may have come."""
        self._waiting = True
        self._turns += 1

    def look(self) -> None:
        """Look at the turn that ended last, unless that was done."""
        if not self._waiting or not self._is_on:
            return
        self._waiting = False
        self._keep(self._micro.after_turn())

    def end(self) -> None:
        """Look at the whole conversation, if anything was said."""
        self.look()
        if self._is_on and self._turns:
            back = self._back()
            self._keep(reflect_on_session(self._lab, self._queue, self._writer, self._run_id, back=back))

    def _back(self) -> Back | None:
        name = self._lab.settings.learning.back_end
        if name in ("off", "rules"):
            return None
        tier = Tier(name)
        return Back(self._models.of(tier), tier)

    def _keep(self, learned: Learned | None) -> None:
        if learned is not None:
            self.learned.append(learned)
