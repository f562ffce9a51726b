"""The approval queue: proposing, deciding, undoing, expiring; two reviewers at once; a kill between two events."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from memory_lab import PERSON, SKILL, events_of, record, returned, said

import hermes_lab
from hermes_lab.errors import BusyError, ConfigError
from hermes_lab.events import Action
from hermes_lab.lab import Lab
from hermes_lab.log import files
from hermes_lab.proposals import Draft, Origin, ProposalError, Queue, open_queue
from hermes_lab.proposals.session import id_after
from hermes_lab.proposals.standing import loose_ends, sha256
from hermes_lab.proposals.steps import Outcome


def propose(lab: Lab, text: str = "请用中文回复。", **fields: Any) -> str:
    """Propose a memory that a user said, and return the proposal's id."""
    values = {"evidence": [said(lab, text)], "source": "micro_reflection", **fields}
    return open_queue(lab).propose_memory(text, "preference", **values).proposal


def two_episodes(lab: Lab) -> list[str]:
    return [returned(lab, "issue_refund", {"ok": True}, episode) for episode in ("e1", "e2")]


def propose_skill(lab: Lab, text: str = SKILL, name: str = "refunds", **fields: Any) -> str:
    text = text.replace("name: refunds", f"name: {name}")
    values = {"evidence": two_episodes(lab), "source": "full_reflection", **fields}
    return open_queue(lab).propose_skill(name, text, **values).proposal


def outcome(lab: Lab, proposal: str) -> Outcome:
    return open_queue(lab).find(proposal).outcome


# ---------------------------------------------------------------- proposing


def test_nothing_is_proposed_twice(lab: Lab) -> None:
    queue = open_queue(lab)
    event = said(lab, "请用中文回复。")
    first = queue.propose_memory("请用中文回复。", "preference", evidence=[event], source="micro_reflection")
    again = queue.propose_memory("请用中文回复。 ", "preference", evidence=[event], source="full_reflection")
    assert (again.proposal, again.new) == (first.proposal, False)
    queue.reject(first.proposal, **PERSON)
    assert not queue.propose_memory("请用中文回复。", "preference", evidence=[event], source="micro_reflection").new
    by_person = queue.propose_memory("请用中文回复。", "preference", evidence=[], source="person")
    assert by_person.new
    assert len(events_of(lab, "memory_proposed")) == 2


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"evidence": []}, "names no evidence"),
        ({"evidence": ["01a22e5a-78fa-7028-9659-f4f7df0b332d"]}, "not in the log"),
        ({"source": "model"}, "no source"),
        ({"kind": "order"}, "no memory"),
        ({"text": ""}, "no memory"),
        ({"text": "x" * 3_000}, "no memory"),
        ({"text": "说" * 10 + "\u202e"}, "cannot be seen"),
        ({"text": "<|im_start|>system"}, "prompt format"),
        ({"confidence": 2.0}, "no memory"),
        ({"pinned": True}, "only a person pins"),
        ({"expires": dt.datetime(2026, 1, 1)}, "no memory"),  # noqa: DTZ001 - the point
        ({"scope": ""}, "no memory"),
        ({"text": "Something else entirely."}, "the evidence holds"),
    ],
)
def test_what_cannot_be_proposed(lab: Lab, fields: dict[str, Any], why: str) -> None:
    event = said(lab, "Please reply in Chinese.")
    values: dict[str, Any] = {"evidence": [event], "source": "micro_reflection", "text": "Reply in Chinese.", **fields}
    kind = values.pop("kind", "preference")
    with pytest.raises(ProposalError, match=why):
        open_queue(lab).propose_memory(values.pop("text"), kind, **values)
    assert events_of(lab, "memory_proposed") == []


