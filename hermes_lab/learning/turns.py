"""The turns of a session as reflection reads them from the log: what was said, called and answered."""

from __future__ import annotations

from typing import NamedTuple

from hermes_lab import payload
from hermes_lab.log import Log
from hermes_lab.sql_files import read_sql


class Call(NamedTuple):
    """A call that ran: event, tool, how it came out, arguments (JSON text), and its result with its length."""

    event_id: str
    tool: str
    status: str
    arguments: str
    output: str
    chars: int


class SessionTurn(NamedTuple):
    """One turn of a session.

    Attributes:
        episode_id: of the episode that answered it.
        task_type: its type.
        config_version: version at work.
        message_id: the event of the user's message; None where there is none.
        said: what the user said.
        ended: status of the end; "" where it has none.
        answer: what the agent answered.
        feedback: like or dislike; None where there is none.
        calls: the calls that ran, in order.
    """

    episode_id: str
    task_type: str | None
    config_version: str | None
    message_id: str | None
    said: str
    ended: str
    answer: str
    feedback: str | None
    calls: tuple[Call, ...]

    @property
    def succeeded(self) -> bool:
        """Whether it ended well, every call of it came out ok, and the user did not dislike it."""
        return (
            self.ended == "ok"
            and bool(self.calls)
            and all(call.status == "ok" for call in self.calls)
            and self.feedback != "dislike"
        )

    @property
    def pattern(self) -> str:
        """What makes two turns alike: the task type and the tools in order, repeats of one after the other as one."""
        tools: list[str] = []
        for call in self.calls:
            if not tools or tools[-1] != call.tool:
                tools.append(call.tool)
        return f"{self.task_type or ''}: {' > '.join(tools)}"


def turns_of(log: Log, run_id: str) -> list[SessionTurn]:
    """Return the turns of a session, in order."""
    rows = log.sql(read_sql(__package__, "session_turns"), [run_id, run_id]).fetchall()
    return [
        SessionTurn(
            episode_id,
            task_type,
            config_version,
            message_id,
            payload.restore_text(said or ""),
            ended or "",
            payload.restore_text(answer or ""),
            feedback,
            tuple(Call(**call) for call in calls),
        )
        for episode_id, task_type, config_version, message_id, said, ended, answer, feedback, calls in rows
    ]
