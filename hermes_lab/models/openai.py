"""Models behind an OpenAI-compatible server (vLLM, llama.cpp, Ollama, a cloud): `openai:<base url>#<model>`.

Requests run at the same time, up to a limit; each is tried again with backoff where that may help, and each failed try
is an `Attempt` of its reply. A schema is asked for by `response_format`, and in the prompt where a server refuses that;
then nothing binds the reply to it, and whoever reads the reply must check it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import hashlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from hermes_lab.errors import HermesLabError
from hermes_lab.kinds import ErrorKind
from hermes_lab.models.base import Attempt, Finish, Reply, Request
from hermes_lab.models.openai_failure import Failure, backoff_s, from_status, shortened
from hermes_lab.models.openai_formats import Formats
from hermes_lab.models.openai_loop import LoopThread
from hermes_lab.models.openai_options import DEFAULT_KEY_ENV, find_key, read_address, read_options
from hermes_lab.models.openai_payload import Format, encode, messages, payload
from hermes_lab.models.openai_reply import holds_json, read_reply
from hermes_lab.models.prompt import wording

_MOST_BYTES = 32 << 20  # a longer body is no chat completion
# Shorter keys than these are left: they are dummies like "EMPTY", and words of a reply.
_KEY_IN_MESSAGES = 4
_KEY_IN_REPLIES = 16
_TURN_TOKENS = 16  # what a chat template writes around a turn, and more
_TEMPLATE_TOKENS = 128  # what a template says by itself, such as the date


class OpenAIModel:
    """A model on a server. Close it, or use it as a context manager.

    A request's time limit starts when it is its turn to be sent, and holds over all its tries.
    """

    def __init__(self, name: str, options: dict[str, Any] | None = None) -> None:
        """Read the address and the options; the server is not asked yet.

        Args:
            name: `openai:<base url>#<model>`.
            options: see `OpenAIOptions`.

        Raises:
            ConfigError: a wrong name or option, or no key in the environment variable that `key_env` names.
        """
        self._name = name
        self._address = read_address(name)
        self._options = read_options(name, options or {})
        self._key = find_key(name, self._address, self._options.key_env)
        self._formats = Formats(self._options.response_format)
        self._loop = LoopThread("hermes-lab-openai")
        self._opening = threading.Lock()
        self._client: httpx.AsyncClient | None = None
        self._slots = asyncio.Semaphore(self._options.concurrency)
        self._is_closed = False

    def __repr__(self) -> str:
        """Say which model it is; never with which key."""
        return f"OpenAIModel({self._name!r})"

    def __enter__(self) -> OpenAIModel:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def name(self) -> str:
        """As named in `lab.toml`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the server, the model's name, our prompts and our options.

        It cannot know when the server puts other weights behind the same name: empty the cache of replies then.
        """
        asking = (self._options.response_format, self._options.strict, self._options.omit)
        same = (self._address.base, self._address.model, wording(), asking)
        return f"openai-{hashlib.sha256(msgspec.json.encode(same)).hexdigest()[:16]}"

    @property
    def context_tokens(self) -> int | None:
        """As the option says; a server does not tell."""
        return self._options.context_tokens

    def most_tokens(self, request: Request) -> int:
        """Return a bound on the tokens of the prompt: no byte-level BPE makes more tokens than there are bytes."""
        sent = messages(request, Format.JSON_SCHEMA if request.schema is None else Format.PROMPT)
        text = sum(len(message["content"].encode()) for message in sent)
        return text + _TURN_TOKENS * (len(sent) + 1) + _TEMPLATE_TOKENS

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer each request, in order; see `models.base.Model`.

        Raises:
            HermesLabError: the model is closed, or is closed meanwhile.
        """
        closed = f"the model {self._name!r} is closed: open it again"
        if self._is_closed:
            raise HermesLabError(closed)
        limits = [self._options.seconds] * len(requests) if seconds is None else list(seconds)
        if not requests:
            return []
        try:
            return self._loop.run(self._all(list(zip(requests, limits, strict=True))))
        except concurrent.futures.CancelledError:
            raise HermesLabError(closed) from None

    def close(self) -> None:
        """Cancel what is under way, and let go of connections and the thread."""
        self._is_closed = True
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            self._loop.cancel_all()
            self._loop.run(client.aclose())
        self._loop.close()

    async def _all(self, asked: list[tuple[Request, float]]) -> list[Reply]:
        answers = [self._answer(place, request, limit) for place, (request, limit) in enumerate(asked)]
        return list(await asyncio.gather(*answers))

    async def _answer(self, place: int, request: Request, limit: float) -> Reply:
        """Answer one request within `limit` seconds from its turn on, whatever the server does."""
        attempts: list[Attempt] = []
        async with self._slots:
            began = time.monotonic()
            deadline = asyncio.get_running_loop().time() + limit
            try:
                async with asyncio.timeout_at(deadline):
                    reply = await self._tries(place, request, deadline, attempts)
            except TimeoutError:
                reply = self._failed(ErrorKind.TIMEOUT, f"no reply within {limit:g} s")
            return msgspec.structs.replace(reply, latency_ms=_ms_since(began), attempts=tuple(attempts))

    async def _tries(self, place: int, request: Request, deadline: float, attempts: list[Attempt]) -> Reply:
        """Try until there is a reply, or no try is left that may help and be in time."""
        retries = 0
        while True:
            form = self._formats.choose(request.schema)
            began = time.monotonic()
            outcome = await self._try(request, form)
            if isinstance(outcome, Reply):
                return outcome
            message = self._without_key(outcome.message)
            if outcome.refused_format and self._formats.refused(form, request.schema):
                attempts.append(Attempt(error_kind=outcome.kind, error=message, latency_ms=_ms_since(began)))
                continue
            if not outcome.retry or retries >= self._options.max_retries:
                return self._failed(outcome.kind, f"{message}{self._hint(outcome.kind)}")
            wait = outcome.wait_s
            if wait is None:
                wait = backoff_s(self._options.backoff_s, retries, f"{request.seed} {place} {retries}")
            if asyncio.get_running_loop().time() + wait >= deadline:
                return self._failed(outcome.kind, f"{message} (no time left for another try in {wait:.1f} s)")
            attempts.append(Attempt(error_kind=outcome.kind, error=message, latency_ms=_ms_since(began)))
            retries += 1
            await asyncio.sleep(wait)

    async def _try(self, request: Request, form: Format) -> Reply | Failure:
        try:
            body = encode(payload(request, self._address.model, self._options, form))
        except (ValueError, TypeError, RecursionError) as error:
            return Failure(ErrorKind.OTHER, f"the request cannot be written as JSON: {error}")
        limit = self._options.try_seconds
        try:
            async with asyncio.timeout(limit):
                outcome = await self._post(body, request)
        except TimeoutError:
            return Failure(ErrorKind.TIMEOUT, f"no reply to one try within {limit:g} s", retry=True)
        except httpx.TimeoutException as error:
            return Failure(ErrorKind.TIMEOUT, _described(error), retry=True)
        except httpx.TransportError as error:
            return Failure(ErrorKind.CONNECTION, f"{self._address.base}: {_described(error)}", retry=True)
        except httpx.RequestError as error:  # such as a body that is not compressed as its header says
            return Failure(ErrorKind.SERVER_ERROR, _described(error), retry=True)
        return outcome if isinstance(outcome, Failure) else self._bound(outcome, request, form)

    def _bound(self, reply: Reply, request: Request, form: Format) -> Reply | Failure:
        """Return the reply, or a failure where a server took the schema without a word and did not keep to it.

        A server that was seen to bind replies in this way is believed: then the model is at fault.
        """
        if request.schema is None or reply.finish is not Finish.STOP:
            return reply
        if holds_json(reply, request):
            self._formats.worked(form)
            return reply
        if self._formats.has_worked(form) or not self._formats.refused(form, request.schema):
            return reply
        message = f"the server did not bind the reply to the schema: {shortened(self._without_key(reply.text))}"
        return Failure(ErrorKind.UNREADABLE_CALL, message, refused_format=True)

    async def _post(self, body: bytes, request: Request) -> Reply | Failure:
        url = f"{self._address.base}/chat/completions"
        received = bytearray()
        async with self._connections().stream("POST", url, content=body) as response:
            async for part in response.aiter_bytes():
                received += part
                if len(received) > _MOST_BYTES:
                    return Failure(ErrorKind.SERVER_ERROR, f"a body of more than {_MOST_BYTES >> 20} MiB")
        if response.is_redirect:
            target = shortened(self._without_key(response.headers.get("location", "nowhere")))
            return Failure(ErrorKind.OTHER, f"HTTP {response.status_code}: redirected to {target}; name that base URL")
        answer = self._body_without_key(bytes(received), response.status_code)
        if response.status_code != 200:
            now = dt.datetime.now(dt.UTC)
            return from_status(response.status_code, answer, response.headers.get("retry-after"), now)
        return read_reply(answer, request, self._name)

    def _connections(self) -> httpx.AsyncClient:
        """Return the client, made on first use. TLS is verified, redirects (which could take the key) not followed."""
        with self._opening:
            if self._client is None:
                headers = {"Content-Type": "application/json", "User-Agent": "hermes-lab"}
                if self._key is not None:
                    headers["Authorization"] = f"Bearer {self._key}"
                count = self._options.concurrency
                # A proxy of the environment is no way to a server on this machine.
                direct = {"all://": None} if self._address.is_loopback else None
                self._client = httpx.AsyncClient(
                    headers=headers,
                    timeout=httpx.Timeout(None, connect=min(20.0, self._options.try_seconds)),
                    limits=httpx.Limits(max_connections=count, max_keepalive_connections=count),
                    follow_redirects=False,
                    mounts=direct,
                )
            return self._client

    def _failed(self, kind: ErrorKind, error: str) -> Reply:
        finish = Finish.TIMEOUT if kind is ErrorKind.TIMEOUT else Finish.ERROR
        return Reply(text="", model=self._name, finish=finish, error_kind=kind, error=error)

    def _hint(self, kind: ErrorKind) -> str:
        if kind is not ErrorKind.NO_PERMISSION:
            return ""
        variable = self._options.key_env or DEFAULT_KEY_ENV
        if self._key is not None:
            return f" (it was sent the key in {variable}: check that it is right)"
        if self._options.key_env is None and not self._address.is_encrypted:
            return ' (no key was sent: name its environment variable with the option key_env, as in key_env = "MY_KEY")'
        return f" (no key was sent: set the environment variable {variable})"

    def _without_key(self, message: str) -> str:
        """Return a message without our key; a server may say it back."""
        return message.replace(self._key, "[key]") if self._key and len(self._key) >= _KEY_IN_MESSAGES else message

    def _body_without_key(self, body: bytes, status: int) -> bytes:
        """Do the same before a message is shortened, which could leave half a key in it."""
        if not self._key or len(self._key) < (_KEY_IN_REPLIES if status == 200 else _KEY_IN_MESSAGES):
            return body
        return body.replace(self._key.encode(), b"[key]")


def _ms_since(began: float) -> float:
    return (time.monotonic() - began) * 1000


def _described(error: Exception) -> str:
    return shortened(f"{type(error).__name__}: {error}") if str(error) else type(error).__name__
