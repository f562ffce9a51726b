"""What memories and the approval queue cost: folding, what a prompt is shown, reading a log, conflicts and search.

    python tests/benchmarks/bench_memory.py [OTHER_EVENTS]

Prints medians of several runs, and the precision and recall of `conflicts` on the labelled cases of
`tests/conflict_cases.jsonl` (the second set was written after the rules were done, and changed nothing in them).
"""

from __future__ import annotations

import datetime as dt
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hermes_lab
from hermes_lab import payload
from hermes_lab.conflicts import Statement, compare, find
from hermes_lab.events import Action, Event, Status
from hermes_lab.lab import Lab
from hermes_lab.log import new_id
from hermes_lab.memory import for_context, memory_id, recall
from hermes_lab.memory.search import search
from hermes_lab.proposals.history import read
from hermes_lab.proposals.standing import as_of, sha256
from hermes_lab.proposals.steps import digest_of

MEMORIES = 500
SKILLS = 200
PERSON = {"by": "Ada", "reason": "seen twice"}


def median_ms(function: Callable[[], Any], runs: int = 21) -> float:
    """Return the median milliseconds of a call."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def text_of(number: int) -> str:
    """Return the text of a memory, half of them Chinese."""
    if number % 2:
        return f"客户{number}的订单要先核对地址再发货，第{number}号仓库。"
    return f"Customer {number} wants the invoice of depot {number} before the parcel goes out."


def fill(lab: Lab, others: int) -> None:
    """Write approved memories and skills, and other events around them."""
    with lab.log.writer() as writer:
        for number in range(others):
            now = dt.datetime.now(dt.UTC)
            if number % 50 == 0:
                told = {"request": text_of(number), "end": "completed", "result": "done", "tools": ["get_order"]}
                action, name, output = Action.TASK_RECORDED, "completed", payload.dumps(told)
            else:
                action, name = Action.TOOL_CALLED, "get_order"
                output = payload.dumps({"id": number, "status": "shipped", "to": "12 Long Road"})
            writer.append(
                Event(
                    event_id=new_id(),
                    ts=now,
                    action=action,
                    name=name,
                    output=output,
                    episode_id=f"e{number // 20}",
                    status=Status.OK,
                    task_type="orders",
                )
            )
        for number in range(MEMORIES):
            text = text_of(number)
            record = {"id": memory_id(text, "fact"), "text": text, "kind": "fact", "pinned": number < 5}
            given = {"memory": record, "evidence": [], "source": "person"}
            approve(writer, Action.MEMORY_PROPOSED, record["id"], given)
        for number in range(SKILLS):
            body = "\n".join(f"- step {step} of skill {number} 步骤" for step in range(30))
            text = f"---\nname: skill-{number}\ndescription: does {number}\n---\n{body}\n"
            given = {"text": text, "files": {}, "base": None, "evidence": [], "source": "person"}
            approve(writer, Action.SKILL_PROPOSED, f"skill-{number}", given)
    lab.log.seal()


def approve(writer: Any, action: Action, name: str, given: dict[str, Any]) -> None:
    """Write a proposal, its approval, and what follows."""
    proposal = writer.record(action, name=name, input=given).event_id
    output = {"decision": "approved", "edited": None, "replaces": [], "digest": digest_of(action, name, given, None)}
    decision = writer.record(
        Action.PROPOSAL_DECIDED, name=proposal, parent_id=proposal, input=PERSON, output=output
    ).event_id
    if action is Action.MEMORY_PROPOSED:
        writer.record(Action.MEMORY_WRITTEN, name=name, input=given["memory"], parent_id=decision)
    else:
        content = {"text": given["text"], "files": {}, "sha256": sha256(given["text"])}
        writer.record(Action.SKILL_WRITTEN, name=name, input=content, parent_id=decision)


def measure(lab: Lab) -> None:
    """Print the times."""
    history = read(lab.log)
    now = history.moment()
    standing = as_of(history, now)
    records = standing.memories
    active = [one for one in records if one.state == "active"]
    assert len(active) == MEMORIES
    assert len(standing.skills) == SKILLS
    shown = for_context(records, "orders")
    print(f"fold of {MEMORIES} memories and {SKILLS} skills  {median_ms(lambda: as_of(history, now)):8.2f} ms")
    print(f"for_context                            {median_ms(lambda: for_context(records, 'orders')):8.2f} ms")
    both = median_ms(lambda: for_context(as_of(history, now).memories, "orders"))
    print(f"fold and for_context                   {both:8.2f} ms   (wanted: under 5)")
    print(f"  {len(shown.index_lines)} lines, {len(shown.pinned)} pinned, {len(shown.left_out)} left out")
    print(f"recall by words                        {median_ms(lambda: recall(records, 'depot 44 地址')):8.2f} ms")
    events = lab.log.status()["events"]
    print(f"read the queue out of {events:,} events   {median_ms(lambda: read(lab.log), 7):8.2f} ms")
    statements = [Statement(one.id, one.text) for one in active]
    new = Statement("n", "客户44的订单不要先核对地址再发货，第44号仓库。")
    print(f"conflicts of one with {MEMORIES}             {median_ms(lambda: find(new, statements)):8.2f} ms")
    print(f"search of task records                 {median_ms(lambda: search(lab.log, '仓库 地址'), 7):8.2f} ms")


def judge_conflicts() -> None:
    """Print precision and recall on the labelled cases."""
    path = Path(__file__).parent.parent / "conflict_cases.jsonl"
    cases = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for language in ("English", "Chinese"):
        for name in ("first", "second"):
            chosen = [
                case for case in cases if case["set"] == name and case["new"].isascii() == (language == "English")
            ]
            pairs = [(found(case), case["want"]) for case in chosen]
            right = sum(got == want and got is not None for got, want in pairs)
            named = sum(got is not None for got, _ in pairs)
            wanted = sum(want is not None for _, want in pairs)
            print(
                f"conflicts, {language}, {name} set ({len(chosen)} pairs): "
                f"precision {right / named:.3f}, recall {right / wanted:.3f}"
            )


def found(case: dict[str, Any]) -> str | None:
    """Return what the rules say of a case."""
    new = Statement("n", case["new"], key=case.get("new_key"))
    conflict = compare(new, Statement("o", case["old"], key=case.get("old_key")))
    return None if conflict is None else str(conflict.kind)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lab = hermes_lab.open(Path(folder) / "lab")
        fill(lab, int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
        measure(lab)
    judge_conflicts()
