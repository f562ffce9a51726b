"""Importing skills: proposals only, once, with usage counts; what is odd is set aside by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from log_samples import new_lab

from hermes_lab.errors import ImportFormatError, MissingError, PermissionDeniedError
from hermes_lab.log.redact import Redactor
from hermes_lab.proposals import open_queue
from hermes_lab.skills import SkillError
from hermes_lab.skills.file import read_plain
from hermes_lab.skills.folders import read_folder
from hermes_lab.skills.importing import import_skills
from hermes_lab.skills.library import standing

GOOD = "---\nname: {name}\ndescription: {about}\nmetadata:\n  hermes:\n    tags: [{tags}]\n---\n# {name}\nDo it.\n"


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


@pytest.fixture
def home(tmp_path):
    """A ~/.hermes with odd skills in it."""
    home = tmp_path / ".hermes"
    skills = home / "skills"
    write(skills / "dev" / "git-commit" / "SKILL.md", GOOD.format(name="git-commit", about="Commit.", tags="git"))
    write(skills / "dev" / "git-commit" / "scripts" / "run.sh", "git commit\r\n")
    (skills / "dev" / "git-commit" / "logo.png").write_bytes(b"\x89PNG\xff\x00")
    write(skills / "办公" / "周报" / "SKILL.md", GOOD.format(name="周报", about="写周报：本周进展", tags="周报, 月报"))
    write(
        skills / "win" / "SKILL.md",
        "\ufeff" + GOOD.format(name="win-skill", about="From Notepad.", tags="win").replace("\n", "\r\n"),
    )
    write(skills / "dev" / "colon" / "SKILL.md", "---\nname: colon\ndescription: Use when: always\n---\nx y z\n")
    write(skills / "deep" / "a" / "b" / "c" / "nested" / "SKILL.md", "---\ndescription: Nested deep.\n---\nx\n")
    write(skills / "bad" / "none" / "SKILL.md", "# no front matter\n")
    write(skills / "bad" / "latin" / "SKILL.md", GOOD.format(name="latin", about="é", tags="é"), "latin-1")
    write(skills / "bad" / "huge" / "SKILL.md", GOOD.format(name="huge", about="x", tags="y") + "x" * (1 << 20))
    write(skills / "bad" / "twice" / "SKILL.md", GOOD.format(name="周报", about="again", tags="y"))
    write(skills / "bad" / "name" / "SKILL.md", GOOD.format(name="'../../etc/cron.d/x'", about="x", tags="y"))
    write(skills / ".archive" / "old" / "SKILL.md", GOOD.format(name="old", about="x", tags="y"))
    write(
        skills / ".usage.json",
        json.dumps(
            {
                "git-commit": {"use_count": 12, "view_count": 3, "patch_count": 0, "state": "active", "pinned": True},
                "周报": {"use_count": "many", "view_count": -1, "pinned": "yes"},
                "gone": {"use_count": 1},
            }
        ),
    )
    return home


def bring_in(lab, path):
    return import_skills(lab.log, open_queue(lab), path, redactor=Redactor(os.environ))


def test_imports_become_proposals_and_never_skills(tmp_path, home):
    lab = new_lab(tmp_path / "lab")
    done = bring_in(lab, home)
    assert sorted(done.proposed) == ["colon", "git-commit", "nested", "win-skill", "周报"]
    assert len(standing(lab.log)) == 0
    waiting = {one.name: one for one in open_queue(lab).pending()}
    assert set(waiting) == set(done.proposed)
    assert waiting["git-commit"].source == "import"
    assert waiting["git-commit"].skill.files == {"scripts/run.sh": "git commit\r\n"}
    assert waiting["git-commit"].run_id == done.run_id
    assert not waiting["win-skill"].text.startswith("\ufeff")
    assert "\r\n" in waiting["win-skill"].text
    kinds = lab.log.sql("select distinct action from events order by 1").fetchall()
    assert {kind for (kind,) in kinds} <= {"imported", "skill_proposed", "conflict_found"}


def test_usage_counts_are_the_evidence_and_unknown_is_null(tmp_path, home):
    lab = new_lab(tmp_path / "lab")
    done = bring_in(lab, home)
    assert done.usage["git-commit"]["use_count"] == 12
    assert done.usage["git-commit"]["pinned"] is True
    assert done.usage["周报"] == {
        "use_count": None, "view_count": None, "patch_count": None, "state": None, "pinned": None, "last_used_at": None,
    }  # fmt: skip
    assert "gone" not in done.usage
    (event,) = lab.log.events("action = 'imported'")
    given = json.loads(event.input)
    assert given["usage"]["git-commit"]["use_count"] == 12
    assert given["left_out"] == {"git-commit": {"logo.png": "it is no text"}}
    assert all(one.evidence == (event.event_id,) for one in open_queue(lab).pending())


def test_what_is_odd_is_set_aside_with_its_reason(tmp_path, home):
    lab = new_lab(tmp_path / "lab")
    done = bring_in(lab, home)
    reasons = {os.path.basename(os.path.dirname(one.where)): one.reason for one in done.set_aside}
    assert set(reasons) == {"none", "latin", "huge", "周报", "name"}  # bad/twice comes before 办公/周报
    assert "line 1 is not `---`" in reasons["none"]
    assert "no UTF-8" in reasons["latin"]
    assert "1,048,576 are the most" in reasons["huge"]
    assert f"is taken by {home / 'skills' / 'bad' / 'twice' / 'SKILL.md'}" in reasons["周报"]
    assert "is no name for a skill" in reasons["name"]
    with open(done.set_aside_file, encoding="utf-8") as file:
        assert len(file.readlines()) == 5


def test_a_second_import_adds_nothing_whatever_was_decided(tmp_path, home):
    lab = new_lab(tmp_path / "lab")
    first = bring_in(lab, home)
    queue = open_queue(lab)
    waiting = {one.name: one.id for one in queue.pending()}
    queue.approve(waiting["周报"], by="Li Wei", reason="good")
    queue.reject(waiting["colon"], by="Li Wei", reason="no")
    again = bring_in(lab, home / "skills")
    assert again.proposed == ()
    # What the queue refuses by its name is tried, recorded and set aside again; nothing else is written.
    assert again.known == len(first.proposed)
    kinds = lab.log.sql("select action, count(*) from events group by 1").fetchall()
    assert dict(kinds)["skill_proposed"] == 5
    assert [skill.name for skill in standing(lab.log)] == ["周报"]


def test_a_changed_skill_is_proposed_as_an_edit_of_the_one_that_stands(tmp_path, home):
    lab = new_lab(tmp_path / "lab")
    bring_in(lab, home / "skills" / "办公")
    queue = open_queue(lab)
    queue.approve("周报", by="Li Wei", reason="good")
    path = home / "skills" / "办公" / "周报" / "SKILL.md"
    write(path, path.read_text("utf-8") + "再加一步。\n")
    done = bring_in(lab, path)
    assert done.proposed == ("周报",)
    (waiting,) = open_queue(lab).pending()
    assert waiting.skill.base == standing(lab.log).get("周报").sha256


def test_secrets_in_skills_do_not_reach_the_log_and_do_not_break_the_second_import(tmp_path):
    secret = "sk-" + "ant-api03-" + "A1b2C3d4" * 8
    write(tmp_path / "s" / "leak" / "SKILL.md", GOOD.format(name="leak", about="x", tags="y") + f"api_key: {secret}\n")
    write(tmp_path / "s" / "leak" / "broken" / "SKILL.md", f"no front matter, key {secret}\n")
    lab = new_lab(tmp_path / "lab")
    assert bring_in(lab, tmp_path / "s").proposed == ("leak",)
    assert bring_in(lab, tmp_path / "s").proposed == ()
    for path in (tmp_path / "lab").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_folder_that_cannot_be_read_does_not_take_the_others_along(tmp_path, monkeypatch):
    for name in ("gone", "shut", "tea"):
        write(tmp_path / "s" / name / "SKILL.md", GOOD.format(name=name, about="x", tags="y"))
    real = os.scandir

    def scandir(path):
        if os.path.basename(path) == "gone":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if os.path.basename(path) == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    read = read_folder(tmp_path / "s")
    assert [one.skill.name for one in read.found] == ["tea"]
    assert sorted(one.reason for one in read.set_aside) == [
        "it cannot be read: Permission denied",
        "it is gone by now",
    ]
    with pytest.raises(PermissionDeniedError):
        read_folder(tmp_path / "s" / "shut")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_pipes_and_devices_are_set_aside_at_once(tmp_path):
    write(tmp_path / "s" / "tea" / "SKILL.md", GOOD.format(name="tea", about="x", tags="y"))
    os.mkfifo(tmp_path / "s" / "tea" / "more.txt")
    (tmp_path / "s" / "pipe").mkdir()
    os.mkfifo(tmp_path / "s" / "pipe" / "SKILL.md")
    read = read_folder(tmp_path / "s")
    assert [one.left_out for one in read.found] == [{"more.txt": "it is a link or no plain file"}]
    assert [one.reason.split(",")[0] for one in read.set_aside] == ["is no plain file"]
    with pytest.raises(SkillError, match="is no plain file, but a pipe, device or folder"):
        read_plain(Path("/dev/zero"), 10)


def test_a_plain_file_may_have_so_many_bytes_and_no_more(tmp_path):
    (tmp_path / "long").write_bytes(b"x" * 11)
    assert read_plain(tmp_path / "long", 11) == b"x" * 11
    with pytest.raises(SkillError, match="has 11 bytes, and 10 are the most"):
        read_plain(tmp_path / "long", 10)


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    write(outside / "SKILL.md", GOOD.format(name="outside", about="x", tags="y"))
    write(tmp_path / "passwd", "root")
    skills = tmp_path / "skills"
    write(skills / "in" / "SKILL.md", GOOD.format(name="in", about="x", tags="y"))
    (skills / "in" / "stolen.txt").symlink_to(tmp_path / "passwd")
    (skills / "linked").symlink_to(outside)
    read = read_folder(skills)
    assert [one.skill.name for one in read.found] == ["in"]
    assert read.found[0].left_out == {"stolen.txt": "it is a link or no plain file"}
    assert [one.reason for one in read.set_aside] == ["it is a link: import what it leads to"]


def test_nothing_found_fails_loudly(tmp_path):
    lab = new_lab(tmp_path / "lab")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportFormatError, match="nothing was found"):
        bring_in(lab, tmp_path / "empty")
    with pytest.raises(MissingError):
        bring_in(lab, tmp_path / "absent")


@pytest.mark.parametrize("text", ["not json", "[1]", '{"a": 1, "git-commit": []}', "\ufeff{}"])
def test_usage_that_cannot_be_read_does_not_stop_the_import(tmp_path, home, text):
    write(home / "skills" / ".usage.json", text)
    done = bring_in(new_lab(tmp_path / "lab"), home)
    assert len(done.proposed) == 5
    assert done.usage == {}
    assert any(".usage.json" in one.where for one in done.set_aside) == (text in ("not json", "[1]"))
