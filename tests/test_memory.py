"""Memories: the fold over events, what a prompt is shown of them, and recall."""

from __future__ import annotations

import datetime as dt
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_lab import PERSON, events_of, record, returned, said

from hermes_lab.compress import estimate_tokens
from hermes_lab.events import Action, Status
from hermes_lab.lab import Lab
from hermes_lab.memory.records import (
    RECALL_TOOL,
    RETEST_AFTER,
    ForContext,
    Kind,
    Memory,
    State,
    for_context,
    for_retest,
    memory_id,
    recall,
    recalled,
    tells_of_outage,
)
from hermes_lab.proposals import ProposalError, Queue, open_queue
from hermes_lab.proposals.history import ACTIONS, of
from hermes_lab.proposals.session import id_after
from hermes_lab.proposals.standing import as_of
from hermes_lab.proposals.steps import digest_of

NOW = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def memory(text: str, kind: Kind = Kind.FACT, **fields: object) -> Memory:
    base = {"id": memory_id(text, kind), "text": text, "kind": kind, "state": State.ACTIVE, "created": NOW}
    return Memory(**{**base, **fields})  # type: ignore[arg-type]


def state(queue: Queue, name: str, now: dt.datetime | None = None) -> str:
    return next(str(one.state) for one in queue.standing(now).memories if one.id == name)


# ---------------------------------------------------------------- the fold


def test_states_through_a_life(lab: Lab) -> None:
    queue = open_queue(lab)
    event = said(lab, "以后请用中文回复。")
    made = queue.propose_memory("请用中文回复。", "preference", evidence=[event], source="micro_reflection")
    assert state(queue, made.name) == "proposed"
    decision = queue.approve(made.proposal, **PERSON)
    assert state(queue, made.name) == "active"
    retraction = queue.retract(made.name, **PERSON)
    assert state(queue, made.name) == "retracted"
    queue.undo(retraction, **PERSON)
    assert state(queue, made.name) == "active"
    queue.undo(decision, **PERSON)
    assert state(queue, made.name) == "proposed"
    queue.reject(made.proposal, **PERSON)
    assert state(queue, made.name) == "rejected"
    assert for_context(queue.standing().memories, "orders") == ForContext((), (), ())


def test_the_record_says_where_it_comes_from(lab: Lab) -> None:
    queue = open_queue(lab)
    event = said(lab, "Orders of VIP customers go first 🚀")
    made = queue.propose_memory(
        "Orders of VIP customers go first 🚀",
        "constraint",
        evidence=[event],
        source="full_reflection",
        scope="orders",
        key="order.priority",
        config_version="c-0123456789ab",
        confidence=0.75,
        run_id="session-1",
    )
    queue.approve(made.proposal, **PERSON)
    (written,) = events_of(lab, "memory_written")
    (found,) = queue.standing().memories
    assert (written.config_version, written.run_id, written.name) == ("c-0123456789ab", "session-1", found.id)
    assert found == msgspec.json.decode(written.input or "", type=Memory)
    assert found.created is not None
    assert msgspec.structs.asdict(found) == {
        "id": made.name,
        "text": "Orders of VIP customers go first 🚀",
        "kind": Kind.CONSTRAINT,
        "scope": "orders",
        "key": "order.priority",
        "sources": (event,),
        "config_version": "c-0123456789ab",
        "confidence": 0.75,
        "created": found.created,
        "last_used": None,
        "expires": None,
        "state": State.ACTIVE,
        "pinned": False,
    }


def test_as_of_a_moment(lab: Lab) -> None:
    queue = open_queue(lab)
    made = queue.propose_memory(
        "Ships by DHL.", "fact", evidence=[said(lab, "It ships by DHL.")], source="micro_reflection"
    )
    before = dt.datetime.now(dt.UTC)
    queue.approve(made.proposal, **PERSON)
    assert (state(queue, made.name, before), state(queue, made.name)) == ("proposed", "active")
    assert queue.standing(before - dt.timedelta(days=1)).memories == ()


def test_rolled_back_versions_are_taken_back_and_what_they_replaced_stands_again(lab: Lab) -> None:
    queue = open_queue(lab)
    old = queue.propose_memory(
        "Ship orders by UPS.",
        "preference",
        evidence=[said(lab, "Ship orders by UPS.")],
        source="micro_reflection",
        config_version="c-old",
    )
    queue.approve(old.proposal, **PERSON)
    new = queue.propose_memory(
        "From now on ship orders by DHL instead of UPS.",
        "preference",
        evidence=[said(lab, "From now on ship orders by DHL instead of UPS.", "e2")],
        source="micro_reflection",
        config_version="c-new",
    )
    assert [conflict.kind for conflict in new.conflicts] == ["supersedes"]
    queue.approve(new.proposal, **PERSON)
    assert (state(queue, old.name), state(queue, new.name)) == ("superseded", "active")
    record(lab, Action.ROLLED_BACK, name="c-new")
    assert (state(queue, old.name), state(queue, new.name)) == ("active", "retracted")
    lines = for_context(queue.standing().memories, "any").index_lines
    assert [line.split(" ")[0] for line in lines] == [old.name]


