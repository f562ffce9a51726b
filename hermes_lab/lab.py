"""A lab: one folder with everything that was recorded. The command line and the notebooks both go through it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError, HermesLabError, MissingError, WriteError
from hermes_lab.lab_settings import NEW_LAB_TOML, Settings, read_settings
from hermes_lab.log import Log, files

DEFAULT = "data/lab"
"""Where a lab is when neither `--lab` nor `HERMES_LAB_HOME` names another."""


class Lab:
    """An open lab.

    >>> import tempfile
    >>> lab = open_lab(Path(tempfile.mkdtemp()) / "lab")
    >>> lab.log.sql("select count(*) from events").fetchall()
    [(0,)]

    Attributes:
        path: the folder.
        settings: what its `lab.toml` says.
        log: the event log.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        """Use `open_lab`."""
        self.path = path
        self.settings = settings
        self.log = Log(path / "events", settings.log, lab=path)

    def __repr__(self) -> str:
        """Say where the lab is."""
        return f"Lab({str(self.path)!r})"

    def import_log(self, path: Path | str, *, format: str | None = None, **options: Any) -> Any:
        """Bring somebody else's log in; see `importers.import_file`, which takes the options.

        >>> lab.import_log("~/.hermes")  # doctest: +SKIP
        """
        from hermes_lab import importers

        return importers.import_file(self.log, Path(path).expanduser(), format=format, **options)

    def run(
        self,
        suite: str = "desk",
        *,
        split: str | None = None,
        limit: int | None = None,
        config: Any = None,
        seed: int = 0,
        attempts: int = 1,
        resume: str | None = None,
        approver: Any = None,
        on_progress: Any = None,
    ) -> Any:
        """Run a suite's tasks, record everything, and return a `runs.Run`, which shows itself as a table.

        >>> lab.run("desk", limit=40)  # doctest: +SKIP

        Args:
            suite: `desk`, or one that was imported.
            split: traffic, regression, heldout, fresh or all; None for traffic, or all of an imported suite.
            limit: so many tasks, spread over types and families; None for all of the split.
            config: an `AgentConfig`, a file, or a version of this lab; None for the default.
            seed: of the first attempt, and of fresh draws.
            attempts: how often each task is tried.
            resume: id of a run that was stopped.
            approver: answers what asks for a person; None says no.
            on_progress: called with a `runner.Progress` after each episode.

        Raises:
            MissingError, ConfigError, WriteError: see `runs.Plan.go`.
        """
        made = self.plan(suite, split=split, limit=limit, config=config, seed=seed, attempts=attempts, resume=resume)
        return made.go(approver=approver, on_progress=on_progress)

    def plan(
        self,
        suite: str = "desk",
        *,
        split: str | None = None,
        limit: int | None = None,
        config: Any = None,
        seed: int = 0,
        attempts: int = 1,
        resume: str | None = None,
    ) -> Any:
        """Return the `runs.Plan` of a run: `.estimate()` says what it may take, `.go()` runs it; see `run`."""
        from hermes_lab import runs
        from hermes_lab.suites.registry import open_suite

        opened = open_suite(suite, self.path)
        # What was imported has no part that is kept for the gate, so all of it is there to be run.
        chosen = split or ("traffic" if suite == "desk" else None)
        if split == "all":
            chosen = None
        tasks = opened.tasks(chosen, limit=limit, seed=seed)
        return runs.plan(
            self,
            opened,
            runs.load_config(self.path, config),
            tasks=tasks,
            seed=seed,
            attempts=attempts,
            resume=resume,
        )

    def evaluate(self, **options: Any) -> Any:
        """Score what the agent did, and return an `evaluator.Evaluation`; see `evaluator.evaluate` for the options.

        >>> lab.evaluate().versions  # doctest: +SKIP
        """
        from hermes_lab import evaluator

        return evaluator.evaluate(self, **options)

    def compare(self, old: str, new: str, **options: Any) -> Any:
        """Say whether a version (or run) is better than another, and return a `Comparison`, which shows itself.

        >>> lab.compare("v1.0", "v1.1")  # doctest: +SKIP

        Raises:
            MissingError, CompareError, ConfigError: see `in_lab.compare_in_lab`, which takes the options.
        """
        from hermes_lab.comparing.in_lab import compare_in_lab

        return compare_in_lab(self, old, new, **options)

    @property
    def versions(self) -> Any:
        """The history of the agent's configuration, a `versions.Versions`.

        >>> lab.versions.log()  # doctest: +SKIP
        """
        from hermes_lab.versions import Versions

        return Versions(self.path)

    def replay(self, **options: Any) -> Any:
        """Take recorded episodes through their own or another configuration; the `replay.Replay` shows itself.

        >>> lab.replay(config="other.toml")  # doctest: +SKIP

        Raises:
            MissingError, ConfigError: see `replay.replay`, which takes the options.
        """
        from hermes_lab.replay import replay

        return replay(self, **options)

    def sweep(self, settings: Mapping[str, Sequence[Any]], suite: str = "desk", **options: Any) -> Any:
        """Run the same tasks under each combination of settings, and return a `sweep.Sweep`, which shows itself.

        >>> lab.sweep({"routing.shortlist": [1, 3, 8, "all"]}, suite="desk", limit=40)  # doctest: +SKIP

        Raises:
            ConfigError, MissingError: see `sweep.sweep`, which takes the options.
        """
        from hermes_lab import sweep

        return sweep.sweep(self, settings, suite=suite, **options)

    def purge(self, column: str, value: str, *, by: str, reason: str) -> Any:
        """Remove every event of a task or an episode for good, and what was counted of it; see `log.purge.purge`.

        Args:
            column: `task_id` or `episode_id`.
            value: the id.
            by: who asks for it.
            reason: why.

        Raises:
            MissingError, BusyError, CorruptLogError: see `log.purge.purge`.
        """
        from hermes_lab import facts

        with facts.held(self) as folder:  # so that nobody counts what is about to go
            facts.forget(folder)
            return self.log.purge(column, value, by=by, reason=reason)

    def import_suite(
        self,
        path: Path | str,
        categories: Sequence[str],
        *,
        name: str | None = None,
        limit: int | None = None,
        seed: int = 0,
        replace: bool = False,
    ) -> list[Any]:
        """Bring categories of BFCL in as suites, and return them: one for each, or one for all that is called `name`.

        >>> lab.import_suite("bfcl_eval.whl", ["simple_python"])  # doctest: +SKIP

        Args:
            path: the wheel or folder of bfcl-eval.
            categories: such as `simple_python`.
            name: of the one suite; None for `bfcl-CATEGORY` each.
            limit: the first so many tasks of each category.
            seed: divides the families into splits.
            replace: replace a suite of the same name.

        Raises:
            MissingError, ImportFormatError: see `suites.bfcl.read_bfcl`.
            WriteError: there is a suite of that name.
        """
        from hermes_lab.suites import stored_files
        from hermes_lab.suites.bfcl import read_bfcl

        folder = Path(path).expanduser()
        contents = [_first(read_bfcl(folder, one, name=name, seed=seed), limit) for one in dict.fromkeys(categories)]
        written = []
        for content in contents:
            if content.name in written:
                stored_files.add_tasks(self.path, content)
                continue
            stored_files.write_suite(self.path, content, replace=replace)
            written.append(content.name)
        return [stored_files.read_suite(self.path, one) for one in written]

    def suite_from_log(self, where: str = "true", params: Any = (), *, name: str = "from-log", **options: Any) -> Any:
        """Make drafts of tasks from logged episodes in the suite `name`; see `suites.from_log.tasks_from_log`.

        Returns:
            What was made of the episodes, and how many tasks are new in the suite.
        """
        from hermes_lab.suites.from_log import tasks_from_log
        from hermes_lab.suites.stored_files import add_tasks

        content = tasks_from_log(self.log, where, params, name=name, **options)
        return content, add_tasks(self.path, content)

    def confirm_tasks(self, name: str, ids: Iterable[str] | None = None) -> int:
        """Say that the graders of tasks of a suite are right (None: of all that wait); return how many waited.

        Raises:
            MissingError: no such suite, or no such task in it.
        """
        from hermes_lab.suites.stored_files import confirm, read_suite

        wanted = [task.id for task in read_suite(self.path, name).content.tasks] if ids is None else ids
        return confirm(self.path, name, wanted)

    def converse(
        self, suite: str = "desk", *, config: Any = None, channel: str = "notebook", approver: Any = None
    ) -> Any:
        """Begin a conversation with the agent on the tools of a suite; returns a `conversation.Conversation`.

        >>> with lab.converse() as talk:  # doctest: +SKIP
        ...     talk.ask("Where is order SO-1042?").text
        """
        from hermes_lab import runs
        from hermes_lab.conversation import Conversation
        from hermes_lab.interaction import TypeRecognizer
        from hermes_lab.suites.registry import open_suite

        opened = open_suite(suite, self.path)
        tasks = opened.tasks("traffic") or opened.tasks()
        return Conversation(
            self,
            opened.toolbox(),
            config=runs.load_config(self.path, config),
            environment=opened.open(tasks[0]) if tasks else None,
            channel=channel,
            approver=approver,
            recognizer=TypeRecognizer((task.prompt, task.type) for task in tasks),
            tools_of=suite,
        )

    def open_models(self) -> Any:
        """Return the lab's models by tier, a `models.registry.Tiers`; use it as a context manager."""
        from hermes_lab.models.registry import Tiers

        return Tiers(self.settings.models, self.path / "cache")

    def export(self, destination: Path | str, where: str = "true", params: Any = ()) -> Any:
        """Write a lab with the events for which `where` holds, and with this lab's settings; see `log.export`.

        Raises:
            WriteError: `destination` exists and is not empty, or the disk is full.
            MissingError: no event satisfies the condition.
        """
        from hermes_lab.log import export
        from hermes_lab.log.layout import Layout

        target = Path(destination).expanduser().absolute()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise WriteError(f"{target} is not an empty folder: export to a new one")
        if target.is_relative_to(self.path):
            raise WriteError(f"{target} lies within the lab itself: export to a folder outside {self.path}")
        was_there = target.exists()
        try:
            done = export.export(self.log.snapshot(), where, params, Layout(target / "events"))
        except HermesLabError:
            if not was_there and target.exists():
                target.rmdir()
            raise
        with files.disk_errors(f"exporting to {target}"):
            shutil.copyfile(self.path / "lab.toml", target / "lab.toml")
        return done


