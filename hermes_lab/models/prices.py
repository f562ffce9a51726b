"""What a model's tokens cost: put `cost_usd` on each reply of a model whose price `lab.toml` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hermes_lab.models.base import Model, Reply, Request
from hermes_lab.models.wrapped import WrappedModel

_Usd = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens; cached input costs as much as other input where nothing is said.

    >>> price = Price(input=1.0, output=2.0, cached_input=0.1)
    >>> price.cost_usd(input_tokens=1_000_000, cached_tokens=1_000_000, output_tokens=500_000)
    2.1
    """

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None

    def cost_usd(self, input_tokens: int | None, cached_tokens: int | None, output_tokens: int | None) -> float | None:
        """Return what a reply cost; None where its tokens are not known. Unknown cached tokens are in the input's."""
        if input_tokens is None or output_tokens is None:
            return None
        cached_price = self.input if self.cached_input is None else self.cached_input
        usd = input_tokens * self.input + (cached_tokens or 0) * cached_price + output_tokens * self.output
        return usd / 1_000_000


class PricedModel(WrappedModel):
    """A model whose replies say what they cost, by one price."""

    def __init__(self, model: Model, price: Price) -> None:
        """Wrap `model`, which is closed with this one."""
        super().__init__(model)
        self._price = price

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer as the model within, with `cost_usd` where the tokens are known and no cost is given yet."""
        return [self._priced(reply) for reply in self.inner.generate(requests, seconds=seconds)]

    def _priced(self, reply: Reply) -> Reply:
        if reply.cost_usd is not None:
            return reply
        usd = self._price.cost_usd(reply.input_tokens, reply.cached_tokens, reply.output_tokens)
        return msgspec.structs.replace(reply, cost_usd=usd)
