"""Makes the shop's rows from a seed. The result is committed as `data/shop.json`; run this module to write it anew."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import msgspec

from hermes_lab.suites.desk import stock_list as lists
from hermes_lab.suites.desk.shop import (
    SERVICES,
    SLOT_TIMES,
    TODAY,
    WAREHOUSES,
    Appointment,
    Coupon,
    Customer,
    Item,
    Order,
    Product,
    Refund,
    Return,
    Shipment,
    Shop,
    Staff,
    Stock,
    Ticket,
    TicketNote,
)

SEED = 20260316
POSTAGE = 4.9
FREE_POSTAGE_FROM = 75.0

_TODAY = dt.date.fromisoformat(TODAY)
_REASONS = ("damaged", "wrong_item", "not_as_described", "changed_mind")


def make_shop(seed: int = SEED) -> Shop:
    """Return the shop that a seed makes; the same seed gives the same shop."""
    rng = random.Random(seed)  # noqa: S311 - made-up rows, no secret hangs on them
    customers = _customers(rng)
    products = [Product(*row) for row in lists.PRODUCTS]
    orders, items = _orders(rng, customers, products)
    shipments = _shipments(rng, orders)
    returns = _returns(rng, orders, items)
    tickets, notes = _tickets(rng, orders)
    return Shop(
        customers=customers,
        staff=[Staff(*row) for row in lists.STAFF],
        products=products,
        inventory=_inventory(rng, products),
        orders=orders,
        order_items=items,
        shipments=shipments,
        returns=returns,
        refunds=_refunds(returns),
        coupons=[Coupon(*row) for row in lists.COUPONS],
        tickets=tickets,
        ticket_notes=notes,
        appointments=_appointments(rng, customers),
    )


def _ago(days: int) -> str:
    return (_TODAY - dt.timedelta(days=days)).isoformat()


def _after(day: str, days: int) -> str:
    return (dt.date.fromisoformat(day) + dt.timedelta(days=days)).isoformat()


def _customers(rng: random.Random) -> list[Customer]:
    english = [f"{given} {family}" for given in lists.GIVEN for family in lists.FAMILY]
    names = [(name, "en") for name in rng.sample(english, 54)] + [(name, "zh") for name in lists.ZH_NAMES]
    rng.shuffle(names)
    rows = []
    for number, (name, language) in enumerate(names, start=101):
        if language == "zh":
            city = rng.choice(lists.ZH_CITIES)
            street = f"{rng.choice(lists.ZH_STREETS)}{rng.randint(2, 180)}号"
            email = f"customer{number}@mail.example"
        else:
            city = rng.choice(lists.CITIES)
            street = f"{rng.randint(2, 180)} {rng.choice(lists.STREETS)}"
            email = f"{name.lower().replace(' ', '.')}@mail.example"
        rows.append(
            Customer(
                id=f"C-{number}",
                name=name,
                email=email,
                phone=f"+44 1632 960{rng.randint(100, 999)}",  # a range that is kept free for fiction
                address=f"{street}, {city}",
                city=city,
                language=language,
                tier=rng.choices(("standard", "silver", "gold"), (6, 3, 2))[0],
                joined=_ago(rng.randint(40, 1500)),
                store_credit=rng.choice((0.0, 0.0, 5.0, 12.5, 20.0, 35.0, 47.5)),
            )
        )
    return rows


def _inventory(rng: random.Random, products: list[Product]) -> list[Stock]:
    rows = []
    for product in products:
        for warehouse in WAREHOUSES:
            on_hand = rng.choice((rng.randint(0, 9), rng.randint(10, 40), rng.randint(25, 90)))
            reserved = rng.randint(0, min(on_hand, 8))
            rows.append(Stock(product.sku, warehouse, on_hand, reserved, rng.choice((6, 10, 15))))
    return rows


def _orders(rng: random.Random, customers: list[Customer], products: list[Product]) -> tuple[list[Order], list[Item]]:
    older = [rng.randint(22, 135) for _ in range(130)]
    recent = [rng.randint(1, 21) for _ in range(80)]
    days = sorted(older + recent, reverse=True)
    orders, items = [], []
    for number, age in enumerate(days, start=1001):
        customer = rng.choice(customers)
        lines = [
            Item(f"SO-{number}", line, product.sku, rng.choice((1, 1, 1, 2, 3)), product.price)
            for line, product in enumerate(rng.sample(products, rng.choice((1, 1, 2, 2, 3, 4))), start=1)
        ]
        goods = sum(item.quantity * item.unit_price for item in lines)
        placed = _ago(age)
        coupon, discount = _coupon_for(rng, goods, placed)
        postage = 0.0 if goods >= FREE_POSTAGE_FROM else POSTAGE
        status = _status(rng, age)
        orders.append(
            Order(
                id=f"SO-{number}",
                customer_id=customer.id,
                placed_on=placed,
                status=status,
                ship_to=customer.address,
                coupon=coupon,
                discount=discount,
                postage=postage,
                total=round(goods - discount + postage, 2),
                delivered_on=_after(placed, min(rng.randint(3, 9), age)) if status == "delivered" else None,
            )
        )
        items.extend(lines)
    return orders, items


def _status(rng: random.Random, age: int) -> str:
    if rng.random() < 0.06:
        return "cancelled"
    if age <= 3:
        return "processing"
    if age <= 6:
        return rng.choice(("packed", "packed", "processing"))
    if age <= 21:
        return rng.choice(("shipped", "shipped", "delivered"))
    return "delivered"


def _coupon_for(rng: random.Random, goods: float, placed: str) -> tuple[str | None, float]:
    usable = [
        coupon
        for coupon in (Coupon(*row) for row in lists.COUPONS)
        if coupon.valid_from <= placed <= coupon.valid_to and goods >= coupon.minimum
    ]
    if not usable or rng.random() < 0.6:
        return None, 0.0
    coupon = rng.choice(usable)
    return coupon.code, coupon.discount(goods)


def _shipments(rng: random.Random, orders: list[Order]) -> list[Shipment]:
    rows: list[Shipment] = []
    for order in orders:
        if order.status not in ("shipped", "delivered"):
            continue
        shipped = min(_after(order.placed_on, rng.randint(1, 3)), order.delivered_on or TODAY)
        # Some parcels are past the day they were promised for: tasks ask what is to be done about them.
        eta = order.delivered_on or _after(TODAY, rng.choice((-6, -5, -4, -3, 1, 2, 3, 5)))
        status = "delivered" if order.delivered_on else rng.choice(("in_transit", "in_transit", "at_depot", "customs"))
        rows.append(
            Shipment(
                id=f"SH-{5000 + len(rows) + 1}",
                order_id=order.id,
                carrier=rng.choice(("Parcelway", "NorthPost", "速达快递")),
                tracking=f"{rng.choice('PNQ')}{rng.choice('KXZ')}{rng.randint(10**7, 10**8 - 1)}",
                status=status,
                shipped_on=shipped,
                eta=max(eta, shipped),
                delivered_on=order.delivered_on,
            )
        )
    return rows


def _returns(rng: random.Random, orders: list[Order], items: list[Item]) -> list[Return]:
    delivered = [order for order in orders if order.status == "delivered"]
    rows: list[Return] = []
    for order in sorted(rng.sample(delivered, 36), key=lambda row: row.id):
        item = rng.choice([row for row in items if row.order_id == order.id])
        rows.append(
            Return(
                id=f"RT-{301 + len(rows)}",
                order_id=order.id,
                sku=item.sku,
                reason=rng.choice(_REASONS),
                status=rng.choice(("requested", "received", "approved", "rejected", "refunded")),
                opened_on=min(_after(order.delivered_on or TODAY, rng.randint(2, 20)), _ago(1)),
                refund_amount=round(item.quantity * item.unit_price, 2),
            )
        )
    return rows


def _refunds(returns: list[Return]) -> list[Refund]:
    done = [row for row in returns if row.status == "refunded"]
    return [
        Refund(f"RF-{201 + n}", row.order_id, row.refund_amount, row.reason, min(_after(row.opened_on, 6), _ago(1)))
        for n, row in enumerate(done)
    ]


def _tickets(rng: random.Random, orders: list[Order]) -> tuple[list[Ticket], list[TicketNote]]:
    tickets: list[Ticket] = []
    notes: list[TicketNote] = []
    for number in range(701, 791):
        order = rng.choice(orders)
        subject, said = rng.choice(lists.SUBJECTS)
        opened = rng.randint(1, 45)
        ticket = Ticket(
            id=f"TK-{number}",
            customer_id=order.customer_id,
            order_id=order.id,
            subject=subject,
            priority=rng.choices(("low", "normal", "high", "urgent"), (3, 5, 3, 2))[0],
            status=rng.choices(("open", "pending", "closed"), (5, 3, 3))[0],
            assignee=rng.choice([None, *(row[0] for row in lists.STAFF[:5])]),
            created_on=_ago(opened),
        )
        tickets.append(ticket)
        texts = [("customer", f"Customer {said}.")]
        if rng.random() < 0.5:
            texts.append(("desk", rng.choice(("Asked for a photo.", "Called back, no answer.", "已联系仓库核实。"))))
        if number % 6 == 0:
            order_of_note = lists.INJECTIONS[(number // 6) % len(lists.INJECTIONS)]
            texts.append(("customer", order_of_note.format(order=order.id, customer=order.customer_id)))
        for author, text in texts:
            notes.append(TicketNote(len(notes) + 1, ticket.id, author, _ago(max(opened - 1, 0)), text))
    return tickets, notes


def _appointments(rng: random.Random, customers: list[Customer]) -> list[Appointment]:
    days = [_TODAY + dt.timedelta(days=n) for n in range(-5, 19)]
    workdays = [day.isoformat() for day in days if day.weekday() < 5]
    slots = [(day, time, service) for day in workdays for time in SLOT_TIMES for service in SERVICES]
    rows = []
    for number, (day, time, service) in enumerate(sorted(rng.sample(slots, 150)), start=401):
        past = day < TODAY
        status = rng.choice(("done", "done", "missed")) if past else rng.choices(("booked", "cancelled"), (7, 1))[0]
        rows.append(Appointment(f"AP-{number}", rng.choice(customers).id, service, day, time, status))
    return rows


def to_text(shop: Shop) -> str:
    """Return the shop as JSON with one row a line, so that a change can be read in a diff."""
    parts = []
    for name in Shop.__struct_fields__:
        lines = ",\n".join("  " + msgspec.json.encode(row).decode() for row in getattr(shop, name))
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_shop(path: Path) -> None:
    """Write the shop of the committed seed."""
    path.write_text(to_text(make_shop()), encoding="utf-8")


if __name__ == "__main__":
    write_shop(Path(__file__).parent / "data" / "shop.json")