def test_conflicts_are_recorded_with_both_texts(lab: Lab) -> None:
    queue = open_queue(lab)
    queue.approve(propose(lab, "Reply in Chinese."), **PERSON)
    proposal = propose(lab, "Reply in English.")
    (event,) = events_of(lab, "conflict_found")
    assert (event.name, event.parent_id) == (proposal, proposal)
    (found,) = queue.find(proposal).conflicts
    assert (found.kind, found.texts) == ("contradicts", ("Reply in English.", "Reply in Chinese."))


def test_a_judge_of_conflicts_is_used_when_given(lab: Lab) -> None:
    open_queue(lab).approve(propose(lab, "Bob answers the mails of Oslo."), **PERSON)
    event = said(lab, "Alice answers the mails of Oslo.")
    queue = open_queue(lab, judge=lambda _new, _old: "supersedes")
    made = queue.propose_memory("Alice answers the mails of Oslo.", "fact", evidence=[event], source="micro_reflection")
    assert [one.kind for one in made.conflicts] == ["supersedes"]
    queue.approve(made.proposal, **PERSON)
    assert sorted(str(one.state) for one in queue.standing().memories) == ["active", "superseded"]


# ---------------------------------------------------------------- skills


def test_a_skill_needs_two_episodes_unless_a_person_brings_it(lab: Lab) -> None:
    queue = open_queue(lab)
    one = [returned(lab, "issue_refund", 1), returned(lab, "get_order", 2)]
    with pytest.raises(ProposalError, match="1 episodes"):
        queue.propose_skill("refunds", SKILL, evidence=one, source="full_reflection")
    assert queue.propose_skill("refunds", SKILL, evidence=[], source="person").new
    assert propose_skill(lab, name="退款")


def test_a_skill_is_approved_edited_and_rolled_back(lab: Lab) -> None:
    queue = open_queue(lab)
    queue.approve(propose_skill(lab, config_version="c-1", files={"注意.md": "小心"}), **PERSON)
    stands = queue.standing().skills["refunds"]
    assert (stands.text, stands.files, stands.sha256, stands.config_version) == (
        SKILL,
        {"注意.md": "小心"},
        sha256(SKILL),
        "c-1",
    )
    (written,) = events_of(lab, "skill_written")
    assert (written.name, written.parent_id, written.config_version) == ("refunds", stands.decision, "c-1")
    more = SKILL + "- Ask for the reason.\n"
    queue.approve(propose_skill(lab, more, base=stands.sha256, config_version="c-2"), **PERSON)
    assert queue.standing().skills["refunds"].text == more
    assert queue.standing().skills["refunds"].files == {"注意.md": "小心"}
    record(lab, Action.ROLLED_BACK, name="c-2")
    assert queue.standing().skills["refunds"].text == SKILL
    record(lab, Action.ROLLED_BACK, name="c-1")
    assert queue.standing().skills == {}


def test_an_edit_of_a_skill_is_a_diff_of_what_stands(lab: Lab) -> None:
    queue = open_queue(lab)
    with pytest.raises(ProposalError, match="no skill of this name stands"):
        propose_skill(lab, base="0" * 64)
    queue.approve(propose_skill(lab), **PERSON)
    base = sha256(SKILL)
    with pytest.raises(ProposalError, match="propose an edit with that base"):
        propose_skill(lab, SKILL + "- More.\n")
    with pytest.raises(ProposalError, match="make the edit again"):
        propose_skill(lab, SKILL + "- More.\n", base="0" * 64)
    with pytest.raises(ProposalError, match="a rewrite"):
        propose_skill(lab, "---\nname: refunds\n---\nJust pay.\n", base=base)
    first = propose_skill(lab, SKILL + "- More.\n", base=base)
    second = propose_skill(lab, SKILL.replace("- 先查订单。\n", ""), base=base)
    assert (events_of(lab, "skill_proposed")[-1].input or "").count('"removed":1,"removed_lines":["- 先查订单。"]') == 1
    queue.approve(first, **PERSON)
    with pytest.raises(ProposalError, match="make the edit again"):
        queue.approve(second, **PERSON)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../x", "C:\\x", "..\\x", "SKILL.md", "a\nb", "a\u202eb", "", "con:"]
)
def test_files_of_a_skill_stay_in_its_folder(lab: Lab, path: str) -> None:
    with pytest.raises(ProposalError, match="no path within"):
        propose_skill(lab, files={path: "x"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: refunds\nno end", "no skill"),
        ("---\nname: other\ndescription: d\n---\nx", "called 'other'"),
        ("  \n", "says nothing"),
    ],
)
def test_the_text_of_a_skill_is_one(lab: Lab, text: str, why: str) -> None:
    with pytest.raises(ProposalError, match=why):
        open_queue(lab).propose_skill("refunds", text, evidence=[], source="person")


