"""The history of configurations: only added to, readable by Git, whole after any kill, and never written over."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.config import AgentConfig, Example, MicroReflection, Rule, ToolSettings, changed
from hermes_lab.errors import ConfigError, ImportFormatError, MissingError, WriteError
from hermes_lab.lab import Lab
from hermes_lab.runs import load_config, save_config
from hermes_lab.versions import DamagedHistoryError, StaleParentError, Versions
from hermes_lab.versions.difference import between

SIGNED: dict[str, Any] = {"by": "miner", "approver": "王芳", "message": "更好的默认值"}


def with_steps(steps: int) -> AgentConfig:
    return changed(AgentConfig(), **{"budgets.steps": steps})


def filled(folder: Path, count: int = 3) -> Versions:
    versions = Versions(folder)
    for number in range(count):
        parent = f"v1.{number - 1}" if number else None
        versions.commit(with_steps(number + 1), parent=parent, **SIGNED, scores={"composite": 0.5, "x": None})
    return versions


def git(folder: Path, *words: str) -> str:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    found = subprocess.run(["git", *words], cwd=folder / "configs", capture_output=True, text=True, check=True)
    return found.stdout


# -- adding ------------------------------------------------------------------------------------------------------------


def test_each_version_says_who_why_and_on_what_evidence(tmp_path: Path) -> None:
    versions = filled(tmp_path, 2)
    made = versions.commit(with_steps(9), parent="v1.1", **SIGNED, evidence=["01a2-x"], scores={"composite": 0.75})
    assert (made.name, made.parent, made.by, made.approver, made.evidence) == (
        "v1.2",
        "v1.1",
        "miner",
        "王芳",
        ("01a2-x",),
    )
    assert [one.name for one in versions.log()] == ["v1.2", "v1.1", "v1.0"]
    assert versions.load("v1.2") == versions.load("latest") == versions.load(made.config) == with_steps(9)
    assert versions.problems() == []


def test_git_itself_reads_it(tmp_path: Path) -> None:
    filled(tmp_path)
    assert git(tmp_path, "fsck", "--strict") == ""
    assert git(tmp_path, "status", "--porcelain") == ""
    assert git(tmp_path, "tag").split() == ["v1.0", "v1.1", "v1.2"]
    told = git(tmp_path, "show", "HEAD")
    assert "v1.2: 更好的默认值" in told
    assert "Approved-by: 王芳" in told
    assert '-    "steps": 2,' in told
    assert '+    "steps": 3,' in told


def test_a_rollback_is_a_new_version_and_takes_nothing_out(tmp_path: Path) -> None:
    versions = filled(tmp_path)
    back = versions.rollback("v1.0", by="王芳", reason="worse on returns")
    assert (back.name, back.restores) == ("v1.3", "v1.0")
    assert versions.load("latest") == with_steps(1)
    assert len(versions.log()) == 4
    again = versions.rollback("v1.0", by="王芳", reason="worse on returns")
    assert again == back


def test_a_change_on_a_parent_that_is_no_longer_the_last_is_refused(tmp_path: Path) -> None:
    versions = filled(tmp_path)
    with pytest.raises(StaleParentError, match=r"v1\.2 came meanwhile \(by miner"):
        versions.commit(with_steps(50), parent="v1.1", **SIGNED)
    with pytest.raises(ConfigError, match="nothing to commit"):
        versions.commit(with_steps(3), parent="v1.2", by="other", approver="王芳", message="the same")


@pytest.mark.parametrize(
    "wrong",
    [{"by": " "}, {"approver": "…"}, {"message": "\n"}, {"message": "a\x00b"}, {"by": "Li\nApproved-by: root"}],
)
def test_nobody_and_nothing_is_no_signature(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Versions(tmp_path).commit(AgentConfig(), parent=None, **{**SIGNED, **wrong})
    assert Versions(tmp_path).log() == ()


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    leaky = changed(AgentConfig(), system={"role": "Use the key sk-" + "a1B2" * 12})
    for commit in (
        lambda: save_config(tmp_path, leaky),
        lambda: Versions(tmp_path).commit(leaky, parent=None, **SIGNED),
    ):
        with pytest.raises(ConfigError, match="looks like a secret"):
            commit()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"a1B2a1B2" in path.read_bytes()]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
configs = st.builds(
    AgentConfig,
    system=st.dictionaries(texts, texts, max_size=3),
    rules=st.lists(st.builds(Rule, id=texts, text=texts, scope=texts), max_size=3, unique_by=lambda one: one.id).map(
        tuple
    ),
    examples=st.lists(
        st.builds(
            Example, request=texts, tool=texts, arguments=st.dictionaries(texts, st.none() | st.integers() | texts)
        ),
        max_size=2,
    ).map(tuple),
    tools=st.dictionaries(texts, st.builds(ToolSettings, note=texts), max_size=2),
)


@given(configs)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_committed_comes_back_with_its_hash(tmp_path_factory: pytest.TempPathFactory, config: Any) -> None:
    versions = Versions(tmp_path_factory.mktemp("lab"))
    made = versions.commit(config, parent=None, **SIGNED)
    assert made.config == config.version
    assert versions.load("v1.0") == config
    assert list(versions.load("v1.0").system.items()) == list(config.system.items())


@given(configs, configs)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_difference_is_told_exactly_where_the_hashes_differ(old: Any, new: Any) -> None:
    for one, other in ((old, new), (old, old)):
        found = between(one, other)
        assert bool(found.changes) == (one.version != other.version)
        assert len(found.words.splitlines()) >= len(found.changes)


def test_a_difference_names_what_was_added_removed_changed_and_moved() -> None:
    first, second = Rule(id="r1", text="Look first."), Rule(id="r2", text="先查订单。", scope="refund")
    example = Example(request="Where is SO-1?", tool="order_status", arguments={"id": "SO-1"})
    old = AgentConfig(system={"role": "a", "tone": "b"}, rules=(first, second))
    new = AgentConfig(
        system={"tone": "b", "role": "a"},
        rules=(msgspec.structs.replace(second, text="先查退款。"),),
        examples=(example, example),
        micro_reflection=MicroReflection(turns=9),
    )
    shown = 'examples added: arguments {"id":"SO-1"}; request Where is SO-1?; scope *; tool order_status'
    assert sorted(between(old, new).words.splitlines()) == [
        shown,
        shown,
        "micro_reflection.turns: 3 -> 9",
        "rules.r1 removed: scope *; text Look first.",
        "rules.r2.text: 先查订单。 -> 先查退款。",
        "the order of system changed, from tone on",
    ]


# -- names where a configuration is taken ------------------------------------------------------------------------------


def test_a_name_means_the_same_wherever_a_configuration_is_taken(tmp_path: Path) -> None:
    versions = filled(tmp_path)
    assert load_config(tmp_path, "v1.1") == with_steps(2)
    assert load_config(tmp_path, "latest") == with_steps(3)
    save_config(tmp_path, with_steps(40))
    assert load_config(tmp_path, with_steps(40).version) == with_steps(40)
    assert versions.hash_of("v1.1") == with_steps(2).version
    assert versions.hash_of("v7.1") == "v7.1"
    with pytest.raises(MissingError, match=r"the last is v1\.2"):
        load_config(tmp_path, "v1.9")


# -- several writers, and kills ----------------------------------------------------------------------------------------

PROPOSER = """
import sys, time
from pathlib import Path
from hermes_lab.config import AgentConfig, changed
from hermes_lab.versions import StaleParentError, Versions

