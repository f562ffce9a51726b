"""SKILL.md files: odd ones are read, nothing is lost, nothing is run."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.skills.file import compose, parse, read_file
from hermes_lab.skills.front_matter import SkillError, render
from hermes_lab.skills.skill import read_skill

FULL = (
    "\ufeff---\r\n"
    "# kept comment\r\n"
    "name: 泡茶\r\n"
    "description: >-\r\n"
    "  Make tea.\r\n"
    "  Use when thirsty.\r\n"
    "version: 1.10   # not 1.1\r\n"
    "platforms: [macos,   linux]\r\n"
    "x-unknown: {b: 2, a: 'one'}\r\n"
    "metadata:\r\n"
    "  hermes:\r\n"
    "    tags:\r\n"
    "      - tea\r\n"
    "      - 茶\r\n"
    "    # a comment behind the tags\r\n"
    "    related_skills: [coffee]\r\n"
    "---\r\n"
    "\r\n# Tea\r\n---\r\nBoil 👩‍🔬 water.\r\n"
)


def test_a_full_file_keeps_every_byte_and_is_understood(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_bytes(FULL.encode())
    file = read_file(path)
    assert file.data == FULL.encode()
    assert file.front["version"] == "1.10"
    assert file.front["description"] == "Make tea. Use when thirsty."
    assert file.front["platforms"] == ["macos", "linux"]
    assert file.front["x-unknown"] == {"b": "2", "a": "one"}
    assert file.body == "\r\n# Tea\r\n---\r\nBoil 👩‍🔬 water.\r\n"
    assert file.notes == ()
    file.write(tmp_path / "again.md")
    assert (tmp_path / "again.md").read_bytes() == FULL.encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], "2.0"),
        (["description"], "Now: with colon # and hash"),
        (["metadata", "hermes", "tags"], ["green tea", "绿茶"]),
        (["metadata", "hermes", "author"], "李雷"),
        (["metadata", "hermes-lab", "needs", "tools"], ["kettle"]),
        (["x-unknown", "c"], None),
        (["license"], "Apache-2.0"),
    ],
)
def test_a_change_leaves_every_other_line_as_it_was(path, value):
    changed = parse(FULL).with_field(path, value)
    found = changed.front
    for key in path:
        found = found[key]
    assert found == value
    before, after = FULL.split("\r\n"), changed.text.split("\r\n")
    assert "\n" not in "".join(after)
    kept = [line for line in before if line in after]
    assert len(before) - len(kept) <= 3  # the field's own lines
    assert [line for line in after if line in kept][: len(kept)] == kept
    assert "    # a comment behind the tags" in after
    assert "# kept comment" in after
    assert changed.text.startswith("\ufeff---\r\n")


def test_a_body_is_replaced_with_the_files_own_line_ends():
    changed = parse(FULL).with_body("one\ntwo\r\n")
    assert changed.text == FULL[: FULL.index("\r\n# Tea")] + "one\r\ntwo\r\n"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(st.none(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(texts, values, min_size=1, max_size=4), texts)
def test_whatever_is_composed_is_read_back(front, body):
    file = compose(front, body)
    assert file.front == front
    assert file.body.removeprefix("\n") == body
    assert parse(file.text) == file


@settings(max_examples=100, deadline=None)
@given(values)
def test_any_value_can_be_set_in_a_file(value):
    changed = parse(FULL).with_field(["metadata", "hermes-lab"], value)
    assert changed.front["metadata"]["hermes-lab"] == value
    assert changed.front["metadata"]["hermes"] == parse(FULL).front["metadata"]["hermes"]


def test_what_looks_like_a_number_or_a_word_of_yaml_stays_text():
    for text in (
        "yes",
        "No",
        "null",
        "~",
        "1.10",
        "0x1F",
        "2026-11-30",
        "- a",
        "a: b",
        "#x",
        "",
        " x",
        "&a",
        "*a",
        "!t",
    ):
        assert parse(f"---\nname: {render(text)}\n---\n").front["name"] == text


@pytest.mark.parametrize(
    "line",
    [
        "description: Use when: the user asks, or else: not",
        "description: @mention first",
        "description: [Beta] Draft letters",
        "description: 用于：查询 key: value 与 {x}",
        "description: `quoted` code",
        'description: "half a quote',
        "description: 50% off: today",
    ],
)
def test_front_matter_that_is_no_yaml_is_read_as_text_and_says_so(line):
    file = parse(f"---\nname: odd\n{line}\nversion: 1.0\n---\nBody\n")
    assert file.front["name"] == "odd"
    assert file.front["description"] == line.removeprefix("description: ")
    assert file.front["version"] == "1.0"
    assert "line 3" in file.notes[0]
    with pytest.raises(SkillError, match="no YAML"):
        file.with_field(["version"], "2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Just Markdown\n", "line 1 is not `---`"),
        ("", "line 1 is not `---`"),
        ("---\nname: x\n", "has no end"),
        ("---\n- a\n- b\n---\n", "no `key: value` lines"),
        ("---\n---\nbody", "no `key: value` lines"),
        ("---\nname: !!python/object/apply:os.system ['echo pwned']\n---\n", "line 2: the tag"),
        ("---\na: &a [x, x]\nb: *a\n---\n", "line 3: aliases"),
        ("---\n? [a, b]\n: c\n---\n", "a key is a text"),
        ("---\na: " + "[" * 30 + "]" * 30 + "\n---\n", "more than 20 levels"),
        ("---\na: " + "x" * 70_000 + "\n---\n", "65,536 are the most"),
        ("---\nname: [unclosed\n", "has no end"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text, message):
    with pytest.raises(SkillError, match=message.replace("[", r"\[").replace("(", r"\(")):
        parse(text)


def test_a_bomb_of_aliases_is_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]" for n in range(1, 12)]
    with pytest.raises(SkillError, match="aliases"):
        parse("---\n" + "\n".join(lines) + "\n---\n")


def test_deep_nesting_does_not_bring_the_process_down():
    file = parse("---\na: " + "[" * 60_000 + "\n---\n")
    assert file.front["a"] == "[" * 60_000
    assert "no YAML" in file.notes[0]


def test_a_key_that_stands_twice_is_noted():
    file = parse("---\nname: a\nname: b\n---\n")
    assert file.front["name"] == "b"
    assert file.notes == ("`name` stands twice, on lines 2 and 3: the last one counts",)


def test_a_file_that_is_no_utf8_is_refused_by_name(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_bytes("---\nname: 茶\n---\n".encode("gb18030"))
    with pytest.raises(SkillError, match="is no UTF-8"):
        read_file(path)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_damage_to_a_file_brings_anything_but_our_error(seed):
    rng = random.Random(seed)
    text = list(FULL)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text))
        text[at : at + rng.randrange(3)] = rng.choice(["\t", "{", "---\n", ":", "\x00", "\ud800", "  ", "'", "&", "\r"])
    damaged = "".join(text)
    try:
        file = parse(damaged)
    except SkillError:
        return
    assert file.text == damaged


def test_a_skill_declares_what_it_needs_and_gives():
    skill = read_skill(
        "---\nname: invoice\ndescription: Pay an invoice.\nallowed-tools: Bash(git:*), Read  Write\n"
        "metadata:\n  hermes:\n    tags: pay, 发票\n    requires_tools: [pay_bill]\n    related_skills: [refund]\n"
        "  hermes-lab:\n    needs: {tools: [find_invoice], skills: [login], inputs: [invoice number]}\n"
        "    gives: [receipt]\n    task_types: [billing]\n---\nSteps\n"
    )
    assert skill.needs == (("find_invoice", "pay_bill"), ("login",), ("invoice number",))
    assert skill.gives == ("receipt",)
    assert skill.tags == ("pay", "发票")
    assert skill.allowed_tools == ("Bash", "Read", "Write")
    assert skill.related == ("refund",)
    assert skill.task_types == ("billing",)


def test_a_skill_without_name_or_description_takes_the_folders_and_the_bodys():
    skill = read_skill("---\nversion: 1\n---\n# Title\n\nMakes tea.\n", name="tea")
    assert (skill.name, skill.description) == ("tea", "Makes tea.")
    assert "no description" in skill.notes[0]
    with pytest.raises(SkillError, match="no `name`"):
        read_skill("---\nversion: 1\n---\nx\n")
    with pytest.raises(SkillError, match="neither a description nor a body"):
        read_skill("---\nname: x\n---\n# Title\n")
