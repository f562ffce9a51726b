"""A real OpenAI-compatible server on loopback, for tests: each answer, sound or broken, is told by the test."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse
from starlette.routing import Route

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the server does with one request.

    Attributes:
        body: JSON value, or bytes as they are.
        status: HTTP status.
        headers: more headers.
        wait_s: before anything is sent.
        drip_s: seconds between the bytes of the body; 0 sends it whole.
        break_after: bytes of the body after which the connection is cut; None to send it all.
    """

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    drip_s: float = 0.0
    break_after: int | None = None


def completion(text: str | None, finish: str | None = "stop", usage: Any = None, **message: Any) -> Body:
    """The body of a chat completion."""
    usage = usage or {"prompt_tokens": 11, "completion_tokens": 3}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return {"id": "c-1", "object": "chat.completion", "choices": [choice], "usage": usage}


def failure(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
    """An error as OpenAI's servers report it."""
    return Answer({"error": {"message": message, **more}}, status, headers or {})


class OpenAIServer:
    """Use as a context manager; `respond` maps a request's body to an `Answer` or the body of one.

    Attributes:
        base: its base URL.
        asked: the bodies of the requests, in order of arrival.
        headers: their headers.
        most_at_once: how many were under way at the same time at most.
    """

    def __init__(self, respond: Callable[[Body], Any] | list[Any]) -> None:
        answers = iter(respond) if isinstance(respond, list) else None
        self._respond = respond if answers is None else lambda _body: next(answers)
        self._under_way = 0
        self.most_at_once = 0
        self.asked: list[Body] = []
        self.headers: list[dict[str, str]] = []

    def __enter__(self) -> OpenAIServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()
        self._socket.close()

    async def _complete(self, request: HttpRequest) -> StreamingResponse:
        body = json.loads(await request.body())
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            answer = await asyncio.to_thread(self._respond, body)
            if not isinstance(answer, Answer):
                answer = Answer(answer)
            await asyncio.sleep(answer.wait_s)
        finally:
            self._under_way -= 1
        raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(raw)), **answer.headers}
        return StreamingResponse(_parts(raw, answer), status_code=answer.status, headers=headers)


async def _parts(raw: bytes, answer: Answer) -> AsyncIterator[bytes]:
    if answer.break_after is not None:
        yield raw[: answer.break_after]
        raise ConnectionAbortedError("cut here on purpose")
    if not answer.drip_s:
        yield raw
        return
    for place in range(len(raw)):
        yield raw[place : place + 1]
        await asyncio.sleep(answer.drip_s)
