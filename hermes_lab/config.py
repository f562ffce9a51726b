"""The agent's configuration: frozen, hashed by content, the one thing that evolves.

An agent instance carries nothing else, so two with the same version behave alike. What no suggestion may touch
(permissions, safety checks, scoring, suites) is not in here.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.tasks import ANY_TYPE

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that the parts of a configuration share."""


class Rule(_Part, frozen=True):
    """One sentence that the system prompt holds.

    Attributes:
        id: unique within the configuration.
        text: the sentence.
        scope: the task type it applies to, or `*`.
        evidence: ids of the events that it rests on.
        since: the version that brought it.
    """

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    scope: str = ANY_TYPE
    evidence: tuple[str, ...] = ()
    since: str = ""


class Example(_Part, frozen=True):
    """A worked example that the prompt shows: a request and the call that answers it.

    Attributes:
        request: what a user said.
        tool: the tool that was called; it is shown only where that tool is offered.
        arguments: with what.
        scope: the task type it applies to, or `*`.
    """

    request: str
    tool: str
    arguments: dict[str, Any] = {}
    scope: str = ANY_TYPE


class ToolSettings(_Part, frozen=True):
    """What the configuration says about one tool.

    Attributes:
        defaults: values for arguments that the model left out.
        note: a sentence added to the tool's description.
    """

    defaults: dict[str, Any] = {}
    note: str = ""


class Routing(_Part, frozen=True):
    """How the candidate tools are chosen; see `routing.route`.

    Attributes:
        shortlist: how many tools are offered, or "all".
        order: "listing" keeps the order of the task's tools, "ranked" puts the best first.
        drop_after: a tool with more misses than this and no hit is dropped.
        keep_at_least: when that drops all, so many of the first stay.
        policy_weight: how much policy memory counts beside the similarity to the request, 0 to 1.
    """

    shortlist: _Positive | Literal["all"] = 3
    order: Literal["listing", "ranked"] = "listing"
    drop_after: _Count = 3
    keep_at_least: _Positive = 3
    policy_weight: _Share = 0.3


class Prompt(_Part, frozen=True):
    """How the prompt is laid out.

    Attributes:
        decoding: "schema" binds each turn to one call or a final answer; "free" lets the model write, and reads the
            calls out of its text.
        descriptions: "full" shows each tool's whole schema, "brief" leaves out the descriptions of its arguments.
        repeat_task: say the request again after the steps so far.
    """

    decoding: Literal["schema", "free"] = "schema"
    descriptions: Literal["full", "brief"] = "full"
    repeat_task: bool = True


class ShortTerm(_Part, frozen=True):
    """Short-term memory within an episode; see `compress.compress`.

    Attributes:
        steps: the last steps that stay whole.
        summary_chars: length of a result's summary in older steps.
        result_chars: length to which a result in the last steps is cut.
        summary_tokens: room for all the summaries together.
    """

    steps: _Positive = 3
    summary_chars: _Positive = 200
    result_chars: _Positive = 1500
    summary_tokens: _Positive = 600


class Reflection(_Part, frozen=True):
    """Reflection within an episode; see `reflection`.

    Attributes:
        mode: when a model is asked whether the step was what it should be.
        max_reflections: at most so many times an episode.
        escalate_after: so many `needs_fix` in a row escalate.
        min_confidence: a reflection less sure than this escalates.
    """

    mode: Literal["off", "on_failure", "always"] = "on_failure"
    max_reflections: _Count = 3
    escalate_after: _Positive = 2
    min_confidence: _Share = 0.2


class Layers(_Part, frozen=True):
    """Room for memory and skills in the prompt, in estimated tokens.

    Attributes:
        index_tokens: for the index of memories, a line each.
        skill_tokens: for the texts of triggered skills.
        skills: how many may be triggered at once.
    """

    index_tokens: _Count = 400
    skill_tokens: _Count = 1500
    skills: _Count = 3


class MicroReflection(_Part, frozen=True):
    """When a turn of a conversation is looked at for something worth keeping; see `learning.micro`.

    Attributes:
        turns: at least so many turns after the last time.
        calls: so many tool calls make a turn worth it,
        output_chars: or a call that changed something and returned more than so many characters.
    """

    turns: _Positive = 3
    calls: _Positive = 2
    output_chars: _Count = 1500


class Decomposition(_Part, frozen=True):
    """Whether a request is first split into sub-goals, and into how many at most (its granularity)."""

    mode: Literal["off", "on"] = "off"
    max_subgoals: Annotated[int, msgspec.Meta(ge=2, le=8)] = 3


class Budgets(_Part, frozen=True):
    """Hard limits of one episode.

    Attributes:
        steps: model turns that plan.
        tokens: input (cached, too) and output tokens together, of every model call.
        seconds: time in model calls and tools.
        usd: US dollars; None for no limit.
    """

    steps: _Positive = 8
    tokens: _Positive = 60_000
    seconds: Annotated[float, msgspec.Meta(gt=0, le=1e7)] = 600.0
    usd: Annotated[float, msgspec.Meta(gt=0, le=1e7)] | None = None


