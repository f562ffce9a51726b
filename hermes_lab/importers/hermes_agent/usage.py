"""Tokens and costs of a hermes-agent session, each counted once.

A session row has the totals of the main conversation; `session_model_usage` splits them by model, and adds
auxiliary calls (titles, summaries, vision) that stand nowhere else. Neither says which call used what. So the
totals become one `generation` of the session's model, and one more for each other model that the conversation
switched to, which is taken off the first; they stand for no call of their own (weight 0), since the calls are
events already. An auxiliary row becomes one of the weight of its calls. The sums are the source's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_lab.events import Action
from hermes_lab.importers.base import Draft
from hermes_lab.importers.reading.values import amount, count, when

_COUNTERS = ("input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
# Routes of the main conversation: their calls are in the session's totals.
_MAIN_TASKS = ("", "voice_chat")
_FREE = ("included", "free", "actual", "exact")
_SMALLEST_COST = 1e-9
MAIN = "session total, not attributed to single calls"


class Usage(NamedTuple):
    """Counters of a row, in the order of `_COUNTERS`, and its cost; None is unknown."""

    counters: tuple[int | None, ...]
    cost: float | None
    calls: int | None

    def is_empty(self) -> bool:
        """Return whether the row says nothing: hermes-agent writes 0 where it knows nothing."""
        return not any(self.counters) and not self.cost

    def minus(self, part: Usage) -> Usage:
        """Return what `part` leaves of this total, never less than nothing."""
        pairs = zip(self.counters, part.counters, strict=True)
        left = [None if mine is None else max(0, mine - (other or 0)) for mine, other in pairs]
        cost = self.cost
        if cost and part.cost:
            cost = cost - part.cost if cost - part.cost > _SMALLEST_COST else None
        return Usage(tuple(left), cost, None)

    def at_least(self, part: Usage) -> Usage:
        """Return the greater one of each counter."""
        counters = [_join(max, pair) for pair in zip(self.counters, part.counters, strict=True)]
        return Usage(tuple(counters), _join(max, (self.cost, part.cost)), _join(max, (self.calls, part.calls)))


def _join(how: Any, values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _sum(parts: list[Usage]) -> Usage:
    counters = [_join(sum, column) for column in zip(*(part.counters for part in parts), strict=True)]
    return Usage(
        tuple(counters or [None] * len(_COUNTERS)),
        _join(sum, (part.cost for part in parts)),
        _join(sum, (part.calls for part in parts)),
    )


def read_usage(fields: Mapping[str, Any]) -> Usage:
    """Return the counters of a row of `sessions` or `session_model_usage`."""
    counters = tuple(count(fields.get(name)) for name in _COUNTERS)
    return Usage(counters, _cost(fields), count(fields.get("api_call_count")))


def _cost(fields: Mapping[str, Any]) -> float | None:
    """Return what was paid, else what was estimated; 0 is unknown unless the row calls it free."""
    cost = amount(fields.get("actual_cost_usd")) or amount(fields.get("estimated_cost_usd"))
    if cost:
        return cost
    return 0.0 if fields.get("cost_status") in _FREE else None


def usage_drafts(episode: str, session: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[Draft]:
    """Return the events that carry a session's tokens and costs.

    Args:
        episode: the session.
        session: its row.
        rows: its rows of `session_model_usage`.
    """
    main = [row for row in rows if (row.get("task") or "") in _MAIN_TASKS]
    model = session.get("model") or (main[0].get("model") if main else None)
    own = _sum([read_usage(row) for row in main if row.get("model") == model])
    others = [row for row in main if row.get("model") != model]
    left = read_usage(session).minus(_sum([read_usage(row) for row in others])).at_least(own)
    drafts = []
    if not left.is_empty():
        drafts.append(_draft(episode, "usage", {**session, "model": model}, left))
    auxiliary = [row for row in rows if row not in main]
    for row in others + auxiliary:
        usage = read_usage(row)
        if not usage.is_empty() or (usage.calls and row in auxiliary):
            drafts.append(_draft(episode, _key(row), row, usage))
    return drafts


def _key(row: Mapping[str, Any]) -> str:
    names = ("task", "model", "billing_provider", "billing_base_url", "billing_mode")
    return "usage:" + "|".join(str(row.get(name) or "") for name in names)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _draft(episode: str, key: str, row: Mapping[str, Any], usage: Usage) -> Draft:
    task = _text(row.get("task")) or ""
    main = task in _MAIN_TASKS
    counters = dict(zip(_COUNTERS, usage.counters, strict=True))
    told = {
        "usage": MAIN if main else None,
        "task": task or None,
        "calls": usage.calls or None,
        "reasoning_tokens": counters["reasoning_tokens"] or None,
        "cache_write_tokens": counters["cache_write_tokens"] or None,
        "provider": _text(row.get("billing_provider")),
        "cost_status": _text(row.get("cost_status")),
    }
    columns = {
        "output": {name: value for name, value in told.items() if value is not None},
        "weight": 0.0 if main else float(usage.calls or 1),
        **_token_columns(counters),
    }
    if (model := _text(row.get("model"))) is not None:
        columns["name"] = model
    if usage.cost is not None:
        columns["cost_usd"] = usage.cost
    return Draft(episode, key, Action.GENERATION, when(row.get("last_seen") or row.get("ended_at")), columns)


def _token_columns(counters: dict[str, int | None]) -> dict[str, int]:
    """Return the token columns; tokens that were written to a provider's cache were read uncached."""
    if not any(counters.values()):
        return {}
    read = counters["input_tokens"]
    found = {
        "input_tokens": None if read is None else read + (counters["cache_write_tokens"] or 0),
        "cached_tokens": counters["cache_read_tokens"],
        "output_tokens": counters["output_tokens"],
    }
    return {name: value for name, value in found.items() if value is not None}
