"""Reflection outside the agent's path: after a turn (micro) and at the end of a session (full). It only ever proposes.

What it proposes goes to the approval queue (`proposals`), which refuses what the events do not support. "Nothing worth
keeping" is the usual answer, and is recorded like any other.
"""

from hermes_lab.learning.full import reflect_on_session
from hermes_lab.learning.micro import Micro
from hermes_lab.learning.session import SessionReflection

__all__ = ["Micro", "SessionReflection", "reflect_on_session"]
