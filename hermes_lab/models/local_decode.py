"""Decode a batch of rows token by token, each within its own schema, stop texts, length and time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hermes_lab.models.base import Finish
from hermes_lab.models.local_batch import Job
from hermes_lab.models.local_choice import Chooser, LogitsError
from hermes_lab.models.local_rows import Rows, read_in_blocks
from hermes_lab.models.local_schema import Binding, SchemaError

Decode = Callable[[Sequence[int]], str]
"""Returns the text of token ids."""


@dataclass(slots=True)
class Writing:
    """One reply while it is written.

    Attributes:
        job: what it answers.
        pending: tokens that the model has not read yet.
        tokens: what was written so far, without the token that ends it.
        counted: tokens written, the one that ends it included.
        text: set once a stop text cut it; else the text of `tokens`.
        finish: why it ended; None while it goes on.
        error: what failed.
        milliseconds: how long it took.
    """

    job: Job
    pending: list[int]
    chooser: Chooser
    tokens: list[int] = field(default_factory=list)
    counted: int = 0
    text: str | None = None
    finish: Finish | None = None
    error: str = ""
    milliseconds: float = 0.0
    log_probability: float = 0.0
    choices: int = 0

    @property
    def confidence(self) -> float | None:
        """The geometric mean of the probabilities of the tokens that it was free to choose; None for none."""
        return math.exp(self.log_probability / self.choices) if self.choices else None


class Decoder:
    """Decodes batches for one model."""

    def __init__(self, decode: Decode, ends: Sequence[int]) -> None:
        """Keep what every reply needs.

        Args:
            decode: gives the text of token ids.
            ends: the tokens that end a reply.
        """
        self._decode = decode
        self._ends = frozenset(ends)

    def run(self, rows: Rows, jobs: Sequence[Job], prefixes: Sequence[int]) -> list[Writing]:
        """Return the replies to `jobs`, all decoded at once.

        Args:
            rows: a row a job, holding its prefix.
            jobs: what to decode.
            prefixes: for each, how many tokens of its prompt the row already holds.
        """
        started = time.perf_counter()
        writings = [self._begin(job, skip) for job, skip in zip(jobs, prefixes, strict=True)]
        active = list(writings)
        logits: NDArray[np.float32] | None = None
        while True:
            elapsed = time.perf_counter() - started
            for place, writing in enumerate(active):
                if logits is not None and writing.finish is None:
                    self._step(writing, logits[place])
                self._check_time(writing, elapsed)
                if writing.finish is not None:
                    writing.milliseconds = 1000 * (time.perf_counter() - started)
            going = [place for place, writing in enumerate(active) if writing.finish is None]
            if not going:
                return writings
            if len(going) < len(active):
                rows.keep(going)
                active = [active[place] for place in going]
            logits = self._feed(rows, active, started)

    def _begin(self, job: Job, skip: int) -> Writing:
        request = job.request
        chooser = Chooser(request.temperature, request.top_p, request.seed)
        writing = Writing(job, job.prompt[skip:], chooser)
        if job.binding is not None:
            self._take_forced(writing, job.binding)
        self._check_end(writing)
        return writing

    def _feed(self, rows: Rows, active: Sequence[Writing], started: float) -> NDArray[np.float32] | None:
        """Let the model read what is pending; None where no row has the time for it."""
        tokens = [writing.pending for writing in active]
        logits = read_in_blocks(
            rows, tokens, lambda: all(self._is_late(writing, time.perf_counter() - started) for writing in active)
        )
        for writing in active:
            writing.pending = []
        return logits

    def _step(self, writing: Writing, logits: NDArray[np.float32]) -> None:
        """Write one token, and those that must follow it."""
        binding = writing.job.binding
        try:
            allowed = None if binding is None else binding.allowed()
            choice = writing.chooser.choose(logits, allowed)
            if choice.free:
                writing.log_probability += choice.log_probability
                writing.choices += 1
            writing.counted += 1
            if choice.token in self._ends:
                writing.finish = Finish.STOP
                return
            writing.tokens.append(choice.token)
            writing.pending.append(choice.token)
            if binding is not None:
                binding.take(choice.token)
                self._take_forced(writing, binding)
        except (SchemaError, LogitsError) as error:
            writing.finish, writing.error = Finish.ERROR, str(error)
            return
        self._check_end(writing)

    def _take_forced(self, writing: Writing, binding: Binding) -> None:
        forced = binding.forced()
        writing.tokens.extend(forced)
        writing.pending.extend(forced)
        writing.counted += len(forced)

    def _check_end(self, writing: Writing) -> None:
        job = writing.job
        if writing.counted > job.max_tokens:
            writing.tokens = writing.tokens[: job.max_tokens]
            writing.counted = job.max_tokens
            writing.finish = Finish.LENGTH
        elif job.binding is not None and job.binding.done:
            writing.finish = Finish.STOP
        elif writing.counted == job.max_tokens:
            writing.finish = Finish.LENGTH
        if job.request.stop and writing.tokens:
            self._check_stop(writing)

    def _check_stop(self, writing: Writing) -> None:
        text = self._decode(writing.tokens)
        found = [text.index(stop) for stop in writing.job.request.stop if stop and stop in text]
        if found:
            writing.text = text[: min(found)]
            writing.finish = Finish.STOP

    def _check_time(self, writing: Writing, elapsed: float) -> None:
        if writing.finish is None and self._is_late(writing, elapsed):
            writing.finish = Finish.TIMEOUT
            writing.error = f"it took longer than the {writing.job.seconds:g} s that it had"

    def _is_late(self, writing: Writing, elapsed: float) -> bool:
        seconds = writing.job.seconds
        return seconds is not None and elapsed >= seconds
