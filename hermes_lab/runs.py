"""A run: a suite's tasks, worked on under one configuration, recorded, resumable, and summed up from the log."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab import checks, layers, policy
from hermes_lab import resume as resuming
from hermes_lab.approvers import Approver, Unattended
from hermes_lab.compress import estimate_tokens
from hermes_lab.config import AgentConfig, read_config
from hermes_lab.context import FINAL_ANSWER, offer
from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.kinds import Tier
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import new_id
from hermes_lab.loop import View
from hermes_lab.models.prices import Price
from hermes_lab.recorder import Recorder
from hermes_lab.remembering import with_recall
from hermes_lab.runner import Job, Outcome, Progress, Runner, Setting, World
from hermes_lab.sql_files import read_sql
from hermes_lab.tasks import Task
from hermes_lab.versions import Versions, is_version_name, kept
from hermes_lab.view_record import about_view

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.lab import Lab
    from hermes_lab.suites.registry import Suite

_GUESSED_CALLS = 2.5
_GUESSED_TOKENS_A_SECOND = 240.0  # the embedded model on two cores, in a run of desk
_REPLY_TOKENS = 50
_MOST_SEED = 10**15 - 1  # what the log, a query and any model's seed can hold
MOST_ATTEMPTS = 10_000
"""How often a task can be tried in one run."""


class Estimate(NamedTuple):
    """What a run is expected to take.

    Attributes:
        episodes: to run.
        model_calls: in all.
        tokens: in all, input and output.
        minutes: of wall time.
        usd: US dollars; None where no price is known.
        basis: what the figures rest on.
    """

    episodes: int
    model_calls: int
    tokens: int
    minutes: float
    usd: float | None
    basis: str


@dataclass
class Plan:
    """A run that is about to begin: what it will do, and what that is expected to take.

    Attributes:
        lab: where it is recorded.
        suite: whose tasks are worked on.
        config: of the agent.
        jobs: what is still to do.
        run_id: of the run; a resumed run keeps its own.
        channel: where the requests come from.
        guards: the checks at work; all, but for experiments.
        done_before: episodes of the resumed run that ended, and are not run again.
        orphans: episodes of the resumed run that never ended.
        resumed: whether it goes on with a run that was stopped.
    """

    lab: Lab
    suite: Suite
    config: AgentConfig
    jobs: list[Job]
    run_id: str
    channel: str = "suite"
    guards: checks.Guards = checks.ALL_GUARDS
    done_before: int = 0
    orphans: list[resuming.Attempt] = field(default_factory=list)
    resumed: bool = False

    def estimate(self) -> Estimate:
        """Return what the run is expected to take: by the log where it knows, else by a guess that says so."""
        name = self.lab.settings.models.named(Tier.LIGHT)
        query = read_sql("hermes_lab", "run_expected")
        row = self.lab.log.sql(query, [self.suite.name, name, self.config.version]).fetchall()[0]
        count = len(self.jobs)
        if row[0] and row[2] is not None:
            _, calls, tokens, usd, wall = row
            return Estimate(
                count,
                round(calls * count),
                round(tokens * count),
                (wall or 0.0) * count / 60,
                None if usd is None else usd * count,
                f"{row[0]} earlier episodes of this suite, model and configuration",
            )
        tokens = sum(self._guessed_tokens(job.task) for job in self.jobs)
        price = self.lab.settings.models.prices.get(name)
        return Estimate(
            count,
            round(_GUESSED_CALLS * count),
            round(tokens),
            tokens / _GUESSED_TOKENS_A_SECOND / 60,
            None if price is None else price.cost_usd(round(tokens), 0, 0),
            "a guess from the length of the prompts, for nothing like it has run in this lab",
        )

    def go(
        self,
        *,
        approver: Approver | None = None,
        setting: Setting | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Run:
        """Run it.

        Args:
            approver: answers for a person; None says no to whatever asks.
            setting: how to drive it.
            on_progress: called after each episode.

        Raises:
            ConfigError: a model, tool or rule that cannot be used.
            WriteError: the disk is full; what was acknowledged stays, and the run can be resumed.
            BusyError: another process is at work on this very run.
            KeyboardInterrupt: it was stopped; it can be resumed.
        """
        with resuming.held(self.lab.path, self.run_id):
            return self._go(approver, setting, on_progress)

    def _go(
        self, approver: Approver | None, setting: Setting | None, on_progress: Callable[[Progress], None] | None
    ) -> Run:
        lab = self.lab
        if self.resumed:
            _skip_done(self)  # once more, for another process may have gone on with it meanwhile
        save_config(lab.path, self.config)
        specs = checked_specs(self.suite, self.jobs)
        redactor = Redactor(os.environ)
        with lab.open_models() as models, lab.log.writer(redactor=redactor) as writer:
            if self.jobs:
                models.of(Tier.LIGHT)  # a model that cannot be opened is found before anything is recorded
            as_of = dt.datetime.now(dt.UTC)
            known = layers.known_at(lab.log, as_of)
            view = View(
                tools=specs,
                rules=lab.settings.permissions.rules,
                policy=policy.fold(lab.log, as_of),
                knowledge=known,
                guards=self.guards,
            )
            recorder = Recorder(
                writer,
                redactor,
                run_id=self.run_id,
                config_version=self.config.version,
                channel=self.channel,
                about={"suite": self.suite.name, "models": model_names(lab), **about_view(view, as_of)},
            )
            resuming.close(self.orphans, recorder)
            runner = Runner(
                suite=with_recall(self.suite, known),
                config=self.config,
                models=models,
                recorder=recorder,
                view=view,
                approver=approver or Unattended(),
                setting=setting
                or Setting(
                    at_once=lab.settings.run.at_once,
                    tool_workers=lab.settings.run.tool_workers,
                    approval_s=lab.settings.permissions.timeout_s,
                ),
                prices=model_prices(lab),
                on_progress=on_progress,
            )
            outcomes = runner.run(self.jobs)
        return Run(lab, self.run_id, self.suite.name, self.config.version, outcomes)

    def _guessed_tokens(self, task: Task) -> float:
        toolbox = self.suite.toolbox()
        specs = [toolbox[name].spec for name in task.tools if name in toolbox]
        most = self.config.routing.shortlist
        shown = specs if most == "all" else specs[: int(most)]
        prompt = offer(self.config, shown, with_answer=True).tokens + estimate_tokens(task.prompt)
        prompt += sum(estimate_tokens(text) for text in self.config.system.values())
        return _GUESSED_CALLS * (prompt + _REPLY_TOKENS)


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        lab: where it is recorded.
        run_id: `where run_id = ...` finds its events.
        suite: name of the suite.
        config_version: version of the configuration.
        outcomes: what became of each episode.
    """

    lab: Lab
    run_id: str
    suite: str
    config_version: str
    outcomes: Sequence[Outcome]

    def by_type(self) -> pd.DataFrame:
        """Return a row for each task type and one for all: completion (mean grade), calls, tokens, seconds."""
        return by_type(self.lab, self.run_id)

    def __repr__(self) -> str:
        """Say which run it is."""
        return f"Run({self.run_id}, {self.suite}, {self.config_version}, {len(self.outcomes)} episodes)"

    def _repr_html_(self) -> str:
        table: str = self.by_type().to_html(index=False, na_rep="", float_format="{:.3g}".format)
        return f"<p>Run <code>{self.run_id}</code> of {self.suite} under {self.config_version}</p>{table}"


