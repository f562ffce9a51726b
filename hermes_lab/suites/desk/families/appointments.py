"""Families of the type `appointments`."""

from __future__ import annotations

import datetime as dt

from hermes_lab.suites.desk.case import Case, Draw, do, template
from hermes_lab.suites.desk.marking import action, both, holds, lookup, only, spoken_day, state, text
from hermes_lab.suites.desk.shop import SERVICES, TODAY, Appointment
from hermes_lab.tasks import Answer, StateCheck

_ZH_SERVICES = {
    "repair": "维修(repair)",
    "setup": "安装调试(setup)",
    "consultation": "咨询(consultation)",
    "pickup": "取货(pickup)",
}


def _coming_day(d: Draw) -> str:
    days = [dt.date.fromisoformat(TODAY) + dt.timedelta(days=n) for n in range(1, 18)]
    return str(d.pick(day for day in days if day.weekday() < 5).isoformat())


def _booked(d: Draw) -> Appointment:
    row: Appointment = d.pick(row for row in d.shop.appointments if row.status == "booked" and row.date > TODAY)
    return row


def _is_booked(customer_id: str, service: str, date: str, time: str) -> StateCheck:
    return holds(
        f"(SELECT count(*) FROM appointments WHERE customer_id = {text(customer_id)} AND service = {text(service)} "
        f"AND date = '{date}' AND time = '{time}' AND status = 'booked') = 1",
        "the visit is booked",
    )


def _is_moved(appointment_id: str, date: str, time: str) -> StateCheck:
    return StateCheck(
        sql=f"SELECT date, time, status FROM appointments WHERE id = {text(appointment_id)}",
        rows=[[date, time, "booked"]],
        note="the visit was moved",
    )


@template("appointments.book", zh=True)
def book(d: Draw) -> Case:
    """Book a visit whose customer, service, day and time are named."""
    customer = d.pick(d.shop.customers)
    service, date = d.pick(SERVICES), _coming_day(d)
    time = d.pick(d.shop.free_slots(service, date))
    prompt = d.say(
        (
            f"Book a {service} appointment for customer {customer.id} on {date} at {time}.",
            f"Customer {customer.id} would like to come for {service} on {date}, {time}. Please book it.",
            f"Please put {customer.id} down for {service}: {date}, {time}.",
        ),
        (
            f"请为顾客{customer.id}预约{date} {time}的{_ZH_SERVICES[service]}。",
            f"顾客{customer.id}想在{date} {time}来做{_ZH_SERVICES[service]},请帮忙预约。",
        ),
    )
    call = do("book_appointment", customer_id=customer.id, service=service, date=date, time=time)
    return action(prompt, call, checks=(_is_booked(customer.id, service, date, time),), reply="It is booked.")


@template("appointments.busy_day")
def busy_day(d: Draw) -> Case:
    """How many visits a day holds."""
    date = _coming_day(d)
    number = sum(row.date == date and row.status != "cancelled" for row in d.shop.appointments)
    prompt = d.say(
        (
            f"How many appointments does the workshop have on {date}?",
            f"List the appointments of {date} and tell me how many there are.",
            f"What does the calendar look like on {date}: how many visits are there?",
        )
    )
    call = do("list_appointments", date=date)
    return lookup(prompt, call, Answer(number=number), f"There are {number} appointments.", guessable=True)


@template("appointments.move_to_first_free", difficulty=3)
def move_to_first_free(d: Draw) -> Case:
    """Move a visit to the first free time of a day, while the calendar is out of order for a moment."""
    visit = _booked(d)
    date = _coming_day(d)
    while date == visit.date or not d.shop.free_slots(visit.service, date):
        date = _coming_day(d)
    time = d.shop.free_slots(visit.service, date)[0]
    prompt = d.say(
        (
            f"Move {visit.id} (a {visit.service} visit) to the first free {visit.service} slot on {date}.",
            f"The customer of {visit.id} cannot come. Find the earliest free {visit.service} time on {date} and move "
            "the appointment there.",
        )
    )
    find = do("find_free_slots", service=visit.service, date=date)
    calls = (find, find, do("reschedule_appointment", appointment_id=visit.id, date=date, time=time))
    checks = (_is_moved(visit.id, date, time),)
    return action(prompt, *calls, checks=checks, reply=f"Moved to {date}, {time}.", failing={"find_free_slots": 1})


@template("appointments.cancel")
def cancel(d: Draw) -> Case:
    """Cancel a visit."""
    visit = _booked(d)
    prompt = d.say(
        (
            f"Please cancel appointment {visit.id}.",
            f"The customer has no time for {visit.id} any more. Cancel it, please.",
            f"{visit.id} is not needed any more, take it out of the calendar.",
        )
    )
    gone = holds(
        f"(SELECT status FROM appointments WHERE id = {text(visit.id)}) = 'cancelled'", "the visit is cancelled"
    )
    return action(prompt, do("cancel_appointment", appointment_id=visit.id), checks=(gone,), reply="It is cancelled.")


