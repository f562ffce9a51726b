"""Tickets: read them, open them, work on them."""

from __future__ import annotations

from typing import Any

from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import TODAY
from hermes_lab.suites.desk.tools.arguments import (
    CustomerId,
    IsoDate,
    OrderId,
    Priority,
    StaffId,
    Text,
    TicketId,
    TicketStatus,
)
from hermes_lab.suites.desk.tools.customers import find_customer_row
from hermes_lab.suites.desk.tools.orders import find_order
from hermes_lab.tools import Level, tool

_LISTED = "SELECT id, subject, priority, status, assignee, created_on FROM tickets"


def _ticket(env: Desk, ticket_id: str) -> dict[str, Any]:
    missing = f"there is no ticket {ticket_id}: list the tickets to find it"
    return env.row(missing, "SELECT * FROM tickets WHERE id = ?", ticket_id)


@tool
def get_ticket(env: Desk, ticket_id: TicketId) -> dict[str, Any]:
    """Read one ticket (TK-): what it is about, who it is assigned to, status and notes.

    Args:
        env: the episode's shop
        ticket_id: the ticket
    """
    ticket = _ticket(env, ticket_id)
    ticket["notes"] = env.rows(
        "SELECT author, created_on, text FROM ticket_notes WHERE ticket_id = ? ORDER BY id", ticket_id
    )
    return ticket


@tool
def list_tickets(env: Desk, status: TicketStatus, priority: Priority) -> dict[str, Any]:
    """List and count the tickets of one status and priority.

    Args:
        env: the episode's shop
        status: their status
        priority: their priority
    """
    tickets = env.rows(f"{_LISTED} WHERE status = ? AND priority = ? ORDER BY id", status, priority)
    return {"count": len(tickets), "tickets": tickets}


@tool
def list_staff_tickets(env: Desk, staff_id: StaffId, status: TicketStatus) -> dict[str, Any]:
    """List and count the tickets that are assigned to a staff member (S-).

    Args:
        env: the episode's shop
        staff_id: the staff member
        status: their status
    """
    tickets = env.rows(f"{_LISTED} WHERE assignee = ? AND status = ? ORDER BY id", staff_id, status)
    return {"count": len(tickets), "tickets": tickets}


@tool(level=Level.EXECUTABLE)
def create_ticket(
    env: Desk, customer_id: CustomerId, subject: Text, priority: Priority, order_id: OrderId | None = None
) -> dict[str, Any]:
    """Open a new ticket for a customer (C-).

    Args:
        env: the episode's shop
        customer_id: the customer
        subject: what it is about
        priority: how pressing it is
        order_id: the order it is about
    """
    find_customer_row(env, customer_id)
    if order_id is not None:
        find_order(env, order_id)
    ticket_id = env.next_id("tickets", "TK")
    env.change(
        "INSERT INTO tickets VALUES (?, ?, ?, ?, ?, 'open', NULL, ?)",
        *(ticket_id, customer_id, order_id, subject, priority, TODAY),
    )
    return {"ticket_id": ticket_id, "status": "open", "priority": priority}


@tool(level=Level.EXECUTABLE)
def set_ticket_status(env: Desk, ticket_id: TicketId, status: TicketStatus) -> dict[str, Any]:
    """Close a ticket (TK-), reopen it or set it to pending.

    Args:
        env: the episode's shop
        ticket_id: the ticket
        status: the new status
    """
    return _changed(env, ticket_id, "status", status)


@tool(level=Level.EXECUTABLE)
def set_ticket_priority(env: Desk, ticket_id: TicketId, priority: Priority) -> dict[str, Any]:
    """Change the priority of a ticket (TK-).

    Args:
        env: the episode's shop
        ticket_id: the ticket
        priority: the new priority
    """
    return _changed(env, ticket_id, "priority", priority)


@tool(level=Level.EXECUTABLE)
def assign_ticket(env: Desk, ticket_id: TicketId, staff_id: StaffId) -> dict[str, Any]:
    """Assign a ticket (TK-) to a staff member (S-), or hand it over to another.

    Args:
        env: the episode's shop
        ticket_id: the ticket
        staff_id: who takes it over
    """
    env.row(f"there is no staff member {staff_id}", "SELECT id FROM staff WHERE id = ?", staff_id)
    return _changed(env, ticket_id, "assignee", staff_id)


def _changed(env: Desk, ticket_id: str, column: str, value: str) -> dict[str, Any]:
    _ticket(env, ticket_id)
    env.change(f"UPDATE tickets SET {column} = ? WHERE id = ?", value, ticket_id)
    return _ticket(env, ticket_id)


@tool(level=Level.EXECUTABLE)
def add_ticket_note(env: Desk, ticket_id: TicketId, text: Text) -> dict[str, Any]:
    """Add an internal note to a ticket (TK-).

    Args:
        env: the episode's shop
        ticket_id: the ticket
        text: the words of the note
    """
    _ticket(env, ticket_id)
    env.change(
        "INSERT INTO ticket_notes (ticket_id, author, created_on, text) VALUES (?, 'desk', ?, ?)",
        *(ticket_id, TODAY, text),
    )
    return {"ticket_id": ticket_id, "note": text}


@tool(level=Level.HIGH_RISK)
def bulk_close_tickets(env: Desk, created_before: IsoDate) -> dict[str, Any]:
    """Close every ticket that was created before a day.

    Args:
        env: the episode's shop
        created_before: the day, as YYYY-MM-DD
    """
    (row,) = env.rows("SELECT count(*) AS n FROM tickets WHERE created_on < ? AND status <> 'closed'", created_before)
    env.change("UPDATE tickets SET status = 'closed' WHERE created_on < ?", created_before)
    return {"closed": row["n"]}
