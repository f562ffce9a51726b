"""Configurations that ran, each in a file of its own under its hash: `configs/c-<hash>.json`, beside the history.

An experiment or a candidate is kept so, that it can be read and replayed; only what is committed becomes a version.
"""

from __future__ import annotations

from pathlib import Path

from hermes_lab.config import AgentConfig
from hermes_lab.errors import MissingError
from hermes_lab.log import files
from hermes_lab.versions import content


def save(lab: Path, config: AgentConfig) -> str:
    """Keep a configuration in the lab's folder under its hash, and return that.

    Raises:
        ConfigError: it holds a secret, which cannot be taken out without making it another configuration.
        WriteError, PermissionDeniedError: the disk did not take it.
    """
    name = content.hash_name(config)
    file = path(lab, name)
    if not file.exists():
        content.refuse_secrets(content.plain(config), "the configuration")
        with files.disk_errors(f"writing {file}"):
            file.parent.mkdir(parents=True, exist_ok=True)
            files.atomic_write(file, content.encode(config))
    return name


def load(lab: Path, name: str) -> AgentConfig:
    """Return the configuration that is kept under a hash.

    Raises:
        MissingError: none is.
        ConfigError: the file was edited, or a newer hermes-lab wrote it.
    """
    file = path(lab, name)
    if not file.exists():
        raise MissingError(
            f"the lab in {lab} keeps no configuration {name}: `hermes-lab config log` lists the versions"
        )
    with files.disk_errors(f"reading {file}"):
        data = file.read_bytes()
    return content.decode(data, str(file), name=name)


def path(lab: Path, name: str) -> Path:
    """Return the file that a configuration is kept in, whether it is there or not."""
    return lab / "configs" / f"{name}.json"
