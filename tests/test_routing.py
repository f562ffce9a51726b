"""Which tools are offered: dropping what missed, ranking, shortlists, policy memory, English and Chinese."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.config import Routing
from hermes_lab.routing import NO_MEMORY, PolicyMemory, ToolStats, drop_misses, likeness, rank, route
from hermes_lab.tools.base import Spec


def tool(name: str, description: str = "", *parameters: str) -> Spec:
    return Spec(name, description, {"type": "object", "properties": {one: {"type": "string"} for one in parameters}})


TOOLS = [
    tool("get_weather", "Forecast for a city.", "city", "date"),
    tool("find_order", "Look up an order by its number. 查询订单状态", "order_number"),
    tool("cancel_order", "Cancel an order. 取消订单", "order_number", "reason"),
    tool("refund_payment", "Pay money back to a customer. 退款给客户", "amount"),
    tool("search_policies", "Search the policies, such as for returns. 搜索政策文件", "query"),
]
NAMES = tuple(one.name for one in TOOLS)


def stats(**misses_and_hits: tuple[int, int]) -> PolicyMemory:
    """Policy memory for the task type `orders`; each tool with (misses, hits)."""
    return PolicyMemory({("orders", name): ToolStats(hits, misses) for name, (misses, hits) in misses_and_hits.items()})


def routed(request: str = "x", *, policy: PolicyMemory = NO_MEMORY, task_type: str = "orders", **settings):
    return route(request, task_type, TOOLS, Routing(**{"shortlist": "all", **settings}), policy)


# -- dropping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misses", "hits", "dropped"),
    [(0, 0, False), (3, 0, False), (4, 0, True), (400, 0, True), (4, 1, False), (400, 1, False)],
)
def test_more_than_three_misses_without_a_hit_drop_a_tool(misses, hits, dropped):
    found = routed(policy=stats(find_order=(misses, hits)))
    assert found.dropped == (("find_order",) if dropped else ())
    assert ("find_order" in found.candidates) is not dropped


def test_misses_on_tasks_of_another_type_do_not_count():
    assert routed(policy=stats(find_order=(9, 0)), task_type="visits").dropped == ()


def test_misses_of_this_episode_are_added():
    policy = stats(find_order=(2, 0))
    assert route("x", "orders", TOOLS, Routing(shortlist="all"), policy, {"find_order": 1}).dropped == ()
    assert route("x", "orders", TOOLS, Routing(shortlist="all"), policy, {"find_order": 2}).dropped == ("find_order",)


def test_if_that_drops_all_the_first_three_stay():
    found = routed(policy=stats(**{name: (9, 0) for name in NAMES}))
    assert found.candidates == NAMES[:3]
    assert found.dropped == NAMES[3:]


@pytest.mark.parametrize("keep", [1, 2, 5, 99])
def test_how_many_stay_is_a_setting(keep):
    found = routed(policy=stats(**{name: (9, 0) for name in NAMES}), keep_at_least=keep)
    assert found.candidates == NAMES[:keep]


def test_one_that_is_left_is_enough():
    found = routed(policy=stats(**{name: (9, 0) for name in NAMES[1:]}))
    assert found.candidates == NAMES[:1]


def test_no_tools():
    assert route("x", "orders", [], Routing(shortlist=2, order="ranked")).candidates == ()


@given(
    misses=st.lists(st.integers(0, 9), min_size=5, max_size=5),
    hits=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    drop_after=st.integers(0, 6),
    keep=st.integers(1, 6),
)
def test_each_tool_is_kept_or_dropped_and_something_stays(misses, hits, drop_after, keep):
    policy = stats(**{name: (miss, hit) for name, miss, hit in zip(NAMES, misses, hits, strict=True)})
    kept, dropped = drop_misses("orders", TOOLS, Routing(drop_after=drop_after, keep_at_least=keep), policy, {})
    assert kept
    assert sorted([one.name for one in kept] + list(dropped)) == sorted(NAMES)
    assert [one.name for one in kept] == [name for name in NAMES if name not in dropped]


# -- shortlists and order ---------------------------------------------------------------------------------------------


def test_all_in_listing_order_ranks_nothing():
    found = routed("cancel my order")
    assert (found.candidates, dict(found.scores)) == (NAMES, {})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 99])
def test_a_shortlist_holds_the_likest(size):
    ranked = routed("Please cancel my order 17", order="ranked").candidates
    assert ranked[:2] == ("cancel_order", "find_order")
    assert routed("Please cancel my order 17", order="ranked", shortlist=size).candidates == ranked[:size]
    listed = routed("Please cancel my order 17", shortlist=size).candidates
    assert listed == tuple(name for name in NAMES if name in ranked[:size])


def test_tools_that_are_equally_alike_keep_their_order():
    assert routed("xyzzy", order="ranked").candidates == NAMES
    assert routed("", order="ranked", shortlist=2).candidates == NAMES[:2]


@pytest.mark.parametrize(
    ("request_text", "best"),
    [
        ("What will the weather be in Paris?", "get_weather"),
        ("getWeather for Oslo", "get_weather"),
        ("Look up order number 12", "find_order"),
        ("I want my money back, refund me", "refund_payment"),
        ("What do the policies say about returns?", "search_policies"),
        ("请取消我的订单", "cancel_order"),
        ("我要退款", "refund_payment"),
        ("查询一下订单的状态", "find_order"),
        ("搜索退货政策", "search_policies"),
        ("ＷＥＡＴＨＥＲ please", "get_weather"),
    ],
)
def test_the_likest_tool(request_text, best):
    assert routed(request_text, shortlist=1).candidates == (best,)


def test_a_dropped_tool_is_not_in_the_shortlist():
    found = routed("cancel my order", policy=stats(cancel_order=(9, 0)), shortlist=1)
    assert (found.candidates, found.dropped) == (("find_order",), ("cancel_order",))
    assert "cancel_order" not in found.scores


# -- policy memory ----------------------------------------------------------------------------------------------------


def test_what_worked_before_counts_as_much_as_it_is_weighed():
    policy = stats(cancel_order=(0, 50), find_order=(50, 1))
    request = "find order number 17"
    assert routed(request, policy=policy, shortlist=1, policy_weight=0.0).candidates == ("find_order",)
    assert routed(request, policy=policy, shortlist=1, policy_weight=1.0).candidates == ("cancel_order",)


def test_what_often_came_next_counts():
    policy = PolicyMemory(followed={("orders", "find_order", "refund_payment"): 30})
    settings = Routing(shortlist=1, policy_weight=1.0)
    assert route("x", "orders", TOOLS, settings, policy, before="find_order").candidates == ("refund_payment",)
    assert route("x", "orders", TOOLS, settings, policy, before="get_weather").candidates == ("get_weather",)


def test_one_event_does_not_decide():
    scores = rank("x", "orders", TOOLS, 1.0, stats(find_order=(1, 0), cancel_order=(0, 1)))
    assert 0.3 < scores["find_order"] < scores["get_weather"] < scores["cancel_order"] < 0.7


@given(
    request=st.text(max_size=60) | st.text(st.characters(categories=["Cs"]), max_size=3),
    weight=st.floats(0, 1),
    hits=st.integers(0, 10**6),
    misses=st.integers(0, 10**6),
)
def test_scores_lie_between_0_and_1(request, weight, hits, misses):
    scores = rank(request, "orders", TOOLS, weight, stats(find_order=(misses, hits)))
    assert set(scores) == set(NAMES)
    assert all(0 <= score <= 1 + 1e-9 for score in scores.values())


def test_the_likest_has_likeness_1_unless_nothing_is_shared():
    assert max(likeness("cancel the order", TOOLS).values()) == 1
    assert set(likeness("qqq", TOOLS).values()) == {0.0}
    assert likeness("anything", []) == {}


# -- the same in every process ----------------------------------------------------------------------------------------

_CHOICE = """
from hermes_lab.config import Routing
from hermes_lab.routing import route
from hermes_lab.tools.base import Spec

words = ["order", "refund", "customer", "ticket", "invoice", "address", "stock", "visit", "policy", "price", "退款"]
tools = []
for place, word in enumerate(words):
    near = [words[(place + step) % len(words)] for step in range(1, 7)]
    tools.append(Spec(f"{word}_{near[0]}", " ".join(near), {"properties": {}}))
print(ascii(route(" ".join(words), "any", tools, Routing(order="ranked", shortlist=3)).candidates))
"""


def test_the_order_of_hashes_changes_no_choice():
    """Python's sets of texts have another order in each process, and a float sum depends on the order of its parts.

    All of these tools are equally alike, so the first three of the listing are to be chosen, in every process.
    """
    chosen = set()
    for seed in ("0", "1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", _CHOICE], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        chosen.add(ran.stdout.strip())
    assert chosen == {"('order_refund', 'refund_customer', 'customer_ticket')"}
