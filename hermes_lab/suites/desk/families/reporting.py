"""Families of the type `reporting`."""

from __future__ import annotations

import calendar

from hermes_lab.suites.desk.case import Case, Draw, do, template
from hermes_lab.suites.desk.marking import action, both, holds, lookup, only, state, text, used, wanted
from hermes_lab.suites.desk.shop import TODAY, WAREHOUSES, Order
from hermes_lab.tasks import Answer, Calls

_MONTHS = {
    "2025-11": "November 2025",
    "2025-12": "December 2025",
    "2026-01": "January 2026",
    "2026-02": "February 2026",
}


def _span(month: str) -> tuple[str, str]:
    """Return the first and last day of a month."""
    year, number = month.split("-")
    return f"{month}-01", f"{month}-{calendar.monthrange(int(year), int(number))[1]:02}"


def _kept(d: Draw, start: str, end: str) -> list[Order]:
    """Return the orders of a period that were not cancelled."""
    return [row for row in d.shop.orders if start <= row.placed_on <= end and row.status != "cancelled"]


def _revenue(orders: list[Order]) -> float:
    return round(sum(row.total for row in orders), 2)


@template("reporting.revenue")
def revenue(d: Draw) -> Case:
    """The revenue of a period whose days are named."""
    month = d.pick(sorted(_MONTHS))
    first, last = d.pick(((1, 10), (1, 15), (5, 20), (11, 20), (15, 28)))
    start, end = f"{month}-{first:02}", f"{month}-{last:02}"
    amount = _revenue(_kept(d, start, end))
    prompt = d.say(
        (
            f"What was our revenue from {start} to {end}?",
            f"Sum up the sales between {start} and {end}: how much revenue was it?",
            f"Give me the sales revenue for the period {start} to {end}.",
        )
    )
    call = do("sales_summary", start=start, end=end)
    answer = Answer(number=amount, tolerance=0.011)
    return lookup(prompt, call, answer, f"{amount:.2f} EUR")


@template("reporting.workload", zh=True)
def workload(d: Draw) -> Case:
    """How many tickets of one status a staff member has."""
    staff = d.pick(d.shop.staff[:5])
    status = d.pick(("open", "pending"))
    number = sum((row.assignee, row.status) == (staff.id, status) for row in d.shop.tickets)
    zh_status = {"open": "处理中(open)", "pending": "等待中(pending)"}[status]
    prompt = d.say(
        (
            f"How many {status} tickets does {staff.id} have?",
            f"For the weekly report: number of {status} tickets assigned to {staff.name} ({staff.id}).",
            f"Count the tickets of staff member {staff.id} that are {status}.",
        ),
        (f"员工{staff.id}手上有多少个{zh_status}的工单?", f"周报用:请统计分配给{staff.id}的{zh_status}工单数。"),
    )
    call = do("list_staff_tickets", staff_id=staff.id, status=status)
    return lookup(prompt, call, Answer(number=number), f"{staff.id} has {number}.", guessable=True)


@template("reporting.best_customer", difficulty=2)
def best_customer(d: Draw) -> Case:
    """Who spent most in a period: no tool but a query over the tables tells."""
    months = sorted(_MONTHS)
    first = d.pick(months)
    last = d.pick(month for month in months if month >= first)
    start, end = _span(first)[0], _span(last)[1]
    spent: dict[str, float] = {}
    for row in _kept(d, start, end):
        spent[row.customer_id] = spent.get(row.customer_id, 0.0) + row.total
    best = max(spent, key=lambda name: spent[name])
    amount = spent[best]
    customer = d.shop.customer(best)
    prompt = d.say(
        (
            f"Which customer spent the most on orders placed from {start} to {end} (cancelled orders do not count)?",
            f"Query the database: who is the customer with the highest order total between {start} and {end}, "
            "cancelled orders left out?",
        )
    )
    sql = (
        "SELECT c.id, c.name, sum(o.total) AS spent FROM orders o JOIN customers c ON c.id = o.customer_id "
        f"WHERE o.status <> 'cancelled' AND o.placed_on BETWEEN '{start}' AND '{end}' GROUP BY ALL "
        "ORDER BY spent DESC LIMIT 1"
    )
    return Case(
        prompt=prompt,
        grader=both((state(used("query_database")), False), (Answer(pattern=f"{best}|{customer.name}"), False)),
        solution=(do("query_database", sql=sql),),
        answer=f"{customer.name} ({best}) spent {amount:.2f} EUR.",
    )


