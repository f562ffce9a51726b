"""Put the questions of many episodes to their models: one call a model, in order, and none beyond a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hermes_lab.effects import Ask
from hermes_lab.kinds import ErrorKind, Tier
from hermes_lab.models.base import Finish, Model, Reply, Request
from hermes_lab.models.prices import Price


class ModelTiers(Protocol):
    """The models of a lab by tier."""

    def of(self, tier: Tier) -> Model:
        """Return the model of a tier."""


def answer(asks: Sequence[Ask], models: ModelTiers, prices: Mapping[Tier, Price]) -> list[Reply]:
    """Return the replies to `asks`, in order, one call for each model; none takes more than its episode has left.

    A question whose prompt alone would overspend is not put at all: its reply is an error of kind `budget`.
    """
    replies: list[Reply | None] = [None] * len(asks)
    places: dict[int, list[int]] = {}
    by_id: dict[int, Model] = {}
    requests: list[Request] = []
    for place, ask in enumerate(asks):
        model = models.of(ask.tier)
        bound = _within_budget(ask, model, prices.get(ask.tier))
        if isinstance(bound, Reply):
            replies[place] = bound
            requests.append(ask.request)
            continue
        requests.append(bound)
        places.setdefault(id(model), []).append(place)
        by_id[id(model)] = model
    for key, of_model in places.items():
        batch = [requests[place] for place in of_model]
        seconds = [asks[place].remaining.seconds for place in of_model]
        for place, reply in zip(of_model, by_id[key].generate(batch, seconds=seconds), strict=True):
            replies[place] = reply
    return [reply for reply in replies if reply is not None]


def _within_budget(ask: Ask, model: Model, price: Price | None) -> Request | Reply:
    """Return the request, its reply shortened to what is left; or the refusal where the prompt alone is too much."""
    prompt = model.most_tokens(ask.request)
    left = ask.remaining.tokens - prompt
    if left < 1:
        message = f"the prompt may take {prompt} tokens, and {ask.remaining.tokens} are left"
        return _refusal(model.name, message)
    most = min(ask.request.max_tokens, left)
    if ask.remaining.usd is not None and price is not None:
        cost = price.cost_usd(prompt, 0, most)
        if cost is not None and cost > ask.remaining.usd:
            return _refusal(model.name, f"the call may cost {cost:.4f} USD, and {ask.remaining.usd:.4f} are left")
    if most == ask.request.max_tokens:
        return ask.request
    return msgspec.structs.replace(ask.request, max_tokens=most)


def _refusal(model: str, message: str) -> Reply:
    return Reply(
        text="",
        model=model,
        finish=Finish.ERROR,
        error_kind=ErrorKind.BUDGET,
        error=message,
        input_tokens=0,
        output_tokens=0,
        latency_ms=0.0,
    )
