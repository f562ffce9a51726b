"""Where an OpenAI-compatible server is, what may be set about asking it, and which key it is given."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from hermes_lab.errors import ConfigError

PREFIX = "openai:"
DEFAULT_KEY_ENV = "OPENAI_API_KEY"

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
# What a header can hold: anything else would be refused by the client in a message that shows the key.
_KEY = re.compile(r"[\x21-\x7e]+")


class OpenAIOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `lab.toml` may set about a model behind an OpenAI-compatible server.

    Attributes:
        key_env: the environment variable that holds the key. None: `OPENAI_API_KEY` where there is one and the server
            is reached by https, so that the key does not go to some other machine in the clear; else no key.
        concurrency: requests under way at once.
        max_retries: tries after the first one.
        seconds: limit of one request over all its tries, where `generate` is told none.
        try_seconds: limit of one try.
        backoff_s: seconds before the first retry; they double with each one.
        context_tokens: tokens that fit in a prompt and its reply; None where unknown.
        response_format: how a schema is asked for. "auto" goes from `json_schema` down to what the server takes.
        strict: the flag of the same name in `json_schema`; OpenAI's own servers take few schemas with it.
        length_field: the name of the field for the reply's length; newer models of OpenAI want the second.
        omit: fields that are never sent, such as "seed" or "temperature", for servers that refuse them.
    """

    key_env: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=256)] = 8
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    seconds: _Seconds = 600.0
    try_seconds: _Seconds = 300.0
    backoff_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.5
    context_tokens: _Positive | None = None
    response_format: Literal["auto", "json_schema", "json_object", "prompt"] = "auto"
    strict: bool = False
    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    omit: tuple[str, ...] = ()


class Address(NamedTuple):
    """A model on a server.

    Attributes:
        base: the URL before `/chat/completions`.
        model: as the server names it.
        host: of the URL.
        is_loopback: whether the server is on this machine.
    """

    base: str
    model: str
    host: str
    is_loopback: bool

    @property
    def is_encrypted(self) -> bool:
        """Whether it is reached by https."""
        return self.base.startswith("https:")


def read_options(name: str, options: dict[str, Any]) -> OpenAIOptions:
    """Return the options of the model `name`.

    Raises:
        ConfigError: an unknown option or a wrong value; the message says which.
    """
    try:
        return msgspec.convert(options, OpenAIOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(OpenAIOptions.__struct_fields__)
        reason = str(error).replace("$.", "")
        raise ConfigError(f"the options of the model {name!r}: {reason}; the options are {known}") from None


def read_address(name: str) -> Address:
    """Return the server and the model that `name`, as `openai:<base url>#<model>`, says.

    >>> read_address("openai:http://localhost:8000/v1#hermes")
    Address(base='http://localhost:8000/v1', model='hermes', host='localhost', is_loopback=True)

    Raises:
        ConfigError: not of that form.
    """
    base, _, model = name.removeprefix(PREFIX).partition("#")
    form = f"write {PREFIX}<base url>#<model>, such as {PREFIX}http://localhost:8000/v1#hermes-3"
    try:
        parts = urlsplit(base)
        host, user, _ = parts.hostname, parts.username or parts.password, parts.port
    except ValueError as error:
        raise ConfigError(f"a model's address is no URL ({error}): {form}") from None
    if user or parts.query:
        # Not shown: there may be a password in it.
        raise ConfigError("a model's URL holds a user name or a query: give a key by the option key_env instead")
    if parts.scheme not in ("http", "https") or not host or not base.isascii() or not base.isprintable() or " " in base:
        raise ConfigError(f"the model {name!r} has no http or https URL: {form}")
    if not model.strip():
        raise ConfigError(f"the model {name!r} names no model after the URL: {form}")
    return Address(base.rstrip("/"), model, host, _is_loopback(host))


def find_key(name: str, address: Address, key_env: str | None) -> str | None:
    """Return the key to send to a server, from the environment; None to send none.

    Raises:
        ConfigError: `key_env` names a variable that is not there, or the key cannot be one; it is not shown.
    """
    variable = key_env or DEFAULT_KEY_ENV
    if key_env is None and (address.is_loopback or not address.is_encrypted):
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        if key_env is None:
            return None
        raise ConfigError(
            f"the model {name!r} wants a key in the environment variable {variable}, and it is not set: set it "
            "(never write a key in lab.toml)"
        )
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"the environment variable {variable} holds no key: a key has neither blanks nor letters beyond ASCII"
        )
    return key


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
