"""Hold the weights and the prefixes that prompts share, and start rows on them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hermes_lab.models.local_attention import NAME, Prefix
from hermes_lab.models.local_load import Loaded
from hermes_lab.models.local_rows import Rows, SharedRows, SingleRow, read_in_blocks

MIN_PREFIX = 32
"""A shared prefix of fewer tokens is not worth keeping."""

_REMEMBERED = 1024
_SAMPLE = 1024
_TOLERANCE = {torch.float32: 1e-3}
_TOLERANCE_NARROW = 0.1
_PROBE = [11, 7, 13, 5, 17, 3, 19, 2, 23, 1, 29, 31]


class Engine:
    """The weights of a model, ready to decode.

    Attributes:
        shares: whether rows can be batched and share prefixes; false for models with an attention of another kind
            (sliding windows, recurrence), whose rows are decoded one by one.
    """

    def __init__(self, loaded: Loaded, prefix_bytes: int) -> None:
        """Set the weights to our attention if it gives what theirs gives.

        Args:
            loaded: weights and tokenizer.
            prefix_bytes: memory for prefixes that are kept; 0 for none.
        """
        self._weights = loaded.weights
        self._dtype = loaded.dtype
        self._prefix_bytes = prefix_bytes
        self._kept: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._met: OrderedDict[int, None] = OrderedDict()
        self.shares = self._set_attention()

    @property
    def context_tokens(self) -> int | None:
        """Tokens that the model was made for; None where it does not say."""
        config = self._weights.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None)
        return int(limit) if limit else None

    @property
    def vocabulary(self) -> int:
        """Width of the logits."""
        head = self._weights.get_output_embeddings()
        return int(head.weight.shape[0])

    def rows(self, prefixes: Sequence[Prefix | None]) -> Rows:
        """Return rows that hold their prefixes; only one where the model does not share."""
        return SharedRows(self._weights, prefixes) if self.shares else SingleRow(self._weights)

    def prefix(self, tokens: tuple[int, ...], uses: int) -> Prefix | None:
        """Return the prefix, computed the second time that it is worth it; None where it is not.

        Args:
            tokens: what the prompts begin with.
            uses: how many prompts of this call do.
        """
        if not self.shares or len(tokens) < MIN_PREFIX or not self._prefix_bytes:
            return None
        if tokens in self._kept:
            self._kept.move_to_end(tokens)
            return self._kept[tokens]
        if uses == 1 and not self._was_met(tokens):
            return None
        row = SharedRows(self._weights, [None])
        read_in_blocks(row, [list(tokens)])
        prefix = row.as_prefix(tokens)
        self._keep(prefix)
        return prefix

    def fingerprint(self) -> str:
        """Return 16 hex digits that change with any weight (read once, whole)."""
        digest = hashlib.sha256()
        for name, tensor in self._weights.state_dict().items():
            flat = tensor.detach().reshape(-1)
            sample = flat[:: max(1, flat.numel() // _SAMPLE)].float().cpu().numpy()
            total = _bits(flat).sum(dtype=torch.int64).item()
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode())
            digest.update(np.ascontiguousarray(sample).tobytes())
        return digest.hexdigest()[:16]

    def close(self) -> None:
        """Let go of weights and prefixes."""
        self._kept.clear()
        self._weights = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _was_met(self, tokens: tuple[int, ...]) -> bool:
        key = hash(tokens)
        met = key in self._met
        self._met[key] = None
        self._met.move_to_end(key)
        if len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        return met

    def _keep(self, prefix: Prefix) -> None:
        self._kept[prefix.tokens] = prefix
        while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > self._prefix_bytes:
            self._kept.popitem(last=False)

    def _set_attention(self) -> bool:
        """Use our attention if the model has full attention only, and a probe gives the same logits with it."""
        own = self._weights.config._attn_implementation
        if own == NAME:  # weights that another engine set before
            return True
        if not _has_full_attention(self._weights.config):
            return False
        probe = [token % self.vocabulary for token in _PROBE]
        wanted = SingleRow(self._weights).extend([probe])[0]
        try:
            self._weights.set_attn_implementation(NAME)
            first = SharedRows(self._weights, [None])
            first.extend([probe[:5]])
            rows = SharedRows(self._weights, [first.as_prefix(probe[:5]), None])
            found = rows.extend([probe[5:], probe])
        except (TypeError, ValueError, RuntimeError, AttributeError, LookupError):
            same = False
        else:
            limit = _TOLERANCE.get(self._dtype, _TOLERANCE_NARROW) * max(1.0, float(np.abs(wanted).max()))
            same = bool(np.abs(found - wanted).max() <= limit)
        if not same:
            self._weights.set_attn_implementation(own)
        return same


def _has_full_attention(config: Any) -> bool:
    """Return whether every layer sees all tokens, as far as the configuration says."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    return kinds == {"full_attention"} and not window


def _bits(flat: torch.Tensor) -> torch.Tensor:
    """Return the numbers' bits as integers, so that their sum is exact."""
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat.view(widths[flat.element_size()])
