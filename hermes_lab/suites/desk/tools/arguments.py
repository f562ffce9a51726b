"""The argument types that the desk's tools share, and the prechecks that need more than a pattern."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.shop import SLOT_TIMES, TODAY
from hermes_lab.tools.base import Problem

OrderId = Annotated[str, Meta(pattern="^SO-[0-9]{4}$")]
CustomerId = Annotated[str, Meta(pattern="^C-[0-9]{3}$")]
TicketId = Annotated[str, Meta(pattern="^TK-[0-9]{3}$")]
ReturnId = Annotated[str, Meta(pattern="^RT-[0-9]{3}$")]
AppointmentId = Annotated[str, Meta(pattern="^AP-[0-9]{3}$")]
StaffId = Annotated[str, Meta(pattern="^S-[0-9]{2}$")]
Sku = Annotated[str, Meta(pattern="^[A-Z]{2}-[0-9]{3}$")]
IsoDate = Annotated[str, Meta(pattern="^20[0-9]{2}-[0-9]{2}-[0-9]{2}$")]
Text = Annotated[str, Meta(min_length=1, max_length=500)]
Euros = Annotated[float, Meta(gt=0, le=5000)]
Quantity = Annotated[int, Meta(ge=1, le=500)]

Warehouse = Literal["Leeds", "Rotterdam", "Suzhou"]
Service = Literal["repair", "setup", "consultation", "pickup"]
SlotTime = Literal["09:00", "10:00", "11:00", "13:00", "14:00", "15:00", "16:00"]
Priority = Literal["low", "normal", "high", "urgent"]
TicketStatus = Literal["open", "pending", "closed"]
Category = Literal["keyboards", "mice", "audio", "lighting", "stands", "cables", "cameras", "comfort", "bags"]
Reason = Literal["damaged", "wrong_item", "not_as_described", "changed_mind"]


def _day(arguments: Mapping[str, Any], name: str) -> dt.date | Problem:
    text = arguments.get(name)
    try:
        return dt.date.fromisoformat(str(text))
    except ValueError:
        return Problem(ErrorKind.PRECHECK_FAILED, f"{name} is {text!r}: give a real day as YYYY-MM-DD")


def check_visit(arguments: Mapping[str, Any]) -> Problem | None:
    """Refuse a visit that is not on a coming working day.

    >>> check_visit({"date": "2026-03-21"}).message
    'date is 2026-03-21, a Saturday: the workshop is open Monday to Friday'
    """
    day = _day(arguments, "date")
    if isinstance(day, Problem):
        return day
    if day.weekday() >= 5:
        text = f"date is {day}, a {day:%A}: the workshop is open Monday to Friday"
        return Problem(ErrorKind.PRECHECK_FAILED, text)
    if day.isoformat() < TODAY:
        return Problem(ErrorKind.PRECHECK_FAILED, f"date is {day}, which is past: today is {TODAY}")
    time = arguments.get("time")
    if time is not None and time not in SLOT_TIMES:
        return Problem(ErrorKind.PRECHECK_FAILED, f"time is {time!r}: one of {', '.join(SLOT_TIMES)}")
    return None


def check_date(arguments: Mapping[str, Any]) -> Problem | None:
    """Refuse a `date` that is no day of the calendar."""
    day = _day(arguments, "date")
    return day if isinstance(day, Problem) else None


def check_period(arguments: Mapping[str, Any]) -> Problem | None:
    """Refuse a period whose days do not exist or that ends before it begins."""
    first, last = _day(arguments, "start"), _day(arguments, "end")
    for day in (first, last):
        if isinstance(day, Problem):
            return day
    if str(last) < str(first):
        return Problem(ErrorKind.PRECHECK_FAILED, f"end ({last}) is before start ({first}): swap them")
    return None
