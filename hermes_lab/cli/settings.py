"""The options that choose the agent's configuration, for the commands that start an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hermes_lab.config import AgentConfig

F = TypeVar("F", bound=Callable[..., Any])


def config_options(command: F) -> F:
    """Give a command the options `--config` (parameter `config`) and `--set` (parameter `changes`)."""
    command = click.option(
        "--set", "changes", metavar="NAME=VALUE", multiple=True, help="Change a setting, as routing.shortlist=3."
    )(command)
    return click.option(
        "--config", metavar="FILE|VERSION", help="The agent's configuration: a TOML or JSON file, or a version."
    )(command)


def changed_config(config: AgentConfig, changes: tuple[str, ...]) -> AgentConfig:
    """Return the configuration with what `--set` says; a value is JSON where it can be, else text.

    Raises:
        click.UsageError: a change that is not NAME=VALUE.
        ConfigError: no such setting, or a wrong value.
    """
    import json

    from hermes_lab.config import changed

    values = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--set {change}: write NAME=VALUE, such as routing.shortlist=3")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
        except (ValueError, RecursionError) as error:  # JSON, but with too many digits or levels
            raise click.UsageError(f"--set {name}: {error}") from None
    return changed(config, **values) if values else config
