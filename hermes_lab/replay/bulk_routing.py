"""Routing over millions of recorded calls: which tools would not have been offered when they were called."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_lab import payload
from hermes_lab import routing as choosing
from hermes_lab.config import Routing
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.lab import Lab
from hermes_lab.recorder import passes
from hermes_lab.replay.bulk_calls import Bulk, Finding, Judged, Tally, batches
from hermes_lab.routing import NO_MEMORY, PolicyMemory, ToolStats
from hermes_lab.sql_files import read_sql
from hermes_lab.text import tokens
from hermes_lab.tools.base import Spec

if TYPE_CHECKING:
    from hermes_lab.replay.bulk_calls import Source

_REFUSED = "action = 'tool_checked' and status in ('invalid', 'denied')"
_COLUMNS = ("episode_id", "event_id", "task_type", "tool", "status", "error_kind", "ran", "request", "tools")


def routing(
    source: Source,
    settings: Routing,
    specs: Mapping[str, Spec],
    *,
    against: Routing | None = None,
    policy: PolicyMemory = NO_MEMORY,
    where: str = "true",
    params: Sequence[Any] = (),
) -> Bulk:
    """Return which recorded calls are of tools that `settings` would not have offered.

    Each call is taken as a turn of its own, after the calls before it in its episode.

    Args:
        source: a lab, or a table in the order of episodes and steps with the columns episode_id, event_id, task_type,
            tool, status, error_kind, ran (false for a call that was refused), request, and tools (a JSON list of
            names; null for all of `specs`).
        settings: how tools are chosen.
        specs: the tools by name.
        against: only calls of tools that these settings would have offered count; None counts all.
        policy: policy memory for all of them.
        where: of a lab, SQL condition over the columns of `events`.
        params: values for its parameters.

    Raises:
        QueryError: the condition does not run, or the table lacks a column.
    """
    began = time.perf_counter()
    lists = _ToolLists(source)
    routers = [_Router(one, specs, policy, lists) for one in (settings, against) if one is not None]
    judged = Judged(functools.partial(_lost, routers))
    walk = _Walk(routers, policy)
    tally = Tally()
    refused = _REFUSED if walk.uses_before else "false"
    for batch in batches(source, "routed_calls", _COLUMNS, params, where=where, refused=refused):
        lists.look_up(batch)
        before, missed = walk.states(batch)
        ran = batch["ran"]
        part = batch.filter(ran)
        columns = [part["request"], part["task_type"], part["tools"].fill_null("")]
        states = [missed.filter(ran), before.filter(ran)]
        tally.calls += part.num_rows
        if part.num_rows:
            tally.add(part, *judged.of([*columns, *states, part["tool"]]))
    return tally.result("routing", judged.count, time.perf_counter() - began)


class _ToolLists:
    """The lists of tools by what the column `tools` holds: of a lab a hash, of a table the list itself."""

    def __init__(self, source: Source) -> None:
        self._log = source.log if isinstance(source, Lab) else None
        self._known: dict[str, str] = {}

    def look_up(self, batch: Any) -> None:
        """Fetch the lists of a batch that are not known yet, with one query."""
        if self._log is None:
            return
        encoded = batch["tools"].dictionary_encode()
        keys = encoded.dictionary.to_pylist()
        unknown = [code for code, key in enumerate(keys) if key not in self._known]
        if not unknown:
            return
        rows = [pc.index(encoded.indices, code).as_py() for code in unknown]
        ids = batch["episode_id"].take(pa.array(rows)).to_pylist()
        query = read_sql(__package__, "tool_lists").format(ids=", ".join("?" for _ in ids))
        self._known.update(self._log.sql(query, ids).fetchall())

    def names(self, key: str) -> list[str]:
        """Return the names of the tools."""
        names: list[str] = payload.loads(self._known.get(key, key))
        return names


class _Situation(NamedTuple):
    """What a routing depends on: request, type, key of the tools ("" for all), misses (JSON, or ""), the last hit."""

    request: str
    task_type: str
    tools: str
    missed: str
    before: str


def _lost(routers: Sequence[_Router], *key: str) -> Finding | None:
    """Say what is offered instead of a tool; None where it is offered, or would not have been before, either."""
    *situation, tool = key
    candidates = routers[0].candidates(_Situation(*situation))
    if tool in candidates or (len(routers) > 1 and tool not in routers[1].candidates(_Situation(*situation))):
        return None
    return "lost_tool", f"offered: {', '.join(candidates)}"


class _Router:
    """`routing.route` for many situations: what several of them share is worked out once."""

    def __init__(self, settings: Routing, specs: Mapping[str, Spec], policy: PolicyMemory, lists: _ToolLists) -> None:
        self.settings = settings
        self._lists = lists
        self._specs = specs
        self._policy = policy
        self._kept = functools.lru_cache(maxsize=4096)(self._kept_of)
        self._last: tuple[_Situation, tuple[str, ...]] | None = None

    def candidates(self, situation: _Situation) -> tuple[str, ...]:
        """Return the names of the tools that would be offered."""
        if self._last is None or self._last[0] != situation:  # often asked about several tools in a row
            self._last = situation, self._route(situation)
        return self._last[1]

    def _route(self, situation: _Situation) -> tuple[str, ...]:
        ranker = self._kept(situation.task_type, situation.tools, situation.missed)
        settings, names = self.settings, ranker.names
        everything = settings.shortlist == "all" or settings.shortlist >= len(names)
        if everything and settings.order == "listing":
            return names
        scores = ranker.scores(situation.request, situation.task_type, situation.before)
        best = sorted(range(len(names)), key=lambda place: -scores[place])
        if not everything:
            best = best[: int(settings.shortlist)]
        if settings.order == "listing":
            best.sort()
        return tuple(names[place] for place in best)

    def _kept_of(self, task_type: str, tools: str, missed: str) -> _Ranker:
        names = self._lists.names(tools) if tools else self._specs
        specs = [self._specs[name] for name in names if name in self._specs]
        misses = payload.loads(missed) if missed else {}
        kept, _ = choosing.drop_misses(task_type, specs, self.settings, self._policy, misses)
        return _Ranker(kept, self.settings.policy_weight, self._policy)


class _Ranker:
    """`routing.rank` of the same tools for many requests, with the words of the tools looked up by word."""

    def __init__(self, specs: Sequence[Spec], weight: float, policy: PolicyMemory) -> None:
        self.names = tuple(spec.name for spec in specs)
        self._specs = specs
        self._weight = weight
        self._policy = policy
        self._success = functools.lru_cache(maxsize=4096)(self._success_of)
        self._by_word: dict[str, list[tuple[int, float]]] = {}
        self._lengths: list[float] = []
        weights = [
            choosing.weighted_words(spec.name, spec.description, tuple(spec.parameters.get("properties") or ()))
            for spec in specs
        ]
        for place, weighted in enumerate(weights):
            self._lengths.append(math.sqrt(1 + len(weighted)))
            for word, of_word in weighted.items():
                self._by_word.setdefault(word, []).append((place, of_word))
        for word, places in self._by_word.items():
            rarity = math.log(1 + len(specs) / len(places))
            self._by_word[word] = [(place, of_word * rarity) for place, of_word in places]

    def scores(self, request: str, task_type: str, before: str) -> list[float]:
        """Return the score of each tool, to the last digit that of `routing.rank`."""
        shares: dict[int, list[float]] = {}
        for word in set(tokens(request)):
            for place, share in self._by_word.get(word, ()):
                shares.setdefault(place, []).append(share)
        alike = [0.0] * len(self.names)
        for place, found in shares.items():
            alike[place] = math.fsum(found) / self._lengths[place]
        most = max(alike, default=0.0) or 1.0
        success = self._success(task_type, before)
        return [(1 - self._weight) * (one / most) + of_tool for one, of_tool in zip(alike, success, strict=True)]

    def _success_of(self, task_type: str, before: str) -> list[float]:
        # Of a request without a word, success is all that counts.
        ranked = choosing.rank("", task_type, self._specs, 1.0, self._policy, before or None)
        return [self._weight * ranked[name] for name in self.names]


class _Walk:
    """Goes through calls in order, and knows what happened before in the episode, as far as it can decide something."""

    def __init__(self, routers: Sequence[_Router], policy: PolicyMemory) -> None:
        self._stats = policy.stats
        self._most = min(router.settings.drop_after for router in routers)
        self.uses_before = bool(policy.followed) and any(router.settings.policy_weight for router in routers)
        self._episode: str | None = None  # the last one of the batch before
        self._hit: set[str] = set()
        self._missed: dict[str, int] = {}
        self._last = ""

    def states(self, batch: Any) -> tuple[Any, Any]:
        """Return for each row the tool that hit just before, and the misses that drop a tool (JSON); "" for none."""
        episodes = batch["episode_id"].dictionary_encode()
        codes = episodes.indices.to_numpy()
        names = episodes.dictionary.to_pylist()
        before, missed = [""] * len(codes), [""] * len(codes)
        # Only episodes in which something failed have to be walked through, and the first and the last one, which may
        # reach over the ends of the batch; all of them where the last hit counts.
        ok = pc.equal(batch["status"], Status.OK).to_numpy(zero_copy_only=False)
        walked = np.zeros(len(names), dtype=bool)
        walked[codes[~ok]] = True
        walked[[codes[0], codes[-1]]] = True
        rows = np.arange(len(codes)) if self.uses_before else np.flatnonzero(walked[codes])
        part = batch.take(pa.array(rows))
        columns = [_texts(part[name]) for name in ("task_type", "tool", "status", "error_kind")]
        ran = part["ran"].to_pylist()
        for row, code, has_run, task_type, tool, status, kind in zip(
            rows.tolist(), codes[rows].tolist(), ran, *columns, strict=True
        ):
            if names[code] != self._episode:
                self._episode, self._hit, self._missed, self._last = names[code], set(), {}, ""
            if self._missed:
                missed[row] = self._dropping(task_type)
            if self.uses_before:
                before[row] = self._last
            self._happened(tool, status, kind, has_run)
        return pa.array(before, pa.string()), pa.array(missed, pa.string())

    def _dropping(self, task_type: str) -> str:
        """Return the misses that may be enough to drop their tool; the others decide nothing."""
        enough = {
            tool: count
            for tool, count in sorted(self._missed.items())
            if count + self._stats.get((task_type, tool), ToolStats()).misses > self._most
        }
        return payload.store_text(payload.dumps(enough)) if enough else ""

    def _happened(self, tool: str, status: str, kind: str, ran: bool) -> None:
        """Do as `episode_state.State` does: count misses of tools without a hit, and remember the last hit."""
        if status == Status.OK:
            self._hit.add(tool)
            self._missed.pop(tool, None)
            self._last = payload.store_text(tool)
            return
        self._last = ""
        if ran and tool not in self._hit and not passes(ErrorKind(kind) if kind else None):
            self._missed[tool] = self._missed.get(tool, 0) + 1


def _texts(column: Any) -> list[str]:
    """Return a column as texts; equal ones are one object."""
    encoded = column.dictionary_encode()
    values = [payload.restore_text(one) for one in encoded.dictionary.to_pylist()]
    return [values[place] for place in encoded.indices.to_pylist()]
