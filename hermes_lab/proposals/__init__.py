"""The approval queue: anything may propose a memory or skill, and a person decides. The one write path.

>>> from hermes_lab.proposals import open_queue
>>> queue = open_queue(lab)                                                                     # doctest: +SKIP
>>> made = queue.propose_memory("Reply in Chinese.", "preference", evidence=ids, source="import")  # doctest: +SKIP
>>> queue.approve(made.proposal, by="Li Wei", reason="she asked for it twice")                   # doctest: +SKIP
"""

from hermes_lab.proposals.making import Draft, Made, Origin
from hermes_lab.proposals.queue import Queue, SkillDraft, Skipped, open_queue
from hermes_lab.proposals.session import ProposalError

__all__ = ["Draft", "Made", "Origin", "ProposalError", "Queue", "SkillDraft", "Skipped", "open_queue"]
