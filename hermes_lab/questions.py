"""Questions to models as the log holds them: their JSON text and their key, each part encoded and searched once a run.

A prompt is mostly what the last one was: the same tools, and all but the newest turns. The outcome is that of
`payload.dumps` and `effect_hash` of `ask_content` (but that 1e-07 may be spelled 1e-7 in the text); a question that
needs a closer look is written in just that way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hermes_lab import payload
from hermes_lab.effects import Ask, effect_hash
from hermes_lab.errors import EventError
from hermes_lab.log.redact import Redactor
from hermes_lab.models.base import Request
from hermes_lab.searched import Searched

_MOST_FRAGMENTS = 256


def ask_content(ask: Ask) -> dict[str, Any]:
    """Return what the log holds of a question to a model, which is what its hash is made of.

    The schema of a planning turn follows from the tools, so it is left out.
    """
    request: dict[str, Any] = payload.plain(ask.request)
    if ask.purpose == "plan" and request.pop("schema", None) is not None:
        request["bound"] = True
    return {"purpose": ask.purpose, "tier": str(ask.tier), **request}


class Question(NamedTuple):
    """A question to a model, written down.

    Attributes:
        text: JSON of its content, with whatever secrets there are in it.
        key: hash of the effect, made after secrets were taken out.
    """

    text: str
    key: str


class _Fragment(NamedTuple):
    """Tools or a schema as a part of questions: the value, kept alive for its identity, and its JSON in two orders.

    No JSON where it cannot be put into a question as it is: it holds a secret, or what JSON cannot carry.
    """

    value: Any
    text: msgspec.Raw | None
    canonical: msgspec.Raw | None


_REQUEST_FIELDS = [
    (field.name, Any) if field.default is msgspec.NODEFAULT else (field.name, Any, field.default)
    for field in msgspec.structs.fields(Request)
]
# The fields of `ask_content` in its order. The defaults are the very objects of `Request`, so that the encoder leaves
# out the same ones.
_Asked = msgspec.defstruct(
    "_Asked",
    [("purpose", str), ("tier", str), *_REQUEST_FIELDS, ("bound", bool, False)],
    frozen=True,
    omit_defaults=True,
)
_encode = msgspec.json.Encoder().encode


class QuestionWriter:
    """Writes down the questions of one run."""

    def __init__(self, redactor: Redactor) -> None:
        """Take secrets out with `redactor` before anything is hashed."""
        self._redactor = redactor
        self._searched = Searched(redactor)
        self._fragments: dict[int, _Fragment] = {}

    def write(self, ask: Ask) -> Question:
        """Return a question as the log holds it."""
        try:
            written = self._from_parts(ask)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            written = None
        if written is None:
            content = ask_content(ask)
            return Question(payload.dumps(content), self.key("ask", content))
        return written

    def key(self, kind: str, content: Any) -> str:
        """Return the key of an effect, with secrets taken out first."""
        if self._redactor.suspects(payload.canonical(content)):
            content = self._redactor.value(content)
        return effect_hash(kind, content)

    def _from_parts(self, ask: Ask) -> Question | None:
        """Return the question, put together from parts that are known to be sound; None where one is not.

        A secret can stand in the text of a turn or in a fragment, but not across them: the names of the other fields
        tell of none. Stop texts are a list, whose items could be a flag and its value, and are rare.
        """
        request = ask.request
        planned = ask.purpose == "plan"
        tools = self._fragment(request.tools)
        schema = self._fragment(None if planned else request.schema)
        if tools is None or schema is None or request.stop or not self._searched.look_over(_texts_of(ask)):
            return None
        bound = planned and request.schema is not None
        text = _asked(ask, tools.text, schema.text, bound)
        content = _asked(ask, tools.canonical, schema.canonical, bound)
        return Question(_encode(text).decode(), effect_hash("ask", content))

    def _fragment(self, value: Any) -> _Fragment | None:
        """Return the fragment of tools or a schema, made once as long as the very same object comes again."""
        if not value:
            return _Fragment(value, value, value)
        known = self._fragments.get(id(value))
        if known is None:
            if len(self._fragments) >= _MOST_FRAGMENTS:
                self._fragments.clear()
            known = self._fragments[id(value)] = self._new_fragment(value)
        return known if known.text is not None else None

    def _new_fragment(self, value: Any) -> _Fragment:
        plain = payload.plain(value)
        try:
            whole = payload.dumps({"": plain})  # as deep in a question as there
            text = whole[len('{"":') : -1].encode()
        except (EventError, UnicodeEncodeError):
            return _Fragment(value, None, None)
        if b'"$' in text or self._redactor.suspects(text):
            return _Fragment(value, None, None)
        return _Fragment(value, msgspec.Raw(text), msgspec.Raw(payload.canonical(plain)))


def _asked(ask: Ask, tools: Any, schema: Any, bound: bool) -> msgspec.Struct:
    request = msgspec.structs.replace(ask.request, tools=tools, schema=schema)
    return _Asked(ask.purpose, str(ask.tier), *msgspec.structs.astuple(request), bound)


def _texts_of(ask: Ask) -> list[str]:
    """Return the texts of a question in which a secret could stand, but for its tools and schema."""
    request = ask.request
    texts = [ask.purpose, request.frame.prefix, request.frame.suffix]
    for turn in request.messages:
        texts.append(turn.content)
        if turn.name is not None:
            texts.append(turn.name)
    return texts
