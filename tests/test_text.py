"""Words of English and Chinese texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.text import overlap, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("get_orderStatus", ["get", "order", "status"]),
        ("HTTPServerError v2.10", ["http", "server", "error", "v2", "10"]),
        ("SO-1042", ["so", "1042"]),
        ("Where is the order of my customer?", ["order", "customer"]),
        ("naïve Ünïcode", ["naïve", "ünïcode"]),
        ("退款", ["退款"]),
        ("请帮我查一下订单SO-1042的状态", ["请帮", "我查", "查一", "下订", "订单", "so", "1042", "状态"]),
        ("茶", ["茶"]),
        ("我", []),
        ("ＡＢＣ　１２３", ["abc", "123"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("한국어", ["한국", "국어"]),
        ("🙂 ok 🙂", ["ok"]),
        ("\ud800x\x00y", ["x", "y"]),
        ("𠀀𠀁", ["𠀀𠀁"]),
    ],
)
def test_tokens(text: str, words: list[str]) -> None:
    assert tokens(text) == words


@given(st.text())
@settings(deadline=None)
def test_tokens_of_any_text_are_lower_cased_words(text: str) -> None:
    for token in tokens(text):
        assert token
        assert token == token.lower()
        assert not any(char.isspace() or char in "_.-" for char in token)


@given(st.text())
@settings(deadline=None)
def test_width_does_not_matter(text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    assert tokens(wide) == tokens(text)


@given(st.text(), st.text())
@settings(deadline=None)
def test_overlap_is_a_symmetric_share(a: str, b: str) -> None:
    assert overlap(a, b) == overlap(b, a)
    assert 0.0 <= overlap(a, b) <= 1.0 + 1e-9
    assert overlap(a, a) == pytest.approx(1.0 if tokens(a) else 0.0)


def test_overlap_ranks_the_tool_that_is_meant() -> None:
    request = "查询订单物流状态"
    assert overlap(request, "查询一个订单的物流") > overlap(request, "给客户退款")
    assert overlap("cancel my appointment", "cancel_appointment") > overlap("cancel my appointment", "book_appointment")
