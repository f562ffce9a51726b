"""Families of the type `order_status`."""

from __future__ import annotations

from hermes_lab.suites.desk.case import Case, Draw, do, template
from hermes_lab.suites.desk.marking import (
    ORDER_WORDS,
    action,
    both,
    day_pattern,
    holds,
    lookup,
    spoken_day,
    text,
    wanted,
)
from hermes_lab.suites.desk.shop import TODAY
from hermes_lab.tasks import Answer, Calls


@template("order_status.stage", zh=True)
def stage(d: Draw) -> Case:
    """How far an order is: its status is in the order itself."""
    order = d.pick(d.shop.orders)
    prompt = d.say(
        (
            f"How far along is order {order.id}?",
            f"Please look up order {order.id} and tell me its status.",
            f"Has {order.id} been sent out yet, or what is its status?",
            f"A customer is on the line about order {order.id}. What is its status?",
        ),
        (
            f"请查一下订单{order.id}现在是什么状态。",
            f"订单{order.id}处理到哪一步了?",
            f"顾客来电询问订单{order.id},目前状态如何?",
        ),
    )
    reply = f"Order {order.id} is {order.status}."
    answer = Answer(pattern=ORDER_WORDS[order.status])
    return lookup(prompt, do("get_order", order_id=order.id), answer, reply, guessable=True)


@template("order_status.expected_day")
def expected_day(d: Draw) -> Case:
    """When a parcel is expected: the day is in the shipment, not in the order."""
    parcel = d.pick(row for row in d.shop.shipments if row.delivered_on is None and row.eta >= TODAY)
    prompt = d.say(
        (
            f"On which day should the parcel for order {parcel.order_id} arrive?",
            f"Track the shipment of {parcel.order_id} for me: when is it expected?",
            f"What is the expected delivery day of the parcel for {parcel.order_id}?",
            f"The customer of {parcel.order_id} wants to know when the courier comes. Please track it.",
        )
    )
    reply = f"It is expected on {parcel.eta}."
    return lookup(
        prompt, do("track_shipment", order_id=parcel.order_id), Answer(pattern=day_pattern(parcel.eta)), reply
    )


@template("order_status.latest_by_email", difficulty=2)
def latest_by_email(d: Draw) -> Case:
    """The newest order of somebody who is known only by email address."""
    customer = d.pick(row for row in d.shop.customers if _has_clear_latest(d, row.id))
    latest = d.shop.orders_of(customer.id)[-1]
    prompt = d.say(
        (
            f"Somebody writes from {customer.email} and asks about their latest order. "
            "Which order is it and what is its status?",
            f"What happened to the most recent order of the customer with the address {customer.email}? "
            "Give me the order number and the status.",
            f"Find the newest order of {customer.email} and tell me its number and how it stands.",
        )
    )
    find = do("find_customer", query=customer.email)
    listing = do("list_customer_orders", customer_id=customer.id)
    return Case(
        prompt=prompt,
        grader=both(
            (Calls(wanted=(wanted(listing),), exact=False), False),
            (Answer(items=(latest.id,), pattern=ORDER_WORDS[latest.status]), False),
        ),
        solution=(find, listing),
        answer=f"The latest order is {latest.id}; it is {latest.status}.",
    )


def _has_clear_latest(d: Draw, customer_id: str) -> bool:
    orders = d.shop.orders_of(customer_id)
    return len(orders) >= 2 and orders[-1].placed_on != orders[-2].placed_on


@template("order_status.total")
def total(d: Draw) -> Case:
    """What an order cost."""
    order = d.pick(d.shop.orders)
    prompt = d.say(
        (
            f"How much did the customer pay for order {order.id} in total?",
            f"What is the total of order {order.id}?",
            f"I need the order total of {order.id} for the invoice.",
            f"Look at order {order.id}: what amount was charged?",
        )
    )
    answer = Answer(number=order.total, tolerance=0.005)
    return lookup(
        prompt, do("get_order", order_id=order.id), answer, f"The total of {order.id} is {order.total:.2f} EUR."
    )


@template("order_status.tracking_number", zh=True)
def tracking_number(d: Draw) -> Case:
    """The tracking number of a parcel."""
    parcel = d.pick(d.shop.shipments)
    prompt = d.say(
        (
            f"What is the tracking number of the parcel for {parcel.order_id}?",
            f"Please give me the tracking number for order {parcel.order_id}.",
            f"The customer lost the tracking number of the shipment of {parcel.order_id}. Can you find it?",
        ),
        (
            f"订单{parcel.order_id}的包裹运单号是多少?",
            f"请帮我查询{parcel.order_id}的快递单号。",
            f"顾客弄丢了订单{parcel.order_id}的快递单号,请查一下。",
        ),
    )
    reply = f"{parcel.carrier} {parcel.tracking}"
    return lookup(prompt, do("track_shipment", order_id=parcel.order_id), Answer(items=(parcel.tracking,)), reply)


