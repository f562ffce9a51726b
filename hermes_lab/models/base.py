"""What a model is to everything else: a batch of requests in, a batch of replies out, in the same order."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from hermes_lab.kinds import ErrorKind


class Role(enum.StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a prompt.

    Attributes:
        role: who speaks.
        content: the text. Calls stand in an assistant's turn as Hermes writes them (`hermes.render_call`).
        name: in a tool's turn, the tool; `content` is then the JSON text of its result, without tags.
    """

    role: Role
    content: str
    name: str | None = None


class Signature(msgspec.Struct, frozen=True):
    """A tool as a model sees it: `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Frame(msgspec.Struct, frozen=True):
    """Text that stands around what a schema binds, such as the tags of a tool call.

    A local model gets `prefix` as the beginning of its turn; every model's reply carries both.
    """

    prefix: str = ""
    suffix: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question to a model.

    Attributes:
        messages: the prompt, without the tools.
        tools: the tools to tell it of, in order; the back end puts them where its template wants them.
        schema: JSON Schema that the reply is bound to; None for free text.
        frame: text around the bound part.
        max_tokens: length of the reply at most.
        temperature: 0 for greedy.
        top_p: share of the probability that is drawn from.
        seed: of the drawing; it changes nothing about a greedy reply.
        stop: texts that end the reply, and are not part of it.
    """

    messages: tuple[Turn, ...]
    tools: tuple[Signature, ...] = ()
    schema: dict[str, Any] | None = None
    frame: Frame = Frame()
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()


class Finish(enum.StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    LENGTH = "length"
    TIMEOUT = "timeout"
    ERROR = "error"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A try that failed and was made again, such as a 429 of a server."""

    error_kind: ErrorKind
    error: str
    latency_ms: float


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of a model. A failure is a reply too: `finish` is then `error` and `error_kind` says why.

    Attributes:
        text: what it wrote, with the request's frame; reasoning kept apart stands in `reasoning`.
        model: the model that answered, as `Model.name`.
        finish: why it ended.
        reasoning: what it thought before, where the template or the server keeps that apart.
        error_kind: why it failed.
        error: the message of the failure.
        input_tokens: tokens read, without the cached ones; None where unknown.
        cached_tokens: tokens read from a provider's cache.
        output_tokens: tokens written.
        latency_ms: milliseconds from asking to the whole answer.
        cost_usd: by the price in `lab.toml`; None where there is none.
        confidence: geometric mean of the probabilities of the tokens that it was free to choose; None where unknown.
        from_cache: whether our own cache served it.
        attempts: tries before this one.
    """

    text: str
    model: str
    finish: Finish = Finish.STOP
    reasoning: str = ""
    error_kind: ErrorKind | None = None
    error: str = ""
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float | None = None
    cost_usd: float | None = None
    confidence: float | None = None
    from_cache: bool = False
    attempts: tuple[Attempt, ...] = ()


class Model(Protocol):
    """A model back end.

    Error policy: `generate` returns a reply for every request, in order; what goes wrong with one request (a refusal,
    a time-out, a prompt that is too long) is that reply's error and touches no other. Only what makes the whole model
    unusable (no such model, no key) raises a `HermesLabError`.
    """

    @property
    def name(self) -> str:
        """As named in `lab.toml`, such as `embedded`."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same request could get another greedy reply (weights, dtype, versions)."""

    @property
    def context_tokens(self) -> int | None:
        """Tokens that fit in a prompt and its reply; None where unknown."""

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer each request; `seconds` says how long each may take (then it ends as `timeout`)."""

    def most_tokens(self, request: Request) -> int:
        """Return a bound on the tokens of the prompt: exact for a local model, never too low for another."""

    def close(self) -> None:
        """Let go of memory, connections and threads."""
