"""Says in plain sentences what a comparison found: the words that its text and its HTML share."""

from __future__ import annotations

from hermes_lab.comparing.comparison import ArmCounts, Comparison


def headline(found: Comparison) -> str:
    """Return the verdict with its number and interval, in one line."""
    old, new = found.labels
    return f"{new} against {old}: {found.verdict} ({found.endpoint} {_measured(found)})"


def facts(found: Comparison) -> list[str]:
    """Return what stands behind the verdict, one sentence a line."""
    return [
        _sample(found),
        *_beside(found),
        *(_arm(label, arm) for label, arm in zip(found.labels, found.arms, strict=True)),
    ]


def points(value: float | None) -> str:
    """Return a difference between scores in points (hundredths of the scale), with its sign.

    Example:
        >>> points(0.1234), points(None)
        ('+12.3 points', 'unknown')
    """
    return "unknown" if value is None else f"{100 * value:+.1f} points"


def number(value: float | None) -> str:
    """Return a measure with the digits that a table needs.

    Example:
        >>> number(1234.56), number(0.12345), number(3.0), number(None)
        ('1,235', '0.123', '3', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}".rstrip("0").rstrip(".") if value else "0"


def _measured(found: Comparison) -> str:
    if found.interval is None:
        return points(found.difference)
    low, high = found.interval
    return f"{points(found.difference)}, {found.level:.0%} interval {100 * low:+.1f} to {100 * high:+.1f}"


def _sample(found: Comparison) -> str:
    if not found.paired:
        return f"unpaired: at least {found.pairs} attempts from {found.clusters} families in each version"
    return f"{found.pairs} pairs from {found.clusters} families, {found.discordant} of them differ"


def _beside(found: Comparison) -> list[str]:
    lines = []
    if found.smallest_effect is not None:
        lines.append(
            f"smallest effect that these tasks would have shown (80% power): {100 * found.smallest_effect:.1f} points"
        )
    if found.won is not None and found.lost is not None:
        p = "" if found.mcnemar is None else f", exact McNemar p = {found.mcnemar:.3g}"
        lines.append(f"full marks gained {found.won}, lost {found.lost}{p}")
    if found.betting is not None:
        low, high = found.betting
        lines.append(f"betting interval of the score before penalties: {100 * low:+.1f} to {100 * high:+.1f} points")
    return lines


def _arm(label: str, arm: ArmCounts) -> str:
    ended = ", ".join(f"{how} {count}" for how, count in arm.ended.items())
    counted = f"{arm.attempts} attempts at {arm.tasks} tasks ({ended})" if ended else f"{arm.attempts} attempts"
    return f"{label}: {counted}; unscored and counted 0: {arm.unscored}"
