"""Known troubles of an installation and a lab: each check says what it found, and what to do where it found one."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from typing import NamedTuple

from hermes_lab.errors import HermesLabError, MissingError
from hermes_lab.lab import Lab, default_path, open_lab
from hermes_lab.log import query
from hermes_lab.sql_files import read_sql

_PACKAGES = ("duckdb", "pyarrow", "msgspec", "click", "rich", "rbloom", "google-re2", "uuid-utils")
_LITTLE_DISK = 1 << 30
_MANY_SMALL = 50


class Check(NamedTuple):
    """One check: its name, `ok`, `note` or `trouble`, what was found, and the remedy ("" where none is needed)."""

    name: str
    state: str
    found: str
    remedy: str = ""


def examine(lab_path: str | None = None) -> list[Check]:
    """Return the checks of this installation and of the lab in `lab_path` (the default one where None)."""
    checks = [_python(), *_packages()]
    folder = default_path(lab_path).absolute()
    try:
        lab = open_lab(folder, create=False)
    except MissingError:
        return [*checks, Check("lab", "note", f"none in {folder}", "make one with `hermes-lab import FILE`")]
    except HermesLabError as error:
        return [*checks, Check("lab", "trouble", str(error), "mend what it says, or name another lab with --lab")]
    checks.append(Check("lab", "ok", str(folder)))
    checks.append(_disk(lab))
    for name, check in (("log", _sealing), ("lines", _readable), ("growth", _growth)):
        try:
            checks.append(check(lab))
        except HermesLabError as error:
            checks.append(Check(name, "trouble", str(error), "`hermes-lab log verify` says which files are affected"))
    return checks


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("python", "ok", version)
    return Check(
        "python", "note", version, "hermes-lab is tested on Python 3.11 to 3.13: use one of these if something is odd"
    )


def _packages() -> list[Check]:
    checks = []
    for name in _PACKAGES:
        try:
            checks.append(Check(name, "ok", importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            checks.append(Check(name, "trouble", "not installed", "pip install hermes-lab installs all that it needs"))
    return checks


def _disk(lab: Lab) -> Check:
    free = shutil.disk_usage(lab.path).free
    found = f"{free / 2**30:.1f} GiB free"
    if free < _LITTLE_DISK:
        return Check(
            "disk", "trouble", found, "free some space: a full disk stops recording (nothing acknowledged is lost)"
        )
    return Check("disk", "ok", found)


def _sealing(lab: Lab) -> Check:
    status = lab.log.status()
    found = f"{status['events']:,} events; {status['segments']} segments, {status['live_files']} live files"
    if status["small_segments"] > _MANY_SMALL:
        return Check(
            "log",
            "note",
            found,
            f"{status['small_segments']} segments are small: `hermes-lab log compact` makes queries faster",
        )
    return Check("log", "ok", found)


def _readable(lab: Lab) -> Check:
    status = lab.log.status()
    if status["rejected_lines"]:
        return Check(
            "lines",
            "trouble",
            f"{status['rejected_lines']} lines were no events",
            f"see {lab.log.layout.rejected} for the lines and reasons: a damaged disk or a foreign hand wrote them",
        )
    return Check(
        "lines", "ok", f"all read; {status['torn_bytes']} bytes of lines cut short by crashes, never acknowledged"
    )


def _growth(lab: Lab) -> Check:
    _, growth = query.rows(lab.log.snapshot(), read_sql("hermes_lab.log", "growth"))
    tasks, median, most, most_task, action, share = next(growth)
    if not tasks:
        return Check("growth", "ok", "no tasks yet")
    limit = lab.log.settings.growth_per_task
    found = f"{median:g} events a task (median of the last {tasks}); the most is {most:g}, task {most_task}"
    if median <= limit:
        return Check("growth", "ok", found)
    return Check(
        "growth",
        "trouble",
        f"the log grows too fast: {found}",
        f"{share:.0%} of them are {action}: record coarser steps, or merge kinds that may be merged ([log] thin in "
        f"lab.toml); if this is as it should be, raise growth_per_task (now {limit})",
    )
