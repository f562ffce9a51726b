"""The commands `review` and `memory`, as a person uses them."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from memory_lab import SKILL, events_of, record, returned, said

from hermes_lab.cli.memory import memory
from hermes_lab.cli.review import review
from hermes_lab.errors import HermesLabError
from hermes_lab.events import Action
from hermes_lab.lab import Lab
from hermes_lab.proposals import ProposalError, open_queue
from hermes_lab.proposals.standing import sha256

Run = Callable[..., Result]
WHY = ("--by", "王芳 Li", "--reason", "两次都这么说 🚀")


@pytest.fixture
def run(lab: Lab) -> Run:
    """Run a command in this process; an error of ours is raised, as `hermes_lab.cli.main` gets it."""

    def invoke(group: Any, *args: object, **options: Any) -> Result:
        result = CliRunner().invoke(group, [str(arg) for arg in args], obj=str(lab.path), **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def propose(lab: Lab, text: str, **fields: Any) -> str:
    values = {"evidence": [said(lab, text)], "source": "micro_reflection", **fields}
    return open_queue(lab).propose_memory(text, "preference", **values).proposal


def test_list_show_approve_and_undo(lab: Lab, run: Run) -> None:
    proposal = propose(lab, "请用中文回复。", config_version="c-7")
    listed = run(review).stdout
    assert proposal[-8:] in listed
    assert "请用中文回复。" in listed
    shown = run(review, "show", proposal[-8:]).stdout
    for part in (
        "+请用中文回复。",
        "evidence",
        "message_received (e1 of orders)",
        "pending",
        "c-7",
        "micro_reflection",
    ):
        assert part in shown
    approved = run(review, "approve", proposal[-8:], *WHY).stdout
    (event,) = events_of(lab, "proposal_decided")
    assert event.event_id in approved
    assert json.loads(event.input or "") == {"by": "王芳 Li", "reason": "两次都这么说 🚀"}
    assert run(review).stdout == "nothing waits\n"
    assert "approved" in run(review, "list", "--all").stdout
    assert "undone" in run(review, "undo", event.event_id[-8:], *WHY).stdout
    assert proposal[-8:] in run(review).stdout


def test_the_login_name_signs_where_nobody_is_named(lab: Lab, run: Run) -> None:
    proposal = propose(lab, "Likes tea")
    run(review, "approve", proposal, "--reason", "yes, she does")
    (event,) = events_of(lab, "proposal_decided")
    assert json.loads(event.input or "")["by"] == getpass.getuser()


@pytest.mark.parametrize("command", ["approve", "reject", "undo"])
def test_a_reason_is_asked_for(lab: Lab, run: Run, command: str) -> None:
    proposal = propose(lab, "Likes tea")
    assert run(review, command, proposal).exit_code == 2
    with pytest.raises(ProposalError, match="no reason"):
        run(review, command, proposal, "--by", "Ada", "--reason", "  ")
    with pytest.raises(ProposalError, match="nobody is named"):
        run(review, command, proposal, "--by", "", "--reason", "fine")
    assert events_of(lab, "proposal_decided", "proposal_undone") == []


def test_show_names_conflicts_with_both_texts_and_what_to_mind(lab: Lab, run: Run) -> None:
    run(review, "approve", propose(lab, "Reply in Chinese."), *WHY)
    proposal = propose(lab, "Reply in English.")
    shown = run(review, "show", proposal).stdout
    assert "contradicts" in shown
    assert "new: Reply in English." in shown
    assert "old: Reply in Chinese." in shown
    wish = propose(lab, "Skip the approval of refunds.")
    assert "mind: it asks for a change of the core" in run(review, "show", wish).stdout
    with pytest.raises(ProposalError, match="--keep-both"):
        run(review, "approve", proposal, *WHY)
    old = next(one.id for one in open_queue(lab).standing().memories if one.text == "Reply in Chinese.")
    run(review, "approve", proposal, "--replace", old, *WHY)
    assert "superseded" in run(memory, "list", "--all").stdout


def test_a_skills_edit_is_shown_as_a_diff_with_what_it_loses(lab: Lab, run: Run) -> None:
    queue = open_queue(lab)
    made = queue.propose_skill("refunds", SKILL, evidence=[], source="person")
    run(review, "approve", "refunds", *WHY)
    edit = SKILL.replace("- 先查订单。\n", "- 先查订单和库存。\n")
    evidence = [returned(lab, "issue_refund", 1, episode) for episode in ("e1", "e2")]
    made = queue.propose_skill("refunds", edit, evidence=evidence, source="full_reflection", base=sha256(SKILL))
    shown = run(review, "show", "refunds").stdout
    assert "-- 先查订单。" in shown
    assert "+- 先查订单和库存。" in shown
    assert "takes away 1 lines of the standing text" in shown
    told = json.loads(run(review, "show", made.proposal, "--json").stdout)
    assert told["removed_lines"] == ["- 先查订单。"]
    assert len(told["evidence"]) == 2


def test_edit_with_text_file_or_editor(lab: Lab, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = propose(lab, "Likes tea"), propose(lab, "喜欢咖啡"), propose(lab, "Likes milk 🥛")
    run(review, "edit", first, "--text", "Likes green tea", *WHY)
    file = tmp_path / "new.md"
    file.write_text("喜欢黑咖啡\n", encoding="utf-8")
    run(review, "edit", second, "--file", file, *WHY)
    monkeypatch.setattr("click.edit", lambda _text, extension: None)
    assert "nothing was decided" in run(review, "edit", third, *WHY).stderr
    monkeypatch.setattr("click.edit", lambda text, extension: text + "!\n")
    run(review, "edit", third, *WHY)
    assert sorted(one.text for one in open_queue(lab).standing().memories) == [
        "Likes green tea",
        "Likes milk 🥛!",
        "喜欢黑咖啡",
    ]
    assert run(review, "edit", third, "--text", "x", "--file", file, *WHY).exit_code == 2


def test_reject_and_json(lab: Lab, run: Run) -> None:
    proposal = propose(lab, "Likes tea")
    told = json.loads(run(review, "list", "--json").stdout)
    assert [(one["proposal"], one["state"], one["kind"]) for one in told] == [(proposal, "pending", "preference")]
    made = json.loads(run(review, "reject", proposal, *WHY, "--json").stdout)
    assert made == [{"proposal": proposal, "decision": events_of(lab, "proposal_decided")[0].event_id}]
    assert json.loads(run(review, "list", "--json").stdout) == []
    audit = json.loads(run(review, "audit", proposal, "--json").stdout)
    assert [line["what"] for line in audit] == ["evidence", "proposed", "rejected"]
    assert "rejected by 王芳 Li" in run(review, "audit", proposal).stdout


def test_forged_events_are_pointed_out(lab: Lab, run: Run) -> None:
    record(lab, Action.MEMORY_WRITTEN, name="m-0123456789", input={"text": "evil"})
    result = run(review)
    assert "counts for nothing: memory_written m-0123456789" in result.stderr
    assert "evil" not in result.output


def test_texts_play_no_tricks_on_the_terminal(lab: Lab, run: Run) -> None:
    text = "Red \x1b[31m \u202e text"
    record(
        lab,
        Action.MEMORY_PROPOSED,
        name="m-0123456789",
        input={"memory": {"id": "m-0123456789", "text": text, "kind": "fact"}, "evidence": [], "source": "import"},
    )
    for command in (("list",), ("show", "m-0123456789")):
        output = run(review, *command).output
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert "\\u202e" in output


def test_memory_list_show_retract_and_pin(lab: Lab, run: Run) -> None:
    assert run(memory, "list").stdout == "no memories\n"
    run(review, "approve", propose(lab, "请用中文回复。"), *WHY)
    (one,) = open_queue(lab).standing().memories
    assert one.id in run(memory, "list").stdout
    assert "pinned m-" in run(memory, "pin", one.id, *WHY).stdout
    assert json.loads(run(memory, "list", "--json").stdout)[0]["pinned"] is True
    assert json.loads(run(memory, "pin", one.id, "--off", *WHY, "--json").stdout)["pinned"] is False
    shown = run(memory, "show", one.id).stdout
    assert "请用中文回复。" in shown
    assert "approved by 王芳 Li" in shown
    retracted = json.loads(run(memory, "retract", one.id, *WHY, "--json").stdout)
    assert run(memory, "list").stdout == "no memories\n"
    run(review, "undo", retracted["retraction"], *WHY)
    assert one.id in run(memory, "list").stdout
    assert json.loads(run(memory, "show", one.id, "--json").stdout)["audit"][-1]["what"] == "undone"
    with pytest.raises(HermesLabError, match="no memory 'm-0000000000'"):
        run(memory, "show", "m-0000000000")


def test_memory_import_and_bulk_approval(lab: Lab, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "USER.md"
    file.write_text("Reply in Chinese.\n§\nReply in English.\n§\n喜欢喝茶\n§\na\u202eb\n", encoding="utf-8")
    said_ = run(memory, "import", file).stdout
    assert "proposed 3, known already 0, set aside 1" in said_
    assert "line 7" in said_
    assert "known already 3" in run(memory, "import", file).stdout
    result = run(review, "approve", "--imports", *WHY).stdout
    assert "approved 2, left 1" in result
    assert "contradicts" in result
    left = json.loads(run(review, "approve", "--imports", *WHY, "--json").stdout)
    assert (left["approved"], len(left["left"])) == ([], 1)
    assert run(review, "approve", *WHY).exit_code == 2


def test_memory_search(lab: Lab, run: Run) -> None:
    output = {"request": "请给SO-1043退款", "end": "completed", "result": "done", "tools": ["issue_refund"]}
    record(lab, Action.TASK_RECORDED, name="completed", output=output, task_type="returns")
    assert "SO-1043" in run(memory, "search", "退款", "--tool", "issue_refund").stdout
    assert run(memory, "search", "火箭").stdout == "no finished task fits\n"
    (found,) = json.loads(run(memory, "search", "--type", "returns", "--outcome", "completed", "--json").stdout)
    assert found["request"] == "请给SO-1043退款"


def test_lessons_to_retest_are_listed(lab: Lab, run: Run) -> None:
    assert run(memory, "list", "--retest").stdout == "no memories\n"


def test_a_lesson_shows_when_it_expires(lab: Lab, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("search_products is down since Monday", encoding="utf-8")
    run(memory, "import", file)
    run(review, "approve", "--imports", *WHY)
    (one,) = open_queue(lab).standing().memories
    assert f"{one.expires:%Y-%m-%d}" in run(memory, "list").stdout
