"""BFCL's own files, for benchmarks: fetched once from PyPI into the cache, never committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_lab.models.embedded import cache_folder

REQUIREMENT = "bfcl-eval==2026.3.23"


def wheel() -> Path:
    """Return the wheel with BFCL's questions and answers."""
    folder = cache_folder() / "bfcl"
    found = sorted(folder.glob("bfcl_eval-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", REQUIREMENT, "-d", str(folder)]
        subprocess.run(command, check=True)
        found = sorted(folder.glob("bfcl_eval-*.whl"))
    return found[0]