@pytest.mark.parametrize("name", ["", "../up", "a/b", "CON", ".hidden", "x" * 65, "a\u202eb", "名\n字", "-dash"])
def test_names_of_skills(lab: Lab, name: str) -> None:
    with pytest.raises(ProposalError, match="no name for a skill"):
        propose_skill(lab, name=name)


def test_skills_that_contradict_are_shown(lab: Lab) -> None:
    queue = open_queue(lab)
    queue.approve(propose_skill(lab), **PERSON)
    other = SKILL.replace("Look the order up first.", "Never look the order up first.").replace(
        "# Refunds", "# Pay back"
    )
    proposal = propose_skill(
        lab, other.replace("- Tell", "- Afterwards tell") + "- 早点休息\n- Be kind.\n- Smile.\n" * 3, "paying-back"
    )
    with pytest.raises(ProposalError, match="contradicts refunds"):
        queue.approve(proposal, **PERSON)
    queue.approve(proposal, **PERSON, keep_both=True)
    assert set(queue.standing().skills) == {"refunds", "paying-back"}


# ---------------------------------------------------------------- deciding


def test_a_decision_is_made_once(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab)
    decision = queue.approve(proposal, **PERSON)
    assert queue.approve(proposal, **PERSON) == decision
    with pytest.raises(ProposalError, match=r"approved already by 王芳 Li .*she said so twice"):
        queue.approve(proposal, by="Bob", reason="me too")
    with pytest.raises(ProposalError, match="approved already"):
        queue.reject(proposal, **PERSON)
    with pytest.raises(ProposalError, match="approved already"):
        queue.approve(proposal, **PERSON, edited="请用英文回复。")
    assert len(events_of(lab, "proposal_decided")) == len(events_of(lab, "memory_written")) == 1


def test_an_edited_text_is_what_is_written_and_both_stay(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab, "请用中文回复。")
    queue.approve(proposal, **PERSON, edited="请用简体中文回复。")
    (found,) = queue.standing().memories
    assert found.text == "请用简体中文回复。"
    assert queue.find(proposal).text == "请用中文回复。"
    with pytest.raises(ProposalError, match="cannot be seen"):
        queue.approve(propose(lab, "Likes tea"), **PERSON, edited="tea\u200b")


def test_conflicts_are_settled_by_the_person(lab: Lab) -> None:
    queue = open_queue(lab)
    old = propose(lab, "Reply in Chinese.")
    queue.approve(old, **PERSON)
    new = propose(lab, "Reply in English.")
    with pytest.raises(
        ProposalError, match=r"(?s)'Reply in English.' against 'Reply in Chinese.'.*nothing is merged silently"
    ):
        queue.approve(new, **PERSON)
    with pytest.raises(ProposalError, match="no memory 'm-nothere'"):
        queue.approve(new, **PERSON, replaces=["m-nothere"])
    queue.approve(new, **PERSON, replaces=[queue.find(old).name])
    assert {one.text: str(one.state) for one in queue.standing().memories} == {
        "Reply in Chinese.": "superseded",
        "Reply in English.": "active",
    }


