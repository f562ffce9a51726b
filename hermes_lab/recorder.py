"""Write effects down: one event an effect with its outcome, each failed attempt too.

Nothing else has to be remembered to be logged; the runner and replay both write through this.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from hermes_lab import payload
from hermes_lab.effects import Act, Ask, Decision, Note, Permit
from hermes_lab.events import Event
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import Writer, new_id
from hermes_lab.models.base import Attempt, Finish, Reply
from hermes_lab.questions import QuestionWriter
from hermes_lab.questions import ask_content as ask_content
from hermes_lab.tasks import Grade, Message, Task
from hermes_lab.tools.base import Result, Spec

_PASSING = (
    ErrorKind.TIMEOUT,
    ErrorKind.RATE_LIMITED,
    ErrorKind.CONNECTION,
    ErrorKind.SERVER_ERROR,
    ErrorKind.TOOL_UNAVAILABLE,
)


class EpisodeRecorder:
    """Writes the events of one episode, in order.

    Attributes:
        episode_id: of the episode.
        events: how many were written.
    """

    def __init__(self, recorder: Recorder, task: Task) -> None:
        """Use `Recorder.episode`."""
        self.episode_id = new_id()
        self.events = 0
        self._recorder = recorder
        self._task = task
        self._parent: str | None = None

    def note(self, note: Note) -> None:
        """Write a decision of the loop."""
        given = note.input
        if note.action is Action.TASK_STARTED:
            given = {**given, "run": self._recorder.about}
        self._write(
            note.action,
            name=note.name,
            input=given,
            output=note.output,
            observation=note.observation,
            status=note.status,
            error_kind=note.error_kind,
            confidence=note.confidence,
        )

    def message(self, message: Message) -> None:
        """Write that a request came in."""
        self._write(
            Action.MESSAGE_RECEIVED,
            name=message.sender,
            input=payload.plain(message),
            confidence=message.type_confidence,
            status=Status.OK,
        )

    def asked(self, ask: Ask, reply: Reply) -> None:
        """Write a model call, after each attempt that failed before it."""
        question = self._recorder.questions.write(ask)
        for attempt in reply.attempts:
            self._failed_attempt(ask, attempt, reply.model, question.key)
        columns = {**reply_columns(reply), "latency_ms": _own_latency(reply)}
        self._append(
            Action.GENERATION,
            question.text,
            payload.dumps(reply_output(reply)),
            **columns,
            tier=ask.tier,
            request_hash=question.key,
        )

    def acted(self, act: Act, spec: Spec, result: Result) -> None:
        """Write a tool call."""
        self._write(
            spec.action,
            name=act.tool,
            input=act.arguments,
            output=result.output,
            status=result.status,
            error_kind=result.error_kind,
            latency_ms=result.latency_ms,
            request_hash=self._recorder.hash_of("act", act_content(act.tool, act.arguments)),
        )
        if result.transient != passes(result.error_kind):
            # The loop looks at it, no column holds it, and its kind does not tell it.
            self._write(Action.TOOL_CHECKED, name=act.tool, output={"transient": result.transient}, status=Status.OK)

    def permitted(self, permit: Permit, decision: Decision) -> None:
        """Write that permission was asked for, and the answer."""
        given = {"tool": permit.tool, "arguments": permit.arguments, "level": permit.level, "reason": permit.reason}
        key = self._recorder.hash_of("permit", given)
        self._write(Action.PERMISSION_REQUESTED, name=permit.tool, input=given, request_hash=key)
        self._write(
            Action.PERMISSION_DECIDED,
            name=decision.by,
            input={"tool": permit.tool},
            output={"allowed": decision.allowed, "reason": decision.reason},
            status=Status.OK if decision.allowed else Status.DENIED,
            request_hash=key,
        )

    def graded(self, grade: Grade) -> None:
        """Write the grade."""
        self._write(
            Action.GRADED,
            name=grade.grader,
            output={"score": grade.score, "reasons": list(grade.reasons)},
            status=Status.OK if grade.score is not None else Status.ERROR,
        )

    def _failed_attempt(self, ask: Ask, attempt: Attempt, model: str, key: str) -> None:
        self._write(
            Action.GENERATION,
            name=model,
            input={"purpose": ask.purpose, "attempt_of": key},
            output={"error": attempt.error},
            status=Status.ERROR,
            error_kind=attempt.error_kind,
            latency_ms=attempt.latency_ms,
            tier=ask.tier,
        )

    def _write(self, action: Action, *, input: Any = None, output: Any = None, **columns: Any) -> None:
        self._append(action, _dumps(input), _dumps(output), **columns)

    def _append(self, action: Action, given: str | None, output: str | None, **columns: Any) -> None:
        """Append an event; `given` and `output` are JSON that `payload.dumps` made, or `QuestionWriter`."""
        recorder, task = self._recorder, self._task
        event = Event(
            event_id=new_id(),
            ts=dt.datetime.now(dt.UTC),
            action=action,
            run_id=recorder.run_id,
            episode_id=self.episode_id,
            task_id=task.id,
            task_type=task.type,
            step=self.events,
            input=given,
            output=output,
            config_version=recorder.config_version,
            channel=recorder.channel,
            parent_id=self._parent,
            **columns,
        )
        recorder.writer.append(event, written_json=True)
        self._parent = event.event_id
        self.events += 1


class Recorder:
    """Writes the events of a run.

    Attributes:
        writer: of the log.
        run_id: of the run.
        config_version: of the agent's configuration.
        channel: where the requests come from.
        about: what is said of the run in every `task_started`.
        questions: writes the questions to models.
    """

    def __init__(
        self, writer: Writer, redactor: Redactor, *, run_id: str, config_version: str, channel: str, about: Any
    ) -> None:
        """Write to `writer`; `redactor` takes secrets out before an effect is hashed."""
        self.writer = writer
        self.run_id = run_id
        self.config_version = config_version
        self.channel = channel
        self.about = about
        self.questions = QuestionWriter(redactor)

    def episode(self, task: Task) -> EpisodeRecorder:
        """Return the recorder of a new episode."""
        return EpisodeRecorder(self, task)

    def hash_of(self, kind: str, content: Any) -> str:
        """Return the key of an effect, with secrets taken out first."""
        return self.questions.key(kind, content)


def act_content(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what the hash of a tool call is made of."""
    return {"tool": tool, "arguments": arguments}


