"""Conflicts between statements, on labelled cases in English and Chinese, and between texts as long as skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.conflicts.finding import (
    Kind,
    Statement,
    compare,
    contradicts,
    find,
    find_in_texts,
    polarity,
    sentences,
)

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("conflict_cases.jsonl").read_text("utf-8").splitlines()
]
ENGLISH = [case for case in CASES if case["new"].isascii()]
CHINESE = [case for case in CASES if not case["new"].isascii()]


def found(case: dict[str, Any]) -> str | None:
    conflict = compare(
        Statement("new", case["new"], key=case.get("new_key")), Statement("old", case["old"], key=case.get("old_key"))
    )
    return None if conflict is None else str(conflict.kind)


@pytest.mark.parametrize("cases", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_precision_and_recall_on_the_labelled_cases(cases: list[dict[str, Any]]) -> None:
    assert len(cases) >= 30
    pairs = [(found(case), case["want"]) for case in cases]
    right = sum(got == want and got is not None for got, want in pairs)
    named = sum(got is not None for got, _ in pairs)
    wanted = sum(want is not None for _, want in pairs)
    assert right / named >= 0.9, [case for case, (got, want) in zip(cases, pairs, strict=True) if got != want]
    assert right / wanted >= 0.9, [case for case, (got, want) in zip(cases, pairs, strict=True) if got != want]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["want"] == "contradicts"], ids=lambda case: case["new"]
)
def test_contradiction_goes_both_ways(case: dict[str, Any]) -> None:
    assert bool(contradicts(case["new"], case["old"])) == bool(contradicts(case["old"], case["new"]))


def test_scopes_that_do_not_meet_are_no_conflict() -> None:
    old = Statement("old", "请用中文回复", scope="orders")
    assert compare(Statement("new", "请用英文回复", scope="returns"), old) is None
    assert compare(Statement("new", "请用英文回复", scope="orders"), old) is not None
    assert compare(Statement("new", "请用英文回复"), old) is not None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Depot 1 opens at 7 o'clock.", "Depot 2 opens at 8 o'clock."),
        ("Customer 44 pays within 30 days.", "Customer 45 pays within 60 days."),
        ("第1号仓库7点开门。", "第2号仓库8点开门。"),
        ("客户44要发票。", "客户45不要发票。"),
    ],
)
def test_things_with_numbers_of_their_own_are_different_things(new: str, old: str) -> None:
    assert compare(Statement("new", new), Statement("old", old)) is None


@pytest.mark.parametrize(
    ("new", "old"),
    [("Depot 1 opens at 7 o'clock.", "Depot 1 opens at 8 o'clock."), ("客户44要发票。", "客户44不要发票。")],
)
def test_and_the_same_thing_is_the_same(new: str, old: str) -> None:
    conflict = compare(Statement("new", new), Statement("old", old))
    assert conflict is not None
    assert conflict.kind is Kind.CONTRADICTS


@pytest.mark.parametrize(
    ("new", "old", "differ"),
    [
        ("Always answer in English.", "Name: 王芳. Prefers short answers in Chinese.", True),
        ("请用英文回复", "姓名王芳。希望用中文回复。", True),
        ("She is a lawyer in Bern. Never mail the invoice. Likes tea.", "Mail the invoice.", True),
        ("Likes tea. Dislikes calls.", "Does not like noise. Likes coffee.", False),
        ("Ship orders of VIPs first. Ask before refunds.", "Refunds go to the card. Orders ship on Monday.", False),
        ("订单优先发货。退款前先询问。", "退款退到原卡。订单周一发货。", False),
    ],
)
def test_one_sentence_of_several_is_enough(new: str, old: str, differ: bool) -> None:
    for one, other in ((new, old), (old, new)):
        conflict = compare(Statement("new", one), Statement("old", other))
        assert (conflict is not None and conflict.kind is Kind.CONTRADICTS) is differ


@pytest.mark.parametrize(
    ("new", "old"),
    [("Don't reply in English.", "Reply in Chinese."), ("周一不开会。", "周三开会。"), ("不要用红色", "请用蓝色")],
)
def test_not_the_one_and_the_other_go_together(new: str, old: str) -> None:
    assert compare(Statement("new", new), Statement("old", old)) is None
    assert compare(Statement("old", old), Statement("new", new)) is None


def test_find_names_each_with_both_texts() -> None:
    standing = [
        Statement("m1", "Reply in Chinese."),
        Statement("m2", "Please reply in English."),
        Statement("m3", "The shop is in 杭州."),
        Statement("self", "Never reply in English."),
    ]
    conflicts = find(Statement("self", "Reply in English."), standing)
    assert [(one.kind, one.other, one.texts) for one in conflicts] == [
        (Kind.CONTRADICTS, "m1", ("Reply in English.", "Reply in Chinese.")),
        (Kind.DUPLICATES, "m2", ("Reply in English.", "Please reply in English.")),
    ]


def test_a_model_is_asked_where_the_words_say_nothing() -> None:
    asked: list[tuple[str, str]] = []

    def judge(new: str, old: str) -> str | None:
        asked.append((new, old))
        return "contradicts" if "Bob" in old else "no idea"

    new = Statement("n", "Alice answers mails of the Oslo shop.")
    standing = [
        Statement("a", "Bob answers mails of the Oslo shop."),
        Statement("b", "The weather is fine."),
        Statement("c", "Never answer mails of the Lima shop, Alice."),
    ]
    conflicts = find(new, standing, judge)
    assert (Kind.CONTRADICTS, "a", "a model says so") in [(one.kind, one.other, one.why) for one in conflicts]
    assert (new.text, "The weather is fine.") not in asked
    assert find(new, standing) == find(new, standing, lambda _new, _old: None)


def test_long_texts_by_line_and_as_a_whole() -> None:
    skill = "# Refunds\n\n- Always look the order up first.\n- 退款前要先打电话给客户。\n"
    skill += "```\nNever look the order up first.\n```\n"
    other = "# Paying back\n\n1. Never look the order up first.\n2. 退款前不要先打电话给客户。\n"
    kinds = {
        (one.kind, one.other, one.texts)
        for one in find_in_texts(Statement("refunds", skill), [Statement("back", other)])
    }
    assert kinds == {
        (Kind.CONTRADICTS, "back", ("Always look the order up first.", "Never look the order up first.")),
        (Kind.CONTRADICTS, "back", ("退款前要先打电话给客户", "退款前不要先打电话给客户")),
    }
    (twin,) = find_in_texts(Statement("refunds", skill), [Statement("twin", skill + "\nOne more line.")])
    assert twin.kind is Kind.DUPLICATES
    assert find_in_texts(Statement("refunds", skill), [Statement("refunds", other)]) == ()


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("Refund.", False),
        ("Never refund.", True),
        ("It isn’t open.", True),
        ("不用审批", True),
        ("要审批", False),
        ("别发邮件", True),
    ],
)
def test_polarity(text: str, negated: bool) -> None:
    assert polarity(text) is negated


@given(a=st.text(max_size=80), b=st.text(max_size=80))
def test_any_text_is_read(a: str, b: str) -> None:
    conflict = compare(Statement("a", a), Statement("b", b))
    assert conflict is None or conflict.kind in Kind
    assert compare(Statement("a", a), Statement("b", a)) is None or a.strip()
    sentences(a + "\n" + b)
