"""The library of a lab: what was approved, undone and rolled back, what of it is shown, and how it is written out."""

from __future__ import annotations

import datetime as dt
import os

import pytest
from log_samples import new_lab

from hermes_lab.compress import estimate_tokens
from hermes_lab.errors import WriteError
from hermes_lab.kinds import Action
from hermes_lab.proposals import open_queue
from hermes_lab.proposals.steps import digest_of
from hermes_lab.skills.folders import export, folder_name, read_folder, safe_path
from hermes_lab.skills.front_matter import SkillError
from hermes_lab.skills.library import Library, Triggered, fit, standing
from hermes_lab.skills.skill import Skill, headings, read_skill

WHO = {"by": "Li Wei", "reason": "asked for twice"}


def skill_text(name: str, description: str = "Brew tea. 泡茶", body: str = "# Tea\nBoil water.\n") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}"


def propose(queue, name, text, **more):
    return queue.propose_skill(name, text, evidence=[], source="person", **more).proposal


def test_a_skill_is_in_the_library_once_a_person_has_approved_it(tmp_path):
    lab = new_lab(tmp_path / "lab")
    queue = open_queue(lab)
    made = propose(queue, "tea", skill_text("tea"), files={"refs/水.md": "软水"}, config_version="c-1")
    assert len(standing(lab.log)) == 0
    queue.approve(made, **WHO)
    library = standing(lab.log)
    (found,) = library.triggered("怎么泡茶")
    assert found.skill.name == "tea"
    assert found.skill.source == made
    assert found.skill.config_version == "c-1"
    assert dict(found.skill.files) == {"refs/水.md": "软水"}
    assert found.skill.text == skill_text("tea")


def test_undo_and_rollback_take_a_skill_out_and_bring_the_one_before_back(tmp_path):
    lab = new_lab(tmp_path / "lab")
    queue = open_queue(lab)
    queue.approve(propose(queue, "tea", skill_text("tea"), config_version="c-1"), **WHO)
    before = dt.datetime.now(dt.UTC)
    base = standing(lab.log).get("tea").sha256
    edited = skill_text("tea", body="# Tea\nBoil water.\nWarm the pot.\n")
    decision = queue.approve(propose(queue, "tea", edited, base=base, config_version="c-2"), **WHO)
    assert standing(lab.log).get("tea").text == edited
    assert standing(lab.log, before).get("tea").text == skill_text("tea")
    queue.undo(decision, by="Li Wei", reason="wrong")
    assert standing(lab.log).get("tea").text == skill_text("tea")
    with lab.log.writer() as writer:
        writer.record(Action.ROLLED_BACK, name="c-1")
    assert standing(lab.log).get("tea") is None
    assert standing(lab.log).triggered("泡茶 brew tea") == ()
    assert standing(lab.log, before).get("tea") is not None


def test_a_written_event_that_nobody_approved_is_no_skill(tmp_path):
    lab = new_lab(tmp_path / "lab")
    with lab.log.writer() as writer:
        for parent in (None, "01a22d30-901c-75dc-8711-516ab210cc12"):
            writer.record(
                Action.SKILL_WRITTEN,
                name="evil",
                input={"text": skill_text("evil"), "files": {}, "sha256": "0" * 64},
                parent_id=parent,
            )
    assert len(standing(lab.log)) == 0


def test_one_text_that_is_no_skill_does_not_take_the_others_along(tmp_path):
    lab = new_lab(tmp_path / "lab")
    queue = open_queue(lab)
    queue.approve(propose(queue, "tea", skill_text("tea")), **WHO)
    # The queue refuses such a text; a log of another version may hold one.
    given = {"text": "no front matter at all", "files": {}, "base": None, "evidence": [], "source": "person"}
    with lab.log.writer() as writer:
        made = writer.record(Action.SKILL_PROPOSED, name="odd", input=given)
        digest = digest_of(Action.SKILL_PROPOSED, "odd", given, None)
        decided = {"decision": "approved", "edited": None, "replaces": [], "digest": digest}
        about = made.event_id
        writer.record(Action.PROPOSAL_DECIDED, name=about, input=WHO, output=decided, parent_id=about)
    library = standing(lab.log)
    assert [skill.name for skill in library] == ["tea"]
    assert "line 1 is not `---`" in library.unread["odd"]