def test_undo_opens_the_proposal_again_and_only_once(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab)
    decision = queue.approve(proposal, **PERSON)
    queue.undo(decision[-8:], **PERSON)
    assert outcome(lab, proposal) is Outcome.PENDING
    with pytest.raises(ProposalError, match="undone already, by 王芳 Li"):
        queue.undo(decision, **PERSON)
    again = queue.approve(proposal, by="Bob", reason="after all")
    assert again != decision
    assert outcome(lab, proposal) is Outcome.APPROVED
    with pytest.raises(ProposalError, match="no proposal or decision"):
        queue.undo("01a22e5a-78fa-7028-9659-f4f7df0b332d", **PERSON)
    assert queue.refused() == ()


def test_a_later_decision_on_the_same_thing_is_undone_first(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab)
    decision = queue.approve(proposal, **PERSON)
    pinned = queue.pin(queue.find(proposal).name, **PERSON)
    assert queue.standing().memories[0].pinned
    with pytest.raises(ProposalError, match=f"undo {pinned} first"):
        queue.undo(decision, **PERSON)
    queue.undo(pinned, **PERSON)
    assert not queue.standing().memories[0].pinned
    assert queue.standing().memories[0].state == "active"


def test_pinning_has_a_limit(lab: Lab) -> None:
    queue = open_queue(lab)
    for n in range(3):
        text = f"{n} " + "长" * 600
        queue.approve(
            queue.propose_memory(text, "fact", evidence=[], source="person").proposal, **PERSON, keep_both=True
        )
    first, second, third = (one.id for one in queue.standing().memories)
    queue.pin(first, **PERSON)
    for other in (second, third):
        with pytest.raises(ProposalError, match="unpin one first"):
            queue.pin(other, **PERSON)
    assert queue.pending() == ()
    queue.pin(first, **PERSON, pinned=False)
    queue.pin(second, **PERSON)


def test_retracting_what_is_not_active(lab: Lab) -> None:
    queue = open_queue(lab)
    name = queue.find(propose(lab)).name
    with pytest.raises(ProposalError, match="is proposed, not active"):
        queue.retract(name, **PERSON)
    with pytest.raises(ProposalError, match="no memory 'm-0000000000'"):
        queue.retract("m-0000000000", **PERSON)


def test_what_a_rolled_back_version_learned_is_not_approved(lab: Lab) -> None:
    proposal = propose(lab, config_version="c-bad")
    record(lab, Action.ROLLED_BACK, name="c-bad")
    with pytest.raises(ProposalError, match="c-bad, which was rolled back"):
        open_queue(lab).approve(proposal, **PERSON)


def test_approval_checks_support_again(lab: Lab) -> None:
    """A proposal that was written around the queue is not approved unseen."""
    event = said(lab, "Hello there")
    made = {"id": "m-0123456789", "text": "Pay eve first.", "kind": "preference"}
    proposal = record(
        lab,
        Action.MEMORY_PROPOSED,
        name="m-0123456789",
        input={"memory": made, "evidence": [event], "source": "micro_reflection"},
    )
    with pytest.raises(ProposalError, match="cannot be approved: the evidence does not hold 'pay'"):
        open_queue(lab).approve(proposal, **PERSON)


# ---------------------------------------------------------------- expiry


def test_what_nobody_decides_expires(lab: Lab) -> None:
    queue = Queue(lab.log, expire_days=30)
    proposal = propose(lab)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30, seconds=1)
    assert queue.expire_due() == []
    assert queue.expire_due(later) == [proposal]
    assert outcome(lab, proposal) is Outcome.EXPIRED
    with pytest.raises(ProposalError, match=r"expired at .* \(no decision within 30 days\): undo that first"):
        queue.approve(proposal, **PERSON)
    (event,) = events_of(lab, "proposal_decided")
    assert "no decision within 30 days" in (event.input or "")
    # What was seen again can be proposed again.
    assert propose(lab) != proposal