def plan(
    lab: Lab,
    suite: Suite,
    config: AgentConfig,
    *,
    tasks: Sequence[Task],
    seed: int = 0,
    attempts: int = 1,
    resume: str | None = None,
    channel: str = "suite",
    guards: checks.Guards = checks.ALL_GUARDS,
) -> Plan:
    """Return the plan of a run.

    Args:
        lab: where it will be recorded.
        suite: that the tasks are of.
        config: of the agent.
        tasks: to work on.
        seed: of the first attempt at each task; the next ones count up.
        attempts: how often each task is tried.
        resume: id of a run that was stopped; what it finished is not done again.
        channel: where the requests come from.
        guards: the checks at work.

    Raises:
        MissingError: no such run to resume, or no task.
        ConfigError: the run to resume had another suite, configuration or tasks; a seed or number of attempts that
            is out of range.
    """
    if not tasks:
        raise MissingError(f"suite {suite.name} has no such tasks: see `hermes-lab suite show {suite.name}`")
    if abs(seed) > _MOST_SEED or not 1 <= attempts <= MOST_ATTEMPTS:
        raise ConfigError(
            f"seed {seed}, attempts {attempts}: a seed has 15 digits at most, and attempts are 1 to {MOST_ATTEMPTS}"
        )
    jobs = [Job(task, seed + attempt) for attempt in range(attempts) for task in tasks]
    if resume is None:
        return Plan(lab, suite, config, jobs, new_id(), channel, guards)
    made = Plan(lab, suite, config, jobs, resume, channel, guards, resumed=True)
    before = resuming.attempts(lab.log, resume)
    resuming.check_same(resume, before, jobs, suite=suite.name, config_version=config.version)
    _skip_done(made, before)
    return made