def triggered(*skills: Skill) -> tuple[Triggered, ...]:
    return tuple(Triggered(skill, 1.0) for skill in skills)


def test_what_fits_is_shown_whole():
    tea = read_skill(skill_text("tea"))
    fitted = fit(triggered(tea), 1000)
    (shown,) = fitted.shown
    assert shown.text == "Skill tea: Brew tea. 泡茶\n\n# Tea\nBoil water."
    assert (shown.left_out, fitted.dropped, fitted.tokens) == (0, (), estimate_tokens(shown.text))


@pytest.mark.parametrize("line", ["Pour the water slowly over the leaves.", "水慢慢倒在茶叶上，然后等三分钟。"])
@pytest.mark.parametrize("budget", [100, 333, 1000])
def test_a_long_skill_is_cut_behind_a_line_and_says_so(line, budget):
    long = read_skill(skill_text("long", body="".join(f"{n}. {line}\n" for n in range(2000))))
    fitted = fit(triggered(long), 5000, each=budget)
    (shown,) = fitted.shown
    assert shown.tokens <= budget
    assert shown.tokens > 0.6 * budget
    assert shown.left_out > 0
    assert "This skill is cut: about " in shown.text.splitlines()[-1]
    assert shown.text.splitlines()[-2].endswith(line)


def test_the_budget_is_kept_and_what_found_no_room_is_named():
    skills = [read_skill(skill_text(f"s{n}", body="Boil the water well. " * 60)) for n in range(5)]
    fitted = fit(triggered(*skills), 800)
    assert fitted.tokens <= 800
    assert len(fitted.shown) + len(fitted.dropped) == 5
    assert fitted.dropped == tuple(f"s{n}" for n in range(len(fitted.shown), 5))


def test_two_skills_of_one_name_are_refused():
    with pytest.raises(SkillError, match="two skills are called 'tea'"):
        Library([read_skill(skill_text("tea")), read_skill(skill_text("tea"))])


def test_headings_in_code_are_no_headings():
    assert headings("# A\n```sh\n# not\n```\n~~~\n# not\n```\n# not\n~~~\n### B ###\n#c\n")[:2] == ["A", "B ###"]


@pytest.mark.parametrize(
    "path",
    ["../x", "/x", "a/../b", "a//b", "", ".", "C:x", "a\\b", "nul", "COM1.txt", "a ", "a.", "x\x00", "a/./b", "a:b"],
)
def test_paths_that_lead_elsewhere_are_unsafe(path):
    assert not safe_path(path)
    assert safe_path(folder_name(path)), folder_name(path)


def test_an_export_reads_back_as_the_same_library(tmp_path):
    crlf = "\ufeff" + skill_text("Tea").replace("\n", "\r\n")
    skills = [
        read_skill(skill_text("tea"), files={"scripts/brew.py": "print('茶')\r\n"}),
        read_skill(crlf),
        read_skill(skill_text("请假申请", "请假")),
    ]
    target = tmp_path / "out"
    assert export(skills, target) == 3
    assert export(skills, target) == 3
    found = {one.skill.name: one.skill for one in read_folder(target).found}
    assert {name: (skill.text, dict(skill.files)) for name, skill in found.items()} == {
        skill.name: (skill.text, dict(skill.files)) for skill in skills
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # "tea" and "Tea" must not be one folder where case does not count.
    assert len({path.name.casefold() for path in target.iterdir()}) == 4


def test_an_export_leaves_other_peoples_files_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(WriteError, match="holds other files"):
        export([read_skill(skill_text("tea"))], tmp_path)
    bad = read_skill(skill_text("tea"), files={"../../escape.txt": "x"})
    with pytest.raises(SkillError, match="leads elsewhere"):
        export([bad], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


def test_an_export_that_fails_leaves_the_old_one(tmp_path):
    target = tmp_path / "out"
    export([read_skill(skill_text("tea"))], target)
    bad = read_skill(skill_text("bad"), files={"/etc/passwd": "x"})
    with pytest.raises(SkillError):
        export([bad], target)
    assert (target / "tea" / "SKILL.md").read_text("utf-8") == skill_text("tea")
    assert os.listdir(tmp_path) == ["out"]
