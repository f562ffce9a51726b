"""The tool `recall`: the whole text of memories of which a prompt shows a line, or none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from hermes_lab.kinds import Action
from hermes_lab.memory import RECALL_TOOL, Memory, recall, recalled
from hermes_lab.tools.decorator import FunctionTool, tool

_Asked = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


def recall_tool(memories: Sequence[Memory]) -> FunctionTool[Any, dict[str, list[dict[str, str]]]]:
    """Return the tool that recalls of these memories; it changes nothing.

    >>> recall_tool([]).run(None, {"asked": "address"}).output
    {'memories': []}
    """

    @tool(name=RECALL_TOOL, action=Action.RETRIEVAL, seconds=math.inf)
    def asked_for(asked: _Asked) -> dict[str, list[dict[str, str]]]:
        """Give the whole text of what is remembered.

        Args:
            asked: an id of the list of what is remembered, such as m-0123456789, or a few words.
        """
        return recalled(recall(memories, asked))

    return asked_for


RECALL = recall_tool(()).spec
"""What the agent knows of the tool: the same whatever there is to recall."""