def passes(kind: ErrorKind | None) -> bool:
    """Tell whether a failure of this kind passes by itself, as far as the kind tells: `acted` writes what differs."""
    return kind in _PASSING


def reply_output(reply: Reply) -> dict[str, Any]:
    """Return what the log holds of what a model said."""
    output: dict[str, Any] = {"text": reply.text, "finish": reply.finish}
    if reply.reasoning:
        output["reasoning"] = reply.reasoning
    if reply.error:
        output["error"] = reply.error
    return output


def reply_columns(reply: Reply) -> dict[str, Any]:
    """Return how a model's reply came out and what it took, as the columns of its event."""
    return {
        "name": reply.model,
        "status": _reply_status(reply),
        "error_kind": reply.error_kind,
        "input_tokens": reply.input_tokens,
        "cached_tokens": reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "latency_ms": reply.latency_ms,
        "cost_usd": reply.cost_usd,
        "from_cache": True if reply.from_cache else None,
        "confidence": reply.confidence,
    }


def _own_latency(reply: Reply) -> float | None:
    """Return the time of the last attempt and the waits, so that the events of all attempts sum up to the whole."""
    if reply.latency_ms is None:
        return None
    return max(0.0, reply.latency_ms - sum(attempt.latency_ms for attempt in reply.attempts))


def _reply_status(reply: Reply) -> Status:
    if reply.finish is Finish.TIMEOUT:
        return Status.TIMEOUT
    if reply.finish is Finish.ERROR:
        return Status.ERROR
    return Status.OK


def _dumps(value: Any) -> str | None:
    return None if value is None else payload.dumps(value)
