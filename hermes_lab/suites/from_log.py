"""Makes tasks of logged episodes, so that real failures enter a suite.

The recorded results become the task's environment, and a grader is proposed from what the agent did. Whether that
was right only a person knows: each task is written as not confirmed, and is not run before it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.errors import MissingError
from hermes_lab.kinds import Status
from hermes_lab.log import Log
from hermes_lab.log.prune import Params
from hermes_lab.suites.graders_numbers import numbers_in
from hermes_lab.suites.log_episode import LoggedEpisode, LoggedTurn, read_episode
from hermes_lab.suites.recorded import RecordedCall, ToolDefinition
from hermes_lab.suites.stored import Content, StoredTask
from hermes_lab.suites.tool_names import merge_tools, with_tool_names
from hermes_lab.tasks import AllOf, Answer, Calls, Exchange, Grader, Part, Split, WantedCall

_CHINESE = re.compile("[\u4e00-\u9fff]")
_MAX_NUMBERS = 3


def tasks_from_log(
    log: Log,
    where: str = "true",
    params: Params = (),
    *,
    name: str = "from-log",
    split: Split | None = Split.REGRESSION,
    limit: int | None = None,
) -> Content:
    """Return the episodes that have an event for which `where` holds as a suite, which `add_tasks` writes.

    Of a conversation it is the last turn with a tool call that becomes the task (without one, the last turn); what was
    said before is its history.

    Args:
        log: of the lab.
        where: SQL condition over the columns of `events`, such as `status = 'error'` or `episode_id = ?`.
        params: values for its parameters.
        name: of the suite.
        split: that the tasks are for.
        limit: at most so many episodes.

    Raises:
        QueryError: the condition does not run.
        MissingError: no episode with a user's message satisfies it.
    """
    query = f"""
        select episode_id from events where episode_id is not null and ({where}
        ) group by episode_id order by min(event_id) {"" if limit is None else f"limit {int(limit)}"}"""
    ids = [row[0] for row in log.sql(query, params).fetchall()]
    tools: dict[str, ToolDefinition] = {}
    tasks: list[StoredTask] = []
    for episode_id in ids:
        episode = read_episode(list(log.events("episode_id = ?", [episode_id])))
        if episode.turns:
            names = merge_tools(tools, episode.tools.values())
            tasks.append(with_tool_names(_task(episode, split), names))
    if not tasks:
        raise MissingError(
            f"no episode with a user's message satisfies {where!r}: see `hermes-lab log` for what there is"
        )
    return Content(name, "Tasks from logged episodes", "the log of this lab", tuple(tasks), tools)


def _task(episode: LoggedEpisode, split: Split | None) -> StoredTask:
    place = _chosen(episode.turns)
    turn = episode.turns[place]
    calls = [call for any_turn in episode.turns for call in any_turn.calls]
    earlier = [Exchange(user=before.user, agent=before.answer) for before in episode.turns[:place]]
    grader = propose_grader(turn)
    return StoredTask(
        id=f"log-{episode.id}",
        family=episode.family or f"log-{episode.task_id or episode.id}",
        type=episode.task_type or "logged",
        prompt=turn.user,
        history=(*episode.history, *earlier),
        tools=tuple(episode.tools),
        difficulty=min(max(len(turn.calls), 1), 3),
        split=split,
        language="zh" if _CHINESE.search(turn.user) else "en",
        environment={"recorded": [msgspec.to_builtins(call) for call in calls]},
        grader=grader,
        answer_by=episode.answer_by,
        confirmed=False,
        notes=_notes(episode, place, grader),
    )


def _chosen(turns: Sequence[LoggedTurn]) -> int:
    with_calls = [i for i, turn in enumerate(turns) if turn.calls]
    return with_calls[-1] if with_calls else len(turns) - 1


def propose_grader(turn: LoggedTurn) -> Grader | None:
    """Return a grader that what the agent did in `turn` passes; None where it did nothing that can be asked for.

    It asks for the calls that came out ok (others may be made, too) and, for the full mark, for the numbers of the
    answer that stand in a result.
    """
    done = [call for call in turn.calls if call.status == Status.OK]
    wanted: list[WantedCall] = []
    for call in done:
        want = WantedCall(tool=call.tool, allowed={key: [_literal(value)] for key, value in call.arguments.items()})
        if want not in wanted:
            wanted.append(want)
    parts: list[Part] = []
    if wanted:
        parts.append(Part(grader=Calls(wanted=tuple(wanted), exact=False)))
    parts += [Part(grader=Answer(number=number), required=not wanted) for number in _told_numbers(turn.answer, done)]
    if not parts:
        return None
    return parts[0].grader if len(parts) == 1 else AllOf(parts=tuple(parts))


def _literal(value: Any) -> Any:
    """Return the allowed value that only `value` matches: within an object, a list would name alternatives."""
    if isinstance(value, dict):
        return {key: [_literal(item)] for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value


def _told_numbers(answer: str, calls: Sequence[RecordedCall]) -> list[float]:
    """Return numbers that the answer states and a result holds; 0 and 1 stand in too many texts to tell anything."""
    held = {number for call in calls for number in numbers_in(payload.dumps(call.output))}
    told = [number for number in numbers_in(answer) if number in held and number not in (0, 1)]
    return list(dict.fromkeys(told))[:_MAX_NUMBERS]


def _notes(episode: LoggedEpisode, place: int, grader: Grader | None) -> tuple[str, ...]:
    """Return what a person should know before confirming the task."""
    notes = ["the grader asks for what the agent did, right or wrong: read it, mend it in tasks.jsonl, then confirm"]
    if grader is None:
        notes = ["no grader could be proposed, since no call came out ok: write one in tasks.jsonl, then confirm"]
    if episode.end:
        notes.append(f"the episode did not end well ({episode.end})")
    if episode.scores:
        notes.append(f"it was graded {', '.join(f'{score:g}' for score in episode.scores)}")
    if len(episode.turns) > 1:
        notes.append(f"this is turn {place + 1} of {len(episode.turns)}; the turns before are its history")
    unknown = [tool.name for tool in episode.tools.values() if tool.inferred]
    if unknown:
        notes.append(f"the log has no schema of {', '.join(unknown)}: theirs are inferred from the calls")
    if episode.guessed:
        notes.append("which calls came out ok was inferred from their results when the log was imported")
    return tuple(notes)
