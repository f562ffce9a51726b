"""Bind what a model writes to a JSON Schema: which tokens may come next, by llguidance."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import llguidance
import llguidance.hf
import llguidance.numpy
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

STRING_CHARS = 600
"""A string may be so long where its schema does not say, so that no reply runs on."""

ARRAY_ITEMS = 64
"""An array may have so many items where its schema does not say."""

_REMEMBERED = 512
_LAYOUT: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_BOUNDED_BY = {"maxLength", "enum", "const", "pattern", "format"}
_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA = ("items", "additionalProperties")


class SchemaError(ValueError):
    """A JSON Schema that decoding cannot be bound to; the message says why."""


class Grammars:
    """Makes bindings for one tokenizer. Compiled schemas are remembered."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        """Prepare the tokenizer, which takes about a second.

        Args:
            tokenizer: a fast tokenizer of transformers.
            vocabulary: width of the model's logits.
            ends: ids of the tokens that end a reply.
        """
        self._tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(ends))
        self._vocabulary = vocabulary
        self._ends = frozenset(ends)
        self._compiled: OrderedDict[str, llguidance.LLMatcher] = OrderedDict()

    def bind(self, schema: dict[str, Any]) -> Binding:
        """Return a binding at the beginning of a reply.

        Raises:
            SchemaError: llguidance refuses the schema.
        """
        key = json.dumps(schema)
        matcher = self._compiled.get(key)
        if matcher is None:
            matcher = self._compile(schema)
            self._compiled[key] = matcher
            if len(self._compiled) > _REMEMBERED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return Binding(matcher.deep_copy(), self._vocabulary, self._ends)

    def _compile(self, schema: dict[str, Any]) -> llguidance.LLMatcher:
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(bounded(schema), overrides=_LAYOUT)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"decoding cannot be bound to this JSON Schema: {error}") from None
        matcher = llguidance.LLMatcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            raise SchemaError(f"decoding cannot be bound to this JSON Schema: {matcher.get_error()}")
        return matcher


class Binding:
    """Where one reply stands within its schema."""

    def __init__(self, matcher: llguidance.LLMatcher, vocabulary: int, ends: frozenset[int]) -> None:
        """Use `Grammars.bind`."""
        self._ends = ends
        self._matcher = matcher
        self._bits: NDArray[np.int32] = llguidance.numpy.allocate_token_bitmask(1, vocabulary)
        self._vocabulary = vocabulary
        self._allowed: NDArray[np.bool_] | None = None

    @property
    def done(self) -> bool:
        """Whether the reply is complete, so that nothing may follow."""
        return bool(self._matcher.is_stopped())

    def forced(self) -> list[int]:
        """Take, and return, the tokens that must come next: there is one text only, or one token only.

        Raises:
            SchemaError: the schema is too complex to go on.
        """
        taken: list[int] = []
        while not self.done:
            tokens = self._matcher.compute_ff_tokens() or self._only_token()
            if not tokens:
                break
            self._consume(tokens)
            taken.extend(tokens)
        return taken

    def _only_token(self) -> list[int]:
        only = np.flatnonzero(self.allowed())
        return [int(only[0])] if len(only) == 1 and int(only[0]) not in self._ends else []

    def allowed(self) -> NDArray[np.bool_]:
        """Return, for each token of the vocabulary, whether it may come next.

        Raises:
            SchemaError: the schema is too complex to go on.
        """
        if self._allowed is not None:
            return self._allowed
        llguidance.numpy.fill_next_token_bitmask(self._matcher, self._bits)
        if self._matcher.is_error():
            raise SchemaError(f"decoding within this JSON Schema failed: {self._matcher.get_error()}")
        bits = np.unpackbits(self._bits[0].view(np.uint8), bitorder="little")
        self._allowed = bits[: self._vocabulary].astype(np.bool_)
        return self._allowed

    def take(self, token: int) -> None:
        """Go on past `token`, one of the allowed ones."""
        self._consume([token])

    def _consume(self, tokens: list[int]) -> None:
        self._allowed = None
        if not self._matcher.consume_tokens(tokens):
            raise SchemaError(f"decoding within this JSON Schema failed: {self._matcher.get_error()}")


def bounded(schema: Any) -> Any:
    """Return the schema with a limit on each string and array that has none.

    >>> bounded({"type": "array", "items": {"type": "string", "maxLength": 5}})
    {'type': 'array', 'items': {'type': 'string', 'maxLength': 5}, 'maxItems': 64}
    """
    if not isinstance(schema, dict):
        return schema
    bound = dict(schema)
    for key in _SCHEMAS:
        if isinstance(bound.get(key), dict):
            bound[key] = {name: bounded(part) for name, part in bound[key].items()}
    for key in _SCHEMA_LISTS:
        if isinstance(bound.get(key), list):
            bound[key] = [bounded(part) for part in bound[key]]
    for key in _SCHEMA:
        if key in bound:
            bound[key] = bounded(bound[key])
    kinds = bound.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not _BOUNDED_BY & bound.keys():
        bound["maxLength"] = _at_least(STRING_CHARS, bound.get("minLength"))
    if "array" in kinds and "maxItems" not in bound and not {"enum", "const"} & bound.keys():
        bound["maxItems"] = _at_least(ARRAY_ITEMS, bound.get("minItems"))
    return bound


def _at_least(limit: int, wanted: Any) -> int:
    return max(limit, wanted) if isinstance(wanted, int) else limit
