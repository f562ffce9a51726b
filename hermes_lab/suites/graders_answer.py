"""Grades the final answer: a number, a pattern, texts that must or must not stand in it, or JSON of a schema."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import jsonschema_rs
import re2

from hermes_lab.checks import refuse_reference
from hermes_lab.effects import Ending
from hermes_lab.suites.graders_numbers import states_number
from hermes_lab.tasks import Answer, AnswerSchema, Grade, partial_score

_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_MAX_ERROR = 200


class WrongSpecError(ValueError):
    """What a grader asks for cannot be asked: the grade is unknown, and this says why."""


def clean_text(text: str) -> str:
    """Return `text` with lone surrogates, which no pattern library takes, as question marks."""
    return text.encode("utf-8", "replace").decode()


def grade_answer(spec: Answer, ending: Ending) -> Grade:
    """Return 1.0 where all that is asked for stands in the answer and nothing that is forbidden.

    A wrong number, a missing pattern and a forbidden text are 0; with some of the items it is 0.5 to 0.9.
    """
    text = clean_text(ending.answer)
    if spec == Answer():
        return Grade(score=None, grader="answer", reasons=("the grader asks for nothing: name a number or a text",))
    try:
        failed = _failures(spec, text)
    except WrongSpecError as error:
        return Grade(score=None, grader="answer", reasons=(str(error),))
    if failed:
        return Grade(score=0.0, grader="answer", reasons=tuple(failed))
    missing = [item for item in spec.items if not _stands_in(item, text)]
    asked = (spec.number is not None) + (spec.pattern is not None) + len(spec.items)
    score = partial_score(asked - len(missing), asked) if asked else 1.0
    return Grade(
        score=score, grader="answer", reasons=tuple(f"{item!r} does not stand in the answer" for item in missing)
    )


def _failures(spec: Answer, text: str) -> list[str]:
    """Return what makes the answer wrong as a whole."""
    if not text.strip():
        return ["there is no answer"]
    failed = [f"{item!r} stands in the answer" for item in spec.forbidden if _stands_in(item, text)]
    if spec.number is not None and not states_number(text, spec.number, spec.tolerance):
        failed.append(f"the answer does not state {spec.number:g}")
    if spec.pattern is not None and not _found(spec.pattern, text):
        failed.append(f"the answer does not match {spec.pattern!r}")
    return failed


def _found(pattern: str, text: str) -> bool:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        compiled = re2.compile(clean_text(pattern), options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise WrongSpecError(f"the pattern {pattern!r} is no re2 pattern ({said}): mend the grader") from None
    return compiled.search(text) is not None


def _stands_in(item: str, text: str) -> bool:
    """Look for a text whatever its case, width and blanks; `12` does not stand in `2012`."""
    wanted = "".join(_folded(clean_text(item)).split())
    if not wanted:
        return True
    pattern = r"\s*".join(re.escape(char) for char in wanted)
    before = r"(?<!\d)" if wanted[0].isdecimal() else ""
    after = r"(?!\d)" if wanted[-1].isdecimal() else ""
    return re.search(before + pattern + after, _folded(text)) is not None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def grade_json(spec: AnswerSchema, ending: Ending) -> Grade:
    """Return 1.0 where the answer, or a code fence in it, is JSON that is valid against the schema, else 0."""
    try:
        validator = jsonschema_rs.validator_for(spec.schema, retriever=refuse_reference)
    except (ValueError, TypeError, RecursionError) as error:
        reason = f"the grader's schema is no JSON Schema ({str(error)[:_MAX_ERROR]}): mend the grader"
        return Grade(score=None, grader="json_schema", reasons=(reason,))
    failure = _json_failure(validator, ending.answer)
    if failure is not None:
        return Grade(score=0.0, grader="json_schema", reasons=(failure,))
    return Grade(score=1.0, grader="json_schema")


def _json_failure(validator: Any, answer: str) -> str | None:
    """Return why no JSON in the answer is valid; None where one is."""
    reason = "the answer is not JSON"
    for text in [answer, *_FENCE.findall(answer)]:
        try:
            value = json.loads(clean_text(text), parse_constant=_refuse_constant)
            error = next(iter(validator.iter_errors(value)), None)
        except (ValueError, RecursionError):
            continue
        if error is None:
            return None
        place = "/".join(str(part) for part in error.instance_path) or "its top"
        reason = f"the answer's JSON is not valid at {place}: {error.message[:_MAX_ERROR]}"
    return reason


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
