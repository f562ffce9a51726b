"""What importing costs others: no heavy package comes along with the light ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "pandas", "numpy", "duckdb", "pyarrow", "matplotlib", "ipywidgets")


@pytest.mark.parametrize("module", ["hermes_lab", "hermes_lab.cli", "hermes_lab.models.hermes", "hermes_lab.events"])
def test_importing_it_brings_no_heavy_package(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_every_public_name_is_there() -> None:
    program = (
        "import hermes_lab; [getattr(hermes_lab, name) for name in hermes_lab.__all__]; print(hermes_lab.__version__)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "0.1.0"
