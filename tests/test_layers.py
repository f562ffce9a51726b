"""What a prompt is shown of memories and skills: the same bytes for the same knowledge, within its room, recallable."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from knowledge_samples import TYPES, knowledge, request
from loop_driver import call, drive, final

from hermes_lab import config as configs
from hermes_lab import payload
from hermes_lab.compress import estimate_tokens
from hermes_lab.config import AgentConfig, Layers, changed
from hermes_lab.context import assemble, offer
from hermes_lab.kinds import Action
from hermes_lab.layers import NOTHING_SHOWN, Knowledge, choose
from hermes_lab.loop import View
from hermes_lab.memory import Kind, Memory, State
from hermes_lab.skills import Library, read_skill
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Spec
from hermes_lab.tools.recall import RECALL, recall_tool

TASK = Task(id="t", family="f", type="orders", prompt="Where is my parcel?", tools=("find",))
FIND = Spec("find", "Find an order.", {"type": "object", "properties": {"order": {"type": "string"}}})


def memory(number: int, text: str, **more: Any) -> Memory:
    fields: dict[str, Any] = {"kind": Kind.FACT, "state": State.ACTIVE, **more}
    return Memory(id=f"m-{number:010d}", text=text, **fields)


def skill(name: str, tags: str, body: str = "Do it.") -> Any:
    return read_skill(f"---\nname: {name}\ndescription: About {tags}.\ntags: [{tags}]\n---\n{body}\n")


PINNED = memory(1, "Never ship to a PO box.", kind=Kind.CONSTRAINT, pinned=True)
INDEXED = memory(2, "The courier is closed on Sundays. " + "It says so on its page. " * 10)
OTHER_TYPE = memory(3, "Refunds take five days.", scope="refunds")
PARCELS = skill("parcels", "parcel, 快递", "Look the parcel up with find.")
KNOWLEDGE = Knowledge((PINNED, INDEXED, OTHER_TYPE), Library([PARCELS, skill("invoices", "invoice")]))


def prompt(known: Knowledge, task: Task = TASK, config: AgentConfig = AgentConfig()) -> bytes:  # noqa: B008
    offered = offer(config, [FIND], with_answer=True)
    assembled = assemble(config, task, offered, layers=choose(known, task, config.layers))
    return payload.canonical(payload.plain(assembled.request))


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_pinned_memories_stand_whole_others_as_a_line_and_triggered_skills_whole() -> None:
    shown = choose(KNOWLEDGE, TASK, Layers())
    assert PINNED.text in shown.memory
    assert f"{INDEXED.id} fact: The courier is closed on Sundays." in shown.memory
    assert INDEXED.text not in shown.memory
    assert OTHER_TYPE.text not in shown.memory
    assert "Look the parcel up with find." in shown.skills
    assert shown.memories == (PINNED.id, INDEXED.id)
    assert shown.triggered == (("parcels", PARCELS.sha256, 0),)
    assert shown.recallable
    assert shown.tokens.keys() == {"pinned", "index", "skills"}


def test_a_lab_that_knows_nothing_changes_no_prompt() -> None:
    assert choose(Knowledge(), TASK, Layers()) is NOTHING_SHOWN
    bare = payload.canonical(
        payload.plain(assemble(AgentConfig(), TASK, offer(AgentConfig(), [FIND], with_answer=True)).request)
    )
    assert prompt(Knowledge()) == bare


def test_the_request_stays_last_in_its_turn() -> None:
    assembled = assemble(
        AgentConfig(), TASK, offer(AgentConfig(), [FIND], with_answer=True), layers=choose(KNOWLEDGE, TASK, Layers())
    )
    opening = assembled.request.messages[1].content
    assert opening.endswith(TASK.prompt)
    assert opening.index(PINNED.text) < opening.index("Skill parcels")
    assert assembled.plan.tokens["pinned"] > 0


@pytest.mark.parametrize("state", [one for one in State if one is not State.ACTIVE])
def test_only_active_memories_are_shown(state: State) -> None:
    shown = choose(Knowledge((memory(1, "Never ship to a PO box.", state=state, pinned=True),)), TASK, Layers())
    assert shown == NOTHING_SHOWN


def test_what_is_shown_whole_leaves_nothing_to_recall() -> None:
    short = memory(4, "Parcels go by courier.")
    assert not choose(Knowledge((PINNED, short)), TASK, Layers()).recallable
    assert choose(Knowledge((PINNED, short)), TASK, Layers(index_tokens=0)).recallable


@pytest.mark.parametrize("seed", range(20))
def test_each_layer_keeps_to_its_room_and_says_what_it_left_out(seed: int) -> None:
    known = knowledge(500, 200, seed)
    draw = random.Random(seed)
    room = Layers(index_tokens=draw.choice([0, 20, 100, 400]), skill_tokens=draw.choice([0, 60, 300, 1500]))
    task = Task(id="t", family="f", type=draw.choice(TYPES[:3]), prompt=request(draw))
    shown = choose(known, task, room)
    assert shown.tokens.get("index", 0) <= room.index_tokens
    assert estimate_tokens(shown.skills) <= room.skill_tokens + 3  # blank lines between skills
    scoped = [one for one in known.memories if one.scope in ("*", task.type)]
    assert sorted([*shown.memories, *shown.left_out.get("memories", ())]) == sorted(one.id for one in scoped)
    triggered = {one.skill.name for one in known.library.triggered(task.prompt, task.type, limit=1000)}
    assert len(shown.triggered) <= room.skills
    if room.skill_tokens:
        assert {one.name for one in shown.triggered} | set(shown.left_out.get("skills", ())) == triggered
    else:
        assert not shown.skills


# -- the same bytes --------------------------------------------------------------------------------------------------


def thousand_prompts(shuffled: bool) -> str:
    """Return a hash over the prompts of 1,000 random pieces of knowledge, configurations and tasks."""
    draw = random.Random(7)
    total = hashlib.sha256()
    for number in range(1000):
        known = knowledge(draw.randrange(12), draw.randrange(6), number, pinned=draw.randrange(4))
        config = configs.from_values(
            {
                "layers": {"index_tokens": draw.choice([0, 60, 400]), "skill_tokens": draw.choice([0, 90, 1500])},
                "routing": {"shortlist": draw.choice([1, 3, "all"])},
                "rules": [{"id": "r", "text": "Be kind. 请友好。", "scope": draw.choice(TYPES)}],
            }
        )
        task = Task(id="t", family="f", type=draw.choice(TYPES[:3]), prompt=request(draw))
        if shuffled:
            other = random.Random(number)
            memories, skills = list(known.memories), list(known.library)
            other.shuffle(memories)
            other.shuffle(skills)
            known = Knowledge(tuple(memories), Library(skills))
        total.update(prompt(known, task, config))
    return total.hexdigest()


def test_the_same_knowledge_gives_the_same_bytes_in_another_order_and_in_another_process() -> None:
    first = thousand_prompts(shuffled=False)
    assert thousand_prompts(shuffled=True) == first
    code = "import test_layers; print(test_layers.thousand_prompts(shuffled=True))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300, check=True
    )
    assert found.stdout.strip() == first


def test_the_digest_tells_what_is_shown_apart() -> None:
    fewer = KNOWLEDGE._replace(memories=KNOWLEDGE.memories[:2])
    other_skills = KNOWLEDGE._replace(library=Library([PARCELS]))
    assert len({KNOWLEDGE.digest, fewer.digest, other_skills.digest, Knowledge().digest}) == 4


# -- in the loop -----------------------------------------------------------------------------------------------------


def known_view(**more: Any) -> View:
    return View(tools={"find": FIND}, knowledge=KNOWLEDGE, **more)


def run_with(*turns: str, config: AgentConfig = AgentConfig(), task: Task = TASK) -> Any:  # noqa: B008
    recall = recall_tool(KNOWLEDGE.memories)
    tools = {"recall": lambda arguments: recall.run(None, arguments)}
    return drive(task, config, known_view(), turns, tools)


def test_a_memory_is_recalled_whole_whatever_the_shortlist() -> None:
    config = changed(AgentConfig(), **{"routing.shortlist": 1})
    driven = run_with(call("recall", asked=INDEXED.id), final("closed"), config=config)
    (act,) = driven.acts("recall")
    assert act.arguments == {"asked": INDEXED.id}
    assert INDEXED.text in driven.asks("plan")[1].request.messages[-2].content
    offered = [one.name for one in driven.asks("plan")[0].request.tools]
    assert offered == ["find", "recall", "final_answer"]


def test_the_plan_of_the_context_says_what_went_in() -> None:
    driven = run_with(final("soon"))
    (noted,) = driven.notes(Action.CONTEXT_ASSEMBLED)
    assert noted.output["memories"] == [PINNED.id, INDEXED.id]
    assert noted.output["tokens"].keys() >= {"pinned", "index", "skills"}
    (triggered,) = driven.notes(Action.SKILL_TRIGGERED)
    assert (triggered.name, triggered.output) == ("parcels", {"sha256": PARCELS.sha256, "tokens_left_out": 0})


def test_where_a_call_is_the_answer_there_is_nothing_to_recall_with() -> None:
    task = Task(id="t", family="f", type="orders", prompt="Where is my parcel?", tools=("find",), answer_by="call")
    driven = run_with(call("find", order="1"), task=task)
    assert [one.name for one in driven.asks("plan")[0].request.tools] == ["find"]


def test_a_task_with_its_own_tool_of_that_name_keeps_it() -> None:
    own = Spec("recall", "Call products back.", {"type": "object", "properties": {}})
    task = Task(id="t", family="f", type="orders", prompt="Where is my parcel?", tools=("recall",))
    driven = drive(task, AgentConfig(), View(tools={"recall": own}, knowledge=KNOWLEDGE), [final("no")])
    offered = driven.asks("plan")[0].request.tools
    assert [one.description for one in offered if one.name == "recall"] == [own.description]


def test_recall_is_read_only() -> None:
    assert RECALL.level.value == "read_only"
    assert RECALL.action is Action.RETRIEVAL
