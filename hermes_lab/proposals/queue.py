"""The queue that one writes to: propose, approve, reject, edit, undo, retract and pin, each whole or not at all."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hermes_lab.conflicts.finding import Judge
from hermes_lab.kinds import Action, Tier
from hermes_lab.log import Log
from hermes_lab.log.redact import Redactor
from hermes_lab.memory.records import State
from hermes_lab.proposals import deciding, making
from hermes_lab.proposals.deciding import signed
from hermes_lab.proposals.lookup import check_open, find, find_active, find_undoable, same_decision
from hermes_lab.proposals.making import Draft, Made, Origin
from hermes_lab.proposals.session import ProposalError, Session, held
from hermes_lab.proposals.steps import Outcome, SkillText, Source
from hermes_lab.proposals.view import QueueView
from hermes_lab.tasks import ANY_TYPE

if TYPE_CHECKING:
    from hermes_lab.lab import Lab


class Skipped(NamedTuple):
    """A proposal that a bulk approval left to be looked at, and why."""

    proposal: str
    name: str
    reason: str


class SkillDraft(NamedTuple):
    """A skill to be proposed, or an edit of one; see `Queue.propose_skill` for the parts."""

    name: str
    text: str
    files: Mapping[str, str] | None = None
    base: str | None = None


class Queue(QueueView):
    """The queue of one log. Every method that writes holds it alone; each decision is whole or not at all."""

    def __init__(
        self,
        log: Log,
        *,
        expire_days: float,
        models: Iterable[str] = (),
        judge: Judge | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Use `open_queue` for a lab's.

        Args:
            log: of the lab.
            expire_days: days that a proposal waits.
            models: names of the models in use; none of them can decide.
            judge: asked about conflicts where the words show none.
            redactor: takes secrets out; by default one that knows this process's environment.
        """
        super().__init__(log, expire_days=expire_days)
        self._models = tuple(models)
        self._judge = judge
        self._redactor = redactor or Redactor(os.environ)

    # ---------------------------------------------------------------- proposing

    def propose_memory(
        self,
        text: str,
        kind: str,
        *,
        evidence: Sequence[str],
        source: str,
        scope: str = ANY_TYPE,
        key: str | None = None,
        config_version: str | None = None,
        confidence: float | None = None,
        expires: dt.datetime | None = None,
        pinned: bool = False,
        run_id: str | None = None,
    ) -> Made:
        """Propose a memory; see `memory.Memory`, `making.Draft` and `Origin` for the arguments.

        The same content is not proposed again while it waits or stands; what a person refused or took back, only by a
        person.

        Raises:
            ProposalError: it cannot be: no support, unclean text, unknown kind or source ...
            BusyError: another process holds the queue.
        """
        draft = Draft(text, kind, scope, key, confidence, expires, pinned)
        (made,) = self.propose_memories([draft], Origin(evidence, source, config_version, run_id))
        return made

    def propose_memories(self, drafts: Iterable[Draft], origin: Origin) -> list[Made]:
        """Propose several memories of one origin at once.

        Raises:
            ProposalError: one of them cannot be; those before it are proposed.
            BusyError: another process holds the queue.
        """
        with self._held() as session:
            return [making.propose_memory(session, draft, origin, self._redactor, self._judge) for draft in drafts]

    def unknown(self, drafts: Iterable[Draft]) -> list[Draft]:
        """Return the drafts of imports that would be new: nothing like them waits, stands or was refused."""
        with self._held() as session:
            return [one for one in drafts if making.is_unknown(session, one, self._redactor)]

    def propose_skill(
        self,
        name: str,
        text: str,
        *,
        evidence: Sequence[str],
        source: str,
        files: Mapping[str, str] | None = None,
        base: str | None = None,
        config_version: str | None = None,
        run_id: str | None = None,
    ) -> Made:
        """Propose a skill, or an edit of one.

        Args:
            name: of the skill.
            text: the whole SKILL.md.
            evidence: ids of events; of two episodes at least, unless a person or an import proposes.
            source: micro_reflection, full_reflection, import or person.
            files: text of its other files by relative path; None for those that stand.
            base: SHA-256 of the standing text that it edits; None for a new skill.
            config_version: the version at work when it was learned.
            run_id: the session, round or import that proposes.

        Raises:
            ProposalError: it cannot be, or `base` is not what stands.
            BusyError: another process holds the queue.
        """
        draft = SkillDraft(name, text, files, base)
        with self._held() as session:
            return self._propose_skill(session, draft, Origin(evidence, source, config_version, run_id))

    def propose_skills(self, drafts: Iterable[SkillDraft], origin: Origin) -> list[Made | ProposalError]:
        """Propose several skills of one origin at once; one that cannot be keeps no other from it.

        Returns:
            For each, in order, what was made, or why it cannot be proposed.

        Raises:
            BusyError: another process holds the queue.
        """
        done: list[Made | ProposalError] = []
        with self._held() as session:
            for draft in drafts:
                try:
                    done.append(self._propose_skill(session, draft, origin))
                except ProposalError as error:
                    done.append(error)
        return done

    def _propose_skill(self, session: Session, draft: SkillDraft, origin: Origin) -> Made:
        standing = session.standing.skills.get(draft.name)
        kept = draft.files if draft.files is not None else standing.files if standing else {}
        clean = {path: self._redactor.text(one) for path, one in kept.items()}
        skill = SkillText(text=self._redactor.text(draft.text), files=clean, base=draft.base)
        return making.propose_skill(session, draft.name, skill, origin)

    # ---------------------------------------------------------------- deciding

    def approve(
        self,
        asked: str,
        *,
        by: str,
        reason: str,
        edited: str | None = None,
        replaces: Sequence[str] = (),
        keep_both: bool = False,
    ) -> str:
        """Approve a proposal: its memory or skill is active from now on. Returns the decision's id.

        Approving again what the same person approved with the same text changes nothing and returns that decision.

        Args:
            asked: see `find`.
            by: the person who decides.
            reason: why.
            edited: the text to approve in place of the proposed one.
            replaces: ids of memories that it supersedes.
            keep_both: leave what it contradicts or repeats as it is.

        Raises:
            ProposalError: nobody named, no reason, decided already, stale, unsupported, or in conflict.
            BusyError: another process holds the queue.
        """
        signature = signed(by, reason, self._models)
        clean = None if edited is None else self._redactor.text(edited)
        with self._held() as session:
            proposal = find(session.standing, asked)
            again = same_decision(proposal, Outcome.APPROVED, signature.by)
            if again is not None and (clean is None or clean == proposal.approved_text):
                return again
            check_open(proposal)
            return deciding.approve(
                session,
                proposal,
                signature,
                edited=clean,
                replaces=replaces,
                keep_both=keep_both,
                judge=self._judge,
            )

    def approve_imports(self, *, by: str, reason: str, run_id: str | None = None) -> tuple[list[str], list[Skipped]]:
        """Approve all imports that wait (of one import, or of all), but for what needs a look.

        Returns:
            The names that were approved; and the proposals that were left, with the reason: conflicts, concerns.

        Raises:
            ProposalError: nobody named, or no reason.
            BusyError: another process holds the queue.
        """
        signature = signed(by, reason, self._models)
        approved: list[str] = []
        left: list[Skipped] = []
        with self._held() as session:
            waiting = [
                one
                for one in session.standing.pending()
                if one.source is Source.IMPORT and run_id in (None, one.run_id)
            ]
            session.look_up(event_id for one in waiting for event_id in one.evidence)
            for proposal in waiting:
                try:
                    deciding.approve_import(session, proposal, signature, self._judge)
                except ProposalError as error:
                    left.append(Skipped(proposal.id, proposal.name, str(error)))
                else:
                    approved.append(proposal.name)
        return approved, left

    def reject(self, asked: str, *, by: str, reason: str) -> str:
        """Reject a proposal. Returns the decision's id; see `approve`."""
        signature = signed(by, reason, self._models)
        with self._held() as session:
            proposal = find(session.standing, asked)
            again = same_decision(proposal, Outcome.REJECTED, signature.by)
            if again is not None:
                return again
            check_open(proposal)
            return deciding.reject(session, proposal, signature)

    def expire_due(self, now: dt.datetime | None = None) -> list[str]:
        """Let expire what has waited for too long as of `now`; return the proposals' ids."""
        with self._held(now) as session:
            return list(session.expired)

    def undo(self, decision: str, *, by: str, reason: str) -> str:
        """Undo a decision or a retraction, by the id of its event: its proposal waits again. Returns the undo's id.

        Raises:
            ProposalError: there is no such decision, or it is undone already.
            BusyError: another process holds the queue.
        """
        signature = signed(by, reason, self._models)
        with self._held() as session:
            found = find_undoable(session.history, session.standing, decision)
            return session.mark(
                Action.PROPOSAL_UNDONE, found, by=signature.by, reason=signature.reason, parent_id=found
            )

    # ---------------------------------------------------------------- memories that stand

    def retract(self, memory: str, *, by: str, reason: str) -> str:
        """Take an active memory back. Returns the event's id, which can be undone.

        Raises:
            ProposalError: no such memory is active.
            BusyError: another process holds the queue.
        """
        signature = signed(by, reason, self._models)
        with self._held() as session:
            find_active(session.standing, memory)
            return session.mark(Action.MEMORY_RETRACTED, memory, by=signature.by, reason=signature.reason)

    def pin(self, memory: str, *, by: str, reason: str, pinned: bool = True) -> str:
        """Pin an active memory, or unpin it: a proposal of a person, approved at once. Returns the decision's id.

        Raises:
            ProposalError: no such memory is active, or the pinned ones would take too much room.
            BusyError: another process holds the queue.
        """
        signature = signed(by, reason, self._models)
        with self._held() as session:
            record = find_active(session.standing, memory)
            if record.pinned == pinned:
                raise ProposalError(f"{memory} is {'pinned' if pinned else 'not pinned'} already")
            wrong = deciding.why_too_many_pinned(session.standing, record, record.text) if pinned else None
            if wrong:
                raise ProposalError(f"{memory} cannot be pinned: {wrong}")
            fresh = msgspec.structs.replace(record, pinned=pinned, state=State.PROPOSED, last_used=None)
            given = {
                "memory": msgspec.to_builtins(fresh),
                "evidence": list(record.sources),
                "source": str(Source.PERSON),
            }
            proposal = session.propose(
                Action.MEMORY_PROPOSED, record.id, given, config_version=record.config_version, run_id=None
            )
            return deciding.approve(session, proposal, signature, keep_both=True)

    def _held(self, now: dt.datetime | None = None) -> contextlib.AbstractContextManager[Session]:
        return held(self._log, self._redactor, now, expire_after=self._expire_after)


def open_queue(lab: Lab, *, judge: Judge | None = None) -> Queue:
    """Return the queue of a lab, in which no model of the lab can decide.

    Args:
        lab: whose log it is; its `lab.toml` says how many days a proposal waits.
        judge: asked about conflicts where the words show none.
    """
    names = [lab.settings.models.named(tier) for tier in Tier]
    return Queue(lab.log, expire_days=lab.settings.review.expire_days, models=names, judge=judge)