@template("reporting.orders_in_period", zh=True)
def orders_in_period(d: Draw) -> Case:
    """How many orders were placed in a period, cancelled ones left out."""
    month = d.pick(sorted(_MONTHS))
    first, last = d.pick(((1, 7), (8, 14), (1, 20), (10, 25), (12, 28)))
    start, end = f"{month}-{first:02}", f"{month}-{last:02}"
    number = len(_kept(d, start, end))
    prompt = d.say(
        (
            f"How many orders did we take between {start} and {end}, cancelled ones left out?",
            f"Sales summary, please: the number of orders placed from {start} to {end}, without cancelled ones.",
        ),
        (
            f"{start}到{end}期间一共有多少个订单(不含已取消的)?",
            f"请汇总{start}至{end}的销售情况,订单数(不含取消)是多少?",
        ),
    )
    call = do("sales_summary", start=start, end=end)
    return lookup(prompt, call, Answer(number=number), f"There were {number}.", guessable=True)


@template("reporting.add_up")
def add_up(d: Draw) -> Case:
    """Amounts that the user lists are to be added up: a matter for the sandbox."""
    amounts = [d.rng.randrange(450, 19900) / 100 for _ in range(d.pick((6, 7, 8, 9)))]
    total = round(sum(amounts), 2)
    listed = ", ".join(f"{amount:.2f}" for amount in amounts)
    prompt = d.say(
        (
            f"Use Python to add up these petty cash receipts: {listed}.",
            f"Please compute the exact sum of {listed} with Python.",
            f"Run a quick calculation for me: what do these amounts come to? {listed}",
        )
    )
    return Case(
        prompt=prompt,
        grader=both((state(used("python")), False), (Answer(number=total, tolerance=0.005), False)),
        solution=(do("python", code=f"round(sum([{listed}]), 2)"),),
        answer=f"They come to {total:.2f} EUR.",
    )


@template("reporting.compare_periods", difficulty=2)
def compare_periods(d: Draw) -> Case:
    """By how much two months differ: two summaries and a difference, with a tool that fails in passing."""
    first, second = sorted(d.rng.sample(sorted(_MONTHS), 2))
    calls = [do("sales_summary", start=_span(month)[0], end=_span(month)[1]) for month in (first, second)]
    amounts = [_revenue(_kept(d, *_span(month))) for month in (first, second)]
    gap = round(abs(amounts[0] - amounts[1]), 2)
    names = _MONTHS[first], _MONTHS[second]
    prompt = d.say(
        (
            f"By how many euros does our revenue of {names[0]} differ from that of {names[1]}?",
            f"Compare the revenue of {names[0]} with {names[1]} and give me the difference in euros.",
            f"Revenue in {names[1]} against {names[0]}: what is the gap in euros?",
        )
    )
    return Case(
        prompt=prompt,
        grader=both(
            (
                Calls(
                    wanted=tuple(wanted(call) for call in calls),
                    exact=False,
                ),
                False,
            ),
            (Answer(number=gap, tolerance=0.011), False),
        ),
        solution=(calls[0], *calls),
        answer=f"They differ by {gap:.2f} EUR.",
        failing={"sales_summary": 1},
    )


@template("reporting.count_rows")
def count_rows(d: Draw) -> Case:
    """A count that only a query gives: customers of a city or tier, orders that used a coupon."""
    kind = d.pick(("city", "tier", "coupon"))
    if kind == "coupon":
        code = d.pick(sorted({row.coupon for row in d.shop.orders if row.coupon}))
        number = sum(row.coupon == code for row in d.shop.orders)
        what, sql = f"orders used the coupon {code}", f"SELECT count(*) FROM orders WHERE coupon = '{code}'"
    else:
        value = d.pick(sorted({getattr(row, kind) for row in d.shop.customers}))
        number = sum(getattr(row, kind) == value for row in d.shop.customers)
        what = f"customers live in {value}" if kind == "city" else f"customers have the {value} tier"
        sql = f"SELECT count(*) FROM customers WHERE {kind} = '{value}'"
    prompt = d.say(
        (
            f"Query the database: how many {what}?",
            f"With one SQL query, please: how many {what}?",
            f"For the statistics I need a count from the database. How many {what}?",
        )
    )
    asked = holds(
        "EXISTS (SELECT 1 FROM call_log WHERE tool = 'query_database' AND ok AND instr(lower(arguments), "
        f"{text(sql.rpartition('=')[2].strip().strip(chr(39)).lower())}))",
        "the database was asked about it",
    )
    return Case(
        prompt=prompt,
        grader=both((state(asked), False), (Answer(number=number), False)),
        solution=(do("query_database", sql=sql),),
        answer=f"There are {number}.",
    )


