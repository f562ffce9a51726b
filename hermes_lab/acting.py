"""Run the tools that many episodes ask for at once: slow ones in a pool, quick ones together on one thread."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

from hermes_lab.effects import Act
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.tools.base import Environment, Result, Spec, Tool
from hermes_lab.tools.decorator import FunctionTool
from hermes_lab.tools.limits import TimeLimitError, TooManyLeftError, call_within
from hermes_lab.tools.results import message

_QUICK_MS = 2.0
_TOGETHER_S = 0.01  # calls begin within so long of the first one, whose time limit they share
_SHORTEST_LIMIT_S = 100 * _TOGETHER_S  # so that sharing takes no more than 1% off any limit


class Call(NamedTuple):
    """A tool call, and the environment that it acts on."""

    act: Act
    environment: Environment | None


class ToolRunner:
    """Runs the tool calls of one run; a context manager, for its threads."""

    def __init__(self, toolbox: Mapping[str, Tool], workers: int) -> None:
        """Run tools of `toolbox`, slow ones in `workers` threads."""
        self._toolbox = toolbox
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="hermes-lab tool")
        self._last_ms: dict[str, float] = {}  # by tool, in this run

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the pool to end."""
        self._pool.shutdown(wait=True)

    def spec(self, tool: str) -> Spec:
        """Return what is known of a tool."""
        return self._toolbox[tool].spec

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """Return the results of `calls`, in order; what goes wrong with one is its result."""
        slow = {place: self._pool.submit(self._run, call) for place, call in enumerate(calls) if not self._quick(call)}
        together = [place for place, call in enumerate(calls) if place not in slow and self._shares_thread(call)]
        done = dict(zip(together, self._run_together([calls[place] for place in together]), strict=True))
        for place, call in enumerate(calls):
            if place not in done:
                done[place] = slow[place].result() if place in slow else self._run(call)
        results = [done[place] for place in range(len(calls))]
        for call, result in zip(calls, results, strict=True):
            self._last_ms[call.act.tool] = _QUICK_MS if result.latency_ms is None else result.latency_ms
        return results

    def _quick(self, call: Call) -> bool:
        return self._last_ms.get(call.act.tool, _QUICK_MS) < _QUICK_MS

    def _run(self, call: Call) -> Result:
        act = call.act
        try:
            # A copy: what a tool does to its arguments must not change what the loop remembers.
            arguments = copy.deepcopy(act.arguments)
            result = self._toolbox[act.tool].run(call.environment, arguments, seconds=act.remaining.seconds)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - `run` should not raise; a foreign tool's own failure
            return crashed(f"{type(error).__name__}: {message(error)}")
        if not isinstance(result, Result):
            return crashed(f"the tool returned a {type(result).__name__} instead of a Result")
        return result

    # Our own tools change to another thread and back for each call, so that one that hangs can be left to itself.
    # That takes longer than a quick call does, so quick calls with the same limit make this change once for all.

    def _shares_thread(self, call: Call) -> bool:
        tool = self._toolbox.get(call.act.tool)
        return isinstance(tool, FunctionTool) and _SHORTEST_LIMIT_S <= self._limit_s(call) < float("inf")

    def _limit_s(self, call: Call) -> float:
        return min(call.act.remaining.seconds, self._toolbox[call.act.tool].spec.limits.seconds)

    def _run_together(self, calls: Sequence[Call]) -> Iterator[Result]:
        """Yield the results of quick calls, in order."""
        place = 0
        while place < len(calls):
            limit = self._limit_s(calls[place])
            end = place + 1
            while end < len(calls) and self._limit_s(calls[end]) == limit:
                end += 1
            if end == place + 1:
                results = [self._run(calls[place])]
            else:
                results = _Together(self._run, calls[place:end]).results(limit)
            yield from results
            place += len(results)


class _Together:
    """Calls that run one after another on one thread, until one takes too long or time for others has passed."""

    def __init__(self, run: Callable[[Call], Result], calls: Sequence[Call]) -> None:
        self._run = run
        self._calls = calls
        self._lock = threading.Lock()  # guards the claim of the next call
        self._begun = 0
        self._left = False
        self._done: list[Result] = []

    def results(self, limit_s: float) -> list[Result]:
        """Run some calls, at least the first, and return their results; the last may be one that was left running."""
        began = time.perf_counter()
        try:
            call_within(limit_s, self._work)
        except TooManyLeftError:
            return [self._run(self._calls[0])]  # which says so in its own words
        except TimeLimitError:
            pass
        finally:
            with self._lock:
                self._left = True  # whoever runs over, or is interrupted, begins no further call
        done = self._done[: self._begun]
        if len(done) < self._begun:
            latency_ms = (time.perf_counter() - began) * 1000
            done.append(_timed_out(self._calls[len(done)].act.tool, limit_s, latency_ms))
        return done

    def _work(self) -> None:
        stop_at = time.perf_counter() + _TOGETHER_S
        for call in self._calls:
            with self._lock:
                if self._left or (self._begun and time.perf_counter() > stop_at):
                    return
                self._begun += 1
            self._done.append(self._run(call))


def crashed(error: str) -> Result:
    """Return the result of a tool that failed in a way no tool should."""
    return Result(output={"error": error[:500]}, status=Status.ERROR, error_kind=ErrorKind.CRASHED)


def _timed_out(tool: str, limit_s: float, latency_ms: float) -> Result:
    error = f"{tool} took longer than the {limit_s:.3g} s it had"
    return Result({"error": error}, Status.TIMEOUT, ErrorKind.TIMEOUT, transient=True, latency_ms=latency_ms)
