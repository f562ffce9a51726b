"""The checks of one lab: its models, suites and rules, its log, and what the log shows of the agent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hermes_lab import symptoms
from hermes_lab.errors import HermesLabError
from hermes_lab.lab import Lab
from hermes_lab.log import query
from hermes_lab.models import registry
from hermes_lab.models.registry import Row
from hermes_lab.sql_files import read_sql

_LITTLE_DISK = 1 << 30
_MANY_SMALL = 50
_CONNECT_SECONDS = 2.0


class Check(NamedTuple):
    """One check: its name, `ok`, `note` or `trouble`, what was found, and the remedy ("" where none is needed)."""

    name: str
    state: str
    found: str
    remedy: str = ""


# ---------------------------------------------------------------- what lab.toml names


def _models(lab: Lab) -> Iterator[Check]:
    try:
        registry.check_settings(lab.settings.models)
    except HermesLabError as error:
        yield Check("models", "trouble", str(error), f"mend {lab.path / 'lab.toml'}")
        return
    for row in registry.available(lab.settings.models):
        if row.tier:
            yield _model(row)


def _model(row: Row) -> Check:
    name = f"model ({row.tier})"
    found = f"{row.name}: {row.state}" + (f", {row.note}" if row.note else "")
    if row.state in ("wrong", "missing"):
        return Check(name, "trouble", found, "mend the name in lab.toml, or put there what it names")
    if row.state == "not fetched":
        remedy = "`hermes-lab models --fetch` fetches it now" if row.kind == registry.EMBEDDED else row.note
        return Check(name, "note", found, remedy)
    if row.kind == registry.OPENAI.rstrip(":"):
        return _server(name, row, found)
    return Check(name, "ok", found)


def _server(name: str, row: Row, found: str) -> Check:
    """Look whether somebody listens where a model's server is said to be; nothing is sent."""
    import socket
    from urllib.parse import urlsplit

    from hermes_lab.models.openai_options import read_address

    address = read_address(row.name)
    parts = urlsplit(address.base)
    port = parts.port or (443 if address.is_encrypted else 80)
    try:
        with socket.create_connection((address.host, port), timeout=_CONNECT_SECONDS):
            return Check(name, "ok", f"{found}; {address.host}:{port} answers")
    except OSError as error:
        # Behind a proxy only the proxy reaches other machines, so that is not certain to be a trouble.
        state = "trouble" if address.is_loopback else "note"
        remedy = "start the server, or mend its address in lab.toml"
        return Check(name, state, f"{row.name}: nobody answers at {address.host}:{port} ({error})", remedy)


def _suites(lab: Lab) -> Iterator[Check]:
    """Read each suite that the lab holds."""
    from hermes_lab.suites.stored_files import read_suite, stored_names, suites_folder

    names = stored_names(lab.path)
    tools: set[str] = set()
    for name in names:
        try:
            suite = read_suite(lab.path, name)
        except HermesLabError as error:
            yield Check("suites", "trouble", str(error), f"mend the file in {suites_folder(lab.path) / name}")
            continue
        tools.update(suite.toolbox())
        waiting = sum(not task.confirmed for task in suite.content.tasks)
        if waiting:
            remedy = f"`hermes-lab suite show {name}` names them; `hermes-lab suite confirm {name} ID` lets them run"
            yield Check("suites", "note", f"{waiting} tasks of {name} wait for a person", remedy)
    yield Check("suites", "ok", f"desk{''.join(f', {name}' for name in names)}")
    yield from _rules(lab, tools)


