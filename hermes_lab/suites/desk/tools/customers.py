"""Customers: who they are, how to reach them, and what is theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import TODAY
from hermes_lab.suites.desk.tools.arguments import CustomerId, Euros, Text
from hermes_lab.tools import Level, ToolError, tool
from hermes_lab.tools.base import Problem

_SHAPES = {"email": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "phone": re.compile(r"\+?[0-9][0-9 ()-]{5,}")}


def find_customer_row(env: Desk, customer_id: str) -> dict[str, Any]:
    """Return the row of a customer.

    Raises:
        ToolError: there is no such customer.
    """
    missing = f"there is no customer {customer_id}: search with find_customer"
    return env.row(missing, "SELECT * FROM customers WHERE id = ?", customer_id)


@tool
def find_customer(env: Desk, query: Text) -> dict[str, Any]:
    """Find the customer number by name, email address or phone.

    Args:
        env: the episode's shop
        query: part of the name, email or phone
    """
    found = env.rows(
        "SELECT id, name, email, city FROM customers "
        "WHERE instr(lower(name || '|' || email || '|' || phone), lower(trim(?))) ORDER BY id LIMIT 10",
        query,
    )
    if not found:
        raise ToolError(f"no customer matches {query!r}: try a part of the name", ErrorKind.NOT_FOUND)
    return {"count": len(found), "customers": found}


@tool
def get_customer(env: Desk, customer_id: CustomerId) -> dict[str, Any]:
    """Look up the record of one customer (C-): email, phone, address, loyalty tier, store credit balance.

    Args:
        env: the episode's shop
        customer_id: the customer
    """
    return find_customer_row(env, customer_id)


def _check_contact(arguments: Mapping[str, Any]) -> Problem | None:
    field, value = str(arguments.get("field")), str(arguments.get("value"))
    shape = _SHAPES.get(field)
    if shape and not shape.fullmatch(value.strip()):
        return Problem(ErrorKind.PRECHECK_FAILED, f"value is {value!r}, which is no {field}")
    return None


@tool(level=Level.EXECUTABLE, precheck=_check_contact)
def update_contact(
    env: Desk, customer_id: CustomerId, field: Literal["email", "phone", "address"], value: Text
) -> dict[str, Any]:
    """Change the email, phone number or home address in a customer's record (C-).

    Args:
        env: the episode's shop
        customer_id: the customer
        field: which of them to change
        value: the new value
    """
    find_customer_row(env, customer_id)
    env.change(f"UPDATE customers SET {field} = ? WHERE id = ?", value.strip(), customer_id)
    return {"customer_id": customer_id, field: value.strip()}


@tool(level=Level.EXECUTABLE)
def send_message(env: Desk, customer_id: CustomerId, text: Text) -> dict[str, Any]:
    """Send a message to a customer (C-).

    Args:
        env: the episode's shop
        customer_id: the customer
        text: what to say
    """
    customer = find_customer_row(env, customer_id)
    env.change("INSERT INTO messages (customer_id, text, sent_on) VALUES (?, ?, ?)", customer_id, text, TODAY)
    return {"sent_to": customer["name"]}


@tool(level=Level.HIGH_RISK)
def delete_customer_data(env: Desk, customer_id: CustomerId) -> dict[str, Any]:
    """Erase the record of a customer (C-) for good.

    Args:
        env: the episode's shop
        customer_id: the customer
    """
    find_customer_row(env, customer_id)
    env.change("DELETE FROM customers WHERE id = ?", customer_id)
    return {"deleted": customer_id}


@tool(level=Level.HIGH_RISK)
def grant_store_credit(env: Desk, customer_id: CustomerId, amount: Euros) -> dict[str, Any]:
    """Give a customer (C-) store credit.

    Args:
        env: the episode's shop
        customer_id: the customer
        amount: in euros
    """
    customer = find_customer_row(env, customer_id)
    credit = round(customer["store_credit"] + amount, 2)
    env.change("UPDATE customers SET store_credit = ? WHERE id = ?", credit, customer_id)
    return {"customer_id": customer_id, "store_credit": credit}
