"""What belongs together among the spans of an episode, found before any event is made of them.

A framework's span around its client's span of the same call is one call, as is a tool's span and the tool call in the
model's answer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from hermes_lab.importers.otlp import names
from hermes_lab.importers.otlp.names import AGENT, CHAIN, EMBEDDING, LLM, RETRIEVAL, TOOL
from hermes_lab.importers.otlp.store import Body, Span, Store, is_said_by
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_messages import Call

_SHORTEST_MODEL = 4


class Facts(NamedTuple):
    """What is compared of a span."""

    models: tuple[str, ...]
    input: int | None
    output: int | None
    cached: int
    written: int
    calls: tuple[tuple[str | None, str | None, str], ...]  # id, name, digest of the arguments
    tool: tuple[str | None, str | None, str | None]  # call id, name, digest of the arguments
    hears_user: bool

    @property
    def has_usage(self) -> bool:
        """Whether any tokens are known."""
        return self.input is not None or self.output is not None


class Place(NamedTuple):
    """A tool call in a model's answer: the span, and which of its calls."""

    span: int
    call: int


@dataclass(slots=True)
class Plan:
    """What an episode's events are made of.

    Attributes:
        spans: those that are events of their own, in order.
        by_id: the same by their number.
        absorbed: by span, the spans around it that are the same call; with whether their usage is its own.
        tool_of: by tool span, the call in an answer that it ran.
        told: the calls in answers that have a span of their own.
        call_ids: of all calls in answers and all tools' spans.
        roots: the outermost agents (or workflows), in order.
        uncounted: agents whose usage no model call's span tells; with whether there are such spans without usage.
        talking: traces in which a model call's span tells what the user said.
        inside_retrieval: embedding spans that a retrieval made.
    """

    spans: list[Span] = field(default_factory=list)
    by_id: dict[int, Span] = field(default_factory=dict)
    absorbed: dict[int, list[tuple[Span, bool]]] = field(default_factory=lambda: defaultdict(list))
    tool_of: dict[int, Place] = field(default_factory=dict)
    told: set[Place] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)
    roots: list[Span] = field(default_factory=list)
    uncounted: dict[int, bool] = field(default_factory=dict)
    talking: set[str] = field(default_factory=set)
    inside_retrieval: set[int] = field(default_factory=set)


def make_plan(store: Store, episode: str) -> Plan:
    """Return the plan of an episode."""
    return _Planner(store, store.spans(episode)).plan()


class _OpenCall(NamedTuple):
    start: int
    trace: str
    place: Place
    id: str | None
    name: str | None
    arguments: str