@template("reporting.best_category", zh=True)
def best_category(d: Draw) -> Case:
    """Which category sold for most in a period."""
    months = sorted(_MONTHS)
    first = d.pick(months)
    last = d.pick(month for month in months if month >= first)
    start, end = _span(first)[0], _span(last)[1]
    goods: dict[str, float] = {}
    for row in _kept(d, start, end):
        for item in d.shop.items(row.id):
            category = d.shop.product(item.sku).category
            goods[category] = goods.get(category, 0.0) + item.quantity * item.unit_price
    best = max(goods, key=lambda name: goods[name])
    prompt = d.say(
        (
            f"Which product category sold for the most money from {start} to {end}?",
            f"Sum up the sales of {start} to {end} by category. Which category is ahead?",
        ),
        (
            f"{start}到{end}期间,哪个商品类别的销售额最高?(请用英文类别名)",
            f"请按类别汇总{start}至{end}的销售,哪一类排第一?请用英文类别名回答。",
        ),
    )
    call = do("sales_by_category", start=start, end=end)
    return lookup(prompt, call, Answer(pattern=rf"\b{best}\b"), f"It is {best}.")


@template("reporting.low_stock_to_ticket", difficulty=3)
def low_stock_to_ticket(d: Draw) -> Case:
    """Count the products that are short in a warehouse and write the number on a ticket."""
    place = d.pick(WAREHOUSES)
    ticket = d.pick(row for row in d.shop.tickets if row.status == "open")
    number = sum(row.on_hand < row.reorder_level for row in d.shop.inventory if row.warehouse == place)
    prompt = d.say(
        (
            f"Count the products whose stock on hand in {place} is below their reorder level, and add a note with that "
            f"number to ticket {ticket.id}.",
            f"For {ticket.id} the buyers need to know how many products in {place} have fewer pieces on hand than "
            "their reorder level. Find the number and note it on the ticket.",
        )
    )
    sql = f"SELECT count(*) FROM inventory WHERE warehouse = '{place}' AND on_hand < reorder_level"
    noted = holds(
        f"EXISTS (SELECT 1 FROM ticket_notes WHERE ticket_id = {text(ticket.id)} AND created_on = '{TODAY}' "
        f"AND author = 'desk' AND (' ' || text || ' ') GLOB '*[^0-9]{number}[^0-9]*')",
        "the number is on the ticket",
    )
    words = f"{number} products in {place} are below their reorder level."
    calls = (do("query_database", sql=sql), do("add_ticket_note", ticket_id=ticket.id, text=words))
    return action(prompt, *calls, checks=(noted,), reply=words)


@template("reporting.share")
def share(d: Draw) -> Case:
    """A percentage of two figures that the user gives: no data of the shop are needed."""
    percent = d.pick((5, 8, 12, 15, 20, 25, 35, 40))
    whole = d.pick((100, 200, 300, 400, 500, 600))
    part = whole * percent // 100
    things, what = d.pick(
        (("parcels", "were late"), ("calls", "were about invoices"), ("visitors", "bought something"))
    )
    prompt = d.say(
        (
            f"Out of {whole} {things} last month, {part} {what}. What percentage is that?",
            f"{part} of our {whole} {things} {what}. Give me the share in percent.",
        )
    )
    return Case(
        prompt=prompt,
        grader=both((Answer(number=percent), True), (state(only()), False)),
        answer=f"It is {percent} percent.",
    )


TEMPLATES = (
    revenue,
    workload,
    best_customer,
    orders_in_period,
    add_up,
    compare_periods,
    count_rows,
    best_category,
    low_stock_to_ticket,
    share,
)
