"""Deny and ask rules: who wins, what they see, and that no odd text slips by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError
from hermes_lab.permissions import PermissionRule, PermissionSettings, Ruling, Verdict, decide
from hermes_lab.tools import Level, Spec

SCHEMA = {"type": "object"}
READ = Spec("get_order", "Look.", SCHEMA, Level.READ_ONLY)
WRITE = Spec("add_note", "Write.", SCHEMA, Level.EXECUTABLE)
REFUND = Spec("refund", "Pay back.", SCHEMA, Level.HIGH_RISK)


def rule(decision: str = "deny", **values: Any) -> PermissionRule:
    return msgspec.convert({"decision": decision, **values}, PermissionRule)


def verdict(rules: list[PermissionRule], arguments: dict[str, Any], spec: Spec = READ, type_: str = "orders") -> str:
    return decide(rules, spec, arguments, type_).verdict.value


def test_the_level_decides_where_no_rule_does() -> None:
    assert decide([], READ, {}, "t") == Ruling(
        Verdict.ALLOW, "level:read_only", "get_order is read_only, and no rule is against it"
    )
    assert verdict([], {}, WRITE) == "allow"
    assert decide([], REFUND, {}, "t") == Ruling(
        Verdict.ASK, "level:high_risk", "refund is high_risk, so a person is asked"
    )


def test_deny_wins_over_ask_and_ask_over_the_level_in_any_order() -> None:
    ask, deny = rule("ask", name="问", reason="请人确认"), rule("deny", name="禁", reason="不可")
    assert decide([ask], READ, {}, "t") == Ruling(Verdict.ASK, "问", "请人确认")
    for rules in ([ask, deny], [deny, ask]):
        assert decide(rules, REFUND, {}, "t") == Ruling(Verdict.DENY, "禁", "不可")
    assert decide([ask, rule("ask", name="later")], READ, {}, "t").by == "问"
    assert decide([ask], REFUND, {}, "t").by == "问"
    assert decide([rule(tool="other"), rule()], READ, {}, "t") == Ruling(
        Verdict.DENY, "rules[1]", "the rule 'rules[1]' denies it"
    )


@pytest.mark.parametrize(
    ("values", "hits"),
    [
        ({}, True),
        ({"tool": "get_order"}, True),
        ({"tool": "get_*"}, True),
        ({"tool": "*order?"}, False),
        ({"tool": "GET_ORDER"}, False),
        ({"tool": "get"}, False),
        ({"task_type": "ord*"}, True),
        ({"task_type": "returns"}, False),
        ({"argument": "id"}, True),
        ({"argument": "nothing"}, False),
        ({"argument": "id", "pattern": "^SO-"}, True),
        ({"argument": "id", "pattern": "^so-"}, False),
        ({"argument": "id", "pattern": "(?i)^so-"}, True),
        ({"argument": "customer.name", "pattern": "李"}, True),
        ({"argument": "customer.name", "pattern": "韩"}, False),
        ({"argument": "customer", "pattern": "李"}, True),
        ({"argument": "customer.tags", "pattern": "^vip$"}, True),
        ({"argument": "customer.tags.1", "pattern": "^new$"}, True),
        ({"argument": "customer.tags.0", "pattern": "^new$"}, False),
        ({"argument": "items.sku", "pattern": "^B2$"}, True),
        ({"argument": "items.count", "pattern": "^[0-9]{4,}$"}, True),
        ({"argument": "a.b", "pattern": "dotted"}, True),
        ({"argument": "rate", "pattern": "^5$"}, True),
        ({"argument": "rate", "pattern": r"^5\.0$"}, True),
        ({"argument": "flag", "pattern": "^true$"}, True),
        ({"argument": "none", "pattern": "^null$"}, True),
        ({"argument": "big", "pattern": "^1[0-9]{1000}"}, True),
        ({"pattern": "^sku$"}, True),
        ({"pattern": "^nothing$"}, False),
        ({"argument": "command", "pattern": "rm -rf"}, True),
        ({"argument": "text", "pattern": "first.*second"}, True),
        ({"pattern": "^$"}, True),
        ({"argument": "customer", "pattern": "^$"}, False),
        ({"argument": "empty", "pattern": "^$"}, True),
        ({"argument": "nothing_in_it"}, True),
    ],
)
def test_what_a_rule_is_about(values: dict[str, Any], hits: bool) -> None:
    arguments = {
        "id": "SO-1042",
        "customer": {"name": "李雷", "tags": ["vip", "new"]},
        "items": [{"sku": "A1", "count": 1}, {"sku": "B2", "count": 2500}],
        "a.b": "dotted",
        "rate": 5.0,
        "flag": True,
        "none": None,
        "big": 10**5000,
        "command": ["rm", "-rf", "/"],
        "text": "first\nsecond",
        "empty": "",
        "nothing_in_it": {},
    }
    assert (verdict([rule(**values)], arguments) == "deny") is hits


SLIPS = [
    "ｄｒｏｐ",
    "d\u200brop",
    "dr\u00adop",
    "d\u2060r\ufeffo\u200dp",
    "d\u202er\u202cop",
    "d\ufe0frop",
    "d\U000e0041rop",
    "d\u034frop",
    "d\u3164rop",
    "d\uffa0rop",
    "dro\x00p",
    "𝐝𝐫𝐨𝐩",
    "ⓓⓡⓞⓟ",
    "d\ud800rop",
    "DROP",
    "ＤＲ\u200bＯＰ",
    "please\n\ndrop it",
]


@pytest.mark.parametrize("text", SLIPS)
@pytest.mark.parametrize("place", ["value", "nested", "key"])
def test_odd_text_does_not_slip_by(text: str, place: str) -> None:
    arguments = {"value": {"a": text}, "nested": {"a": [{"b": [text]}]}, "key": {text: 1}}[place]
    assert verdict([rule(pattern="(?i)drop")], arguments) == "deny"


def test_odd_keys_do_not_slip_by_the_name_of_an_argument() -> None:
    for key in ("amount", "ａｍｏｕｎｔ", "am\u200bount"):
        assert verdict([rule(argument="amount", pattern="^9")], {key: 99}) == "deny"


def test_a_pattern_can_also_be_about_the_invisible_itself() -> None:
    assert verdict([rule(pattern=r"\x{200b}")], {"a": "x\u200by"}) == "deny"
    assert verdict([rule(pattern=r"\x{200b}")], {"a": "xy"}) == "allow"


_INVISIBLE = st.sampled_from(
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u202e\u2066\ufe00\ufe0f\x00\x7f\u034f\U000e0020"
)


@st.composite
def _disguised(draw: st.DrawFn) -> tuple[str, str]:
    """A word, and the same word with width, case and invisible characters changed."""
    word = draw(st.text(st.sampled_from("abcxyz019-_./退款"), min_size=1, max_size=8))
    shown = ""
    for char in word:
        if "!" <= char <= "~" and draw(st.booleans()):
            char = chr(ord(char) + 0xFEE0)
        char = char.upper() if draw(st.booleans()) else char
        shown += draw(st.text(_INVISIBLE, max_size=2)) + char
    return word, shown


@given(_disguised(), st.text(st.characters(exclude_categories=["Mn", "Mc", "Me", "Lo"])), st.booleans())
@settings(deadline=None)
def test_no_disguise_of_a_word_slips_by(pair: tuple[str, str], before: str, nested: bool) -> None:
    word, shown = pair
    text = f"{before} {shown} end"
    arguments = {"a": {"b": [text]}} if nested else {"a": text}
    literal = "".join(f"\\x{{{ord(char):x}}}" for char in word)
    assert verdict([rule(pattern=f"(?i){literal}")], arguments) == "deny"


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=10,
        ),
    ),
    st.text(),
)
@settings(deadline=None)
def test_it_never_raises_and_never_asks_less_than_the_level(arguments: dict[str, Any], task_type: str) -> None:
    rules = [
        rule("ask", pattern="汉"),
        rule("deny", argument="a.b", pattern="x"),
        rule("deny", tool="refund[", name="n"),
    ]
    assert decide(rules, REFUND, arguments, task_type).verdict is not Verdict.ALLOW


def test_deep_arguments_are_seen_to_the_bottom() -> None:
    deep: Any = "drop"
    for _ in range(5000):
        deep = [deep]
    assert verdict([rule(pattern="drop")], {"a": deep}) == "deny"


# Settings


def test_settings_of_lab_toml() -> None:
    settings = msgspec.toml.decode(
        """
        timeout_s = 30
        [[rules]]
        name = "金额上限"
        decision = "deny"
        tool = "refund"
        argument = "amount"
        pattern = "^[0-9]{4,}"
        reason = "too much"
        [[rules]]
        decision = "ask"
        task_type = "returns"
        """,
        type=PermissionSettings,
    )
    assert settings.timeout_s == 30
    assert decide(settings.rules, REFUND, {"amount": 1000}, "t") == Ruling(Verdict.DENY, "金额上限", "too much")
    assert decide(settings.rules, READ, {}, "returns").by == "rules[1]"
    assert PermissionSettings() == PermissionSettings(rules=(), timeout_s=60.0)


@pytest.mark.parametrize("pattern", ["(", "a{2000}", "(?<=a)b", "\\1", "[z-a]", "\ud800", "*"])
def test_a_wrong_pattern_is_said_at_load_with_the_rules_name(pattern: str) -> None:
    values = {"rules": [{"decision": "deny", "name": "坏规则", "pattern": pattern}]}
    with pytest.raises(ConfigError, match="坏规则"):
        msgspec.convert(values, PermissionSettings)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="'twin'"):
        PermissionSettings(rules=(rule(name="twin"), rule("ask", name="twin")))


@pytest.mark.parametrize(
    "values",
    [
        {"rules": [{"decision": "allow"}]},
        {"rules": [{"tool": "x"}]},
        {"rules": [{"decision": "deny", "tol": "x"}]},
        {"rules": [{"decision": "deny", "tool": ""}]},
        {"timeout_s": 0},
        {"timeout": 5},
    ],
)
def test_wrong_settings_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, PermissionSettings)