def _skip_done(made: Plan, before: list[resuming.Attempt] | None = None) -> None:
    """Take from the plan what its run finished already, and note what it left open."""
    if before is None:
        before = resuming.attempts(made.lab.log, made.run_id)
    planned = len(made.jobs)
    made.jobs = resuming.left_to_do(made.jobs, before)
    made.done_before += planned - len(made.jobs)
    made.orphans = [one for one in before if one.finished is None]


def was_begun(lab: Lab, run_id: str) -> bool:
    """Return whether a run has recorded an episode, so that it can be resumed."""
    query = "select count(*) from events where run_id = ? and action = 'task_started'"
    return bool(lab.log.sql(query, [run_id]).fetchall()[0][0])


def by_type(lab: Lab, run_id: str) -> pd.DataFrame:
    """Return what became of a run: a row for each task type, and one for all of them.

    Raises:
        MissingError: no such run.
    """
    frame: pd.DataFrame = lab.log.sql(read_sql("hermes_lab", "run_by_type"), [run_id]).df()
    if not frame["episodes"].sum():
        raise MissingError(f"no episode of a run {run_id} has ended in {lab.path}")
    return frame


def model_names(lab: Lab) -> dict[str, str]:
    """Return the names of a lab's models by tier."""
    return {str(tier): lab.settings.models.named(tier) for tier in Tier}


def model_prices(lab: Lab) -> dict[Tier, Price]:
    """Return the prices of a lab's models by tier, where `lab.toml` gives them."""
    settings = lab.settings.models
    found = {tier: settings.prices.get(settings.named(tier)) for tier in Tier}
    return {tier: price for tier, price in found.items() if price is not None}


def save_config(lab: Path, config: AgentConfig) -> None:
    """Keep a configuration in the lab under its version, so that what ran can be read and replayed.

    Raises:
        ConfigError: it holds a secret, which cannot be taken out without making it another configuration.
        WriteError, PermissionDeniedError: the disk did not take it.
    """
    kept.save(lab, config)


def load_config(lab: Path, named: AgentConfig | Path | str | None) -> AgentConfig:
    """Return a configuration: the default one, one that is given, one of a file, or one of the lab by its version.

    Args:
        lab: the lab's folder.
        named: a version is `v1.3`, `latest`, or the `c-...` of one that ran.

    Raises:
        ConfigError: it cannot be read, or what the lab keeps under a version is not what had that version.
        MissingError: the lab has no such version.
    """
    if named is None:
        return AgentConfig()
    if isinstance(named, AgentConfig):
        return named
    return Versions(lab).load(str(named)) if is_version_name(str(named)) else read_config(named)


def checked_specs(suite: World, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the specs of a suite's tools, after looking at what no episode could mend.

    Raises:
        ConfigError: a tool with a wrong schema or a reserved name, or a task that names a tool which is not there.
    """
    specs = {name: tool.spec for name, tool in suite.toolbox().items()}
    for name, spec in specs.items():
        error = checks.schema_error(spec.parameters)
        if name == FINAL_ANSWER or error:
            raise ConfigError(f"tool {name} of suite {suite.name}: {error or 'this name is reserved, use another'}")
    for job in jobs:
        unknown = [name for name in job.task.tools if name not in specs]
        if unknown:
            raise ConfigError(
                f"task {job.task.id} of suite {suite.name} names the tool {unknown[0]!r}, which is unknown"
            )
    return specs
