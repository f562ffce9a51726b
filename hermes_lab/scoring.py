"""How episodes are scored: weights, thresholds and windows, from a file that no configuration of an agent can reach.

Every result carries the version of the scoring that made it, a hash of its content.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from hermes_lab.errors import ConfigError

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_ROUNDING = 1e-9

DIMENSIONS = ("completion", "effectiveness", "safety", "feedback")
"""The parts of a base score, in the order of their usual weight."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that the parts of a scoring share."""


class Weights(_Part, frozen=True):
    """What each dimension counts in the base score; they sum to 1.

    >>> Weights(completion=0.5, effectiveness=0.2).safety
    0.2
    """

    completion: _Share = 0.4
    effectiveness: _Share = 0.3
    safety: _Share = 0.2
    feedback: _Share = 0.1

    def __post_init__(self) -> None:
        """Refuse weights that do not sum to 1."""
        total = self.completion + self.effectiveness + self.safety + self.feedback
        if abs(total - 1) > _ROUNDING:
            raise ValueError(f"weights sum to {total:.6g}, and must sum to 1")


class Penalty(_Part, frozen=True):
    """What it costs a version to cost more than the baseline.

    r is the version's mean tokens and seconds, each as a multiple of the baseline's, weighted by `tokens` and the rest.

    >>> [round(Penalty().of(r), 3) for r in (1.0, 1.2, 1.25, 1.3, 1.5, 9.0)]
    [0.0, 0.0, 0.025, 0.05, 0.25, 0.5]

    Attributes:
        tokens: share of tokens in r; seconds have the rest.
        mild_from: r up to which nothing is lost.
        mild_slope: what a unit of r costs from there on.
        steep_from: r from which it costs more.
        steep_slope: what a unit of r costs from there on.
        most: the largest penalty.
    """

    tokens: _Share = 0.5
    mild_from: _Amount = 1.2
    mild_slope: _Amount = 0.5
    steep_from: _Amount = 1.3
    steep_slope: _Amount = 1.0
    most: _Share = 0.5

    def __post_init__(self) -> None:
        """Refuse steps in the wrong order."""
        if self.steep_from < self.mild_from:
            raise ValueError("steep_from must not be below mild_from")

    def of(self, r: float) -> float:
        """Return the penalty for a cost of `r` times the baseline."""
        mild = max(0.0, min(r, self.steep_from) - self.mild_from) * self.mild_slope
        steep = max(0.0, r - self.steep_from) * self.steep_slope
        return min(self.most, mild + steep)


class Feedback(_Part, frozen=True):
    """What a user's like, dislike or silence is worth.

    Attributes:
        like: worth of a like.
        dislike: worth of a dislike.
        silence: worth of no word at all.
        silence_after_hours: so long after the end no word counts as silence; until then feedback is missing.
        deaf_channels: where nobody could have said a word, so that silence means nothing.
    """

    like: _Share = 1.0
    dislike: _Share = 0.0
    silence: _Share = 0.5
    silence_after_hours: _Amount = 24.0
    deaf_channels: tuple[str, ...] = ("suite",)


class Windows(_Part, frozen=True):
    """Times.

    Attributes:
        baseline_days: days back from the newest event whose successes are the cost baseline.
        unfinished_after_s: seconds of quiet after which an episode without an end counts as failed.
    """

    baseline_days: Annotated[float, msgspec.Meta(gt=0, le=36500)] = 7.0
    unfinished_after_s: _Amount = 3600.0


class Alarms(_Part, frozen=True):
    """When a version looks as if it played the score rather than did the work, beside the version before it.

    Attributes:
        cost_ratio: tokens an episode rose to this multiple while completion rose.
        no_call_rise: the share of episodes without any call rose by this, and completion did not.
        search_ratio: searches an episode rose to this multiple, and more of them were ineffective.
    """

    cost_ratio: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 1.3
    no_call_rise: _Share = 0.1
    search_ratio: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 1.5


class Scoring(_Part, frozen=True):
    """All that scoring goes by.

    >>> Scoring().weights_of("orders").completion
    0.4
    >>> service = Weights(completion=0.5, effectiveness=0.2)
    >>> Scoring(task_types={"customer_service": service}).version == Scoring().version
    False

    Attributes:
        weights: of a task type that has none of its own.
        task_types: weights by task type.
        success: completion from which an episode counts as a success.
        penalty: for cost.
        feedback: what a user's word is worth.
        windows: times.
        alarms: when a gain looks bought or an agent over-cautious.
        review_share: share of graded episodes that a person is asked to grade, too.
    """

    weights: Weights = Weights()
    task_types: dict[str, Weights] = {}
    success: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    penalty: Penalty = Penalty()
    feedback: Feedback = Feedback()
    windows: Windows = Windows()
    alarms: Alarms = Alarms()
    review_share: _Share = 0.05

    def weights_of(self, task_type: str | None) -> Weights:
        """Return the weights of a task type."""
        return self.task_types.get(task_type or "", self.weights)

    @property
    def version(self) -> str:
        """The version: `s-` and 12 hex digits of the SHA-256 of the content."""
        content = msgspec.json.encode(msgspec.to_builtins(self), order="sorted")
        return "s-" + hashlib.sha256(content).hexdigest()[:12]


def read_scoring(path: Path) -> Scoring:
    """Return the scoring of a TOML file; what it leaves out is the default.

    Raises:
        ConfigError: it cannot be read, is no TOML, or holds an unknown key or a wrong value, such as weights that do
            not sum to 1; the message says which.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        return msgspec.convert(values, Scoring)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {str(error).replace('$.', '')}") from None


def scoring_of(lab: Path, named: Scoring | Path | str | None = None) -> Scoring:
    """Return a scoring: one that is given, one of a file, else that of the lab's `scoring.toml`, else the default.

    Raises:
        ConfigError: see `read_scoring`.
    """
    if isinstance(named, Scoring):
        return named
    if named is not None:
        return read_scoring(Path(named).expanduser())
    own = lab / "scoring.toml"
    return read_scoring(own) if own.exists() else Scoring()
