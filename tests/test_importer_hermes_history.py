"""Which rows are events: a small hermes-agent writes and rewrites histories, and knows what was said."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.importers.hermes_agent.copies import CallMark, Mark
from hermes_lab.importers.hermes_agent.history import Fate, plan


@dataclass
class Agent:
    """Writes marks as hermes-agent writes rows; `truth[i]` is the event that row i is, or says again."""

    random: random.Random
    keeps_times: bool
    told_summaries: bool
    counted_ids: bool
    marks: list[Mark] = field(default_factory=list)
    truth: list[str] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    parents: list[int | None] = field(default_factory=lambda: [None])
    clock: float = 0.0
    rewound: set[str] = field(default_factory=set)
    events: int = 0

    def write(self, mark: Mark, event: str) -> None:
        self.clock += 1
        self.live.append(len(self.marks))
        self.marks.append(mark._replace(session=len(self.parents) - 1, stamp=self.clock))
        self.truth.append(event)

    def event(self) -> str:
        self.events += 1
        return f"event {self.events}"

    def words(self) -> str:
        return self.random.choice(["ok", "continue", f"words {self.events}", f"more words {self.events}"])

    def turn(self) -> None:
        self.write(Mark(0, "user", f"user {self.words()}"), self.event())
        for _ in range(self.random.randrange(3)):
            event = self.event()
            call_id = "call_0" if self.counted_ids else f"call_{event[6:]:0>12}"
            body = self.random.choice(["date", event])
            self.write(Mark(0, "assistant", f"calls {body}", calls=(CallMark((call_id,), body),)), event)
            if self.random.random() < 0.9:
                self.write(Mark(0, "tool", f"result {event} {call_id}", answers=call_id), f"result of {event}")
        self.write(Mark(0, "assistant", f"assistant {self.words()}"), self.event())

    def rewind(self) -> None:
        # A rewind keeps the summary, and what stands before it.
        start = max((i for i in self.live if self.truth[i].startswith("summary")), default=-1)
        users = [i for i in self.live if self.marks[i].role == "user" and i > start]
        if len(users) < 2:
            return
        at = self.random.choice(users[1:])
        taken = [i for i in self.live if i >= at]
        for i in taken:
            self.marks[i] = self.marks[i]._replace(active=False, compacted=False)
            self.rewound.add(self.truth[i])
        self.live = [i for i in self.live if i < at]
        if self.random.random() < 0.5:  # the same question again
            self.write(self.marks[at]._replace(active=True), self.event())

    def compact(self) -> None:
        if len(self.live) < 6:
            return
        old, head = self.live, self.random.choice([0, 0, 3])
        tail = self.random.randrange(1, len(old) - head)
        again = [(self.marks[i], self.truth[i]) for i in (*old[:head], *old[-tail:])]
        self.live = []
        if self.random.random() < 0.5:
            self.parents.append(len(self.parents) - 1)
        else:
            for i in old:
                superseded = self.keeps_times and i in old[-tail:]
                self.marks[i] = self.marks[i]._replace(active=False, compacted=not superseded)
        summary = f"summary {self.event()}"
        rows = [
            *again[:head],
            (Mark(0, "user", summary, summary=self.told_summaries), summary),
            *again[head:],
        ]
        for mark, event in rows:
            stamp = mark.stamp
            self.write(mark._replace(active=True, compacted=False), event)
            if self.keeps_times and stamp is not None:
                self.marks[-1] = self.marks[-1]._replace(stamp=stamp)

    def live_on(self, steps: int) -> None:
        self.turn()
        for _ in range(steps):
            self.random.choice([self.turn, self.turn, self.rewind, self.compact])()


def check(agent: Agent) -> None:
    steps = plan(agent.marks, agent.parents)
    found = [
        agent.truth[i]
        for i, step in enumerate(steps)
        if step.fate in (Fate.MESSAGE, Fate.GENERATION, Fate.SUMMARY, Fate.ANSWER)
    ]
    assert sorted(found) == sorted(set(agent.truth))
    for i, step in enumerate(steps):
        if step.fate in (Fate.MESSAGE, Fate.GENERATION):
            assert step.retracted == (agent.truth[i] in agent.rewound)
        for call in step.calls:
            if call.answer is not None:
                assert agent.truth[call.answer] == f"result of {agent.truth[i]}"
    keys = [(agent.marks[i].session, step.key) for i, step in enumerate(steps) if step.key]
    assert len(keys) == len(set(keys))


@settings(max_examples=200, deadline=None)
@given(st.integers(), st.integers(1, 12))
def test_histories_with_times_kept(seed: int, steps: int) -> None:
    agent = Agent(random.Random(seed), keeps_times=True, told_summaries=True, counted_ids=False)
    agent.live_on(steps)
    check(agent)


def test_histories_with_new_times_are_told_apart_but_for_one_in_a_hundred() -> None:
    """Copies that have new times and no ids look like somebody who says the same again: here a rate, not a law."""
    wrong = 0
    for seed in range(300):
        agent = Agent(random.Random(seed), keeps_times=False, told_summaries=True, counted_ids=False)
        agent.live_on(1 + seed % 12)
        try:
            check(agent)
        except AssertionError:
            wrong += 1
    assert wrong <= 3


@settings(max_examples=200, deadline=None)
@given(st.integers(), st.integers(1, 12))
def test_histories_with_call_ids_that_start_anew_in_every_turn(seed: int, steps: int) -> None:
    agent = Agent(random.Random(seed), keeps_times=True, told_summaries=True, counted_ids=True)
    agent.live_on(steps)
    check(agent)


@settings(max_examples=200, deadline=None)
@given(st.integers(), st.integers(1, 12))
def test_keys_stay_as_a_history_grows(seed: int, steps: int) -> None:
    agent = Agent(random.Random(seed), keeps_times=True, told_summaries=True, counted_ids=False)
    agent.turn()
    before: set[tuple[int, str]] = set()
    for _ in range(steps):
        agent.random.choice([agent.turn, agent.turn, agent.rewind, agent.compact])()
        planned = plan(agent.marks, agent.parents)
        now = {(agent.marks[i].session, step.key) for i, step in enumerate(planned) if step.key}
        assert before <= now
        before = now