class _OpenCalls:
    """The calls in answers that no tool's span is known to have run yet."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[_OpenCall]] = defaultdict(list)
        self._by_trace: dict[str, list[_OpenCall]] = defaultdict(list)
        self._taken: set[Place] = set()

    def add(self, call: _OpenCall) -> None:
        self._by_trace[call.trace].append(call)
        if call.id is not None:
            self._by_id[call.id].append(call)

    def take(self, call_id: str, start: int) -> Place | None:
        """Return the latest call of that id before `start`, or else the first one."""
        found = [call for call in self._by_id.get(call_id, ()) if call.place not in self._taken]
        return self._choose([call for call in found if call.start <= start] or found[:1])

    def take_named(self, trace: str, name: str | None, arguments: str | None, start: int) -> Place | None:
        """Return the call of that tool in the latest answer before `start`; one of the same arguments, if any is."""
        open_calls = [call for call in self._by_trace[trace] if call.place not in self._taken]
        self._by_trace[trace] = open_calls
        named = [call for call in open_calls if call.start <= start and _is_same_name(call.name, name)]
        return self._choose([call for call in named if call.arguments == arguments] or named)

    def _choose(self, calls: list[_OpenCall]) -> Place | None:
        """Take the first of the calls that are in the same answer as the last one."""
        chosen = next((call.place for call in calls if call.place.span == calls[-1].place.span), None)
        if chosen is not None:
            self._taken.add(chosen)
        return chosen


class _Planner:
    def __init__(self, store: Store, spans: list[Span]) -> None:
        self._store = store
        self._spans = spans
        self._by_name = {(span.trace, span.span): span for span in spans}
        self._facts = {span.id: _facts(store, span) for span in spans}
        self._plan = Plan()
        self._dropped: set[int] = set()
        self._agents_inside: dict[int, list[int]] = defaultdict(list)

    def plan(self) -> Plan:
        inner: dict[int, list[Span]] = defaultdict(list)
        for span in self._spans:
            outer = self._look_outward(span)
            if outer is not None:
                inner[outer.id].append(span)
        for span in reversed(self._spans):  # the inner ones first: they begin later
            if span.id in inner:
                self._absorb(span, inner[span.id])
        self._plan.spans = [span for span in self._spans if span.id not in self._dropped]
        self._plan.by_id = {span.id: span for span in self._plan.spans}
        self._plan.talking = {span.trace for span in self._spans if self._facts[span.id].hears_user}
        self._match_tools()
        self._find_uncounted()
        return self._plan

    def _look_outward(self, span: Span) -> Span | None:
        """Return the nearest span around `span` that may be the same call; note its agents and whether it is a root."""
        is_agent = span.kind in (AGENT, CHAIN)
        outermost = True
        found: Span | None = None
        searching = span.kind in (LLM, TOOL)
        for name, kind in self._store.ancestors(span):
            around = self._by_name.get((span.trace, name))
            if kind in (AGENT, CHAIN):
                outermost = False
                if around is not None and span.kind == LLM:
                    self._agents_inside[around.id].append(span.id)
            if kind == RETRIEVAL and span.kind == EMBEDDING:
                self._plan.inside_retrieval.add(span.id)
            if searching and kind == span.kind:
                found, searching = around, False
            elif kind in (LLM, TOOL, AGENT):
                searching = False
        if is_agent and outermost:
            self._plan.roots.append(span)
        return found

    def _absorb(self, outer: Span, inner: list[Span]) -> None:
        """Drop `outer` if it is the same call as one of the spans in it, or as all of them together."""
        facts = self._facts[outer.id]
        same = [span for span in inner if _is_same(facts, self._facts[span.id])]
        if not same and not (outer.kind == LLM and self._is_sum(facts, inner)):
            return
        target = self._kept((same or inner)[-1])
        self._dropped.add(outer.id)
        self._plan.absorbed[target.id].append((outer, bool(same)))

    def _kept(self, span: Span) -> Span:
        """Return the span that stands for `span`, which may have been dropped itself."""
        if span.id not in self._dropped:
            return span
        inside = (key for key, outers in self._plan.absorbed.items() if any(o.id == span.id for o, _ in outers))
        target = next(inside)
        return next(s for s in self._spans if s.id == target)

    def _is_sum(self, outer: Facts, inner: list[Span]) -> bool:
        parts = [self._facts[span.id] for span in inner]
        if not outer.has_usage or not any(part.has_usage for part in parts):
            return False
        return all(
            mine is None or mine == sum(getattr(part, name) or 0 for part in parts)
            for name, mine in (("input", outer.input), ("output", outer.output))
        )

    def _match_tools(self) -> None:
        """Find the call that each tool's span ran: by its id, or else by its name and arguments."""
        calls = _OpenCalls()
        for span in self._plan.spans:
            for j, (call_id, name, arguments) in enumerate(self._facts[span.id].calls):
                calls.add(_OpenCall(span.start or 0, span.trace, Place(span.id, j), call_id, name, arguments))
                if call_id is not None:
                    self._plan.call_ids.add(call_id)
        for span in self._plan.spans:
            if span.kind != TOOL:
                continue
            call_id, name, given = self._facts[span.id].tool
            if call_id is None:
                found = calls.take_named(span.trace, name, given, span.start or 0)
            else:
                self._plan.call_ids.add(call_id)
                found = calls.take(call_id, span.start or 0)
            if found is not None:
                self._plan.tool_of[span.id] = found
                self._plan.told.add(found)

    def _find_uncounted(self) -> None:
        counted: set[int] = set()
        for agent in self._plan.spans:  # the outermost begin first, and tell of all inside them
            if agent.kind not in (AGENT, CHAIN) or not self._facts[agent.id].has_usage or agent.id in counted:
                continue
            inside = self._agents_inside[agent.id]
            if not any(self._facts[span].has_usage for span in inside):
                self._plan.uncounted[agent.id] = bool(inside)
                names = {s.id for s in self._spans if s.kind in (AGENT, CHAIN) and self._is_inside(s, agent)}
                counted |= names

    def _is_inside(self, span: Span, outer: Span) -> bool:
        return span.trace == outer.trace and any(name == outer.span for name, _ in self._store.ancestors(span))


