"""Checks over a library, and the commands about skills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from log_samples import new_lab

from hermes_lab.cli.skills import skills
from hermes_lab.config import Layers
from hermes_lab.errors import MissingError
from hermes_lab.kinds import Action
from hermes_lab.proposals import open_queue
from hermes_lab.skills.checks import LEAST_QUERIES, check, recorded_queries
from hermes_lab.skills.folders import read_folder
from hermes_lab.skills.library import Library
from hermes_lab.skills.skill import read_skill

LIBRARY = Path(__file__).parent / "skills" / "library"


def skill(name, description="", body="Do it.", more=""):
    return read_skill(f"---\nname: {name}\ndescription: {description or name}\n{more}---\n{body}\n")


def needs(name, *others, tools=()):
    declared = f"metadata: {{hermes-lab: {{needs: {{skills: [{', '.join(others)}], tools: [{', '.join(tools)}]}}}}}}\n"
    return skill(name, more=declared)


def kinds(*made, **options):
    return [(one.kind, one.skills) for one in check(Library(made), **options)]


def test_a_sound_library_has_no_findings():
    assert check(Library(one.skill for one in read_folder(LIBRARY).found), tools=()) == ()


def test_cycles_are_found_once_each():
    made = [needs("a", "b"), needs("b", "c"), needs("c", "a"), needs("d", "d"), needs("e", "a"), needs("f")]
    assert kinds(*made) == [("cycle", ("a", "b", "c")), ("cycle", ("d",))]
    found = check(Library(made))
    assert found[0].what == "it needs itself: a -> b -> c -> a"
    assert found[1].what == "it needs itself: d -> d"


def test_missing_skills_and_tools_are_named():
    made = [
        needs("a", "没有", tools=["get_order", "teleport"]),
        skill("b", more="allowed-tools: Bash(git:*) get_order\n"),
    ]
    assert kinds(*made, tools={"get_order"}) == [
        ("missing_skill", ("a",)),
        ("missing_tool", ("a",)),
        ("other_tools", ("b",)),
    ]
    assert kinds(*made) == [("missing_skill", ("a",))]  # nobody knows which tools there are


def test_what_is_too_long_is_named():
    made = [skill("n" * 65), skill("d", "x" * 1025), skill("b", body="茶" * 5001), skill("ok", "y" * 1024)]
    found = [one for one in check(Library(made)) if one.kind == "too_long"]
    assert [(one.skills[0], one.what.split(" has ")[0]) for one in found] == [
        ("b", "its body"),
        ("d", "its description"),
        ("n" * 65, "its name"),
    ]


def test_a_name_that_no_import_takes_is_a_problem():
    (found,) = check(Library([skill("../../etc/tea"), skill("请假 2.0")]))
    assert (found.severity, found.kind, found.skills) == ("problem", "bad_name", ("../../etc/tea",))


def test_skills_that_the_usual_room_cuts_are_counted_once():
    room = Layers().skill_tokens
    made = [
        skill("long", body="茶" * (room + 1)),
        skill("longer", body="茶" * (room + 2)),
        skill("ok", body="茶" * (room // 2)),
    ]
    (found,) = check(Library(made))
    assert (found.kind, found.skills) == ("cut_short", ())
    assert found.what.startswith("2 of 3 skills")
    assert "'long'" in found.what


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always attach the full log to the refund ticket.", "Never attach the full log to the refund ticket."),
        ("退款单必须附上完整的日志文件。", "退款单不要附上完整的日志文件。"),
    ],
)
def test_contradictions_between_skills_for_the_same_queries_are_found(first, second):
    made = [
        skill("refund-tickets", "Refund tickets for orders. 退款单", first),
        skill("refund-desk", "Refund tickets at the desk. 退款单", second),
        skill("gardening", "Plants and soil.", second),
    ]
    assert ("contradiction", ("refund-tickets", "refund-desk")) in kinds(*made)
    assert all("gardening" not in names for _, names in kinds(*made))


def test_steps_that_are_only_numbered_otherwise_do_not_contradict():
    body = "Step {n}: collect all the receipts of the business trip\n## Phase {n}: send them to the office"
    made = [
        skill("expenses-a", "File expenses of a trip.", body.format(n=1)),
        skill(
            "expenses-b", "File expenses of trips.", body.format(n=2) + "\nand wait for the answer of the boss there"
        ),
    ]
    assert "contradiction" not in [kind for kind, _ in kinds(*made)]


def test_near_duplicates_and_ambiguous_triggers_are_found():
    body = "Look up the order, check the delivery date, compute the amount, and ask a person above 500 dollars."
    made = [
        skill("order-refund", "Refund an order for a customer", body),
        skill("refund-order", "Refund an order for a customer", body + " Be kind."),
        skill("tea", "Make tea", "Boil water."),
    ]
    found = kinds(*made)
    assert ("duplicate", ("refund-order", "order-refund")) in found
    assert ("ambiguous_trigger", ("order-refund", "refund-order")) in found
    assert all("tea" not in names for _, names in found)


def test_a_skill_that_no_query_triggers_is_named_once_there_are_enough():
    made = [skill("tea", "Make tea"), skill("coffee", "Make coffee")]
    asked = [f"a cup of tea, number {n}" for n in range(LEAST_QUERIES)]
    assert kinds(*made, queries=asked) == [("never_triggered", ("coffee",))]
    assert kinds(*made, queries=asked[1:]) == []


def test_a_note_does_not_repeat_the_path_that_stands_beside_it():
    text = "---\nname: odd\ndescription: Use when: always\n---\nBody.\n"
    (found,) = check(Library([read_skill(text, "a/odd/SKILL.md", source="a/odd/SKILL.md")]))
    assert found.what.startswith("line 3: the front matter is no YAML")
    assert found.where == "a/odd/SKILL.md"


def test_notes_and_unreadable_skills_are_findings():
    odd = skill("odd", "Use when: always")
    found = check(Library([odd], unread={"broken": "no front matter"}))
    assert [(one.severity, one.kind) for one in found] == [("problem", "unreadable"), ("warning", "front_matter")]


def test_a_library_past_the_measured_size_is_a_finding():
    made = [skill(f"s{n}", f"word{n} thing{n}") for n in range(251)]
    assert kinds(*made) == [("large_library", ())]
    assert kinds(*made[1:]) == []


def test_queries_are_those_that_users_asked(tmp_path):
    lab = new_lab(tmp_path / "lab")
    with lab.log.writer() as writer:
        for text in ("泡茶", "泡茶", "tea \ud800"):
            writer.record(Action.MESSAGE_RECEIVED, name="Ann", input={"text": text, "channel": "notebook"})
        writer.record(Action.MESSAGE_RECEIVED, name="user", input={"content": "imported"})
        writer.record(Action.MESSAGE_RECEIVED, name="system", input={"content": "You are an agent"})
        writer.record(Action.MESSAGE_RECEIVED, name="user", input={"content": None})
    assert recorded_queries(lab.log) == ["泡茶", "imported", "tea \ud800"]


@pytest.fixture
def lab_path(tmp_path):
    path = tmp_path / "lab"
    lab = new_lab(path)
    queue = open_queue(lab)
    for one in read_folder(LIBRARY).found[:3]:
        made = queue.propose_skill(one.skill.name, one.skill.text, evidence=[], source="person")
        queue.approve(made.proposal, by="Li Wei", reason="ours")
    return str(path)


def run(lab_path, *words, fails=None):
    done = CliRunner().invoke(skills, list(words), obj=lab_path, standalone_mode=False, catch_exceptions=False)
    if fails is None:
        assert done.return_value in (None, 0), done.output
    else:
        assert done.return_value == fails, done.output
    return done.stdout


def test_the_commands_list_show_and_match(lab_path):
    names = [row["skill"] for row in json.loads(run(lab_path, "list", "--json"))]
    assert len(names) == 3
    text = run(lab_path, "show", names[0])
    assert text.startswith("---\nname: ")
    whole = json.loads(run(lab_path, "show", names[0], "--json"))
    assert set(whole["needs"]) == {"tools", "skills", "inputs"}
    found = json.loads(run(lab_path, "match", "clean this csv export", "--json"))
    assert found[0]["skill"] == "csv-data-cleaning"
    assert "csv" in found[0]["words"]
    assert "none of 3 skills" in run(lab_path, "match", "天气怎么样")
    assert "请假申请" in run(lab_path, "match", "我要请年假", "--folder", str(LIBRARY))
    with pytest.raises(MissingError, match="there is no skill 'nope'"):
        run(lab_path, "show", "nope")


def test_check_exits_with_1_at_a_problem(lab_path, tmp_path):
    assert "3 skills, 0 findings" in run(lab_path, "check")
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        "---\nname: a\ndescription: b\nmetadata: {hermes-lab: {needs: {skills: [gone], tools: [get_order]}}}\n---\n",
        "utf-8",
    )
    told = json.loads(run(lab_path, "check", str(folder), "--json", fails=1))
    assert [one["kind"] for one in told["findings"]] == ["missing_skill"]
    assert told["findings"][0]["where"] == str(folder / "SKILL.md")
    text = run(lab_path, "check", str(folder), fails=1)
    assert "problem: missing_skill: a: it needs the skill 'gone'" in text
    assert "do: add 'gone'" in text
    assert f"in: {folder / 'SKILL.md'}" in text


def test_import_and_export_go_through_the_commands(lab_path, tmp_path):
    told = json.loads(run(lab_path, "import", str(LIBRARY), "--json"))
    assert len(told["proposed"]) == 47
    assert told["known"] == 3
    assert "proposed 0 skills; 50 known already" in run(lab_path, "import", str(LIBRARY))
    run(lab_path, "export", str(tmp_path / "out"))
    assert len(read_folder(tmp_path / "out").found) == 3
