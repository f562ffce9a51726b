"""Known troubles of an installation and a lab: each check says what it found, and what to do where it found one."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.doctor_lab import CHECKS, Check
from hermes_lab.errors import HermesLabError, MissingError
from hermes_lab.lab import default_path, open_lab
from hermes_lab.models import embedded, registry
from hermes_lab.models.registry import ModelSettings

PACKAGES = (
    "accelerate",
    "click",
    "duckdb",
    "dulwich",
    "gguf",
    "google-re2",
    "httpx",
    "jsonschema-rs",
    "llguidance",
    "msgspec",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic-monty",
    "pyyaml",
    "rbloom",
    "rich",
    "scipy",
    "snowballstemmer",
    "torch",
    "transformers",
    "tzdata",
    "uuid-utils",
)
"""What hermes-lab needs, as in its pyproject.toml; only the versions are looked up, nothing is loaded."""

_MODEL_BYTES = 900 * 1_000_000


def examine(lab_path: str | None = None) -> list[Check]:
    """Return the checks of this installation and of the lab in `lab_path` (the default one where None)."""
    checks = [_python(), *_packages()]
    folder = default_path(lab_path).absolute()
    try:
        lab = open_lab(folder, create=False)
    except MissingError:
        remedy = "make one with `hermes-lab run desk --limit 8` or `hermes-lab import FILE`"
        return [*checks, *_cache(ModelSettings()), Check("lab", "note", f"none in {folder}", remedy)]
    except HermesLabError as error:
        return [*checks, Check("lab", "trouble", str(error), "mend what it says, or name another lab with --lab")]
    checks += [*_cache(lab.settings.models), Check("lab", "ok", str(folder))]
    for name, check in CHECKS:
        try:
            checks.extend(check(lab))
        except HermesLabError as error:
            checks.append(Check(name, "trouble", str(error), "`hermes-lab log verify` says which files are affected"))
    return checks


# ---------------------------------------------------------------- the installation


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("python", "ok", version)
    return Check(
        "python", "note", version, "hermes-lab is tested on Python 3.11 to 3.13: use one of these if something is odd"
    )


def _packages() -> Iterator[Check]:
    for name in PACKAGES:
        try:
            yield Check(name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Check(name, "trouble", "not installed", "pip install hermes-lab installs all that it needs")


def _cache(settings: ModelSettings) -> Iterator[Check]:
    """Look at the cache that all labs share, where the embedded model is or will be."""
    folder = embedded.cache_folder()
    above = _nearest(folder)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        yield Check(
            "cache",
            "trouble" if _wants_embedded(settings) and not embedded.is_fetched() else "note",
            f"{folder} cannot be written",
            "set HERMES_LAB_CACHE to a folder that can",
        )
        return
    free = shutil.disk_usage(above).free
    found = f"{folder}, {free / 2**30:.1f} GiB free"
    if _wants_embedded(settings) and not embedded.is_fetched() and free < _MODEL_BYTES:
        yield Check(
            "cache",
            "trouble",
            f"{found}: too little for the embedded model",
            "free 900 MB, or set HERMES_LAB_CACHE to a folder on another disk",
        )
        return
    yield Check("cache", "ok", found)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _wants_embedded(settings: ModelSettings) -> bool:
    return registry.EMBEDDED in (settings.light, settings.strong)
