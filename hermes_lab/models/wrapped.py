"""A model within another one: all but `generate` is as the model within has it."""

from __future__ import annotations

from hermes_lab.models.base import Model, Request


class WrappedModel:
    """The base of what stands before a model; a subclass answers with `generate`, asking `inner` or not."""

    def __init__(self, inner: Model) -> None:
        """Wrap `inner`, which is closed with this one."""
        self.inner = inner

    @property
    def name(self) -> str:
        """Of the model within."""
        return self.inner.name

    @property
    def fingerprint(self) -> str:
        """Of the model within: what stands before it changes no reply."""
        return self.inner.fingerprint

    @property
    def context_tokens(self) -> int | None:
        """Of the model within."""
        return self.inner.context_tokens

    def most_tokens(self, request: Request) -> int:
        """As the model within."""
        return self.inner.most_tokens(request)

    def close(self) -> None:
        """Close the model within."""
        self.inner.close()
