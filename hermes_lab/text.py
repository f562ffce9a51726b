"""Words of a text, in English and Chinese, for whatever compares texts: routing, search, triggers."""

from __future__ import annotations

import math
import re
import unicodedata

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"([{_CJK}]+)|[^\W_{_CJK}]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PARTICLE = re.compile("[的吗呢吧啊呀嘛]")

_ENGLISH = """
a an and any are as at be been but by can could did do does for from had has have he her him his how i if in into is it
its let me my of on or our please shall she should some than that the their them then there these they this those to us
was we were what when where which who whom why will with would you your
"""
_CHINESE = """
我们 你们 他们 她们 它们 这个 那个 这些 那些 一个 一些 什么 怎么 怎样 如何 可以 能否 是否 请问 帮我 一下 没有 还是 或者
以及 因为 所以 如果 但是 我 你 他 她 它 是 在 和 与 或 请 也 都 就 了
"""
_STOP_WORDS = frozenset(_ENGLISH.split() + _CHINESE.split())


def tokens(text: str) -> list[str]:
    """Return the words of `text`, lower-cased, in order, without stop words.

    Identifiers are split at `_`, `.`, `-` and in camelCase; full-width characters count as their plain ones. A run of
    Chinese, Japanese or Korean becomes its pairs of neighbouring characters (a lone character stays).

    >>> tokens("getOrderStatus of the SO-1042")
    ['get', 'order', 'status', 'so', '1042']
    >>> tokens("我的订单号")
    ['订单', '单号']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if not text.islower():
        text = _CAMEL.sub(" ", text).lower()
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        if match.group(1) is None:
            found.append(match.group())
        else:
            for run in _PARTICLE.split(match.group()):
                found.extend(_pairs(run))
    return [token for token in found if token not in _STOP_WORDS]


def _pairs(run: str) -> list[str]:
    if len(run) < 2:
        return [run] if run else []
    return [run[place : place + 2] for place in range(len(run) - 1)]


def overlap(a: str, b: str) -> float:
    """Return how alike two texts are by their words, from 0 to 1: shared words / the geometric mean of their numbers.

    >>> overlap("track my order", "order tracking: where an order is")
    0.5
    >>> overlap("", "anything")
    0.0
    """
    first, second = set(tokens(a)), set(tokens(b))
    if not first or not second:
        return 0.0
    return len(first & second) / math.sqrt(len(first) * len(second))
