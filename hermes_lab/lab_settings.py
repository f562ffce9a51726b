"""The settings of a lab: what `lab.toml` holds, how it is read, and what a new one says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.log import LogSettings, files
from hermes_lab.models.registry import ModelSettings
from hermes_lab.permissions import PermissionSettings

FORMAT = 1
"""Version of the lab's folder; a lab of a newer one is refused."""

NEW_LAB_TOML = f"""\
# A lab of hermes-lab: see the README. Every key is optional but `format`.
format = {FORMAT}

[log]
# durability_ms = 50        # events are on the disk at most this late; 0: before `append` returns
# memory_limit = "2GB"      # what a query may take; more goes to cache/duckdb
# thin = {{ canary_observed = 10 }}   # merge every 10 such events into one of weight 10

[models]
# light = "embedded"        # or "hf:NousResearch/Hermes-3-Llama-3.1-8B", "openai:http://127.0.0.1:8000/v1#hermes-4"
# strong = "..."            # escalations go there; the light one where it is not named
# cache = true              # keep the replies to identical greedy requests
# prices."NAME" = {{ input = 0.1, cached_input = 0.05, output = 0.3 }}   # USD a million tokens
# options."NAME" = {{ ... }}                                             # see `hermes-lab models --options`

[run]
# at_once = 32              # episodes that advance together

[learning]
# back_end = "rules"        # what looks for things worth keeping: "off", "rules", or the tier "light" or "strong"

[review]
# expire_days = 30         # a proposal that nobody decided on by then expires

[permissions]
# timeout_s = 60            # a person who has not answered by then has said no
# [[permissions.rules]]     # tools of level high_risk always ask
# name = "large-refunds"
# tool = "*refund*"
# argument = "amount"
# pattern = "^[0-9]{{4,}}"
# decision = "deny"         # or "ask"
# reason = "refunds of 1000 and more are made by hand"
"""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How runs are driven; nothing here changes what an agent does.

    Attributes:
        at_once: episodes that advance together; their questions to a model go in one batch.
        tool_workers: threads that run tools.
    """

    at_once: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 32
    tool_workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 8


class LearningSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How conversations are reflected on; whatever comes of it only waits for a person's approval.

    Attributes:
        back_end: "rules" reads what users ask to be remembered and what worked twice; a tier has its model look, too.
    """

    back_end: Literal["off", "rules", "light", "strong"] = "rules"


class ReviewSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the approval queue is kept; that a person decides is no setting.

    Attributes:
        expire_days: days that a proposal waits for a decision before it expires.
    """

    expire_days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] = 30.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `lab.toml` holds.

    Attributes:
        format: version of the lab's folder.
        log: see `LogSettings`.
        models: see `models.registry.ModelSettings`.
        run: how runs are driven; see `RunSettings`.
        learning: see `LearningSettings`.
        review: how the approval queue is kept; see `ReviewSettings`.
        permissions: see `permissions.PermissionSettings`.
    """

    format: Annotated[int, msgspec.Meta(ge=1)]
    log: LogSettings = LogSettings()
    models: ModelSettings = ModelSettings()
    run: RunSettings = RunSettings()
    learning: LearningSettings = LearningSettings()
    review: ReviewSettings = ReviewSettings()
    permissions: PermissionSettings = PermissionSettings()


def read_settings(path: Path) -> Settings:
    """Return what a `lab.toml` says.

    Raises:
        ConfigError: it is no TOML, holds a wrong value, or is of a newer hermes-lab.
    """
    with files.disk_errors(f"reading {path}"):
        text = path.read_bytes()
    try:
        values = tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
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
