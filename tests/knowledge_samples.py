"""Made-up memories and skills, English and Chinese, for tests and benchmarks of what a prompt is shown."""

from __future__ import annotations

import datetime as dt
import random

from hermes_lab.layers import Knowledge
from hermes_lab.memory import Kind, Memory, State, memory_id
from hermes_lab.skills import Library, Skill, read_skill

TYPES = ("orders", "refunds", "answers", "*")
_START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
_ENGLISH = ("order", "refund", "parcel", "address", "invoice", "coupon", "customer", "return", "size", "gift", "stock")
_CHINESE = ("订单", "退款", "快递", "地址", "发票", "优惠", "客户", "退货", "尺码", "颜色", "礼物", "库存", "周末")


def knowledge(memories: int, skills: int, seed: int = 0, pinned: int = 5) -> Knowledge:
    """Return made-up knowledge; the first memories are pinned."""
    draw = random.Random(seed)
    made = {one.id: one for one in (_memory(draw, place, place < pinned) for place in range(memories))}
    return Knowledge(tuple(made.values()), Library(_skill(draw, place) for place in range(skills)))


def request(draw: random.Random) -> str:
    """Return a request, English, Chinese or both."""
    return f"{_words(draw, 6)}? {draw.randrange(1000)}"


def _memory(draw: random.Random, place: int, pinned: bool) -> Memory:
    text = f"{place}: {_words(draw, draw.randrange(3, 30))}."
    kind = draw.choice(list(Kind))
    scope = draw.choice(TYPES)
    return Memory(
        id=memory_id(text, kind, scope),
        text=text,
        kind=kind,
        scope=scope,
        confidence=draw.choice([None, 0.5, 0.9]),
        created=_START + dt.timedelta(minutes=draw.randrange(100_000)),
        state=State.ACTIVE,
        pinned=pinned,
    )


def _skill(draw: random.Random, place: int) -> Skill:
    body = "\n".join(f"- {_words(draw, 12)}" for _ in range(draw.randrange(2, 60)))
    text = f"---\nname: skill-{place}\ndescription: {_words(draw, 8)}\n---\n# {_words(draw, 3)}\n\n{body}\n"
    return read_skill(text)


def _words(draw: random.Random, count: int) -> str:
    source = draw.choice([_ENGLISH, _CHINESE, _ENGLISH + _CHINESE])
    return " ".join(draw.choice(source) for _ in range(count))