versions, number, count = Versions(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
for place in range(count):
    while True:
        last = versions.latest()
        try:
            config = changed(AgentConfig(), **{"budgets.steps": 1000 * number + place + 1})
            versions.commit(config, parent=last.name if last else None, by=f"p{number}", approver="rule", message="m")
        except StaleParentError:
            continue
        break
"""


def proposer(folder: Path, number: int, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROPOSER, str(folder), str(number), str(count)])


def test_proposers_at_once_neither_skip_nor_lose_a_version(tmp_path: Path) -> None:
    running = [proposer(tmp_path, number, 8) for number in (1, 2, 3)]
    assert [one.wait(120) for one in running] == [0, 0, 0]
    found = Versions(tmp_path).log()
    assert [one.name for one in reversed(found)] == [f"v1.{number}" for number in range(24)]
    steps = {Versions(tmp_path).load(one.name).budgets.steps for one in found}
    assert steps == {1000 * number + place + 1 for number in (1, 2, 3) for place in range(8)}
    assert Versions(tmp_path).problems() == []
    assert git(tmp_path, "fsck", "--strict") == ""


def test_a_kill_at_any_moment_leaves_a_whole_history(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    draw = random.Random(5)
    for number in range(1, 13):
        before = len(Versions(tmp_path).log())
        running = proposer(tmp_path, number, 200)
        deadline = time.monotonic() + 60
        while len(Versions(tmp_path).log()) == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(draw.random() * 0.05)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        found = Versions(tmp_path).log()
        assert len(found) > before
        assert [one.name for one in reversed(found)] == [f"v1.{place}" for place in range(len(found))]
        assert Versions(tmp_path).problems() == []
    last = Versions(tmp_path).latest()
    assert last is not None
    Versions(tmp_path).commit(with_steps(77_777), parent=last.name, **SIGNED)
    assert git(tmp_path, "status", "--porcelain", "--untracked-files=no") == ""
    # What a kill came before the branch of is whole, and belongs to nothing.
    assert git(tmp_path, "fsck", "--strict", "--no-dangling") == ""


# -- damage, and other hands -------------------------------------------------------------------------------------------


def test_a_file_that_was_edited_by_hand_is_not_written_over(tmp_path: Path) -> None:
    versions = filled(tmp_path)
    file = tmp_path / "configs" / "agent.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="was edited by hand"):
        versions.commit(with_steps(9), parent="v1.2", **SIGNED)
    assert file.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("commands", [["reset --hard HEAD~1"], ["commit --allow-empty -m mine"], ["tag -f v1.0 HEAD"]])
def test_what_somebody_did_with_git_is_found_and_nothing_is_added_to_it(tmp_path: Path, commands: list[str]) -> None:
    versions = filled(tmp_path)
    for command in commands:
        git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", *command.split())
    with pytest.raises(DamagedHistoryError, match="take that back with git"):
        versions.commit(with_steps(9), parent="v1.2", **SIGNED)
    assert versions.problems()


def test_a_lost_or_changed_object_is_found(tmp_path: Path) -> None:
    versions = filled(tmp_path)
    objects = sorted((tmp_path / "configs" / ".git" / "objects").glob("??/*"))
    assert objects
    for path in objects:
        kept = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(kept[: len(kept) // 2])
        assert Versions(tmp_path).problems(), path
        path.write_bytes(kept)
    assert versions.problems() == []


def test_a_kept_configuration_that_was_edited_is_not_taken_for_what_ran(tmp_path: Path) -> None:
    save_config(tmp_path, with_steps(5))
    file = tmp_path / "configs" / f"{with_steps(5).version}.json"
    file.write_text(file.read_text("utf-8").replace('"steps": 5', '"steps": 6'), encoding="utf-8")
    with pytest.raises(ConfigError, match="was edited"):
        load_config(tmp_path, with_steps(5).version)


# -- out and in --------------------------------------------------------------------------------------------------------


def test_a_history_goes_out_and_comes_in_whole(tmp_path: Path) -> None:
    versions = filled(tmp_path / "a")
    bundle = tmp_path / "history.bundle"
    assert versions.export(bundle) == 3
    with pytest.raises(WriteError, match="there already"):
        versions.export(bundle)
    other = Versions(tmp_path / "b")
    assert other.import_(bundle) == 3
    assert [one.commit for one in other.log()] == [one.commit for one in versions.log()]
    assert other.import_(bundle) == 0
    assert git(tmp_path / "b", "fsck", "--strict") == ""
    clone = subprocess.run(
        ["git", "clone", "-q", "-b", "main", str(bundle), str(tmp_path / "clone")], capture_output=True, check=False
    )
    assert clone.returncode == 0
    assert (tmp_path / "clone" / "agent.json").read_bytes() == (tmp_path / "a" / "configs" / "agent.json").read_bytes()


def test_another_history_or_a_damaged_file_adds_nothing(tmp_path: Path) -> None:
    ours = filled(tmp_path / "a", 1)
    theirs = Versions(tmp_path / "b")
    theirs.commit(with_steps(99), parent=None, **SIGNED)
    bundle = tmp_path / "theirs.bundle"
    theirs.export(bundle)
    with pytest.raises(ConfigError, match="another history"):
        ours.import_(bundle)
    whole = bundle.read_bytes()
    flipped = whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:]
    for damaged in (whole[:-30], b"PK" + whole, flipped, b""):
        bundle.write_bytes(damaged)
        empty = Versions(tmp_path / "c")
        with pytest.raises(ImportFormatError):
            empty.import_(bundle)
        assert empty.log() == ()


# -- on the command line -----------------------------------------------------------------------------------------------


def test_the_command_line_shows_and_goes_back(lab: Lab, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    for shortlist in (3, 1):
        file.write_text(f"[routing]\nshortlist = {shortlist}\n", encoding="utf-8")
        done = cli("config", "commit", file, "-m", f"短名单 {shortlist}", "--by", "王芳")
        assert done.returncode == 0, done.stderr
    listed = cli("config", "log").stdout
    assert "v1.1" in listed
    assert "短名单 1" in listed
    assert "routing.shortlist: 3 -> 1" in cli("config", "diff", "v1.0", "v1.1").stdout
    assert "which holds what v1.0 holds" in cli("config", "rollback", "v1.0", "--reason", "worse").stdout
    assert '"shortlist": 3' in cli("config", "show").stdout
    missing = cli("config", "show", "v1.7")
    assert missing.returncode == 66
    assert "the last is v1.2" in missing.stderr
