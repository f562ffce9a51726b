"""The rows of a batch while they grow: their keys and values, and the forward pass that adds tokens to each.

Rows grow by a column for each token of the one that gets most; the others are padded on the left of the new columns,
and the padding is never seen. So the logits that matter are always in the last column.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from hermes_lab.models.local_attention import Prefix, groups_of, rows_at_work

_BLOCK_COLUMNS = 512
_SPARE_COLUMNS = 64


class Rows(Protocol):
    """Rows that grow by tokens."""

    def extend(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Add tokens (at least one) to each row, and return the logits after the last, [rows, vocabulary]."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""


class _Buffer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, written in place into room that is made ahead."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new columns, and return all so far."""
        end = self.length + key_states.shape[2]
        if self.keys is None or self.keys.shape[2] < end:
            self.keys = self._grown(self.keys, key_states, end)
            self.values = self._grown(self.values, value_states, end)
            self.is_initialized = True
        assert self.values is not None  # noqa: S101 - made together with the keys
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """Return the columns written."""
        return self.length

    def _grown(self, old: torch.Tensor | None, new: torch.Tensor, needed: int) -> torch.Tensor:
        room = needed + max(_SPARE_COLUMNS, needed // 4)
        grown = new.new_zeros((new.shape[0], new.shape[1], room, new.shape[3]))
        if old is not None:
            grown[:, :, : self.length] = old[:, :, : self.length]
        return grown


class SharedRows:
    """Rows of a model whose attention is ours (`local_attention`): each may begin with a shared prefix."""

    def __init__(self, weights: Any, prefixes: Sequence[Prefix | None]) -> None:
        """Begin rows that hold their prefix only.

        Args:
            weights: the transformers model, set to our attention.
            prefixes: one a row.
        """
        self._weights = weights
        self._device = weights.device
        self._prefixes = list(prefixes)
        self._groups = groups_of(self._prefixes, self._device)
        self._positions = [len(prefix.tokens) if prefix else 0 for prefix in prefixes]
        self._buffers = [_Buffer() for _ in range(weights.config.num_hidden_layers)]
        self._cache = Cache(layers=list(self._buffers))
        self._seen = torch.zeros((len(prefixes), 0), dtype=torch.bool, device=self._device)

    @torch.inference_mode()
    def extend(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Add tokens to each row; see `Rows`."""
        width = max(len(row) for row in tokens)
        ids = torch.zeros((len(tokens), width), dtype=torch.long)
        positions = torch.zeros((len(tokens), width), dtype=torch.long)
        new = torch.zeros((len(tokens), width), dtype=torch.bool)
        for row, added in enumerate(tokens):
            if not added:
                continue
            ids[row, -len(added) :] = torch.tensor(added)
            start = self._positions[row]
            positions[row, -len(added) :] = torch.arange(start, start + len(added))
            new[row, -len(added) :] = True
            self._positions[row] = start + len(added)
        before = self._seen.shape[1]
        self._seen = torch.cat([self._seen, new.to(self._device)], dim=1)
        token = rows_at_work.set(self._groups)
        try:
            output = self._weights(
                input_ids=ids.to(self._device),
                position_ids=positions.to(self._device),
                attention_mask=self._mask(before, width),
                use_cache=True,
                logits_to_keep=1,
                **{_cache_name(self._weights): self._cache},
            )
        finally:
            rows_at_work.reset(token)
        return _on_cpu(output.logits)

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        index = torch.tensor(rows, device=self._device)
        for buffer in self._buffers:
            buffer.batch_select_indices(index)
        self._seen = self._seen[index]
        self._positions = [self._positions[row] for row in rows]
        self._prefixes = [self._prefixes[row] for row in rows]
        self._groups = groups_of(self._prefixes, self._device)

    def as_prefix(self, tokens: Sequence[int]) -> Prefix:
        """Return what the only row holds, `tokens`, as a prefix for others."""
        # Inference tensors must not be changed outside inference mode; a prefix is only ever read.
        own = [(buffer.keys[0, :, : buffer.length], buffer.values[0, :, : buffer.length]) for buffer in self._buffers]  # type: ignore[index]
        keys = tuple(key.clone() for key, _ in own)
        return Prefix(tuple(tokens), keys, tuple(value.clone() for _, value in own))

    def _mask(self, before: int, width: int) -> torch.Tensor:
        """Return who may see what: own columns that hold a token, up to the query's; padding sees itself."""
        columns = torch.arange(before + width, device=self._device)
        queries = columns[before:, None]
        mask = self._seen[:, None, None, :] & (columns <= queries)
        return mask | (columns == queries)


class SingleRow:
    """One row of any model, with its own attention and cache: for models that ours does not fit."""

    def __init__(self, weights: Any) -> None:
        """Begin an empty row."""
        self._weights = weights
        self._cache = DynamicCache(config=weights.config)
        self._length = 0

    @torch.inference_mode()
    def extend(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Add tokens to the row; see `Rows`."""
        ids = torch.tensor([list(tokens[0])], device=self._weights.device)
        positions = torch.arange(self._length, self._length + ids.shape[1], device=ids.device)[None]
        self._length += ids.shape[1]
        output = self._weights(
            input_ids=ids, position_ids=positions, use_cache=True, **{_cache_name(self._weights): self._cache}
        )
        return _on_cpu(output.logits)

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing: the row stays, or nobody goes on with it."""


def read_in_blocks(
    rows: Rows, tokens: Sequence[Sequence[int]], give_up: Callable[[], bool] = lambda: False
) -> NDArray[np.float32] | None:
    """Let rows read tokens, a block of columns at a time, and return the last logits; None when it was given up.

    Args:
        rows: what reads.
        tokens: for each row.
        give_up: asked between two blocks.
    """
    width = max(len(row) for row in tokens)
    logits = None
    for start in range(0, width, _BLOCK_COLUMNS):
        if start and give_up():
            return None
        end = min(start + _BLOCK_COLUMNS, width)
        logits = rows.extend([_columns(row, width, start, end) for row in tokens])
    return logits


def _columns(tokens: Sequence[int], width: int, start: int, end: int) -> Sequence[int]:
    """Return the tokens in the columns from `start` to `end` when `tokens` end in column `width`.

    >>> _columns([1, 2, 3], 5, 0, 3), _columns([1, 2, 3], 5, 3, 5)
    ([1], [2, 3])
    """
    pad = width - len(tokens)
    return tokens[max(0, start - pad) : max(0, end - pad)]


def _on_cpu(logits: torch.Tensor) -> NDArray[np.float32]:
    last: NDArray[np.float32] = logits[:, -1].float().cpu().numpy()
    return last


def _cache_name(weights: Any) -> str:
    """Return what this version of transformers calls the cache in a forward pass."""
    return "cache" if "cache" in inspect.signature(weights.forward).parameters else "past_key_values"
