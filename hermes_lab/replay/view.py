"""Makes the view that a recorded episode had: the suite's tools, the permission rules and policy memory of then."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab import layers, policy
from hermes_lab.errors import HermesLabError
from hermes_lab.loop_acts import View
from hermes_lab.permissions import PermissionRule
from hermes_lab.remembering import with_recall
from hermes_lab.replay.recording import Recording
from hermes_lab.routing import PolicyMemory
from hermes_lab.runner import World
from hermes_lab.sql_files import read_sql
from hermes_lab.suites.registry import open_suite
from hermes_lab.suites.stored_files import BUILT_IN, stored_names
from hermes_lab.tools.base import Spec
from hermes_lab.view_record import specs_digest

if TYPE_CHECKING:
    from hermes_lab.lab import Lab

CONVERSATION = "conversation"
"""What a conversation says that it ran on."""

_MOST_FOLDS = 64


class Seen(NamedTuple):
    """A view, and how sure it is.

    Attributes:
        view: as far as it can be made.
        suite: that the tools are of; None where no suite could be found.
        remarks: what about it is not known for certain, or is known to be otherwise now.
    """

    view: View
    suite: World | None
    remarks: tuple[str, ...] = ()


class Views:
    """Makes views; what many episodes share is made once.

    Args:
        lab: whose log, suites and rules are used.
        suites: suites by name that are not the lab's own, such as one of a notebook.
        rules: permission rules instead of the recorded ones; None for those.
    """

    def __init__(
        self,
        lab: Lab,
        suites: Mapping[str, World] | None = None,
        rules: tuple[PermissionRule, ...] | None = None,
    ) -> None:
        self._lab = lab
        self._given = dict(suites or {})
        self._rules = rules
        self._opened: dict[str, World | str] = {}
        self._specs: dict[str, tuple[dict[str, Spec], str]] = {}
        self._memo: dict[Any, Any] = {}
        self._fold = functools.lru_cache(maxsize=_MOST_FOLDS)(self._fold_as_of)
        self._known = functools.lru_cache(maxsize=_MOST_FOLDS)(self._known_at)
        self._run_began = functools.lru_cache(maxsize=_MOST_FOLDS)(self._first_of_run)

    def of(self, recording: Recording) -> Seen | str:
        """Return the view of an episode, or why it cannot be made."""
        about, task = recording.about, recording.task
        suite = self._suite_of(recording)
        if isinstance(suite, str):
            return suite
        specs, digest = self._specs_of(suite)
        remarks = []
        gone = [name for name in (task.tools if task else ()) if name not in specs]
        if gone:
            remarks.append(f"the suite {suite.name} no longer has the tool {gone[0]!r}")
        if about.specs is not None and about.specs != digest:
            remarks.append(f"the tools of the suite {suite.name} have changed since")
        memory, remark = self._policy_of(recording)
        remarks += [remark] if remark else []
        known, remark = self._knowledge_of(recording)
        remarks += [remark] if remark else []
        if about.rules is None and self._rules is None:
            remarks.append("the permission rules of then were not recorded: those of now are used")
        view = View(
            tools=specs,
            rules=self._rules_of(recording),
            policy=memory,
            knowledge=known,
            seed=recording.seed,
            guards=about.guards,
            memo=self._memo.setdefault((suite.name, digest), {}),
        )
        return Seen(view, with_recall(suite, known), tuple(remarks))

    def suite(self, name: str) -> World | str:
        """Return a suite, or why there is none."""
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def _open(self, name: str) -> World | str:
        if name in self._given:
            return self._given[name]
        try:
            return open_suite(name, self._lab.path)
        except HermesLabError as error:
            return f"its suite cannot be opened: {error}"

    def _suite_of(self, recording: Recording) -> World | str:
        about = recording.about
        if about.tools_of is not None:
            return self.suite(about.tools_of)
        if about.suite != CONVERSATION or about.suite in self._given:
            return self.suite(about.suite)
        return self._guess(recording)

    def _guess(self, recording: Recording) -> World | str:
        """Return the suite that a conversation was about: the first whose tools are those that were recorded."""
        wanted = set(recording.task.tools if recording.task else ())
        for name in (*self._given, *BUILT_IN, *stored_names(self._lab.path)):
            suite = self.suite(name)
            if isinstance(suite, str):
                continue
            specs, digest = self._specs_of(suite)
            if recording.about.specs == digest or (recording.about.specs is None and wanted == set(specs)):
                return suite
        return "no suite of this lab has the tools of this conversation: give it with `suites`"

    def _specs_of(self, suite: World) -> tuple[dict[str, Spec], str]:
        if suite.name not in self._specs:
            specs = {name: tool.spec for name, tool in suite.toolbox().items()}
            self._specs[suite.name] = specs, specs_digest(specs)
        return self._specs[suite.name]

    def _rules_of(self, recording: Recording) -> tuple[PermissionRule, ...]:
        if self._rules is not None:
            return self._rules
        now = self._lab.settings.permissions.rules
        return now if recording.about.rules is None else recording.about.rules

    def _policy_of(self, recording: Recording) -> tuple[PolicyMemory, str]:
        about = recording.about
        if about.policy_as_of is None:
            began = self._run_began(recording.run_id or "")
            return self._fold(began), "policy memory is taken as of the run's first event, for its time is not recorded"
        memory = self._fold(about.policy_as_of)
        if about.policy is not None and policy.digest(memory) != about.policy:
            return memory, "policy memory as of then is not what it was: events of it were purged, or came in late"
        return memory, ""

    def _knowledge_of(self, recording: Recording) -> tuple[layers.Knowledge, str]:
        about = recording.about
        if about.knowledge is None or about.policy_as_of is None:
            return layers.NOTHING_KNOWN, ""
        known = self._known(about.policy_as_of)
        if known.digest != about.knowledge:
            return known, "memories and skills as of then are not what they were: events of them were purged"
        return known, ""

    def _known_at(self, as_of: dt.datetime) -> layers.Knowledge:
        return layers.known_at(self._lab.log, as_of)

    def _fold_as_of(self, as_of: dt.datetime) -> PolicyMemory:
        return policy.fold(self._lab.log, as_of)

    def _first_of_run(self, run_id: str) -> dt.datetime:
        rows = self._lab.log.sql(read_sql(__package__, "run_began"), [run_id]).fetchall()
        return rows[0][0] or dt.datetime.now(dt.UTC)