@template("appointments.first_free", zh=True)
def first_free(d: Draw) -> Case:
    """When a service is first free on a day."""
    service, date = d.pick(SERVICES), _coming_day(d)
    time = d.shop.free_slots(service, date)[0]
    prompt = d.say(
        (
            f"What is the earliest free time for {service} on {date}?",
            f"Find a free {service} slot on {date}, as early as possible. What time is it?",
        ),
        (f"{date}的{_ZH_SERVICES[service]}最早几点有空?", f"请查{date}当天{_ZH_SERVICES[service]}最早的空闲时间。"),
    )
    call = do("find_free_slots", service=service, date=date)
    return lookup(prompt, call, Answer(pattern=_time_pattern(time)), f"{time} is the first free time.")


def _time_pattern(time: str) -> str:
    hour = int(time[:2])
    return rf"\b{time}|\b{hour}:00|\b{hour} o.clock|\b{(hour - 1) % 12 + 1}(:00)? ?[ap]\.?m|{hour}[点时]"


@template("appointments.days_until")
def days_until(d: Draw) -> Case:
    """How many days are left until a day that is named: plain arithmetic, no tool is needed."""
    number = d.pick(range(3, 16))
    visit = dt.date.fromisoformat(TODAY) + dt.timedelta(days=number)
    prompt = d.say(
        (
            f"Today is Monday 16 March. My visit is on {visit:%A} {visit.day} March. How many days is that from today?",
            f"If today is 16 March and I come to you on {visit.day} March, in how many days do we meet?",
            f"From 16 March to {visit.day} March: how many days are left until my appointment?",
        )
    )
    return Case(
        prompt=prompt,
        grader=both((Answer(number=number), True), (state(only()), False)),
        answer=f"It is in {number} days.",
    )


@template("appointments.move")
def move(d: Draw) -> Case:
    """Move a visit to a named day and time."""
    visit = _booked(d)
    date = _coming_day(d)
    while date == visit.date or not d.shop.free_slots(visit.service, date):
        date = _coming_day(d)
    time = d.pick(d.shop.free_slots(visit.service, date))
    prompt = d.say(
        (
            f"Reschedule appointment {visit.id} to {date} at {time}.",
            f"Please move {visit.id} to {date}, {time}.",
            f"The customer of {visit.id} would rather come on {date} at {time}. Please change the appointment.",
        )
    )
    call = do("reschedule_appointment", appointment_id=visit.id, date=date, time=time)
    return action(prompt, call, checks=(_is_moved(visit.id, date, time),), reply="It is moved.")


@template("appointments.of_customer", zh=True)
def of_customer(d: Draw) -> Case:
    """How many visits one customer has."""
    customer = d.pick(row for row in d.shop.customers if _visits(d, row.id))
    visits = _visits(d, customer.id)
    prompt = d.say(
        (
            f"How many appointments does customer {customer.id} have in our calendar (cancelled ones left out)?",
            f"List the appointments of customer {customer.id}. How many are there?",
        ),
        (f"顾客{customer.id}在我们这里有几个预约(不含已取消的)?", f"请列出顾客{customer.id}的预约,一共有几个?"),
    )
    call = do("list_customer_appointments", customer_id=customer.id)
    reply = f"There are {len(visits)}."
    return lookup(prompt, call, Answer(number=len(visits)), reply, guessable=True)


def _visits(d: Draw, customer_id: str) -> list[Appointment]:
    return [row for row in d.shop.appointments if row.customer_id == customer_id and row.status != "cancelled"]


@template("appointments.book_flaky", difficulty=2)
def book_flaky(d: Draw) -> Case:
    """Book a visit for somebody known by name, while booking is out of order for a moment."""
    customer = d.pick(row for row in d.shop.customers if row.language == "en")
    service, date = d.pick(SERVICES), _coming_day(d)
    time = d.pick(d.shop.free_slots(service, date))
    day = spoken_day(date, "en")
    prompt = d.say(
        (
            f"Please book {customer.name} in for {service} on {day} 2026 at {time}.",
            f"{customer.name} phoned and wants a {service} appointment on {day} 2026, {time}. Book it.",
        )
    )
    booking = do("book_appointment", customer_id=customer.id, service=service, date=date, time=time)
    calls = (do("find_customer", query=customer.name), booking, booking)
    checks = (_is_booked(customer.id, service, date, time),)
    case = action(prompt, *calls[:2], checks=checks, reply="It is booked.", failing={"book_appointment": 1})
    return Case(prompt=case.prompt, grader=case.grader, solution=calls, answer=case.answer, failing=case.failing)


TEMPLATES = (
    book,
    busy_day,
    move_to_first_free,
    cancel,
    first_free,
    days_until,
    move,
    of_customer,
    book_flaky,
)