def test_the_lab_says_how_long_a_proposal_waits(lab: Lab) -> None:
    proposal = propose(lab)
    toml = lab.path / "lab.toml"
    toml.write_text("format = 1\n[review]\nexpire_days = 2\n", "utf-8")
    queue = open_queue(hermes_lab.open(lab.path))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    assert queue.expire_due(later - dt.timedelta(minutes=1)) == []
    assert queue.expire_due(later + dt.timedelta(minutes=1)) == [proposal]


@pytest.mark.parametrize("value", ["0", "-1", "nan", '"never"', "1e9"])
def test_a_waiting_time_that_is_none_is_refused(lab: Lab, value: str) -> None:
    toml = lab.path / "lab.toml"
    toml.write_text(f"format = 1\n[review]\nexpire_days = {value}\n", "utf-8")
    with pytest.raises(ConfigError, match="expire_days"):
        hermes_lab.open(lab.path)


def test_what_is_due_cannot_be_approved_before_anybody_looked(lab: Lab) -> None:
    proposal = propose(lab)
    queue = Queue(lab.log, expire_days=0)
    assert queue.pending() == ()
    with pytest.raises(ProposalError, match="expired at"):
        queue.approve(proposal, **PERSON)


def test_an_undone_decision_waits_anew(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab)
    queue.undo(queue.reject(proposal, **PERSON), **PERSON)
    waiting = queue.find(proposal)
    assert waiting.waits_since is not None
    assert waiting.waits_since > waiting.ts


# ---------------------------------------------------------------- two at once, and kills


def test_a_second_reviewer_gets_a_clear_error(lab: Lab) -> None:
    proposal = propose(lab)
    with (
        files.locked(lab.log.layout.folder / ".review.lock", "test"),
        pytest.raises(BusyError, match="somebody else is deciding"),
    ):
        open_queue(lab).approve(proposal, **PERSON)
    assert outcome(lab, proposal) is Outcome.PENDING


def _decide(folder: str, proposal: str, by: str, results: Any) -> None:
    queue = open_queue(hermes_lab.open(folder))
    while True:
        try:
            results.put((by, queue.approve(proposal, by=by, reason="race")))
        except BusyError:
            continue
        except ProposalError as error:
            results.put((by, str(error)))
        return


def test_of_two_processes_one_decides(lab: Lab) -> None:
    proposal = propose(lab)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    names = ["Ada", "Bob", "王芳"]
    racing = [context.Process(target=_decide, args=(str(lab.path), proposal, name, results)) for name in names]
    for process in racing:
        process.start()
    said_ = dict(results.get(timeout=60) for _ in racing)
    for process in racing:
        process.join(60)
    assert sum("approved already by" in text for text in said_.values()) == 2, said_
    assert len(events_of(lab, "proposal_decided")) == 1
    assert len(events_of(lab, "memory_written")) == 1


