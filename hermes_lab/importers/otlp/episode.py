"""The events of one episode of OTLP spans, in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hermes_lab.events import Action, ErrorKind, Status
from hermes_lab.importers.base import Draft
from hermes_lab.importers.otlp import names
from hermes_lab.importers.otlp.names import AGENT, CHAIN, EMBEDDING, LLM, RETRIEVAL, TOOL
from hermes_lab.importers.otlp.plan import Place, Plan, answer_calls, make_plan, tool_call
from hermes_lab.importers.otlp.store import Body, Span, Store, is_said_by
from hermes_lab.importers.otlp.values import read_status, time_of
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_history import History
from hermes_lab.importers.reading.chat_messages import MADE_UP, Call, Message
from hermes_lab.importers.reading.chat_outcomes import failure_columns, finish_columns, token_columns, tool_columns

_SYSTEM = ("system", "developer")


def drafts(store: Store, episode: str) -> Iterator[Draft]:
    """Yield the events of an episode."""
    return _Episode(store, episode).drafts()


class _Episode:
    def __init__(self, store: Store, episode: str) -> None:
        self._store = store
        self._episode = episode
        self._plan: Plan = make_plan(store, episode)
        self._history = History()
        self._traces: set[str] = set()
        self._system: str | None = None
        self._keys: dict[str, int] = {}
        self._given: set[str] = set()

    def drafts(self) -> Iterator[Draft]:
        yield self._started()
        for span in self._plan.spans:
            body = self._body(span)
            if span.kind == LLM:
                yield from self._model_call(span, body)
            elif span.kind == TOOL:
                yield self._tool(span, body)
            elif span.kind in (RETRIEVAL, EMBEDDING):
                yield self._retrieval(span, body)
            elif span.kind in (AGENT, CHAIN):
                yield from self._agent(span, body)
        yield from self._ended()

    # ---------------------------------------------------------------- beginning and end

    def _started(self) -> Draft:
        first = self._plan.spans[0]
        about: dict[str, Any] = {}
        for span in self._plan.spans:
            if span.kind not in (LLM, AGENT, CHAIN):
                continue
            body = self._body(span)
            user = next((digest for digest in body.input if is_said_by(digest, "user")), None)
            found = common.known(
                prompt=None if user is None else self._store.message(user).text(),
                system=self._system_of(body),
                tools=names.tool_definitions(body.attributes) or None,
                agent=names.first_text(body.attributes, names.AGENT_NAME) if span.kind == AGENT else None,
                agent_version=names.first_text(body.attributes, names.VERSION),
            )
            about = found | about
            if "prompt" in about and span.kind == LLM:
                break
        self._system = about.get("system")
        traces = dict.fromkeys(span.trace for span in self._plan.spans)
        about |= common.known(
            service=self._store.resource(first).get("service.name"),
            other_spans=sum(map(self._store.others, traces)) or None,
        )
        columns = {"task_id": self._episode, "input": about}
        return Draft(self._episode, "started", Action.TASK_STARTED, time_of(first.start), columns)

    def _ended(self) -> Iterator[Draft]:
        """Yield the end of the episode: the last end of an outermost agent or workflow, if there is one."""
        agents = [span for span in self._plan.roots if span.kind == AGENT] or self._plan.roots
        if not agents or any(span.finish is None for span in agents):
            return
        last = max(agents, key=lambda span: span.finish or 0)
        body = self._body(last)
        error = _error(body)
        columns: dict[str, Any] = {"status": Status.OK} if error is None else failure_columns(error)
        answer = self._store.message(body.output[0]).text() if body.output else None
        columns["output"] = common.known(
            end_reason="finished" if error is None else "error", answer=answer or None, error=error or None
        )
        yield Draft(self._episode, "ended", Action.TASK_ENDED, time_of(last.finish), columns)

    # ---------------------------------------------------------------- model calls

    def _model_call(self, span: Span, body: Body) -> Iterator[Draft]:
        yield from self._messages(span, body)
        key = self._key("generation", span)
        outputs = [self._store.message(digest) for digest in body.output]
        yield self._draft(key, Action.GENERATION, span.start, self._generation(span, body, outputs))
        for number, message in enumerate(outputs):
            if message.compaction is not None:
                columns = {"output": {"summary": message.compaction}}
                name = f"compressed:{key.removeprefix('generation:')}.{number}"
                yield self._draft(name, Action.COMPRESSED, span.finish or span.start, columns, key)
        for j, call in enumerate(answer_calls(self._store, body)):
            if Place(span.id, j) not in self._plan.told:
                yield self._told_call(call, span, key, f"{key}.{j}")

    def _generation(self, span: Span, body: Body, outputs: list[Message]) -> dict[str, Any]:
        attributes = body.attributes
        columns = self._call_columns(span, body)
        about = common.known(
            agent=names.first_text(attributes, ("gen_ai.agent.name", "agent.name")),
            system=self._other_system(body),
            parameters=names.parameters(attributes) or None,
            request_model=_request_model(attributes, columns.get("name")),
        )
        if about:
            columns["input"] = about
        reasons = names.first(attributes, names.FINISH_REASONS)
        reason = next((r for r in (reasons if isinstance(reasons, list) else [reasons]) if isinstance(r, str)), None)
        error = _error(body)
        for message in outputs[:1]:
            message.finish_reason = message.finish_reason or reason
        reason = outputs[0].finish_reason if outputs else reason
        output = outputs[0].answered() if outputs else common.known(finish_reason=reason)
        if len(outputs) > 1:
            output["choices"] = [message.answered() for message in outputs]
        output |= common.known(usage=_usage_details(attributes), error=error or None)
        if output:
            columns["output"] = output
        if error is not None:
            return columns | failure_columns(error)
        return columns | (finish_columns(reason) if outputs or reason or span.finish is not None else {})

    def _call_columns(self, span: Span, body: Body) -> dict[str, Any]:
        """Return what a model call was and what it cost."""
        attributes = body.attributes
        return common.known(
            name=names.first_text(attributes, names.MODEL),
            latency_ms=_latency(span),
            cost_usd=common.amount(names.first(attributes, names.COST)),
            **token_columns(
                names.first_count(attributes, names.INPUT_TOKENS),
                names.first_count(attributes, names.CACHED_TOKENS),
                names.first_count(attributes, names.OUTPUT_TOKENS),
            ),
        )

    def _messages(self, span: Span, body: Body) -> Iterator[Draft]:
        """Yield what is new in a request: users' messages, and calls and results that no span tells of."""
        lead = len(self._leading(body))
        has_history = any(is_said_by(digest, "assistant", "tool") for digest in body.input)
        continued = has_history or span.trace in self._traces
        self._traces.add(span.trace)
        for i in self._history.fresh(body.input[lead:], continued):
            message = self._store.message(body.input[lead + i])
            name = self._key("message", span, f".{lead + i}")
            if message.role == "tool":
                if message.call_id not in self._plan.call_ids and message.call_id not in self._given:
                    columns = tool_columns(None, message)
                    yield self._draft(f"result:{message.call_id or name}", Action.TOOL_CALLED, span.start, columns)
            elif message.role == "assistant":
                for j, call in enumerate(message.calls):
                    if call.id not in self._plan.call_ids:
                        yield self._told_call(call, span, None, f"{name}.{j}")
            elif message.content is not None:
                columns = {"name": message.role, "input": message.received()}
                yield self._draft(name, Action.MESSAGE_RECEIVED, span.start, columns)

    def _told_call(self, call: Call, span: Span, parent: str | None, name: str) -> Draft:
        """Return the event of a tool call that only messages tell of."""
        if call.id is not None:
            self._given.add(call.id)
        result = self._store.result(self._episode, call.id, span.start or 0) if call.id else None
        key = self._tool_key(call.id, name)
        time = span.start if parent is None else span.finish or span.start
        return self._draft(key, Action.TOOL_CALLED, time, tool_columns(call, result), parent)

    # ---------------------------------------------------------------- tools, retrieval, agents

    def _tool(self, span: Span, body: Body) -> Draft:
        call = tool_call(body)
        place = self._plan.tool_of.get(span.id)
        parent = None
        if place is not None:
            generation = self._plan.by_id[place.span]
            parent = self._key("generation", generation)
            asked = answer_calls(self._store, self._body(generation))[place.call]
            known = call.arguments if call.arguments is not None else asked.arguments
            call = Call(asked.id or call.id, asked.name or call.name, known)
        result = self._tool_result(span, body, call)
        columns = tool_columns(call, result) | common.known(latency_ms=_latency(span))
        error = _error(body)
        if columns.get("status") != Status.INVALID:
            columns |= self._tool_status(span, body, error, result)
        if error:
            columns.setdefault("output", {"error": error})
            columns.setdefault("observation", error[: common.OBSERVATION_CHARS])
        if error is not None or read_status(body.status) == "ok":
            columns.pop("confidence", None)
        key = self._tool_key(call.id, self._key("tool", span))
        return self._draft(key, Action.TOOL_CALLED, span.start, columns, parent)

    def _tool_result(self, span: Span, body: Body, call: Call) -> Message | None:
        value = names.first(body.attributes, names.TOOL_RESULT)
        if value is not None:
            return Message("tool", value, call_id=call.id)
        told = [self._store.message(digest) for digest in [*body.output, *body.input]]
        result = next((m for m in told if m.role == "tool" or m.content is not None), None)
        if result is None and call.id:
            result = self._store.result(self._episode, call.id, (span.start or 1) - 1)
        return None if result is None else Message("tool", result.content, call_id=call.id)

    def _tool_status(self, span: Span, body: Body, error: str | None, result: Message | None) -> dict[str, Any]:
        """Return how a tool's call came out: as its span says, else as its result does."""
        if error is not None:
            return failure_columns(error, ErrorKind.TOOL_FAILED)
        if read_status(body.status) == "ok" or (result is None and span.finish is not None):
            return {"status": Status.OK, "error_kind": None}
        return {}

    def _retrieval(self, span: Span, body: Body) -> Draft:
        attributes = body.attributes
        query = names.first(attributes, names.QUERY)
        found = names.documents(attributes) if span.kind == RETRIEVAL else None  # no vectors
        error = _error(body)
        columns = self._call_columns(span, body) | common.known(
            input=None if query is None else {"query": common.parse_result(query)},
            output=common.known(documents=found, error=error or None) or None,
            weight=0.0 if span.id in self._plan.inside_retrieval else None,
        )
        if "name" not in columns:
            columns |= common.known(name=names.first_text(attributes, names.RETRIEVER) or body.name)
        columns |= {"status": Status.OK} if error is None else failure_columns(error)
        return self._draft(self._key("retrieval", span), Action.RETRIEVAL, span.start, columns)

    def _agent(self, span: Span, body: Body) -> Iterator[Draft]:
        """Yield what only an agent's span tells: the user's message, and usage that no model call's span has."""
        if span.trace not in self._plan.talking and span in self._plan.roots:
            yield from self._messages(span, body)
        if span.id in self._plan.uncounted:
            columns = self._call_columns(span, body)
            columns.pop("latency_ms", None)
            if self._plan.uncounted[span.id]:
                columns |= {"weight": 0.0, "output": {"usage": "total of an agent, not attributed to single calls"}}
            elif body.output:
                columns["output"] = self._store.message(body.output[0]).answered()
            yield self._draft(self._key("generation", span), Action.GENERATION, span.start, columns)

    # ---------------------------------------------------------------- helpers

    def _body(self, span: Span) -> Body:
        """Return what a span says, completed by the spans around it that are the same call."""
        body = self._store.body(span)
        for outer, is_same in self._plan.absorbed.get(span.id, ()):
            around = self._store.body(outer)
            body = body._replace(
                attributes=around.attributes | body.attributes if is_same else body.attributes,
                input=body.input or around.input,
                output=body.output or around.output,
            )
        return body

    def _other_system(self, body: Body) -> str | None:
        """Return a call's system prompt where it is not the episode's."""
        system = self._system_of(body)
        return system if system != self._system else None

    def _system_of(self, body: Body) -> str | None:
        texts = [self._store.message(digest).text() for digest in self._leading(body)]
        return "\n\n".join(texts) or None

    def _leading(self, body: Body) -> list[str]:
        """Return the system messages that a request begins with."""
        return list(itertools.takewhile(lambda digest: is_said_by(digest, *_SYSTEM), body.input))

    def _key(self, what: str, span: Span, more: str = "") -> str:
        trace = "" if span.trace == self._episode else f"{span.trace}:"
        return f"{what}:{trace}{span.span}{more}"

    def _tool_key(self, call_id: str | None, otherwise: str) -> str:
        key = f"tool:{call_id}" if call_id and not call_id.startswith(MADE_UP) else f"tool:{otherwise}"
        return common.unique(key, self._keys)

    def _draft(
        self, key: str, action: Action, nanos: int | None, columns: dict[str, Any], parent: str | None = None
    ) -> Draft:
        known = {name: value for name, value in columns.items() if value is not None}
        return Draft(self._episode, key, action, time_of(nanos), known, parent)


def _error(body: Body) -> str | None:
    """Return the text of a span's error, "" where it gives none, None where there was no error."""
    kind = names.first_text(body.attributes, names.ERROR_TYPE)
    if kind is None and read_status(body.status) != "error":
        return None
    message = body.status.get("message") if isinstance(body.status, dict) else None
    return ": ".join(text for text in (kind, message or body.exception) if isinstance(text, str) and text)


def _latency(span: Span) -> float | None:
    if span.start is None or span.finish is None or span.finish < span.start:
        return None
    return (span.finish - span.start) / 1e6


def _request_model(attributes: dict[str, Any], model: object) -> str | None:
    asked = names.first_text(attributes, names.REQUEST_MODEL)
    return asked if asked != model else None


def _usage_details(attributes: dict[str, Any]) -> dict[str, int] | None:
    details = common.known(
        cache_write_tokens=names.first_count(attributes, names.CACHE_WRITE_TOKENS),
        reasoning_tokens=names.first_count(attributes, names.REASONING_TOKENS),
    )
    return details or None
