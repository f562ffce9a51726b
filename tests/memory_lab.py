"""What tests of memories, proposals and the write path share: a lab where users said things and tools answered."""

from __future__ import annotations

from typing import Any

from hermes_lab.events import Action, Event, Status
from hermes_lab.lab import Lab

PERSON = {"by": "王芳 Li", "reason": "she said so twice"}
SKILL = """---
name: refunds
description: How to pay a customer back. 退款
---
# Refunds

- Look the order up first.
- 先查订单。
- Tell the customer when the money comes.
"""


def record(lab: Lab, action: Action, **columns: Any) -> str:
    """Append one event, and return its id."""
    with lab.log.writer() as writer:
        return writer.record(action, **columns).event_id


def said(lab: Lab, text: str, episode: str = "e1", **columns: Any) -> str:
    """Let a user say something."""
    values = {"episode_id": episode, "task_type": "orders", "input": {"text": text}, **columns}
    return record(lab, Action.MESSAGE_RECEIVED, **values)


def returned(lab: Lab, tool: str, output: Any, episode: str = "e1", **columns: Any) -> str:
    """Let a tool return something."""
    values = {"episode_id": episode, "name": tool, "output": output, "status": Status.OK, **columns}
    return record(lab, Action.TOOL_CALLED, **values)


def events_of(lab: Lab, *actions: str) -> list[Event]:
    """Return the events of these kinds."""
    names = ", ".join(f"'{action}'" for action in actions)
    return list(lab.log.events(f"action in ({names})"))