def _first(content: Any, limit: int | None) -> Any:
    """Return the first `limit` tasks of a suite's content, with the tools that they use."""
    if limit is None or limit >= len(content.tasks):
        return content
    about = f"{content.description}, the first {limit}"
    tasks = content.tasks[:limit]
    used = {name for task in tasks for name in task.tools}
    tools = {name: tool for name, tool in content.tools.items() if name in used}
    return content._replace(description=about, tasks=tasks, tools=tools)


def default_path(named: str | None = None) -> Path:
    """Return the lab's folder: the named one, else `HERMES_LAB_HOME`, else `data/lab`."""
    return Path(named or os.environ.get("HERMES_LAB_HOME") or DEFAULT).expanduser()


def open_lab(path: Path | str | None = None, *, create: bool = True) -> Lab:
    """Open the lab in a folder, and make it when there is none.

    Args:
        path: the folder; None for the default.
        create: make the lab when it is not there.

    Raises:
        MissingError: there is none, and `create` is false.
        ConfigError: `lab.toml` cannot be read, holds a wrong value, or is of a newer hermes-lab; or the folder holds
            something else.
        PermissionDeniedError, WriteError: it could not be made.
    """
    folder = default_path(None if path is None else str(path)).absolute()
    toml = folder / "lab.toml"
    if not toml.exists():
        if not create:
            raise MissingError(
                f"there is no lab in {folder} (no lab.toml): name one with --lab or HERMES_LAB_HOME, "
                "or make one with `hermes-lab import FILE`"
            )
        _make(folder)
    return Lab(folder, read_settings(toml))


def _make(folder: Path) -> None:
    with files.disk_errors(f"making a lab in {folder}"):
        if folder.is_dir() and any(p for p in folder.iterdir() if p.name != "events"):
            raise ConfigError(f"{folder} holds other files and no lab.toml: name an empty or a new folder for the lab")
        folder.mkdir(parents=True, exist_ok=True)
        files.atomic_write(folder / "lab.toml", NEW_LAB_TOML.encode())