@template("order_status.carrier_flaky", difficulty=2)
def carrier_flaky(d: Draw) -> Case:
    """Who carries a parcel and where it is, while tracking is out of order for a moment."""
    parcel = d.pick(row for row in d.shop.shipments if row.delivered_on is None)
    prompt = d.say(
        (
            f"Which carrier has the parcel of {parcel.order_id}, and on which day did it ship?",
            f"Please track {parcel.order_id}: I need the name of the carrier and the day it was shipped.",
            f"For the complaint form: who carries the shipment of {parcel.order_id} and when was it sent?",
        )
    )
    answer = Answer(items=(parcel.carrier,), pattern=day_pattern(parcel.shipped_on))
    call = do("track_shipment", order_id=parcel.order_id)
    case = lookup(prompt, call, answer, f"{parcel.carrier}, shipped on {parcel.shipped_on}.")
    return Case(
        prompt=case.prompt,
        grader=case.grader,
        solution=(call, call),
        answer=case.answer,
        failing={"track_shipment": 1},
    )


@template("order_status.pieces")
def pieces(d: Draw) -> Case:
    """How many pieces of one product an order holds."""
    item = d.pick(row for row in d.shop.order_items if row.quantity > 1)
    name = d.shop.product(item.sku).name
    prompt = d.say(
        (
            f"How many pieces of the {name} are in order {item.order_id}?",
            f"Check order {item.order_id}: what quantity of {name} ({item.sku}) was ordered?",
            f"The packer asks how many {name} units belong in {item.order_id}.",
        )
    )
    reply = f"{item.quantity} x {name}"
    return lookup(prompt, do("get_order", order_id=item.order_id), Answer(number=item.quantity), reply, guessable=True)


@template("order_status.ship_to", zh=True)
def ship_to(d: Draw) -> Case:
    """Where an order goes."""
    order = d.pick(row for row in d.shop.orders if row.status != "cancelled")
    prompt = d.say(
        (
            f"To which address does order {order.id} go?",
            f"Please read me the delivery address of order {order.id}.",
            f"The courier asks for the address on {order.id}. What is it?",
        ),
        (
            f"订单{order.id}的收货地址是哪里?",
            f"快递员询问订单{order.id}的送货地址,请查一下。",
            f"请告诉我{order.id}这个订单要送到哪里。",
        ),
    )
    answer = Answer(items=(order.ship_to,))
    return lookup(prompt, do("get_order", order_id=order.id), answer, f"It goes to {order.ship_to}.")


@template("order_status.late_parcel", difficulty=3)
def late_parcel(d: Draw) -> Case:
    """A parcel that may be late: only if it is does a ticket of high priority follow."""
    parcel = d.pick(row for row in d.shop.shipments if row.delivered_on is None)
    order = d.shop.order(parcel.order_id)
    day = spoken_day(TODAY, "en")
    prompt = d.say(
        (
            f"Today is {day}. Check whether the parcel for {order.id} is past its expected day. If it is, open a high "
            "priority ticket for the customer about this order; if not, just tell me when it is due.",
            f"Please see if the shipment of {order.id} is late (today is {day}). Only if it is late, create a ticket "
            "with high priority that names the order. Otherwise tell me the expected day.",
        )
    )
    track = do("track_shipment", order_id=order.id)
    if parcel.eta >= TODAY:
        return lookup(prompt, track, Answer(pattern=day_pattern(parcel.eta)), f"Not late: it is due on {parcel.eta}.")
    opened = holds(
        f"EXISTS (SELECT 1 FROM tickets WHERE order_id = {text(order.id)} AND customer_id = {text(order.customer_id)} "
        f"AND priority = 'high' AND created_on = '{TODAY}')",
        "a high priority ticket for the order was opened",
    )
    create = do(
        "create_ticket",
        customer_id=order.customer_id,
        subject=f"Late parcel {order.id}",
        priority="high",
        order_id=order.id,
    )
    get = do("get_order", order_id=order.id)
    return action(prompt, track, get, create, checks=(opened,), reply="The parcel is late; I opened a ticket.")


TEMPLATES = (
    stage,
    expected_day,
    latest_by_email,
    total,
    tracking_number,
    carrier_flaky,
    pieces,
    ship_to,
    late_parcel,
)