def _rules(lab: Lab, tools: set[str]) -> Iterator[Check]:
    """Find rules that are about no tool: a slip in a name leaves a call allowed that was meant to be denied."""
    import fnmatch

    from hermes_lab.suites.registry import open_suite

    rules = lab.settings.permissions.rules
    if not rules:
        yield Check("rules", "ok", "none; high_risk tools ask a person")
        return
    known = tools | set(open_suite("desk", lab.path).toolbox())
    idle = [rule for rule in rules if not any(fnmatch.fnmatchcase(name, rule.tool) for name in known)]
    for rule in idle:
        called = rule.name or f"a rule to {rule.decision}"
        remedy = "`hermes-lab tools --rules` lists the tools: mend its `tool` in lab.toml, or take it out"
        yield Check("rules", "trouble", f"{called} is about {rule.tool!r}, and no suite has such a tool", remedy)
    if not idle:
        yield Check("rules", "ok", f"{len(rules)}, each about a tool that there is")


# ---------------------------------------------------------------- the log


def _disk(lab: Lab) -> Iterator[Check]:
    free = shutil.disk_usage(lab.path).free
    found = f"{free / 2**30:.1f} GiB free"
    if free < _LITTLE_DISK:
        remedy = "free some space: a full disk stops recording (nothing acknowledged is lost)"
        yield Check("disk", "trouble", found, remedy)
    else:
        yield Check("disk", "ok", found)


def _sealing(lab: Lab) -> Iterator[Check]:
    status = lab.log.status()
    found = f"{status['events']:,} events; {status['segments']} segments, {status['live_files']} live files"
    if status["small_segments"] > _MANY_SMALL:
        remedy = f"{status['small_segments']} segments are small: `hermes-lab log compact` makes queries faster"
        yield Check("log", "note", found, remedy)
    else:
        yield Check("log", "ok", found)


def _readable(lab: Lab) -> Iterator[Check]:
    status = lab.log.status()
    if status["rejected_lines"]:
        yield Check(
            "lines",
            "trouble",
            f"{status['rejected_lines']} lines were no events",
            f"see {lab.log.layout.rejected} for the lines and reasons: a damaged disk or a foreign hand wrote them",
        )
        return
    yield Check(
        "lines", "ok", f"all read; {status['torn_bytes']} bytes of lines cut short by crashes, never acknowledged"
    )


def _growth(lab: Lab) -> Iterator[Check]:
    _, growth = query.rows(lab.log.snapshot(), read_sql("hermes_lab.log", "growth"))
    tasks, median, most, most_task, action, share = next(growth)
    if not tasks:
        yield Check("growth", "ok", "no tasks yet")
        return
    limit = lab.log.settings.growth_per_task
    found = f"{median:g} events a task (median of the last {tasks}); the most is {most:g}, task {most_task}"
    if median <= limit:
        yield Check("growth", "ok", found)
        return
    yield Check(
        "growth",
        "trouble",
        f"the log grows too fast: {found}",
        f"{share:.0%} of them are {action}: record coarser steps, or merge kinds that may be merged ([log] thin in "
        f"lab.toml); if this is as it should be, raise growth_per_task (now {limit})",
    )


def _unfinished(lab: Lab) -> Iterator[Check]:
    for run_id, suite, episodes in lab.log.sql(read_sql("hermes_lab", "runs_unfinished")).fetchall():
        yield Check(
            "unfinished run",
            "note",
            f"{episodes} episodes of run {run_id} began and never ended",
            f"if it is not at work now, it was killed: `hermes-lab run {suite} --resume {run_id}` (with the options "
            "that it began with) goes on",
        )


def _symptoms(lab: Lab) -> Iterator[Check]:
    episodes, found = symptoms.find(lab.log)
    for one in found:
        yield Check(one.name, "trouble" if one.serious else "note", f"{one.found}: {one.cause}", one.remedy)
    if not found:
        yield Check("episodes", "ok", f"the last {episodes} episodes show no known symptom" if episodes else "none yet")


CHECKS: tuple[tuple[str, Callable[[Lab], Iterator[Check]]], ...] = (
    ("disk", _disk),
    ("models", _models),
    ("suites", _suites),
    ("log", _sealing),
    ("lines", _readable),
    ("growth", _growth),
    ("unfinished run", _unfinished),
    ("episodes", _symptoms),
)
"""The checks by the name that stands for one which cannot be made."""