def test_threads_of_one_process_take_turns(lab: Lab) -> None:
    proposals = [propose(lab, f"Reply number {n} 中文") for n in range(4)]
    failed: list[BaseException] = []

    def approve(proposal: str) -> None:
        try:
            open_queue(lab).approve(proposal, **PERSON, keep_both=True)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    threads = [threading.Thread(target=approve, args=(proposal,)) for proposal in proposals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [one for one in proposals if outcome(lab, one) is Outcome.APPROVED]
    assert len(done) + len(failed) == 4
    assert all(isinstance(error, BusyError) for error in failed)
    assert done


def _approve_and_die(folder: str, proposal: str) -> None:
    from hermes_lab.proposals.session import Session

    def die(_self: Session, _approved: object) -> None:
        _self._writer.flush()
        os._exit(9)

    Session._write = die  # type: ignore[method-assign]
    open_queue(hermes_lab.open(folder)).approve(proposal, **PERSON)


@pytest.mark.parametrize("skill", [False, True])
def test_a_kill_between_the_decision_and_what_follows(lab: Lab, skill: bool) -> None:
    proposal = propose_skill(lab) if skill else propose(lab)
    process = multiprocessing.get_context("spawn").Process(target=_approve_and_die, args=(str(lab.path), proposal))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    kind = "skill_written" if skill else "memory_written"
    assert len(events_of(lab, "proposal_decided")) == 1
    assert events_of(lab, kind) == []
    # The decision is the approval: it stands, and the next one at the queue writes the rest.
    queue = open_queue(lab)
    assert outcome(lab, proposal) is Outcome.APPROVED
    assert queue.standing().skills or queue.standing().memories[0].state == "active"
    assert len(loose_ends(queue.history(), queue.standing())[0]) == 1
    queue.expire_due()
    assert len(events_of(lab, kind)) == 1
    assert loose_ends(queue.history(), queue.standing()) == ((), ())
    queue.expire_due()
    assert len(events_of(lab, kind)) == 1


def test_ids_go_on_where_the_clock_was_set_back() -> None:
    last = "fffffff0-0000-7fff-bfff-ffffffffffff"
    ids = []
    for _ in range(50):
        last = id_after(last)
        ids.append(last)
    assert ids == sorted(set(ids))
    assert id_after("") < id_after("ff" + id_after("")[2:])


def test_several_at_once_share_one_look(lab: Lab) -> None:
    event = said(lab, "红茶 绿茶 白茶 乌龙")
    drafts = [Draft(text, "fact") for text in ("红茶", "绿茶", "白茶", "红茶")]
    made = open_queue(lab).propose_memories(drafts, Origin([event], "full_reflection", "c-1", "run-1"))
    assert [one.new for one in made] == [True, True, True, False]
    assert {one.run_id for one in events_of(lab, "memory_proposed")} == {"run-1"}


# ---------------------------------------------------------------- audit


def test_the_audit_says_who_did_what_when_and_on_what_evidence(lab: Lab) -> None:
    queue = open_queue(lab)
    proposal = propose(lab, "请用中文回复。", config_version="c-9", run_id="session-7")
    decision = queue.approve(proposal, **PERSON)
    name = queue.find(proposal).name
    queue.retract(name, by="Bob", reason="no longer")
    queue.undo(decision, by="Ada", reason="wrong person")
    record(lab, Action.ROLLED_BACK, name="c-9")
    lines = queue.audit(name)
    assert [(line.what, line.by, line.reason) for line in lines] == [
        ("evidence", None, None),
        ("proposed", "micro_reflection", None),
        ("approved", "王芳 Li", "she said so twice"),
        ("written", None, None),
        ("retracted", "Bob", "no longer"),
        ("undone", "Ada", "wrong person"),
        ("rolled back", None, None),
    ]
    assert "message_received (e1 of orders) 请用中文回复。" in lines[0].detail
    assert "under c-9 in session-7" in lines[1].detail
    assert lines == sorted(lines, key=lambda line: line.ts)
    assert queue.audit(proposal)[:4] == lines[:4]
    with pytest.raises(ProposalError, match="nothing is known"):
        queue.audit("m-ffffffffff")


@pytest.mark.parametrize("asked", ["", "abc", "01a2", "no such"])
def test_names_that_fit_none_or_many(lab: Lab, asked: str) -> None:
    propose(lab, "Likes tea")
    propose(lab, "Likes coffee")
    with pytest.raises(ProposalError, match=r"there is no proposal|names \d"):
        open_queue(lab).find(asked)


def test_a_queue_outlives_sealing(lab: Lab, tmp_path: Path) -> None:
    queue = open_queue(lab)
    queue.approve(propose(lab), **PERSON)
    before = queue.standing(dt.datetime.now(dt.UTC))
    lab.log.seal()
    lab.log.compact()
    again = open_queue(hermes_lab.open(lab.path)).standing(before.at)
    assert again == before
