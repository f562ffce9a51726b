"""Long-term memory: what a memory is, what of it a prompt is shown, and the records of finished tasks.

Nothing here writes: a memory comes about in the approval queue (`proposals`) alone.
"""

from hermes_lab.memory.records import (
    CUT,
    RECALL_TOOL,
    ForContext,
    Kind,
    Memory,
    State,
    for_context,
    for_retest,
    memory_id,
    recall,
    recalled,
)

__all__ = [
    "CUT",
    "RECALL_TOOL",
    "ForContext",
    "Kind",
    "Memory",
    "State",
    "for_context",
    "for_retest",
    "memory_id",
    "recall",
    "recalled",
]