def _facts(store: Store, span: Span) -> Facts:
    body = store.body(span)
    attributes = body.attributes
    models = (attributes.get(name) for name in (*names.MODEL, *names.REQUEST_MODEL))
    calls: tuple[tuple[str | None, str | None, str], ...] = ()
    if span.kind == LLM and body.output:
        calls = tuple((c.id, c.name, _digest(c.arguments)) for c in answer_calls(store, body))
    call = tool_call(body) if span.kind == TOOL else Call(None, None, None)
    return Facts(
        models=tuple({model.lower() for model in models if isinstance(model, str) and model}),
        input=names.first_count(attributes, names.INPUT_TOKENS),
        output=names.first_count(attributes, names.OUTPUT_TOKENS),
        cached=names.first_count(attributes, names.CACHED_TOKENS) or 0,
        written=names.first_count(attributes, names.CACHE_WRITE_TOKENS) or 0,
        calls=calls,
        tool=(call.id, call.name, None if call.arguments is None else _digest(call.arguments)),
        hears_user=span.kind == LLM and any(is_said_by(digest, "user") for digest in body.input),
    )


def answer_calls(store: Store, body: Body) -> list[Call]:
    """Return the tool calls of a model's answer: of its first choice, where it has several."""
    return store.message(body.output[0]).calls if body.output else []


def tool_call(body: Body) -> Call:
    """Return the call that a tool's span says it ran."""
    attributes = body.attributes
    name = names.first_text(attributes, names.TOOL_NAME)
    return Call(
        names.first_text(attributes, names.TOOL_CALL_ID),
        name or (body.name or "").removeprefix("execute_tool ").removeprefix("tools/call ") or None,
        names.first(attributes, names.TOOL_ARGUMENTS),
    )


def _digest(arguments: object) -> str:
    return common.digest(common.read_arguments(arguments).value)


def _is_same(outer: Facts, inner: Facts) -> bool:
    """Return whether two spans, one in the other, can be the same call: nothing that both know differs."""
    if outer.tool != (None, None, None) or inner.tool != (None, None, None):
        differ = (
            a is not None and b is not None and a != b for a, b in zip(outer.tool[::2], inner.tool[::2], strict=True)
        )
        return _is_same_name(outer.tool[1], inner.tool[1]) and not any(differ)
    if outer.models and inner.models and not any(_is_same_model(a, b) for a in outer.models for b in inner.models):
        return False
    if outer.output is not None and inner.output is not None and outer.output != inner.output:
        return False
    if outer.input is None or inner.input is None:
        return True
    cached = {outer.cached, inner.cached, outer.cached + outer.written, inner.cached + inner.written, 0}
    return abs(outer.input - inner.input) in cached


def _is_same_model(a: str, b: str) -> bool:
    short, long = sorted((a.rpartition("/")[2], b.rpartition("/")[2]), key=len)
    return short == long or (len(short) >= _SHORTEST_MODEL and long.startswith((f"{short}-", f"{short}:", f"{short}@")))


def _is_same_name(a: str | None, b: str | None) -> bool:
    """Return whether two names can be of one tool, one perhaps with its server's name before it."""
    if a is None or b is None or a == b:
        return True
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return longer.endswith(shorter) and longer[-len(shorter) - 1] in "._/:-"
