"""A conversation with the agent: every turn is an episode, recorded like any other, in one lasting environment."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab import interaction, layers, policy, runs
from hermes_lab.approvers import Approver, Unattended
from hermes_lab.config import AgentConfig
from hermes_lab.effects import End, Ending
from hermes_lab.errors import MissingError
from hermes_lab.interaction import TypeRecognizer
from hermes_lab.kinds import Action, Status
from hermes_lab.learning import SessionReflection
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import new_id
from hermes_lab.loop import View
from hermes_lab.recorder import Recorder
from hermes_lab.remembering import with_recall
from hermes_lab.runner import Job, Runner, Setting
from hermes_lab.sql_files import read_sql
from hermes_lab.tasks import Exchange, Task
from hermes_lab.tools.base import Environment, Level, Tool, Toolbox
from hermes_lab.view_record import about_view

if TYPE_CHECKING:
    from hermes_lab.lab import Lab


_NOT_SAID = (End.ERROR, End.TIMEOUT)


class Said(NamedTuple):
    """One turn of the agent: the text for the user, how the episode ended, and where its events are."""

    text: str
    ending: Ending
    episode_id: str
    task_id: str


class Conversation:
    """A conversation; use it as a context manager, or call `close`.

    What is worth keeping of it is proposed, and waits for a person's approval (`hermes-lab review`). What was approved
    before it began is what the agent knows in it.

    >>> with lab.converse() as talk:                      # doctest: +SKIP
    ...     print(talk.ask("Where is order SO-1042?").text)
    ...     talk.feedback("like")

    Attributes:
        conversation_id: the run that its events belong to.
        exchanges: what was said so far.
        learning: what reflections on it came to; see `learning.SessionReflection`.
    """

    def __init__(
        self,
        lab: Lab,
        tools: Toolbox,
        *,
        config: AgentConfig | None = None,
        environment: Environment | None = None,
        channel: str = "notebook",
        approver: Approver | None = None,
        recognizer: TypeRecognizer | None = None,
        tools_of: str | None = None,
    ) -> None:
        """Begin one; nothing is asked yet.

        Args:
            lab: where it is recorded.
            tools: what the agent may use.
            config: of the agent; None for the default.
            environment: that the tools work on, for the whole conversation; closed with it.
            channel: where the requests come from.
            approver: answers for a person; None says no.
            recognizer: guesses the type of a request that is not named.
            tools_of: the suite that `tools` are of, for replay; None where they are of none.

        Raises:
            ConfigError: a tool that cannot be used.
        """
        self.conversation_id = new_id()
        self.exchanges: list[Exchange] = []
        self._lab = lab
        self._suite = _Lasting(tools, environment)
        self._config = config or AgentConfig()
        self._recognizer = recognizer
        self._last: Said | None = None
        self._turns = 0
        specs = runs.checked_specs(self._suite, ())
        runs.save_config(lab.path, self._config)
        redactor = Redactor(os.environ)
        self._models = lab.open_models()
        self._writer = lab.log.writer(redactor=redactor)
        as_of = dt.datetime.now(dt.UTC)
        known = layers.known_at(lab.log, as_of)
        view = View(
            tools=specs, rules=lab.settings.permissions.rules, policy=policy.fold(lab.log, as_of), knowledge=known
        )
        about = {"suite": self._suite.name, "models": runs.model_names(lab), **about_view(view, as_of)}
        if tools_of is not None:
            about["tools_of"] = tools_of
        recorder = Recorder(
            self._writer,
            redactor,
            run_id=self.conversation_id,
            config_version=self._config.version,
            channel=channel,
            about=about,
        )
        self._channel = channel
        self._runner = Runner(
            suite=with_recall(self._suite, known),
            config=self._config,
            models=self._models,
            recorder=recorder,
            view=view,
            approver=approver or Unattended(),
            setting=Setting(approval_s=lab.settings.permissions.timeout_s),
            prices=runs.model_prices(lab),
            keep_environments=True,
        )
        changing = [name for name, spec in specs.items() if spec.level is not Level.READ_ONLY]
        self.learning = SessionReflection(
            lab,
            self._writer,
            self.conversation_id,
            self._config.micro_reflection,
            self._models,
            writers=changing,
        )

    def __enter__(self) -> Conversation:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def ask(self, text: str, task_type: str | None = None) -> Said:
        """Say something, and return what the agent answers; it remembers the conversation.

        A turn that ended by an error or a time-out is told, and not remembered: the next one can try again.

        Raises:
            ConfigError, MissingError: the model cannot be used.
            KeyboardInterrupt: it was stopped; the turn is recorded as cancelled, and the conversation can go on.
        """
        self.learning.look()
        self._turns += 1
        message = interaction.receive(
            text,
            channel=self._channel,
            task_id=f"{self.conversation_id}-{self._turns}",
            task_type=task_type,
            recognizer=self._recognizer,
        )
        task = interaction.to_task(
            message, suite=self._suite.name, tools=tuple(self._suite.toolbox()), history=self.exchanges
        )
        (outcome,) = self._runner.run([Job(task, message=message)])
        assert outcome.ending is not None  # noqa: S101 - a run that was not stopped has endings
        self.learning.turn_ended()
        answer = outcome.ending.answer or f"[{outcome.ending.end}] {outcome.ending.reason}"
        self._last = Said(answer, outcome.ending, outcome.episode_id, task.id)
        if outcome.ending.end not in _NOT_SAID:
            self.exchanges.append(Exchange(user=text, agent=answer))
        return self._last

    def feedback(self, kind: str, note: str = "") -> None:
        """Record that the user liked ("like") or disliked ("dislike") the last turn.

        Raises:
            MissingError: nothing was said yet.
        """
        last = self._said()
        self._writer.record(
            Action.FEEDBACK,
            name=kind,
            run_id=self.conversation_id,
            episode_id=last.episode_id,
            task_id=last.task_id,
            channel=self._channel,
            config_version=self._config.version,
            input={"note": note} if note else None,
            status=Status.OK,
        )
        self._writer.flush()

    def why(self) -> list[tuple[Any, ...]]:
        """Return what led to the last turn, a row an event: step, action, name, status, what was seen.

        Raises:
            MissingError: nothing was said yet.
        """
        query = read_sql("hermes_lab", "episode_steps")
        return self._lab.log.sql(query, [self._said().episode_id]).fetchall()

    def close(self) -> None:
        """Reflect on the whole of it, write what is left, and let go of the environment and the models.

        Raises:
            BusyError: another process holds the approval queue; the conversation itself is recorded.
        """
        try:
            self.learning.end()
        finally:
            self._suite.release()
            self._writer.close()
            self._models.close()

    def _said(self) -> Said:
        if self._last is None:
            raise MissingError("nothing was said yet: ask something first")
        return self._last


class _Lasting:
    """The suite of a conversation: its tools, and one environment that outlasts the episodes."""

    name = "conversation"

    def __init__(self, tools: Toolbox, environment: Environment | None) -> None:
        self._tools = tools
        self._environment = environment

    def toolbox(self) -> Mapping[str, Tool]:
        return self._tools

    def open(self, _task: Task) -> Environment | None:
        return self._environment

    def release(self) -> None:
        if self._environment is not None:
            self._environment.close()
