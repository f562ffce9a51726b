"""Grades the tool calls of an episode against those that were wanted, by BFCL's conventions.

An argument has a list of allowed values; `""` among them means that it may be left out. Texts are compared without
case, blanks and the signs `, . / - _ * ^`; an int stands for an equal float; in an allowed object, a value that is a
list is again a list of allowed values. Where several calls are wanted, the calls made are matched to them as well as
they can be, not in the first way that comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_lab.effects import Called, End, Ending
from hermes_lab.kinds import Status
from hermes_lab.suites.foreign import shown
from hermes_lab.tasks import Calls, Grade, WantedCall, partial_score

_IGNORED = str.maketrans("'", '"', " ,./-_*^")
_MAY_BE_MISSING = ""
_MAX_REASONS = 8


def grade_calls(spec: Calls, ending: Ending) -> Grade:
    """Return 1.0 where every wanted call came out ok, 0.5 to 0.9 where some did, and 0 for none.

    With `exact`, any other call makes it 0; a failed try of a wanted call does not count as another. Where no call is
    wanted, an episode that broke off (error, timeout, budget ...) is no right answer.
    """
    reasons: list[str] = []
    done = [call for call in ending.calls if call.status == Status.OK]
    pair = _pair_in_order if spec.ordered else _pair
    taken = pair(spec.wanted, done)
    if spec.exact:
        reasons += _others(spec, ending, {id(done[i]) for i in taken.values()})
    if not spec.wanted and ending.end not in (End.COMPLETED, End.GAVE_UP):
        reasons.append(f"the episode ended as {ending.end.value}, so that no call was made means nothing")
    if reasons:
        return Grade(score=0.0, grader="calls", reasons=tuple(reasons[:_MAX_REASONS]))
    for i, wanted in enumerate(spec.wanted):
        if i not in taken:
            reasons.append(_why_not(wanted, ending.calls))
    score = partial_score(len(taken), len(spec.wanted))
    return Grade(score=score, grader="calls", reasons=tuple(reasons[:_MAX_REASONS]))


def call_matches(tool: str, arguments: dict[str, Any], wanted: WantedCall) -> bool:
    """Say whether a call is the wanted one.

    >>> wanted = WantedCall(tool="book", allowed={"city": ["New York", "NYC"], "nights": [2], "view": ["sea", ""]})
    >>> call_matches("book", {"city": "new-york", "nights": 2.0}, wanted)
    True
    >>> call_matches("book", {"city": "Boston", "nights": 2}, wanted)
    False
    """
    return tool == wanted.tool and _object_matches(arguments, wanted.allowed)


def value_matches(given: Any, allowed: Any) -> bool:
    """Say whether a value that was given is an allowed one.

    >>> value_matches([1, "A b"], [1.0, "ab"]), value_matches(True, 1), value_matches({"x": 2}, {"x": [1, 2]})
    (True, False, True)
    """
    if isinstance(given, bool) or isinstance(allowed, bool):
        return given is allowed
    if isinstance(allowed, str):
        return isinstance(given, str) and _plain(given) == _plain(allowed)
    if isinstance(allowed, dict):
        return isinstance(given, dict) and _object_matches(given, allowed)
    if isinstance(allowed, list | tuple):
        if not isinstance(given, list | tuple) or len(given) != len(allowed):
            return False
        return all(value_matches(item, wanted) for item, wanted in zip(given, allowed, strict=True))
    if isinstance(given, str | list | tuple | dict):
        return False
    return bool(given == allowed)


def _plain(text: str) -> str:
    return text.translate(_IGNORED).lower()


def _object_matches(given: dict[str, Any], allowed: dict[str, Any]) -> bool:
    return all(key in allowed and _field_matches(value, allowed[key]) for key, value in given.items()) and all(
        key in given or _may_be_missing(values) for key, values in allowed.items()
    )


def _field_matches(given: Any, allowed: Any) -> bool:
    """Compare with a list of allowed values, or, within an object, with the one value that stands there bare."""
    if isinstance(allowed, list | tuple):
        return any(value_matches(given, value) for value in allowed)
    return value_matches(given, allowed)


def _may_be_missing(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(isinstance(v, str) and v == _MAY_BE_MISSING for v in values)


def _pair(wanted: Sequence[WantedCall], calls: Sequence[Called]) -> dict[int, int]:
    """Return wanted -> call, as many as can be: a maximum bipartite matching by augmenting paths."""
    holder: dict[int, int] = {}
    choices = [[j for j, call in enumerate(calls) if call_matches(call.tool, call.arguments, want)] for want in wanted]

    def place(i: int, tried: set[int]) -> bool:
        for j in choices[i]:
            if j in tried:
                continue
            tried.add(j)
            if j not in holder or place(holder[j], tried):
                holder[j] = i
                return True
        return False

    for i in range(len(wanted)):
        place(i, set())
    return {i: j for j, i in holder.items()}


def _pair_in_order(wanted: Sequence[WantedCall], calls: Sequence[Called]) -> dict[int, int]:
    """Return wanted -> call, as many as can be with both in order: a longest common subsequence."""
    longest = [[0] * (len(calls) + 1) for _ in range(len(wanted) + 1)]
    fits = [[call_matches(call.tool, call.arguments, want) for call in calls] for want in wanted]
    for i in reversed(range(len(wanted))):
        for j in reversed(range(len(calls))):
            here = longest[i + 1][j + 1] + 1 if fits[i][j] else 0
            longest[i][j] = max(here, longest[i + 1][j], longest[i][j + 1])
    taken: dict[int, int] = {}
    i = j = 0
    while i < len(wanted) and j < len(calls):
        if fits[i][j] and longest[i][j] == longest[i + 1][j + 1] + 1:
            taken[i] = j
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return taken


def _others(spec: Calls, ending: Ending, taken: set[int]) -> list[str]:
    """Return a reason for each call that was neither a wanted one nor a failed try of one."""
    reasons = []
    for call in ending.calls:
        wanted = any(call_matches(call.tool, call.arguments, want) for want in spec.wanted)
        failed_try = call.status != Status.OK and wanted
        if id(call) not in taken and not failed_try:
            what = "once too often" if wanted else _difference(call, spec.wanted)
            reasons.append(f"{shown(call.tool)} was called {what}")
    return reasons


def _difference(call: Called, wanted: Sequence[WantedCall]) -> str:
    """Say what is wrong with a call, without telling what would have been right."""
    same = [want for want in wanted if want.tool == call.tool]
    if not same:
        return "and was not wanted"
    wrong = min((_wrong_arguments(call.arguments, want.allowed) for want in same), key=len)
    return "with wrong arguments: " + "; ".join(wrong)


def _why_not(wanted: WantedCall, calls: Sequence[Called]) -> str:
    same = [call for call in calls if call.tool == wanted.tool]
    if not same:
        return f"{shown(wanted.tool)} was not called"
    if any(call_matches(call.tool, call.arguments, wanted) for call in same):
        return f"{shown(wanted.tool)} was called as wanted, but not in its turn, or it did not come out ok"
    wrong = min((_wrong_arguments(call.arguments, wanted.allowed) for call in same), key=len)
    return f"{shown(wanted.tool)} was called with wrong arguments: " + "; ".join(wrong)


def _wrong_arguments(given: dict[str, Any], allowed: dict[str, Any]) -> list[str]:
    wrong = [
        f"{shown(key)} is {shown(value)}" if key in allowed else f"{shown(key)} is not wanted"
        for key, value in given.items()
        if key not in allowed or not _field_matches(value, allowed[key])
    ]
    missing = [key for key, values in allowed.items() if key not in given and not _may_be_missing(values)]
    return wrong + [f"{shown(key)} is missing" for key in missing]
