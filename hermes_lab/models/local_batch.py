"""What is to be decoded, and in which batches: by the order of the requests, never by when they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Request
from hermes_lab.models.local_schema import Binding

_PADDED_TOKENS = 32_768


@dataclass(frozen=True, slots=True)
class Job:
    """A request, ready to be decoded.

    Attributes:
        request: what was asked.
        prompt: the tokens of the whole prompt.
        shared: those that every prompt with its system turn and tools begins with.
        max_tokens: tokens of the reply at most, such that they fit in the context.
        binding: of its schema; None for free text.
        seconds: time it may take; None for no limit.
    """

    request: Request
    prompt: list[int]
    shared: tuple[int, ...]
    max_tokens: int
    binding: Binding | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request cannot be answered."""

    kind: ErrorKind
    message: str
    input_tokens: int | None = None


def first_of_each(requests: Sequence[Request], limits: Sequence[float | None]) -> list[int]:
    """Return, for each request, the place of the first that must get the same reply; drawn ones stand alone."""
    places: dict[bytes, int] = {}
    firsts = []
    for place, (request, limit) in enumerate(zip(requests, limits, strict=True)):
        if request.temperature > 0:
            firsts.append(place)
        else:
            firsts.append(places.setdefault(msgspec.json.encode((request, limit)), place))
    return firsts


def batches(jobs: Mapping[int, Job], size: int) -> list[list[int]]:
    """Return the places of the jobs in batches of at most `size`, and of a bounded number of padded tokens.

    Jobs that share a prefix stand together, in the order in which the prefixes come first; within them, those of like
    length, since every row of a batch is padded to the longest.
    """
    uses = Counter(job.shared for job in jobs.values())
    order = {shared: number for number, shared in enumerate(uses)}

    def own_tokens(place: int) -> int:
        job = jobs[place]
        return len(job.prompt) - (len(job.shared) if uses[job.shared] > 1 else 0)

    def rank(place: int) -> tuple[int, int, int]:
        shared = jobs[place].shared
        return order[shared] if uses[shared] > 1 else -1, own_tokens(place), place

    formed: list[list[int]] = []
    longest = 0
    for place in sorted(jobs, key=rank):
        longest = max(longest, own_tokens(place))
        if not formed or len(formed[-1]) >= size or longest * (len(formed[-1]) + 1) > _PADDED_TOKENS:
            formed.append([])
            longest = own_tokens(place)
        formed[-1].append(place)
    return formed