def test_an_outage_expires_and_is_listed_for_retest(lab: Lab) -> None:
    queue = open_queue(lab)
    event = returned(lab, "search_products", {"error": "search_products timed out"}, status=Status.ERROR)
    made = queue.propose_memory(
        "search_products timed out.", "lesson", evidence=[event], source="micro_reflection", scope="orders"
    )
    queue.approve(made.proposal, **PERSON)
    (found,) = queue.standing().memories
    assert found.created is not None
    assert found.expires == found.created + RETEST_AFTER
    later = found.created + RETEST_AFTER
    assert state(queue, made.name, later) == "expired"
    assert [one.id for one in for_retest(queue.standing(later).memories)] == [made.name]
    assert for_retest(queue.standing().memories) == ()
    assert for_context(queue.standing(later).memories, "orders").index_lines == ()


def test_an_outage_of_last_week_is_not_approved_and_one_seen_again_is(lab: Lab) -> None:
    text = "search_products timed out."
    ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=8)
    old = returned(lab, "search_products", {"error": "search_products timed out"}, status=Status.ERROR, ts=ago)
    name = memory_id(text, "lesson")
    given = {
        "memory": {"id": name, "text": text, "kind": "lesson"},
        "evidence": [old],
        "source": "micro_reflection",
    }
    early = id_after("")[:-1] + "0"
    proposal = record(lab, Action.MEMORY_PROPOSED, name=name, input=given, ts=ago, event_id=early)
    queue = open_queue(lab)
    with pytest.raises(ProposalError, match="it held until"):
        queue.approve(proposal, **PERSON)
    digest = digest_of(Action.MEMORY_PROPOSED, name, given, None)
    record(
        lab,
        Action.PROPOSAL_DECIDED,
        name=proposal,
        parent_id=proposal,
        input=PERSON,
        output={"decision": "approved", "edited": None, "digest": digest},
        ts=ago,
    )
    assert [one.id for one in for_retest(queue.standing().memories)] == [name]
    again = returned(lab, "search_products", {"error": "search_products timed out"}, status=Status.ERROR)
    made = queue.propose_memory(text, "lesson", evidence=[again], source="micro_reflection")
    assert (made.name, made.new) == (name, True)
    queue.approve(made.proposal, **PERSON)
    assert queue.standing().memories[0].state is State.ACTIVE


def test_last_used_comes_from_recalls(lab: Lab) -> None:
    queue = open_queue(lab)
    made = queue.propose_memory("店铺在杭州。", "fact", evidence=[said(lab, "店铺在杭州。")], source="micro_reflection")
    queue.approve(made.proposal, **PERSON)
    assert queue.standing().memories[0].last_used is None
    output = recalled(recall(queue.standing().memories, "店铺 在哪"))
    returned(lab, RECALL_TOOL, output, "e9")
    returned(lab, "other", output, "e9")
    used = queue.standing().memories[0].last_used
    assert used is not None
    (event,) = [one for one in events_of(lab, "tool_called") if one.name == RECALL_TOOL]
    assert used == event.ts


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_order_and_number_of_events_do_not_matter(story: list, seed: int) -> None:
    rng = random.Random(seed)
    shuffled = story + [rng.choice(story) for _ in range(rng.randrange(len(story)))]
    rng.shuffle(shuffled)
    moment = rng.choice(story).ts
    assert as_of(of(shuffled), moment) == as_of(of(story), moment)
    assert of(shuffled) == of(story)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list:
    """The events of a queue in which all kinds of things happened."""
    import hermes_lab

    lab = hermes_lab.open(tmp_path_factory.mktemp("story") / "lab")
    queue = open_queue(lab)
    texts = [f"Order number {n} 的客户是 VIP{n}。" for n in range(8)]
    event = said(lab, " ".join(texts))
    made = [queue.propose_memory(text, "fact", evidence=[event], source="micro_reflection") for text in texts]
    decisions = [queue.approve(one.proposal, **PERSON, keep_both=True) for one in made[:5]]
    queue.reject(made[5].proposal, **PERSON)
    queue.undo(decisions[0], **PERSON)
    queue.approve(made[0].proposal, **PERSON, keep_both=True)
    queue.pin(made[1].name, **PERSON)
    queue.retract(made[2].name, **PERSON)
    record(lab, Action.ROLLED_BACK, name="c-1")
    record(lab, Action.MEMORY_WRITTEN, name=made[6].name, input={"text": "forged"})
    return list(lab.log.events(f"action in ({', '.join(repr(str(a)) for a in ACTIONS)})"))


