"""Replays recorded episodes: under their own configuration, where all must be as it was, or under another one.

Episodes are read from the log one after another, driven through the very loop that made them, and answered from their
record, so that nothing is asked of a model or a tool unless that is wished.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hermes_lab import runs
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Ask
from hermes_lab.errors import ConfigError, HermesLabError, MissingError
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import Writer, new_id
from hermes_lab.models.base import Reply
from hermes_lab.permissions import PermissionRule
from hermes_lab.replay.answers import Answers, Cached
from hermes_lab.replay.drive import Drive
from hermes_lab.replay.effects import Keys
from hermes_lab.replay.exact import reproduce
from hermes_lab.replay.live import Live
from hermes_lab.replay.one import Other, imported, same
from hermes_lab.replay.recorded import record_changed, record_question, record_replay
from hermes_lab.replay.recording import Recording, recordings, select_episodes
from hermes_lab.replay.report import EpisodeReplay, NotReplayed, Replay
from hermes_lab.replay.view import Views
from hermes_lab.runner import World

if TYPE_CHECKING:
    from hermes_lab.lab import Lab

After = Literal["stop", "cached", "live"]

_AT_ONCE = 64  # episodes that are carried on together, so that their questions make one query or batch


def replay(
    lab: Lab,
    *,
    where: str = "true",
    params: Sequence[Any] = (),
    run: str | None = None,
    episodes: Sequence[str] | None = None,
    limit: int | None = None,
    config: AgentConfig | Path | str | None = None,
    rules: Sequence[PermissionRule] | None = None,
    after: After = "stop",
    record: bool = True,
    suites: Mapping[str, World] | None = None,
) -> Replay:
    """Replay recorded episodes, and return what each came to.

    >>> replay(lab, run="01a2...")                                    # doctest: +SKIP
    >>> replay(lab, config=changed(AgentConfig(), **{"routing.shortlist": 1}))  # doctest: +SKIP

    Args:
        lab: whose log is replayed.
        where: SQL condition over the columns of `events`; an episode with an event for which it holds is replayed.
        params: values for its parameters.
        run: only episodes of this run.
        episodes: only these episodes, by id.
        limit: at most so many, the earliest.
        config: an `AgentConfig`, a file, or a version of the lab; None for the one that each episode ran under.
        rules: permission rules instead of those of then.
        after: what comes after the first answer that the record of an episode does not hold: `stop` there; take a
            `cached` one, of any recorded episode; or ask `live`, models of the lab and tools on fresh worlds.
        record: write what came of it to the log, which may be asked live only then.
        suites: suites by name that are not the lab's own.

    Raises:
        QueryError: the condition does not run.
        MissingError: no such run, or no episode satisfies it.
        ConfigError: a configuration that cannot be read, or a live replay that is not to be recorded.
    """
    if after == "live" and not record:
        raise ConfigError("a live replay asks models, and what is asked is always recorded: leave record=True")
    if after not in ("stop", "cached", "live"):
        raise ConfigError(f"after={after!r}: there are stop, cached and live")
    ids = _chosen(lab, where, params, run, episodes, limit)
    other = None if config is None else runs.load_config(lab.path, config)
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(lab.log.writer(redactor=Redactor(os.environ))) if record else None
        work = _Work(lab, other, after, writer, suites, None if rules is None else tuple(rules), stack)
        work.judging = config is not None or rules is not None
        return work.go(ids)


def _chosen(
    lab: Lab, where: str, params: Sequence[Any], run: str | None, episodes: Sequence[str] | None, limit: int | None
) -> list[str]:
    if episodes is not None:
        found = list(dict.fromkeys(episodes))
    elif run is not None:
        found = select_episodes(lab.log, f"run_id = ? and ({where}\n)", [run, *params])
    else:
        found = select_episodes(lab.log, where, params)
    if not found:
        what = f"run {run!r} has no episode" if run is not None else f"no episode satisfies {where!r}"
        raise MissingError(f"{what} in {lab.path}: `hermes-lab log` shows what there is")
    return found if limit is None else found[: max(limit, 0)]


class _Work:
    """One replay at work."""

    def __init__(
        self,
        lab: Lab,
        config: AgentConfig | None,
        after: After,
        writer: Writer | None,
        suites: Mapping[str, World] | None,
        rules: tuple[PermissionRule, ...] | None,
        stack: contextlib.ExitStack,
    ) -> None:
        self.lab = lab
        self.config = config
        self.judging = False
        self.replay_id = f"replay-{new_id()}"
        self.after = after
        self.writer = writer
        self.views = Views(lab, suites, rules)
        self.rules = rules
        self.keys = Keys(Redactor(os.environ))
        self.model_calls = 0
        self._configs: dict[str, AgentConfig | str] = {}
        self._answers = self._make_answers(stack)

    def go(self, ids: list[str]) -> Replay:
        began = time.perf_counter()
        done: list[EpisodeReplay] = []
        failed: list[NotReplayed] = []
        found: set[str] = set()
        for recording, result in self._results(ids):
            found.add(recording.episode_id)
            if isinstance(result, NotReplayed):
                failed.append(result)
                continue
            done.append(result)
            if self.writer is not None and result.may_change:
                record_changed(self.writer, self.replay_id, self._version(), result)
        failed += [NotReplayed(one, "there is no such episode in the log") for one in ids if one not in found]
        made = Replay(
            replay_id=self.replay_id,
            config_version=self._version(),
            own_configuration=not self.judging,
            after=self.after,
            episodes=tuple(done),
            not_replayed=tuple(failed),
            model_calls=self.model_calls,
            seconds=time.perf_counter() - began,
        )
        if self.writer is not None:
            record_replay(self.writer, made)
        return made

    def _version(self) -> str | None:
        return None if self.config is None else self.config.version

    def _results(self, ids: list[str]) -> Iterator[tuple[Recording, EpisodeReplay | NotReplayed]]:
        stream = recordings(self.lab.log, ids)
        if not self.judging:
            for recording in stream:
                yield recording, self._same(recording)
            return
        while batch := list(itertools.islice(stream, _AT_ONCE)):
            yield from self._others(batch)

    def _same(self, recording: Recording) -> EpisodeReplay | NotReplayed:
        if recording.imported:
            why = "it is imported: our loop did not make it; give a configuration to take it through our rules"
            return NotReplayed(recording.episode_id, why)
        config = self._config_of(recording)
        if isinstance(config, str):
            return NotReplayed(recording.episode_id, config)
        seen = self.views.of(recording)
        if isinstance(seen, str):
            return NotReplayed(recording.episode_id, seen)
        return same(recording, reproduce(recording, config, seen.view, self.keys), seen.remarks)

    def _others(self, batch: list[Recording]) -> Iterator[tuple[Recording, EpisodeReplay | NotReplayed]]:
        begun: list[tuple[Recording, Other | EpisodeReplay | NotReplayed]] = [
            (recording, self._begin(recording)) for recording in batch
        ]
        drives = {}
        if self._answers is not None:
            for _, one in begun:
                drive = one.follow() if isinstance(one, Other) else None
                if drive is not None:
                    drives[id(one)] = drive
            while waiting := [drive for drive in drives.values() if drive.wanted is not None]:
                self._answers.carry_on(waiting)
        for recording, one in begun:
            if not isinstance(one, Other):
                yield recording, one
                continue
            drive = drives.get(id(one))
            score = None if drive is None or self._answers is None else self._answers.end(drive)
            yield recording, one.result("log" if self._answers is None else self._answers.basis, score)

    def _begin(self, recording: Recording) -> Other | EpisodeReplay | NotReplayed:
        if recording.imported:
            if recording.problem:
                return NotReplayed(recording.episode_id, recording.problem)
            rules = self.lab.settings.permissions.rules if self.rules is None else self.rules
            return imported(recording, self.config or AgentConfig(), rules)
        config = self._config_of(recording) if self.config is None else (recording.problem or self.config)
        if isinstance(config, str):
            return NotReplayed(recording.episode_id, config)
        seen = self.views.of(recording)
        if isinstance(seen, str):
            return NotReplayed(recording.episode_id, seen)
        return Other(recording, config, seen.view, self.keys, seen.remarks)

    def _config_of(self, recording: Recording) -> AgentConfig | str:
        """Return the configuration that an episode ran under, or why it cannot be replayed."""
        if recording.problem:
            return recording.problem
        version = str(recording.config_version)
        if version not in self._configs:
            self._configs[version] = self._load(version)
        return self._configs[version]

    def _load(self, version: str) -> AgentConfig | str:
        if not (self.lab.path / "configs" / f"{version}.json").exists():
            return f"the lab does not keep the configuration {version} that it ran under"
        try:
            return runs.load_config(self.lab.path, version)
        except HermesLabError as error:
            return f"its configuration cannot be read: {error}"

    # -- what comes after the first change ------------------------------------------------------------------------

    def _make_answers(self, stack: contextlib.ExitStack) -> Answers | None:
        if self.after == "stop":
            return None
        if self.after == "cached":
            return Cached(self.lab.log, self.keys)
        models = stack.enter_context(self.lab.open_models())
        return Live(models, runs.model_prices(self.lab), self._suite_of, self._on_reply)

    def _suite_of(self, drive: Drive) -> World | None:
        seen = self.views.of(drive.recording)
        return None if isinstance(seen, str) else seen.suite

    def _on_reply(self, ask: Ask, reply: Reply) -> None:
        self.model_calls += 1
        if self.writer is not None:
            content: dict[str, Any] = self.keys.content(ask)
            record_question(self.writer, self.replay_id, self._version(), content, ask, reply, self.keys.of(ask))
