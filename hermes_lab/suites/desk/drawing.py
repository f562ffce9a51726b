"""Draws tasks from families: the committed splits, and fresh ones; the same seed gives the same bytes."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.suites.desk.case import Case, Draw, Template
from hermes_lab.suites.desk.families import TYPES, templates
from hermes_lab.suites.desk.shop import data_file, load_shop
from hermes_lab.suites.desk.toolbox import toolbox
from hermes_lab.tasks import Split, Task

COMMITTED = (Split.TRAFFIC, Split.REGRESSION, Split.HELDOUT)

_MAX_TRIES = 60


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a split is drawn: from which families, how many tasks, with which seed."""

    seed: int
    tasks: int
    families: tuple[str, ...]


@functools.cache
def plans() -> Mapping[Split, Plan]:
    """Return the committed splits."""
    return msgspec.json.decode(data_file("splits.json").read_bytes(), type=dict[Split, Plan])


@functools.cache
def committed(split: Split) -> tuple[Task, ...]:
    """Return the tasks of a committed split; any first part of them is spread over types and families."""
    plan = plans()[split]
    return tuple(_draw(plan, plan.tasks, plan.seed, split, split.value, seen=set()))


def fresh(n: int, seed: int, split: Split = Split.TRAFFIC) -> list[Task]:
    """Return `n` new tasks of the families of a split, none of them a committed one.

    Raises:
        ConfigError: `split` is not one to draw from, or its families cannot give so many different requests.
    """
    if split not in (Split.TRAFFIC, Split.REGRESSION):
        raise ConfigError(f"fresh tasks come from traffic or regression families, not from {split.value}")
    seen = {task.prompt for part in COMMITTED for task in committed(part)}
    return list(_draw(plans()[split], n, seed, Split.FRESH, f"fresh-{split.value}-{seed}", seen=seen))


def solution(task: Task) -> Case:
    """Return the case that a task of this suite was drawn as, with a right way through; for tests and for people.

    Raises:
        ConfigError: it is no task of this suite.
    """
    try:
        template = templates()[task.family]
        key = task.environment["drawn"]
    except KeyError:
        raise ConfigError(f"{task.id} is no task of the suite `desk`") from None
    return template.draw(_dice(str(key), task.language))


def _draw(plan: Plan, n: int, seed: int, split: Split, name: str, *, seen: set[str]) -> Iterator[Task]:
    families = _spread([templates()[family] for family in plan.families])
    for number in range(n):
        round_, place = divmod(number, len(families))
        template = families[place]
        yield _one(template, round_, place, f"{name}:{seed}:{template.id}:{round_}", split, name, seen)


def _one(template: Template, round_: int, place: int, key: str, split: Split, name: str, seen: set[str]) -> Task:
    # Families that speak Chinese do so every second time, half of them in the first round already.
    language = template.languages[(round_ + place) % len(template.languages)]
    spare: tuple[str, Case] | None = None
    for attempt in range(_MAX_TRIES):
        drawn = f"{key}:{attempt}"
        case = template.draw(_dice(drawn, language))
        if case.prompt in seen:
            continue
        # Another wording of a matter that was had already is second best: some families have few matters.
        spare = spare or (drawn, case)
        if _matter(template, case) not in seen:
            spare = (drawn, case)
            break
    if spare is None:
        raise ConfigError(
            f"the family {template.id} gives no more new requests: draw fewer tasks, or with another seed"
        )
    drawn, case = spare
    seen.update((case.prompt, _matter(template, case)))
    return _task(template, case, drawn, f"{name}-{template.id}-{round_ + 1:02}", split, language)


def _matter(template: Template, case: Case) -> str:
    """Return what a case is about, whatever its wording."""
    return f"{template.id} {case.solution} {case.answer}"


def _dice(key: str, language: str) -> Draw:
    return Draw(random.Random(key), load_shop(), language)  # noqa: S311 - tasks are drawn, no secret hangs on them


def _task(template: Template, case: Case, key: str, task_id: str, split: Split, language: str) -> Task:
    environment: dict[str, object] = {"drawn": key}
    if case.failing:
        environment["failing"] = case.failing
    return Task(
        id=task_id,
        family=template.id,
        type=template.type,
        prompt=case.prompt,
        suite="desk",
        tools=tuple(toolbox()),
        difficulty=template.difficulty,
        split=split,
        language=language,
        environment=environment,
        grader=case.grader,
        tempting=template.tempting,
    )


def _spread(families: Sequence[Template]) -> list[Template]:
    """Return families so that the types take turns."""
    by_type = [[family for family in families if family.type == name] for name in TYPES]
    longest = max(len(group) for group in by_type)
    return [group[place] for place in range(longest) for group in by_type if place < len(group)]
