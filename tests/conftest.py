"""What many tests share: a lab in a temporary folder, and the command line as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hermes_lab

Cli = Callable[..., subprocess.CompletedProcess[str]]

SCRIPT = str(Path(sys.executable).with_name("hermes-lab"))


@pytest.fixture
def lab(tmp_path: Path) -> hermes_lab.Lab:
    """A new lab, in a folder whose name is not ASCII."""
    return hermes_lab.open(tmp_path / "实验 lab")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `hermes-lab ARGS` as a process of its own, with the lab in the same folder as the fixture `lab`."""

    def run(
        *args: object, lab: Path | None = None, prefix: tuple[str, ...] = (), stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HERMES_LAB_HOME": str(lab or tmp_path / "实验 lab"), "COLUMNS": "200"}
        command = [*prefix, SCRIPT, *map(str, args)]
        return subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )

    return run
