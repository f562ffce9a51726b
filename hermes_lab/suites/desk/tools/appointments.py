"""The workshop's calendar: each service has one bench, so a slot is taken or free."""

from __future__ import annotations

from typing import Any

from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import SLOT_TIMES
from hermes_lab.suites.desk.tools.arguments import (
    AppointmentId,
    CustomerId,
    IsoDate,
    Service,
    SlotTime,
    check_date,
    check_visit,
)
from hermes_lab.suites.desk.tools.customers import find_customer_row
from hermes_lab.tools import Level, ToolError, tool


def _appointment(env: Desk, appointment_id: str) -> dict[str, Any]:
    missing = f"there is no appointment {appointment_id}: list the appointments to find it"
    appointment = env.row(missing, "SELECT * FROM appointments WHERE id = ?", appointment_id)
    if appointment["status"] != "booked":
        raise ToolError(f"appointment {appointment_id} is {appointment['status']}: it cannot be changed any more")
    return appointment


def _free(env: Desk, service: str, date: str) -> list[str]:
    rows = env.rows(
        "SELECT time FROM appointments WHERE service = ? AND date = ? AND status <> 'cancelled'", service, date
    )
    taken = {row["time"] for row in rows}
    return [time for time in SLOT_TIMES if time not in taken]


def _refuse_taken(env: Desk, service: str, date: str, time: str) -> None:
    free = _free(env, service, date)
    if time not in free:
        raise ToolError(f"{time} on {date} is taken for {service}; free are {', '.join(free) or 'none'}")


@tool(precheck=check_date)
def list_appointments(env: Desk, date: IsoDate) -> dict[str, Any]:
    """List and count the appointments in the calendar of one day, cancelled ones left out.

    Args:
        env: the episode's shop
        date: the day
    """
    return _listed(env, "date", date)


@tool
def list_customer_appointments(env: Desk, customer_id: CustomerId) -> dict[str, Any]:
    """List and count the appointments of one customer (C-), cancelled ones left out.

    Args:
        env: the episode's shop
        customer_id: the customer
    """
    return _listed(env, "customer_id", customer_id)


def _listed(env: Desk, column: str, value: str) -> dict[str, Any]:
    rows = env.rows(
        f"SELECT * FROM appointments WHERE status <> 'cancelled' AND {column} = ? ORDER BY date, time, id", value
    )
    return {"count": len(rows), "appointments": rows}


@tool(precheck=check_visit)
def find_free_slots(env: Desk, service: Service, date: IsoDate) -> dict[str, Any]:
    """Find the free times (slots) of a day for a service.

    Args:
        env: the episode's shop
        service: the kind of visit that is asked for
        date: the day
    """
    return {"service": service, "date": date, "free": _free(env, service, date)}


@tool(level=Level.EXECUTABLE, precheck=check_visit)
def book_appointment(
    env: Desk, customer_id: CustomerId, service: Service, date: IsoDate, time: SlotTime
) -> dict[str, Any]:
    """Book a new appointment for a customer (C-).

    Args:
        env: the episode's shop
        customer_id: the customer
        service: the kind of visit that is asked for
        date: the day
        time: when it begins
    """
    find_customer_row(env, customer_id)
    with env.lock:
        _refuse_taken(env, service, date, time)
        appointment_id = env.next_id("appointments", "AP")
        env.change(
            "INSERT INTO appointments VALUES (?, ?, ?, ?, ?, 'booked')",
            *(appointment_id, customer_id, service, date, time),
        )
    return {"appointment_id": appointment_id, "service": service, "date": date, "time": time}


@tool(level=Level.EXECUTABLE)
def cancel_appointment(env: Desk, appointment_id: AppointmentId) -> dict[str, Any]:
    """Cancel a booked appointment (AP-).

    Args:
        env: the episode's shop
        appointment_id: the appointment
    """
    _appointment(env, appointment_id)
    env.change("UPDATE appointments SET status = 'cancelled' WHERE id = ?", appointment_id)
    return {"appointment_id": appointment_id, "status": "cancelled"}


@tool(level=Level.EXECUTABLE, precheck=check_visit)
def reschedule_appointment(env: Desk, appointment_id: AppointmentId, date: IsoDate, time: SlotTime) -> dict[str, Any]:
    """Move or reschedule a booked appointment (AP-) to another day or time.

    Args:
        env: the episode's shop
        appointment_id: the appointment
        date: the new day
        time: the new time
    """
    with env.lock:
        appointment = _appointment(env, appointment_id)
        _refuse_taken(env, appointment["service"], date, time)
        env.change("UPDATE appointments SET date = ?, time = ? WHERE id = ?", date, time, appointment_id)
    return {"appointment_id": appointment_id, "date": date, "time": time}
