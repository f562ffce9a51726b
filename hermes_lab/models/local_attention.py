"""Attention over a prompt prefix that rows share, and over what each row has of its own.

The keys and values of a prefix are held once and never copied into a row's own: each query attends to both parts, and
the two softmaxes are merged by their sums. A row may have any prefix, or none. transformers models call `attend`
through their attention interface under the name `NAME`; the rows at work are told by `rows_at_work`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface

NAME = "hermes_lab_shared_prefix"
"""The attention implementation, as transformers knows it."""

_BLOCK_ELEMENTS = 1 << 25
"""Scores held at once, so that a long prefix and many queries take no more than 128 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The keys and values of the tokens that prompts begin with.

    Attributes:
        tokens: the token ids.
        keys: for each layer, shaped [heads, tokens, head size].
        values: likewise.
    """

    tokens: tuple[int, ...]
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of a batch that share a prefix; `rows` is None where that is every row."""

    prefix: Prefix | None
    rows: torch.Tensor | None


def groups_of(prefixes: Sequence[Prefix | None], device: torch.device) -> tuple[Group, ...]:
    """Return the rows of a batch by prefix, each group's rows in order."""
    places: dict[int, list[int]] = {}
    for row, prefix in enumerate(prefixes):
        places.setdefault(id(prefix), []).append(row)
    if len(places) == 1:
        return (Group(prefixes[0], None),)
    return tuple(Group(prefixes[rows[0]], torch.tensor(rows, device=device)) for rows in places.values())


rows_at_work: contextvars.ContextVar[tuple[Group, ...]] = contextvars.ContextVar("rows_at_work")
"""The groups of the rows that the forward pass of this thread computes."""


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention's output; the signature is transformers'.

    Args:
        module: the attention layer; its `layer_idx` says which.
        query: [rows, query heads, queries, head size].
        key: [rows, key heads, own tokens, head size].
        value: likewise.
        attention_mask: True where a query may see an own token, [rows, 1, queries, own tokens].
        scaling: of the scores; None for one over the root of the head size.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    groups = rows_at_work.get()
    if len(groups) == 1:
        out = _attend_group(groups[0].prefix, module.layer_idx, query, key, value, attention_mask, scale)
        return out.transpose(1, 2).contiguous(), None
    out = torch.empty_like(query)
    for group in groups:
        rows = group.rows
        mask = None if attention_mask is None else attention_mask[rows]
        out[rows] = _attend_group(group.prefix, module.layer_idx, query[rows], key[rows], value[rows], mask, scale)
    return out.transpose(1, 2).contiguous(), None


def _attend_group(
    prefix: Prefix | None,
    layer: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    if prefix is None:
        return _attend_own(query, key, value, mask, scale)
    rows, heads, queries, _ = query.shape
    width = rows * heads * (prefix.keys[layer].shape[1] + key.shape[2])
    step = max(1, _BLOCK_ELEMENTS // width)
    parts = []
    for start in range(0, queries, step):
        block = slice(start, start + step)
        block_mask = None if mask is None else mask[:, :, block]
        parts.append(_attend_both(prefix, layer, query[:, :, block], key, value, block_mask, scale))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _attend_own(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def _attend_both(
    prefix: Prefix,
    layer: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """Attend to the prefix and to the own tokens.

    Queries of all rows and of all query heads of a key head become one matrix for the prefix, whose keys and values
    are so read once for the whole batch.
    """
    rows, heads, queries, size = query.shape
    key_heads = key.shape[1]
    groups = heads // key_heads
    scaled = query * scale
    by_row = scaled.reshape(rows, key_heads, groups * queries, size)
    by_head = by_row.transpose(0, 1).reshape(key_heads, rows * groups * queries, size)
    over_prefix = torch.matmul(by_head, prefix.keys[layer].transpose(1, 2)).float()
    over_own = torch.matmul(by_row, key.transpose(2, 3)).float()
    if mask is not None:
        seen = mask.expand(rows, groups, queries, mask.shape[-1]).reshape(rows, 1, groups * queries, mask.shape[-1])
        over_own.masked_fill_(~seen, float("-inf"))
    # [key heads, rows, groups * queries, 1] and the same by row: the largest score and the sum of both parts.
    shape = (key_heads, rows, groups * queries, 1)
    largest = torch.maximum(
        over_prefix.amax(-1, keepdim=True).view(shape).transpose(0, 1), over_own.amax(-1, keepdim=True)
    )
    over_own.sub_(largest).exp_()
    over_prefix.sub_(largest.transpose(0, 1).reshape(key_heads, rows * groups * queries, 1)).exp_()
    total = over_own.sum(-1, keepdim=True) + over_prefix.sum(-1, keepdim=True).view(shape).transpose(0, 1)
    from_prefix = torch.matmul(over_prefix.to(query.dtype), prefix.values[layer])
    from_own = torch.matmul(over_own.to(query.dtype), value)
    both = from_own + from_prefix.view(key_heads, rows, groups * queries, size).transpose(0, 1)
    return (both.float() / total).to(query.dtype).view(rows, heads, queries, size)


AttentionInterface.register(NAME, attend)