class Sampling(_Part, frozen=True):
    """How a model's tokens are drawn; temperature 0 takes the likeliest (greedy).

    Attributes:
        temperature: 0 for greedy.
        top_p: share of the probability that is drawn from.
        max_tokens: length of one turn at most.
        answer_chars: length of a final answer at most, where turns are bound to a schema.
    """

    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    max_tokens: _Positive = 256
    answer_chars: _Positive = 400


_ROLE = "You are a function calling AI model. Use the tools to look things up and to act; never invent results."


def _default_system() -> dict[str, str]:
    return {"role": _ROLE}


class AgentConfig(_Part, frozen=True):
    """Everything about the agent that may evolve.

    >>> AgentConfig().version == AgentConfig(routing=Routing(shortlist=1)).version
    False
    >>> AgentConfig().version.startswith("c-")
    True

    Attributes:
        system: sections of the system text, in order, by name.
        rules: sentences that were learned.
        examples: worked examples.
        tools: settings by tool name.
    """

    system: dict[str, str] = msgspec.field(default_factory=_default_system)
    rules: tuple[Rule, ...] = ()
    examples: tuple[Example, ...] = ()
    tools: dict[str, ToolSettings] = {}
    routing: Routing = Routing()
    prompt: Prompt = Prompt()
    short_term: ShortTerm = ShortTerm()
    reflection: Reflection = Reflection()
    decomposition: Decomposition = Decomposition()
    budgets: Budgets = Budgets()
    sampling: Sampling = Sampling()
    layers: Layers = Layers()
    micro_reflection: MicroReflection = MicroReflection()

    @property
    def version(self) -> str:
        """The version: `c-` and 12 hex digits of the SHA-256 of the content."""
        return "c-" + hashlib.sha256(to_json(self)).hexdigest()[:12]


ADDED_LATER = {"layers": Layers(), "micro_reflection": MicroReflection()}
"""Parts that the first configurations had not, with the values that mean "as before": these change no version."""


def to_json(config: AgentConfig) -> bytes:
    """Return the canonical JSON of `config`, which is what is hashed: every field, keys of mappings sorted.

    The order of `system`'s sections matters, so they are written as pairs. A part that was added later is left out
    where it is as before, so that the versions of older configurations stay what they are.
    """
    plain = msgspec.to_builtins(config)
    plain["system"] = list(config.system.items())
    for name, as_before in ADDED_LATER.items():
        if getattr(config, name) == as_before:
            del plain[name]
    return msgspec.json.encode(plain, order="sorted")


def from_values(values: dict[str, Any], where: str = "the configuration") -> AgentConfig:
    """Return the configuration that `values` (as from TOML or JSON) make.

    Raises:
        ConfigError: an unknown key or a wrong value; the message says which.
    """
    try:
        config = msgspec.convert(values, AgentConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {str(error).replace('$.', '')}") from None
    _check_json(config, where)
    ids = [rule.id for rule in config.rules]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ConfigError(f"{where}: the rule {twice[0]!r} stands twice: give each rule an id of its own")
    return config


def _check_json(config: AgentConfig, where: str) -> None:
    """Refuse what JSON would lose: a configuration is kept as JSON, and must be the same when it is read again."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(config), type=AgentConfig) == config
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:  # a lone surrogate, thousands of digits
        raise ConfigError(f"{where}: it holds a value that JSON has no form for: {error}") from None
    if not same:
        raise ConfigError(f"{where}: it holds a date or NaN, which JSON has no form for: write a text or a number")


def read_config(path: Path | str) -> AgentConfig:
    """Return the configuration of a TOML or JSON file; what it leaves out is the default.

    Raises:
        ConfigError: the file cannot be read, is neither, or holds an unknown key or a wrong value.
    """
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    try:
        values = msgspec.json.decode(text) if file.suffix == ".json" else tomllib.loads(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: also a number of many digits
        raise ConfigError(f"{file} is not {'JSON' if file.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: a configuration is a table, not a {type(values).__name__}")
    return from_values(values, str(file))


def changed(config: AgentConfig, **values: Any) -> AgentConfig:
    """Return `config` with values set by dotted name.

    >>> changed(AgentConfig(), **{"routing.shortlist": 1}).routing.shortlist
    1

    Raises:
        ConfigError: no such setting, or a wrong value.
    """
    plain: dict[str, Any] = msgspec.to_builtins(config)
    for name, value in values.items():
        place = plain
        *sections, last = name.split(".")
        for section in sections:
            place = place.get(section) if isinstance(place, dict) else None  # type: ignore[assignment]
            if not isinstance(place, dict):
                raise ConfigError(f"there is no setting {name!r}: {section!r} is no section")
        place[last] = value
    return from_values(plain, f"setting {', '.join(values)}")
