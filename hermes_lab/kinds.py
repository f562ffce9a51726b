"""The closed lists of the event schema: kinds of event, how one came out, why not, and which tier answered."""

from __future__ import annotations

import enum


class Action(enum.StrEnum):
    """The kind of an event. The list is closed; `.doc` says what each one records.

    `.thinnable` marks the few kinds that are neither an effect of an episode nor a decision, a call, a cost or a
    matter of safety: only these may be merged before writing (`log.thin`).
    """

    doc: str
    thinnable: bool

    def __new__(cls, value: str, doc: str = "", thinnable: bool = False) -> Action:
        """Make a member of `value` that carries `doc`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        member.thinnable = thinnable
        return member

    MESSAGE_RECEIVED = "message_received", "a request or turn came in, from whatever channel"
    TASK_STARTED = "task_started", "an episode began on a task"
    TASK_ENDED = "task_ended", "an episode ended; output says how"
    TASK_RECORDED = "task_recorded", "the schema-bound record of a finished task"
    CONTEXT_ASSEMBLED = "context_assembled", "what went into the context, what was dropped, tokens by layer"
    COMPRESSED = "compressed", "short-term memory was compressed"
    ROUTED = "routed", "the candidate tools and their ranks"
    GENERATION = "generation", "a model was asked and answered"
    TOOL_CHECKED = "tool_checked", "a tool call passed or failed the deterministic checks"
    TOOL_CALLED = "tool_called", "a tool ran; input is the arguments, output the result"
    CODE_EXECUTED = "code_executed", "code ran in the sandbox"
    RETRIEVAL = "retrieval", "documents or memories were searched"
    PERMISSION_REQUESTED = "permission_requested", "a call needs a person or a rule to allow it"
    PERMISSION_DECIDED = "permission_decided", "the person or rule answered"
    REFLECTION = "reflection", "a step was judged done, needing a fix, or given up"
    ESCALATED = "escalated", "the work went to documents or to the strong tier"
    MEMORY_PROPOSED = "memory_proposed", "a memory waits for approval"
    MEMORY_WRITTEN = "memory_written", "an approved memory became active"
    MEMORY_RETRACTED = "memory_retracted", "a memory was taken back"
    SKILL_TRIGGERED = "skill_triggered", "a skill's text entered the context"
    SKILL_PROPOSED = "skill_proposed", "a skill, or a change to one, waits for approval"
    SKILL_WRITTEN = "skill_written", "an approved skill was written"
    CONFLICT_FOUND = "conflict_found", "two memories or skills contradict, duplicate or supersede each other"
    PROPOSAL_DECIDED = "proposal_decided", "a person decided on a proposal, with a reason"
    PROPOSAL_UNDONE = "proposal_undone", "such a decision was undone"
    FEEDBACK = "feedback", "the user liked, disliked or stayed silent"
    GRADED = "graded", "a grader or a person gave an episode its mark"
    EVALUATED = "evaluated", "a composite score was computed; it can be computed again", True
    ROUND_STARTED = "round_started", "a round of evolution began"
    ROUND_ENDED = "round_ended", "a round of evolution ended"
    SUGGESTION = "suggestion", "a reflector suggested a change; refused ones say why"
    CANDIDATE_PROPOSED = "candidate_proposed", "a candidate version was made of suggestions"
    CANDIDATE_REPLAYED = "candidate_replayed", "a candidate was replayed over history"
    GATE_DECIDED = "gate_decided", "the gate passed or refused a candidate, with every check's figure"
    CANARY_STARTED = "canary_started", "a version went to a share of the traffic"
    CANARY_OBSERVED = "canary_observed", "a periodic look at a running canary", True
    CANARY_HELD = "canary_held", "a canary was held where it is"
    ALARM = "alarm", "a safety alarm"
    PUBLISHED = "published", "a version became the current one"
    ROLLED_BACK = "rolled_back", "a version and the memories tagged with it were taken back"
    BASELINE_FROZEN = "baseline_frozen", "the scores that later versions are held against"
    PAUSED = "paused", "evolution was paused"
    RESUMED = "resumed", "evolution was resumed"
    IMPORTED = "imported", "an import from somebody else's log ended"
    PURGED = "purged", "personal data was removed from the log"


class Status(enum.StrEnum):
    """How an event came out; None where nobody knows."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    TIMEOUT = "timeout"
    INVALID = "invalid"
    CANCELLED = "cancelled"
    RETRACTED = "retracted"


class ErrorKind(enum.StrEnum):
    """Why an event did not come out ok. The list is closed, so that failures can be counted."""

    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    UNREADABLE_CALL = "unreadable_call"
    REPEATED_CALL = "repeated_call"
    PRECHECK_FAILED = "precheck_failed"
    NO_PERMISSION = "no_permission"
    OUT_OF_SCOPE = "out_of_scope"
    NOT_FOUND = "not_found"
    TOOL_FAILED = "tool_failed"
    TOOL_UNAVAILABLE = "tool_unavailable"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    CONTEXT_LENGTH = "context_length"
    CUT_OFF = "cut_off"
    CONTENT_FILTER = "content_filter"
    BUDGET = "budget"
    DIVERGED = "diverged"
    CRASHED = "crashed"
    OTHER = "other"


class Tier(enum.StrEnum):
    """Which model tier answered."""

    LIGHT = "light"
    STRONG = "strong"
