"""Give the same reply to the same greedy request again, from a file, without asking the model.

Greedy means temperature 0: such a reply is a function of the request and the model. The key is a hash of all that it
depends on, so the file holds replies but no prompts. Only sound replies are kept. One comes back with its first cost,
latency and tokens, and says `from_cache`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Finish, Model, Reply, Request
from hermes_lab.models.cache_file import CacheFile
from hermes_lab.models.wrapped import WrappedModel

_KEY_FORMAT = 1  # to be raised when keys are made differently, or replies come to mean something else
DEFAULT_MAX_MB = 512


class CachedModel(WrappedModel):
    """A model with a cache before it; every other request goes through to the model."""

    def __init__(self, model: Model, path: Path | str, max_mb: float = DEFAULT_MAX_MB) -> None:
        """Wrap `model`, which is closed with this one.

        Args:
            model: asked for what is not in the cache.
            path: the file, which other models and processes may use, too.
            max_mb: megabytes of the file beyond which the oldest replies go.
        """
        super().__init__(model)
        self._file = CacheFile(Path(path), int(max_mb * 1_000_000))

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer each request, in order; what the model is asked is asked in one batch, in the order of the requests.

        The same greedy request twice in one batch is asked once. It may then take as long as the more patient of the
        two says; for the other one a reply that took longer is a time-out.
        """
        keys = [self._key(request) if request.temperature == 0 else None for request in requests]
        stored = self._stored([key for key in keys if key is not None])
        replies: dict[int, Reply] = {}
        questions: dict[bytes | int, _Question] = {}
        for place, key in enumerate(keys):
            if key is not None and key in stored:
                replies[place] = stored[key]
            else:
                questions.setdefault(place if key is None else key, _Question(key, [])).places.append(place)
        answers = self._ask(list(questions.values()), requests, seconds)
        for question, answer in zip(questions.values(), answers, strict=True):
            for place in question.places:
                replies[place] = _for_place(answer, place, question, None if seconds is None else seconds[place])
        return [replies[place] for place in range(len(requests))]

    def close(self) -> None:
        """Close the file, and the model within."""
        self._file.close()
        super().close()

    def _ask(
        self, questions: list[_Question], requests: Sequence[Request], seconds: Sequence[float] | None
    ) -> list[Reply]:
        """Ask the model, and keep what is sound."""
        if not questions:
            return []
        limits = None if seconds is None else [max(seconds[place] for place in asked.places) for asked in questions]
        answers = self.inner.generate([requests[asked.places[0]] for asked in questions], seconds=limits)
        sound: dict[bytes, bytes] = {}
        for asked, answer in zip(questions, answers, strict=True):
            if asked.key is not None and _is_sound(answer):
                sound[asked.key] = _encoded(answer)
        self._file.put(sound)
        return answers

    def _stored(self, keys: list[bytes]) -> dict[bytes, Reply]:
        stored: dict[bytes, Reply] = {}
        for key, value in self._file.get(list(dict.fromkeys(keys))).items():
            try:
                reply = msgspec.convert(json.loads(value), Reply)
            except (msgspec.ValidationError, ValueError):
                self._file.drop(key)
                continue
            stored[key] = msgspec.structs.replace(reply, model=self.name, from_cache=True)
        return stored

    def _key(self, request: Request) -> bytes:
        """Return the SHA-256 of all that a greedy reply depends on: every field, whatever its default may become."""
        fields = [getattr(request, field) for field in request.__struct_fields__]
        whole = [_KEY_FORMAT, self.fingerprint, self.context_tokens, fields]
        try:
            text = msgspec.json.encode(whole)
        except UnicodeEncodeError:  # a lone surrogate; the slower way can write it
            text = json.dumps(msgspec.to_builtins(whole)).encode("ascii")
        return hashlib.sha256(text).digest()


class _Question(NamedTuple):
    """What the model is asked once, and the places of the requests that it answers; no key: not to be kept."""

    key: bytes | None
    places: list[int]


def _is_sound(reply: Reply) -> bool:
    return reply.finish is Finish.STOP and reply.error_kind is None


def _encoded(reply: Reply) -> bytes:
    """Return the bytes of a reply; its failed attempts were made once, and are not made again with it.

    ASCII JSON, since a reply may hold a lone surrogate, which UTF-8 cannot.
    """
    kept = msgspec.structs.replace(reply, attempts=(), from_cache=False)
    return json.dumps(msgspec.to_builtins(kept)).encode("ascii")


def _for_place(answer: Reply, place: int, question: _Question, limit_s: float | None) -> Reply:
    """Return the answer as the request at `place` gets it: the first that asked has made it, others share it."""
    if limit_s is not None and _is_sound(answer) and (answer.latency_ms or 0) > limit_s * 1000:
        error = f"no reply within {limit_s:g} s"
        answer = msgspec.structs.replace(
            answer, text="", reasoning="", finish=Finish.TIMEOUT, error_kind=ErrorKind.TIMEOUT, error=error
        )
    if place == question.places[0]:
        return answer
    return msgspec.structs.replace(answer, attempts=(), from_cache=_is_sound(answer))
