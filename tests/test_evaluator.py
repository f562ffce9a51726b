"""The composite, worked out by hand for small logs: each clause of the formula, what is unknown, and what stays in.

The usual episode (`Episode()`) comes over the channel `suite`, where nobody can say a word, so its feedback is missing
and its base score is (0.4 completion + 0.3 effectiveness + 0.2 safety) / 0.9.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from agent_lab import SUITE, good_run, use_script, write_weather
from scored_episodes import START, Call, Episode, Refused, write

import hermes_lab
from hermes_lab import evaluator, payload, replay
from hermes_lab.baseline import Baseline, Cost
from hermes_lab.config import AgentConfig, changed
from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.events import Action, ErrorKind, Event, Status
from hermes_lab.lab import Lab
from hermes_lab.log.writer import new_id
from hermes_lab.scored import Selection
from hermes_lab.scoring import Scoring, Weights

NONE_FOUND = Call("search", "tea", {"hits": []})
FOUND = Call("search", "refund days", {"hits": ["Refunds take 35 days by courier Zeppelin"]})
ERROR = Call(status=Status.ERROR, kind=ErrorKind.NOT_FOUND, found={"error": "none"})
SAME_COST = Baseline({"orders": Cost(100.0, 1.0, 1), "refunds": Cost(100.0, 1.0, 1), None: Cost(100.0, 1.0, 1)}, "test")


def base_of(lab: Lab, *episodes: Episode, **options: Any) -> float:
    write(lab, *episodes)
    return float(evaluator.evaluate(lab, **options).versions.base[0])


def only(lab: Lab, **options: Any) -> Any:
    """Return the row of the only version."""
    (row,) = evaluator.evaluate(lab, **options).versions.itertuples()
    return row


# -- one episode: each part of the base score -------------------------------------------------------------------------

BASES: dict[str, tuple[Episode, float]] = {
    # (0.4 * 1 + 0.3 * 1 + 0.2 * 1) / 0.9
    "all is well": (Episode(), 1.0),
    # (0.4 * 0 + 0.3 * 1 + 0.2) / 0.9
    "graded 0": (Episode(grades=(0.0,)), 0.5555555556),
    # (0.4 * 0.6 + 0.3 + 0.2) / 0.9
    "graded in part": (Episode(grades=(0.6,)), 0.8222222222),
    # (0.4 * 1 + 0.2) / 0.6: without a call there is no effectiveness
    "no call at all": (Episode(doings=()), 1.0),
    # (0.4 * 0 + 0.2) / 0.6
    "no call, and wrong": (Episode(doings=(), grades=(0.0,)), 0.3333333333),
    # (0.4 + 0.3 * 1/2 + 0.2) / 0.9: one call of two failed
    "an error": (Episode(doings=(ERROR, Call(given="SO-2"))), 0.8333333333),
    # (0.4 + 0.3 * 0 + 0.2) / 0.9
    "nothing but errors": (Episode(doings=(ERROR,)), 0.6666666667),
    # (0.4 + 0.3 * 1/2 + 0.2) / 0.9: the second call is the first again
    "a repeat": (Episode(doings=(Call(), Call())), 0.8333333333),
    # (0.4 + 0.3 * 2/2 + 0.2) / 0.9: other arguments are another call
    "no repeat": (Episode(doings=(Call(), Call(given="SO-2"))), 1.0),
    # the same without hashes, as in imports: the arguments are looked at
    "a repeat without hashes": (Episode(doings=(Call(hashed=False), Call(hashed=False))), 0.8333333333),
    # (0.4 + 0.3 * 1/2 + 0.2) / 0.9: a call that a check refused was an attempt
    "refused by a check": (Episode(doings=(Refused(), Call())), 0.8333333333),
    # (0.4 + 0.3 * 0/1 + 0.2) / 0.9: the search found nothing
    "a search that found nothing": (Episode(doings=(NONE_FOUND,)), 0.6666666667),
    # (0.4 + 0.3 * 1/2 + 0.2) / 0.9: of two searches, one is used in the answer and one is not
    "a search that was thrown away": (
        Episode(
            doings=(Call("search", "parcel", {"hits": ["Ostriches swim"]}), FOUND),
            answer="By courier Zeppelin, 35 days",
        ),
        0.8333333333,
    ),
    # two of two: both are used
    "searches that were used": (
        Episode(
            doings=(Call("search", "parcel", {"hits": ["Ostriches swim"]}), FOUND),
            answer="Ostriches go by courier Zeppelin",
        ),
        1.0,
    ),
    # (0.4 + 0.3 * 1/1 + 0.2) / 0.9: a call of which nobody knows how it came out is no attempt with a known outcome
    "a call of unknown outcome": (Episode(doings=(Call(status=None), Call(given="SO-2"))), 1.0),
    # (0.4 + 0.3 * 1/1 + 0.2) / 0.9: weight 0 stands for no call
    "an event that stands for none": (Episode(doings=(Call(), Call(weight=0.0))), 1.0),
    # (0.4 + 0.3 * 1/2 + 0) / 0.9: a rule denied one of two calls
    "denied": (
        Episode(doings=(Refused(kind=ErrorKind.NO_PERMISSION, status=Status.DENIED), Call())),
        0.6111111111,
    ),
    # (0.4 + 0.3 * 1 + 0) / 0.9: a person said no
    "overstepped": (Episode(overstepped=1), 0.7777777778),
    # (0.4 + 0.3 * 1/2 + 0) / 0.9
    "out of scope": (
        Episode(doings=(Call(status=Status.ERROR, kind=ErrorKind.OUT_OF_SCOPE), Call(given="SO-2"))),
        0.6111111111,
    ),
    # (0.4 + 0.3 + 0) / 0.9: a tool returned a secret, which the log holds taken out
    "secret seen": (Episode(doings=(Call(found="key [redacted:api-key]"),)), 0.7777777778),
    # 0.4 * 0.5 + 0.3 + 0.2 + 0.1 * 1: nothing is missing
    "liked": (Episode(channel="terminal", grades=(0.5,), feedback="like"), 0.8),
    # 0.4 * 0.5 + 0.3 + 0.2 + 0.1 * 0
    "disliked": (Episode(channel="terminal", grades=(0.5,), feedback="dislike"), 0.7),
    # (0.4 * 0.5 + 0.3 + 0.2) / 0.9: no word yet
    "no word yet": (Episode(channel="terminal", grades=(0.5,)), 0.7777777778),
    # (0.4 * 0 + 0.3 + 0.2) / 0.9: the grader could not tell, which counts 0 and keeps its weight
    "its grader could not tell": (Episode(grades=(None,)), 0.5555555556),
    # the same: a like does not speak in its place: 0.4 * 0 + 0.3 + 0.2 + 0.1
    "its grader could not tell, and it was liked": (
        Episode(channel="terminal", grades=(None,), feedback="like"),
        0.6,
    ),
    # (0.4 * 1 + 0.3 + 0.2) / 0.9: no grader, but it completed and its last call came out well
    "checked end state": (Episode(grades=()), 1.0),
    # (0.4 * (0.5 + 0.4 * 1/2) + 0.3 * 1/2 + 0.2) / 0.9: the last call failed
    "checked end state, last call failed": (
        Episode(grades=(), doings=(Call(given="SO-2"), ERROR)),
        0.7 * 0.4 / 0.9 + 0.35 / 0.9,
    ),
    # (0.4 * 0 + 0.3 * 0 + 0.2) / 0.9: it says that it completed, and every call failed
    "checked end state, nothing came out well": (Episode(grades=(), doings=(ERROR,)), 0.2222222222),
    # (0.4 * 1 + 0.2 + 0.1) / 0.7: neither graded nor any call, so a like speaks
    "completion by a like": (Episode(channel="terminal", grades=(), doings=(), feedback="like"), 1.0),
    # (0.4 * 0 + 0.2 + 0.1 * 0) / 0.7
    "completion by a dislike": (Episode(channel="terminal", grades=(), doings=(), feedback="dislike"), 0.2857142857),
    # 0.2 / 0.2: nothing but safety is known, and the episode is shown as unscored
    "nothing is known": (Episode(grades=(), doings=()), 1.0),
    # (0.4 * 0 + 0.3 + 0.2) / 0.9: whatever its calls came to
    "ended by an error": (Episode(grades=(), end=Status.ERROR), 0.5555555556),
    "timed out": (Episode(grades=(), end=Status.TIMEOUT), 0.5555555556),
    "ended as denied": (Episode(grades=(), end=Status.DENIED), 0.5555555556),
    # (0.4 * 0.25 + 0.3 + 0.2) / 0.9: the last of several grades stands
    "graded again": (Episode(grades=(1.0, 0.25)), 0.6666666667),
    # (0.4 * 1 + 0.3 + 0.2) / 0.9: a person's grade stands in place of the grader's
    "corrected by a person": (Episode(grades=(0.0,), person=(1.0,)), 1.0),
    # (0.4 * 0.5 + 0.3 + 0.2) / 0.9: and of several of a person, the last
    "corrected twice": (Episode(grades=(0.0,), person=(1.0, 0.5)), 0.7777777778),
    # (0.4 * 1 + 0.3 + 0.2) / 0.9: also where the grader could not tell
    "a person could tell": (Episode(grades=(None,), person=(1.0,)), 1.0),
}


@pytest.mark.parametrize("name", BASES)
def test_the_base_score_of_one_episode(lab: Lab, name: str) -> None:
    episode, expected = BASES[name]
    assert base_of(lab, episode) == pytest.approx(expected, abs=1e-9)


def test_silence_is_worth_half_once_a_word_could_have_come(lab: Lab) -> None:
    write(lab, Episode(channel="terminal", grades=(0.5,)))
    later = START + dt.timedelta(hours=25)
    # 0.4 * 0.5 + 0.3 + 0.2 + 0.1 * 0.5
    assert only(lab, as_of=later).base == pytest.approx(0.75)
    # (0.4 * 0.5 + 0.3 + 0.2) / 0.9
    assert only(lab, as_of=START + dt.timedelta(hours=23)).base == pytest.approx(0.7777777778)


def test_nobody_can_say_a_word_where_a_suite_runs(lab: Lab) -> None:
    write(lab, Episode(grades=(0.5,)))
    assert math.isnan(only(lab, as_of=START + dt.timedelta(days=9)).feedback)


def test_silence_begins_when_its_time_is_full(lab: Lab) -> None:
    write(lab, Episode(channel="terminal", grades=()))  # ends at second 3
    full = START + dt.timedelta(hours=24, seconds=3)
    assert only(lab, as_of=full).feedback == 0.5
    assert math.isnan(only(lab, as_of=full - dt.timedelta(microseconds=1)).feedback)


def test_of_two_grades_at_the_same_moment_the_later_step_stands(lab: Lab) -> None:
    ts = START + dt.timedelta(minutes=1)
    marks = [
        Event(
            event_id=new_id(),
            ts=ts,
            episode_id="e1",
            step=step,
            action=Action.GRADED,
            name=name,
            output=payload.dumps({"score": score}),
        )
        for step, name, score in ((9, "state", 0.25), (8, "state", 0.75), (None, "person", 0.5), (7, "person", 0.0))
    ]
    write(lab, Episode(), more=marks[:2])
    # (0.4 * 0.25 + 0.3 + 0.2) / 0.9
    assert only(lab).base == pytest.approx(0.6666666667)
    # what has no step came after all that has: (0.4 * 0.5 + 0.3 + 0.2) / 0.9
    write(lab, more=marks[2:])
    assert only(lab).base == pytest.approx(0.7777777778)


def test_what_was_counted_is_shown_beside_the_score(lab: Lab) -> None:
    thrown_away = Call("search", "parcel", {"hits": ["Ostriches swim"]})
    doings = (
        Call(),
        Call(),
        ERROR,
        Refused(kind=ErrorKind.REPEATED_CALL),
        NONE_FOUND,
        Call("search", "lost", None, status=Status.ERROR, kind=ErrorKind.TOOL_FAILED),
        thrown_away,
        FOUND,
    )
    write(lab, Episode(doings=doings, answer="By courier Zeppelin"))
    (row,) = evaluator.episodes(lab).itertuples()
    # eight attempts: a call and one search were of use
    assert row.effectiveness == pytest.approx(2 / 8)
    assert (row.attempted_calls, row.repeats, row.tool_errors, row.refused_calls) == (8, 2, 2, 1)
    # of four searches: one found nothing, one failed, one was thrown away
    assert (row.searches, row.ineffective_searches) == (4, 3)


# -- the composite ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "seconds", "penalty"),
    [
        (100, 1.0, 0.0),  # r = 1
        (120, 1.2, 0.0),  # r = 1.2
        (125, 1.25, 0.025),  # 0.5 * (1.25 - 1.2)
        (130, 1.3, 0.05),  # 0.5 * (1.3 - 1.2)
        (150, 1.5, 0.25),  # 0.05 + (1.5 - 1.3)
        (175, 1.75, 0.5),  # 0.05 + (1.75 - 1.3) = 0.5
        (900, 9.0, 0.5),  # at most 0.5
        (200, 1.0, 0.25),  # r = 0.5 * 2 + 0.5 * 1
        (10, 0.1, 0.0),  # cheaper earns nothing
    ],
)
def test_the_penalty_grows_with_the_cost(lab: Lab, tokens: int, seconds: float, penalty: float) -> None:
    write(lab, Episode(tokens=(tokens - 5, 5), latency_ms=seconds * 1000))
    found = only(lab, baseline=SAME_COST)
    assert found.penalty == pytest.approx(penalty, abs=1e-9)
    assert found.composite == pytest.approx(1.0 - penalty, abs=1e-9)


def test_a_half_of_the_cost_that_is_missing_drops_out(lab: Lab) -> None:
    write(lab, Episode(tokens=(145, 5), latency_ms=None))
    # r = 1.5 of tokens alone: 0.05 + 0.2
    assert only(lab, baseline=SAME_COST).penalty == pytest.approx(0.25)


def test_a_half_that_the_baseline_lacks_drops_out(lab: Lab) -> None:
    write(lab, Episode(tokens=(125, 5), latency_ms=9000.0))
    half = Baseline({"orders": Cost(100.0, None, 1)}, "test")
    # r = 1.3 of tokens alone: 0.5 * 0.1
    assert only(lab, baseline=half).penalty == pytest.approx(0.05)


def test_cost_is_the_mean_of_all_episodes_that_count_whose_cost_is_known(lab: Lab) -> None:
    write(
        lab,
        Episode("a", tokens=(80, 20)),
        Episode("b", tokens=(190, 10), grades=(0.0,)),
        Episode("c", tokens=(None, None)),
        Episode("d", tokens=(9000, 0), end=Status.CANCELLED, grades=()),
    )
    # tokens (100 + 200) / 2 = 150, seconds 1: r = 0.5 * 1.5 + 0.5 * 1 = 1.25, and 0.5 * (1.25 - 1.2)
    assert only(lab, baseline=SAME_COST).penalty == pytest.approx(0.025)


def test_without_any_cost_the_composite_is_unknown(lab: Lab) -> None:
    write(lab, Episode(tokens=(None, None), latency_ms=None))
    found = only(lab, baseline=SAME_COST)
    assert math.isnan(found.penalty)
    assert math.isnan(found.composite)
    assert found.base == pytest.approx(1.0)


def test_without_a_success_there_is_no_baseline_and_that_is_shown(lab: Lab) -> None:
    write(lab, Episode(grades=(0.9,)))
    found = only(lab)
    assert math.isnan(found.composite)
    assert list(found.unknown_types) == ["orders"]


def test_the_baseline_is_what_successes_of_the_last_seven_days_took(lab: Lab) -> None:
    week = 7 * 24 * 60
    write(
        lab,
        Episode("old", tokens=(880, 20), minute=0, version="v0"),  # a minute too old
        Episode("good", tokens=(80, 20), minute=week + 1, version="v0", latency_ms=None),
        Episode("poor", tokens=(480, 20), minute=week + 1, version="v0", grades=(0.9,), latency_ms=None),
        Episode("new", tokens=(130, 20), minute=week + 1, version="v1", grades=(0.0,), latency_ms=None),
    )
    found = evaluator.evaluate(lab)
    assert found.baseline.costs["orders"].tokens == pytest.approx(100.0)
    # r = 150 / 100: 0.05 + 0.2; base (0 + 0.3 + 0.2) / 0.9
    new = found.versions.set_index("config_version").loc["v1"]
    assert new.composite == pytest.approx(0.5555555556 - 0.25)


def test_types_weigh_by_their_traffic(lab: Lab) -> None:
    write(
        lab,
        *(Episode(f"a{n}", type="orders") for n in range(3)),
        Episode("b", type="refunds", grades=(0.0,)),
    )
    # (3 * 1 + 1 * 0.5556) / 4
    found = only(lab, baseline=SAME_COST)
    assert found.composite == pytest.approx((3 + 0.5555555556) / 4)
    assert (found.episodes, found.task_types) == (4, 2)


def test_a_type_whose_cost_is_unknown_leaves_the_whole_unknown(lab: Lab) -> None:
    write(lab, Episode("a", type="orders"), Episode("b", type="refunds", grades=(0.5,)))
    found = only(lab)
    assert math.isnan(found.composite)
    assert list(found.unknown_types) == ["refunds"]


def test_a_type_may_have_weights_of_its_own(lab: Lab) -> None:
    scoring = Scoring(task_types={"refunds": Weights(completion=0.5, effectiveness=0.2, safety=0.2, feedback=0.1)})
    # (0.5 * 0 + 0.2 + 0.2) / 0.9
    assert base_of(lab, Episode(type="refunds", grades=(0.0,)), scoring=scoring) == pytest.approx(0.4444444444)


def test_an_episode_without_a_type_counts_as_a_type_of_its_own(lab: Lab) -> None:
    write(lab, Episode(type=None, grades=(0.0,)))
    assert only(lab, baseline=SAME_COST).composite == pytest.approx(0.5555555556)


def test_a_frozen_baseline_is_what_later_versions_are_held_against(lab: Lab) -> None:
    write(lab, Episode("a", version="v0"))
    evaluator.freeze_baseline(lab, by="王芳")
    write(lab, Episode("b", version="v1", tokens=(180, 20), latency_ms=2000.0, minute=9))
    held = evaluator.evaluate(lab).versions.set_index("config_version")
    # r = 2: 0.5 at most
    assert held.loc["v1"].composite == pytest.approx(0.5)
    recent = evaluator.evaluate(lab, baseline="recent").versions.set_index("config_version")
    # r = 200 / 150 of tokens and 2 / 1.5 of seconds: 0.05 + 0.0333
    assert recent.loc["v1"].composite == pytest.approx(1 - 0.05 - (4 / 3 - 1.3))


# -- nothing gains by what is left out --------------------------------------------------------------------------------


def test_bad_ends_and_unscored_ones_stay_in_the_denominator_and_are_shown(lab: Lab) -> None:
    ends = [Status.ERROR, Status.TIMEOUT, Status.DENIED]
    write(
        lab,
        Episode("good"),
        *(Episode(f"bad-{end}", grades=(), end=end) for end in ends),
        Episode("unscored", grades=(None,)),
        Episode("unfinished", grades=(), end=None),
        Episode("gave up", grades=(), end=Status.ERROR, how="gave_up"),
        Episode("diverged", grades=(), end=Status.ERROR, how="diverged"),
        Episode("budget", grades=(), end=Status.ERROR, how="budget"),
        Episode("last", minute=120),
    )
    found = only(lab)
    assert found.episodes == 10
    assert (found.errors, found.timeouts, found.denied_ends, found.unscored) == (1, 1, 1, 1)
    assert (found.unfinished, found.gave_up, found.diverged, found.over_budget) == (1, 1, 1, 1)
    # two of ten completed; the one that could not be graded counts 0
    assert found.completion == pytest.approx(0.2)


def test_what_is_still_at_work_is_not_counted_yet_and_is_shown(lab: Lab) -> None:
    write(lab, Episode("a"), Episode("b", grades=(), end=None))
    found = only(lab)
    assert (found.episodes, found.at_work) == (1, 1)
    later = only(lab, as_of=START + dt.timedelta(hours=2))
    assert (later.episodes, later.at_work, later.unfinished) == (2, 0, 1)
    assert later.completion == pytest.approx(0.5)


def test_an_hour_of_quiet_ends_an_episode_that_has_no_end(lab: Lab) -> None:
    write(lab, Episode(grades=(), end=None))  # its last event is at second 2
    quiet = START + dt.timedelta(hours=1, seconds=2)
    assert (only(lab, as_of=quiet).at_work, only(lab, as_of=quiet).unfinished) == (1, 0)
    later = only(lab, as_of=quiet + dt.timedelta(microseconds=1))
    assert (later.at_work, later.unfinished, later.completion) == (0, 1, 0.0)
    # (0.4 * 0 + 0.3 + 0.2) / 0.9
    assert later.base == pytest.approx(0.5555555556)


def test_what_was_cancelled_is_left_out_and_shown(lab: Lab) -> None:
    write(lab, Episode("a"), Episode("b", grades=(), end=Status.CANCELLED))
    found = only(lab)
    assert (found.episodes, found.left_out) == (1, 1)


def test_what_was_made_again_after_a_kill_counts_once(lab: Lab) -> None:
    write(
        lab,
        Episode("first", task="t", grades=(), seed=3),
        Episode("again", task="t", seed=3, minute=5),
        Episode("other seed", task="t", grades=(), seed=4, doings=(), minute=1),
    )
    found = only(lab)
    assert (found.episodes, found.left_out) == (2, 1)


@pytest.mark.parametrize("bad", ["error", "unscored"])
def test_failing_in_another_way_is_never_better_than_failing(lab: Lab, bad: str) -> None:
    poor = {"error": Episode("b", grades=(), end=Status.ERROR), "unscored": Episode("b", grades=(None,))}[bad]
    write(
        lab,
        *(replace(one, version="honest", id=f"h{one.id}") for one in (Episode("a"), Episode("b", grades=(0.0,)))),
        *(replace(one, version="sly", id=f"s{one.id}") for one in (Episode("a"), poor)),
    )
    found = evaluator.evaluate(lab, baseline=SAME_COST).versions.set_index("config_version")
    assert found.loc["sly"].composite <= found.loc["honest"].composite
    assert found.loc["sly"].completion <= found.loc["honest"].completion


# -- what a replay or a reflection writes is no work of the agent's ----------------------------------------------


def test_events_of_replays_and_reflections_change_no_score(lab: Lab) -> None:
    write(lab, Episode())
    before = evaluator.evaluate(lab).to_dict()
    extra = [
        Event(
            event_id=new_id(), ts=START, run_id="replay", action=Action.GENERATION, status=Status.OK, input_tokens=999
        ),
        Event(
            event_id=new_id(),
            ts=START,
            run_id="replay",
            episode_id="e1",
            action=Action.TOOL_CHECKED,
            name="find",
            status=Status.OK,
        ),
        Event(event_id=new_id(), ts=START, run_id="talk", action=Action.REFLECTION, status=Status.OK, output="{}"),
    ]
    write(lab, more=extra)
    after = evaluator.evaluate(lab).to_dict()
    assert after["versions"] == before["versions"]


def test_a_replay_of_real_episodes_changes_no_score(tmp_path: Path) -> None:
    write_weather(tmp_path / "lab", 4)
    use_script(tmp_path / "lab", good_run(4))
    lab = hermes_lab.open(tmp_path / "lab")
    lab.run(SUITE)
    before = evaluator.evaluate(lab).to_dict()
    events = lab.log.sql("select count(*) from events").fetchall()
    replay.replay(lab, config=changed(AgentConfig(), **{"routing.shortlist": 1}), after="cached")
    replay.replay(lab)
    assert lab.log.sql("select count(*) from events").fetchall() > events
    assert evaluator.evaluate(lab).to_dict() == before


# -- the scoring file -------------------------------------------------------------------------------------------------


def test_another_scoring_file_changes_results_and_their_hash(lab: Lab) -> None:
    write(lab, Episode(grades=(0.0,)))
    before = evaluator.evaluate(lab)
    (lab.path / "scoring.toml").write_text(
        "[weights]\ncompletion = 0.7\neffectiveness = 0.1\nsafety = 0.1\nfeedback = 0.1\n", encoding="utf-8"
    )
    after = evaluator.evaluate(lab)
    # (0.7 * 0 + 0.1 + 0.1) / 0.9
    assert after.versions.base[0] == pytest.approx(0.2222222222)
    assert before.scoring.version != after.scoring.version
    assert after.to_dict()["scoring"] == after.scoring.version


def test_weights_that_do_not_sum_to_1_are_refused(lab: Lab) -> None:
    write(lab, Episode())
    (lab.path / "scoring.toml").write_text("[weights]\ncompletion = 0.5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"weights sum to 1\.1, and must sum to 1"):
        evaluator.evaluate(lab)


def test_success_begins_where_the_scoring_says(lab: Lab) -> None:
    write(lab, Episode(grades=(0.9,)))
    assert only(lab, scoring=Scoring(success=0.8)).successes == 1
    assert only(lab, scoring=Scoring()).successes == 0


def test_a_lab_without_episodes_says_so(lab: Lab) -> None:
    with pytest.raises(MissingError, match="there is no such episode"):
        evaluator.evaluate(lab)
    write(lab, Episode())
    with pytest.raises(MissingError, match="there is no such episode"):
        evaluator.evaluate(lab, Selection(versions=("v9",)))


# -- proofs of growth, and signs of gaming ------------------------------------------------------------------------


def test_the_three_proofs_tell_a_stronger_version(lab: Lab) -> None:
    write(
        lab,
        Episode("a", version="v1", doings=(ERROR, Call(given="2")), steps=4),
        Episode("b", version="v1", grades=(0.0,), doings=(ERROR,)),
        Episode("c", version="v2", minute=60, steps=2),
        Episode("d", version="v2", minute=61, steps=2, doings=(ERROR, Call(given="2"))),
    )
    first, second = evaluator.evaluate(lab).proofs.to_dict("records")
    assert (first["first_attempt_success"], second["first_attempt_success"]) == (0.0, 0.5)
    assert (first["turns_to_success"], second["turns_to_success"]) == (4.0, 2.0)
    # nothing was known before v1; in one of two episodes v2 met the error of v1
    assert math.isnan(first["known_error_share"])
    assert second["known_error_share"] == 0.5


def gaming(lab: Lab) -> pd.DataFrame:
    return evaluator.evaluate(lab).gaming.set_index("config_version")


def test_an_agent_that_stops_calling_tools_is_found_over_cautious(lab: Lab) -> None:
    write(
        lab,
        *(Episode(f"a{n}", version="v1") for n in range(10)),
        *(Episode(f"b{n}", version="v2", minute=60, doings=(Call(),) if n < 8 else ()) for n in range(10)),
    )
    found = gaming(lab)
    assert found.loc["v2"].is_over_cautious
    assert found.loc["v2"].no_call_share == pytest.approx(0.2)
    assert not found.loc["v1"].is_over_cautious


def test_completion_that_was_bought_with_cost_is_found(lab: Lab) -> None:
    write(
        lab,
        *(Episode(f"a{n}", version="v1", grades=(float(n > 0),)) for n in range(4)),
        *(Episode(f"b{n}", version="v2", minute=60, tokens=(580, 20)) for n in range(4)),
    )
    found = gaming(lab)
    assert found.loc["v2"].is_bought
    assert found.loc["v2"].cost_ratio == pytest.approx(6.0)


def test_searches_that_spread_and_miss_are_found(lab: Lab) -> None:
    spray = (NONE_FOUND, replace(NONE_FOUND, given="coffee"), FOUND)
    write(
        lab,
        *(Episode(f"a{n}", version="v1", doings=(FOUND,)) for n in range(4)),
        *(Episode(f"b{n}", version="v2", minute=60, doings=spray) for n in range(4)),
    )
    found = gaming(lab)
    assert found.loc["v2"].is_spraying
    assert found.loc["v2"].ineffective_share == pytest.approx(2 / 3)


def test_difficulty_tiers_are_told_apart(lab: Lab) -> None:
    write(lab, Episode("a", difficulty=1), Episode("b", difficulty=3, grades=(0.0,)))
    found = evaluator.by_difficulty(lab).set_index("difficulty")
    assert found.loc[1].completion == 1.0
    assert found.loc[3].completion == 0.0


def test_all_of_it_is_plain_json(lab: Lab, tmp_path: Path) -> None:
    write(lab, Episode(), Episode("b", type=None, grades=(None,)))
    told = evaluator.evaluate(lab).to_dict()
    assert payload.loads(payload.dumps(told)) == told
