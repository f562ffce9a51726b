"""A model that says what it is told: for tests, benchmarks and worked examples; it is instant and asks nobody.

>>> from hermes_lab.models.base import Role, Turn
>>> model = ScriptedModel(["Hello.", "再见。"])
>>> question = Request(messages=(Turn(Role.USER, "Hi!"),))
>>> [reply.text for reply in model.generate([question, question])]
['Hello.', '再见。']
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.kinds import ErrorKind
from hermes_lab.log.files import disk_errors
from hermes_lab.models.base import Finish, Reply, Request

Line = str | Reply
"""What is said: the text of a sound reply, or a whole reply."""

_instances = itertools.count()


class ScriptedModel:
    """A model whose replies are written beforehand.

    A text is the whole reply, with whatever frame the request has. Latency is 0 ms, and tokens are counted as `tokens`
    says; a `Reply` in the script is given as it is.

    Attributes:
        asked: the requests so far, in order.
    """

    def __init__(
        self,
        script: Sequence[Line] | Callable[[Request], Line],
        name: str = "scripted",
        context_tokens: int | None = None,
    ) -> None:
        """Keep the script.

        Args:
            script: the replies in order (a request past their end gets an error), or a function of the request.
            name: as `Model.name`.
            context_tokens: as `Model.context_tokens`; it is not enforced.
        """
        self._answer = script if callable(script) else None
        self._lines = [] if callable(script) else list(script)
        self._name = name
        self._context_tokens = context_tokens
        self._number = next(_instances)
        self._asking = threading.Lock()
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        """As it was named."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the script; of this very object where the script is a function, which cannot be told from another."""
        if self._answer is not None:
            return f"scripted-function-{self._number}"
        return f"scripted-{hashlib.sha256(repr(self._lines).encode('ascii', 'backslashreplace')).hexdigest()[:16]}"

    @property
    def context_tokens(self) -> int | None:
        """As it was told."""
        return self._context_tokens

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer each request; `seconds` is not looked at, for it takes no time."""
        del seconds
        with self._asking:
            return [self._next(request) for request in requests]

    def most_tokens(self, request: Request) -> int:
        """Return the tokens of the prompt, exactly as replies count them."""
        return tokens(*(turn.content for turn in request.messages), *(tool.description for tool in request.tools))

    def close(self) -> None:
        """Do nothing: it holds nothing."""

    def _next(self, request: Request) -> Reply:
        self.asked.append(request)
        if self._answer is not None:
            line = self._answer(request)
        elif len(self.asked) <= len(self._lines):
            line = self._lines[len(self.asked) - 1]
        else:
            error = f"the script of {self._name!r} has ended after {len(self._lines)} replies"
            return Reply(text="", model=self._name, finish=Finish.ERROR, error_kind=ErrorKind.OTHER, error=error)
        if isinstance(line, Reply):
            return line
        return Reply(
            text=line,
            model=self._name,
            input_tokens=self.most_tokens(request),
            cached_tokens=0,
            output_tokens=tokens(line),
            latency_ms=0.0,
        )


def tokens(*texts: str) -> int:
    """Return the tokens of some texts by our rule: one for every four characters that a text begins.

    >>> tokens("four", "fives"), tokens("")
    (3, 0)
    """
    return sum((len(text) + 3) // 4 for text in texts)


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Written(msgspec.Struct, frozen=True):
    """A line of a script file that is an object: at least the text of the reply."""

    text: str
    finish: Finish = Finish.STOP
    reasoning: str = ""
    error_kind: ErrorKind | None = None
    error: str = ""
    input_tokens: _Count | None = None
    cached_tokens: _Count | None = None
    output_tokens: _Count | None = None
    latency_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


def read_script(path: Path | str, name: str = "scripted") -> list[Line]:
    r"""Return the script in a file of JSON lines: each a text, or an object with the fields of `Reply`.

    Args:
        path: the file, UTF-8; blank lines are left out.
        name: the model that the replies are said to come from.

    Raises:
        MissingError, PermissionDeniedError: the file cannot be read.
        ConfigError: a line that is neither; the message names it.
    """
    file = Path(path).expanduser()
    with disk_errors(f"reading the script {file}"):
        lines = file.read_bytes().splitlines()
    script: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            written = msgspec.json.decode(line, type=str | _Written)
        except (msgspec.DecodeError, RecursionError) as error:
            what = "write a JSON string, or an object with at least a text"
            raise ConfigError(f"{file}, line {number}: {error}: {what}") from None
        script.append(written if isinstance(written, str) else Reply(model=name, **msgspec.structs.asdict(written)))
    return script