# ---------------------------------------------------------------- what a prompt is shown


def test_only_the_active_ones_of_the_scope() -> None:
    shown = [memory("for all"), memory("for orders", scope="orders"), memory("pinned 中文", pinned=True)]
    hidden = [memory("for others", scope="returns"), memory("pinned elsewhere", scope="returns", pinned=True)]
    hidden += [memory(f"{one} 状态", state=one) for one in State if one is not State.ACTIVE]
    found = for_context(shown + hidden, "orders")
    assert [one.text for one in found.pinned] == ["pinned 中文"]
    assert sorted(line.split(": ", 1)[1] for line in found.index_lines) == ["for all", "for orders"]
    assert found.left_out == ()


def test_the_index_keeps_to_its_tokens_and_says_what_it_left_out() -> None:
    records = [
        memory(f"记忆 number {n} about 退款 and shipping " * 6, created=NOW + dt.timedelta(n)) for n in range(300)
    ]
    found = for_context(records, "any", index_tokens=400)
    assert estimate_tokens("\n".join(found.index_lines)) <= 400
    assert len(found.index_lines) + len(found.left_out) == 300
    assert found.index_lines
    assert all("\n" not in line for line in found.index_lines)
    assert for_context(records, "any", index_tokens=0).index_lines == ()


def test_what_must_not_be_missed_stays_when_the_room_is_short() -> None:
    records = [memory(f"Fact number {n} about nothing much.") for n in range(50)]
    records.append(memory("Never refund without the order number.", Kind.CONSTRAINT))
    lines = for_context(records, "any", index_tokens=60).index_lines
    assert any("constraint: Never refund" in line for line in lines)


def test_a_new_memory_changes_only_the_end() -> None:
    records = [memory(f"Fact {n}", created=NOW + dt.timedelta(n)) for n in range(10)]
    before = for_context(records, "any").index_lines
    after = for_context([*records, memory("new", Kind.CONSTRAINT, created=NOW + dt.timedelta(99))], "any").index_lines
    assert after[:-1] == before


_records = st.lists(
    st.builds(
        memory,
        st.text(min_size=1, max_size=40),
        st.sampled_from(Kind),
        scope=st.sampled_from(["*", "orders", "退货"]),
        state=st.sampled_from(State),
        pinned=st.booleans(),
        confidence=st.one_of(st.none(), st.floats(0, 1)),
        created=st.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2027, 1, 1), timezones=st.just(dt.UTC)),  # noqa: DTZ001
    ),
    max_size=30,
    unique_by=lambda one: one.id,
)


@settings(max_examples=100, deadline=None)
@given(records=_records, seed=st.integers(), room=st.integers(0, 300))
def test_the_same_in_any_order(records: list[Memory], seed: int, room: int) -> None:
    shuffled = records[:]
    random.Random(seed).shuffle(shuffled)
    assert for_context(shuffled, "orders", index_tokens=room) == for_context(records, "orders", index_tokens=room)


# ---------------------------------------------------------------- recall


def test_recall_by_id_and_by_words() -> None:
    records = [
        memory("退款要先查库存。"),
        memory("Refunds above 500 need a manager."),
        memory("The shop is in 杭州.", scope="returns"),
        memory("gone", state=State.RETRACTED),
    ]
    assert recall(records, records[0].id) == (records[0],)
    assert recall(records, "退款 库存") == (records[0],)
    assert recall(records, "who approves refunds of 500?") == (records[1],)
    assert recall(records, "杭州", "orders") == ()
    assert recall(records, "杭州", "returns") == (records[2],)
    assert recall(records, records[3].id) == ()
    assert recall(records, "") == ()


@pytest.mark.parametrize(
    ("text", "outage"),
    [
        ("track_shipment is down.", True),
        ("The search tool returned a 503 error.", True),
        ("track_shipment does not work with old numbers.", True),
        ("物流查询接口宕机。", True),
        ("搜索商品一直超时", True),
        ("Look the order up first.", False),
        ("先查订单再退款。", False),
    ],
)
def test_which_lessons_tell_of_an_outage(text: str, outage: bool) -> None:
    assert tells_of_outage("lesson", text) is outage
    assert not tells_of_outage("preference", text)
