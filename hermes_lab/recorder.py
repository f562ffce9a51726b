"""Write effects down: one event an effect with its outcome, each failed attempt too.

Nothing else has to be remembered to be logged; the runner and replay both write through this.
"""

from __future__ import annotations

from typing import Any

from hermes_lab import payload
from hermes_lab.effects import Act, Ask, Decision, Note, Permit, effect_hash
from hermes_lab.kinds import Action, Status
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import Writer, new_id
from hermes_lab.models.base import Attempt, Finish, Reply
from hermes_lab.tasks import Grade, Message, Task
from hermes_lab.tools.base import Result, Spec

_MOST_CLEAN = 10_000


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
        given = ask_content(ask)
        key = self._recorder.hash_of_ask(ask, given)
        for attempt in reply.attempts:
            self._failed_attempt(ask, attempt, reply.model, given, key)
        output: dict[str, Any] = {"text": reply.text, "finish": reply.finish}
        if reply.reasoning:
            output["reasoning"] = reply.reasoning
        if reply.error:
            output["error"] = reply.error
        self._write(
            Action.GENERATION,
            name=reply.model,
            input=given,
            output=output,
            status=_reply_status(reply),
            error_kind=reply.error_kind,
            input_tokens=reply.input_tokens,
            cached_tokens=reply.cached_tokens,
            output_tokens=reply.output_tokens,
            latency_ms=_own_latency(reply),
            cost_usd=reply.cost_usd,
            from_cache=True if reply.from_cache else None,
            confidence=reply.confidence,
            tier=ask.tier,
            request_hash=key,
        )

    def acted(self, act: Act, spec: Spec, result: Result) -> None:
        """Write a tool call."""
        given = act_content(act.tool, act.arguments)
        self._write(
            spec.action,
            name=act.tool,
            input=act.arguments,
            output=result.output,
            status=result.status,
            error_kind=result.error_kind,
            latency_ms=result.latency_ms,
            request_hash=self._recorder.hash_of("act", given),
        )

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

    def _failed_attempt(self, ask: Ask, attempt: Attempt, model: str, given: Any, key: str) -> None:
        self._write(
            Action.GENERATION,
            name=model,
            input={"purpose": given["purpose"], "attempt_of": key},
            output={"error": attempt.error},
            status=Status.ERROR,
            error_kind=attempt.error_kind,
            latency_ms=attempt.latency_ms,
            tier=ask.tier,
        )

    def _write(self, action: Action, **columns: Any) -> None:
        recorder = self._recorder
        event_id = new_id()
        recorder.writer.record(
            action,
            event_id=event_id,
            run_id=recorder.run_id,
            episode_id=self.episode_id,
            task_id=self._task.id,
            task_type=self._task.type,
            step=self.events,
            config_version=recorder.config_version,
            channel=recorder.channel,
            parent_id=self._parent,
            **columns,
        )
        self._parent = event_id
        self.events += 1


class Recorder:
    """Writes the events of a run.

    Attributes:
        writer: of the log.
        run_id: of the run.
        config_version: of the agent's configuration.
        channel: where the requests come from.
        about: what is said of the run in every `task_started`.
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
        self._redactor = redactor
        self._clean: set[str] = set()  # parts of prompts that hold no secret
        self._clean_tools: dict[int, Any] = {}  # tools of prompts likewise, by identity, kept alive by being here

    def episode(self, task: Task) -> EpisodeRecorder:
        """Return the recorder of a new episode."""
        return EpisodeRecorder(self, task)

    def hash_of_ask(self, ask: Ask, given: Any) -> str:
        """Return the key of a question to a model.

        A prompt is mostly what the last one was, so only its new parts are searched for secrets.
        """
        request = ask.request
        parts = [turn.content for turn in request.messages if turn.content not in self._clean]
        listing = payload.dumps(given.get("tools", [])) if id(request.tools) not in self._clean_tools else ""
        fresh = "\n".join([*parts, listing])
        if self._redactor.suspects(payload.store_text(fresh).encode()) or (request.schema and ask.purpose != "plan"):
            return self.hash_of("ask", given)
        if len(self._clean) > _MOST_CLEAN:
            self._clean.clear()
        self._clean.update(parts)
        self._clean_tools[id(request.tools)] = request.tools
        return effect_hash("ask", given)

    def hash_of(self, kind: str, content: Any) -> str:
        """Return the key of an effect, with secrets taken out first."""
        if self._redactor.suspects(payload.canonical(content)):
            content = self._redactor.value(content)
        return effect_hash(kind, content)


def ask_content(ask: Ask) -> dict[str, Any]:
    """Return what the log holds of a question to a model, which is what its hash is made of.

    The schema of a planning turn follows from the tools, so it is left out.
    """
    request: dict[str, Any] = payload.plain(ask.request)
    if ask.purpose == "plan" and request.pop("schema", None) is not None:
        request["bound"] = True
    return {"purpose": ask.purpose, "tier": str(ask.tier), **request}


def act_content(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what the hash of a tool call is made of."""
    return {"tool": tool, "arguments": arguments}


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
