"""A lab: one folder with everything that was recorded. The command line and the notebooks both go through it."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermes_lab.errors import ConfigError, HermesLabError, MissingError, WriteError
from hermes_lab.log import Log, LogSettings, files

FORMAT = 1
"""Version of the lab's folder; a lab of a newer one is refused."""

DEFAULT = "data/lab"
"""Where a lab is when neither `--lab` nor `HERMES_LAB_HOME` names another."""

_NEW_LAB_TOML = f"""\
# A lab of hermes-lab: see the README. Every key is optional but `format`.
format = {FORMAT}

[log]
# durability_ms = 50        # events are on the disk at most this late; 0: before `append` returns
# memory_limit = "2GB"      # what a query may take; more goes to cache/duckdb
# thin = {{ canary_observed = 10 }}   # merge every 10 such events into one of weight 10
"""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `lab.toml` holds.

    Attributes:
        format: version of the lab's folder.
        log: see `LogSettings`.
    """

    format: Annotated[int, msgspec.Meta(ge=1)]
    log: LogSettings = LogSettings()


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
    return Lab(folder, _read_settings(toml))


def _make(folder: Path) -> None:
    with files.disk_errors(f"making a lab in {folder}"):
        if folder.is_dir() and any(p for p in folder.iterdir() if p.name != "events"):
            raise ConfigError(f"{folder} holds other files and no lab.toml: name an empty or a new folder for the lab")
        folder.mkdir(parents=True, exist_ok=True)
        files.atomic_write(folder / "lab.toml", _NEW_LAB_TOML.encode())


def _read_settings(path: Path) -> Settings:
    with files.disk_errors(f"reading {path}"):
        text = path.read_bytes()
    try:
        values = tomllib.loads(text.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    version = values.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ConfigError(
            f"{path}: this lab was written by a newer hermes-lab (format {version}; this one knows {FORMAT}): "
            "upgrade hermes-lab to open it"
        )
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
