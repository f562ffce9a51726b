"""Families of the type `policy_questions`: the figures asked for stand in the policies, and only there."""

from __future__ import annotations

from hermes_lab.suites.desk.case import Case, Draw, do, template
from hermes_lab.suites.desk.families.policy_facts import COUPONS, PRIVACY, RETURNS, SHIPPING, VISITS, WARRANTY, Fact
from hermes_lab.suites.desk.marking import both, only, searched, state, used, wanted
from hermes_lab.tasks import Answer, Calls

_OPENINGS = (
    "{}",
    "Please check our policies: {}",
    "A new colleague asks: {}",
    "What do our rules say? {}",
    "For a reply to a customer, look it up: {}",
)
_ZH_OPENINGS = ("{}", "请查一下政策:{}", "新同事问:{}", "按我们的规定,{}", "顾客来信询问,请核对后回答:{}")


def _ask(d: Draw, facts: tuple[Fact, ...]) -> Case:
    fact = d.pick(facts)
    question = fact.chinese if d.zh else fact.question
    prompt = d.say(_OPENINGS, _ZH_OPENINGS).format(question)
    answer = Answer(pattern=fact.pattern) if fact.pattern else Answer(number=fact.figure, tolerance=0.005)
    said = "14:30" if fact.pattern else f"{fact.figure:g}"
    return Case(
        prompt=prompt,
        grader=both((state(searched(*fact.words)), False), (answer, False)),
        solution=(do("search_policies", query=question),),
        answer=f"The policy says {said}.",
    )


@template("policy_questions.returns", zh=True)
def returns(d: Draw) -> Case:
    """A figure of the policy on returns."""
    return _ask(d, RETURNS)


@template("policy_questions.shipping")
def shipping(d: Draw) -> Case:
    """A figure of the policy on shipping."""
    return _ask(d, SHIPPING)


@template("policy_questions.quoted")
def quoted(d: Draw) -> Case:
    """The figure stands in the text that the user quotes: it has to be read, and no tool is needed."""
    days, fee, hours = d.pick(range(12, 60)), d.pick(range(3, 19)), d.pick((24, 36, 48, 72))
    passage = (
        f"Rented projectors are brought back within {days} days. Each day after that costs {fee} EUR. "
        f"Damage must be reported within {hours} hours."
    )
    question, figure = d.pick(
        (
            ("After how many days must a projector be back?", days),
            ("What does each day of delay cost, in euros?", fee),
            ("Within how many hours is damage to be reported?", hours),
            ("How many euros does it cost to bring it back four days late?", 4 * fee),
        )
    )
    prompt = d.say(
        (
            f'Our supplier writes: "{passage}" {question}',
            f'Here is a clause of a rental contract: "{passage}" Answer from it alone: {question}',
        )
    )
    return Case(
        prompt=prompt,
        grader=both((Answer(number=figure), True), (state(only()), False)),
        answer=f"It is {figure}.",
    )


@template("policy_questions.warranty", zh=True)
def warranty(d: Draw) -> Case:
    """A figure of the policy on warranty and repairs."""
    return _ask(d, WARRANTY)


@template("policy_questions.prices_and_coupons")
def prices_and_coupons(d: Draw) -> Case:
    """A figure of the policies on coupons, prices and store credit."""
    return _ask(d, COUPONS)


@template("policy_questions.restocking_of_order", difficulty=3)
def restocking_of_order(d: Draw) -> Case:
    """What is paid back for an opened product of an order: the fee stands in the policy, the price in the order."""
    singles = [row for row in d.shop.order_items if row.quantity == 1 and row.sku not in ("KB-250", "CH-830")]
    item = d.pick(row for row in singles if d.shop.order(row.order_id).status == "delivered")
    name = d.shop.product(item.sku).name
    fee = round(item.unit_price * 0.12, 2)
    prompt = d.say(
        (
            f"The customer of {item.order_id} opened the {name} and wants to return it after a change of mind. How "
            "high is our restocking fee for it, in euros?",
            f"Work out the restocking fee in euros for the opened {name} of order {item.order_id}; the rate is in "
            "the returns policy.",
        )
    )
    get = do("get_order", order_id=item.order_id)
    looked = (Calls(wanted=(wanted(get),), exact=False), False)
    return Case(
        prompt=prompt,
        grader=both(looked, (Answer(number=fee, tolerance=0.011), False)),
        solution=(get, do("search_policies", query="restocking fee for opened products")),
        answer=f"The fee is {fee:.2f} EUR.",
    )


@template("policy_questions.privacy")
def privacy(d: Draw) -> Case:
    """A figure of the policy on privacy."""
    return _ask(d, PRIVACY)


@template("policy_questions.appointments", zh=True)
def appointments(d: Draw) -> Case:
    """A figure of the policy on visits to the workshop."""
    return _ask(d, VISITS)


@template("policy_questions.visit_fees", difficulty=2)
def visit_fees(d: Draw) -> Case:
    """What somebody owes for visits missed and cancelled late: two figures of the policy and a sum."""
    missed, late = d.pick(range(1, 5)), d.pick(range(1, 5))
    who = d.pick(("A regular customer", "A student", "One of our business customers", "A customer from York"))
    owed = missed * 15 + late * 7.5
    visits = "visit" if missed == 1 else "visits"
    prompt = d.say(
        (
            f"{who} missed {missed} workshop {visits} and cancelled {late} more at the last minute. What is owed in "
            "fees by our policy, in euros?",
            f"{who} did not turn up for {missed} {visits} and called off another {late} only an hour ahead. "
            "Add up the fees that our appointment rules foresee.",
        )
    )
    return Case(
        prompt=prompt,
        grader=both(
            (state(used("search_policies")), False),
            (Answer(number=owed, tolerance=0.005), False),
        ),
        solution=(do("search_policies", query="fees for cancelling and missing a visit"),),
        answer=f"{owed:.2f} EUR are owed.",
    )


TEMPLATES = (
    returns,
    shipping,
    quoted,
    warranty,
    prices_and_coupons,
    restocking_of_order,
    privacy,
    appointments,
    visit_fees,
)
