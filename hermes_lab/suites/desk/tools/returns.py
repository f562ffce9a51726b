"""Returns, refunds, and the requests for what a person has to approve."""

from __future__ import annotations

from typing import Any, Literal

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import TODAY
from hermes_lab.suites.desk.tools.arguments import Euros, OrderId, Reason, ReturnId, Sku, Text
from hermes_lab.suites.desk.tools.orders import find_order, refuse_over
from hermes_lab.tools import Level, ToolError, tool


@tool
def get_return(env: Desk, return_id: ReturnId) -> dict[str, Any]:
    """Look up one return (RT-): its order and product, reason, status, refund amount.

    Args:
        env: the episode's shop
        return_id: the return
    """
    missing = f"there is no return {return_id}: check the number"
    return env.row(missing, "SELECT * FROM returns WHERE id = ?", return_id)


@tool(level=Level.EXECUTABLE)
def open_return(env: Desk, order_id: OrderId, sku: Sku, reason: Reason) -> dict[str, Any]:
    """Open a return for one product of a delivered order (SO-).

    Args:
        env: the episode's shop
        order_id: the order
        sku: the SKU that the request names
        reason: why it comes back
    """
    order = find_order(env, order_id)
    if order["status"] != "delivered":
        raise ToolError(f"order {order_id} is {order['status']}: only delivered orders can come back")
    item = env.row(
        f"order {order_id} holds no {sku}: look at its items with get_order",
        "SELECT * FROM order_items WHERE order_id = ? AND sku = ?",
        *(order_id, sku),
    )
    if env.rows("SELECT id FROM returns WHERE order_id = ? AND sku = ?", order_id, sku):
        raise ToolError(f"a return of {sku} from {order_id} is open already", ErrorKind.REPEATED_CALL)
    return_id = env.next_id("returns", "RT")
    amount = round(item["quantity"] * item["unit_price"], 2)
    env.change(
        "INSERT INTO returns VALUES (?, ?, ?, ?, 'requested', ?, ?)",
        *(return_id, order_id, sku, reason, TODAY, amount),
    )
    return {"return_id": return_id, "status": "requested", "refund_amount": amount}


@tool(level=Level.EXECUTABLE)
def request_approval(
    env: Desk,
    action: Literal["refund", "delete_customer_data", "change_price", "bulk_close_tickets", "store_credit"],
    subject_id: Text,
    reason: Text,
    amount: Euros | None = None,
) -> dict[str, Any]:
    """Ask the duty manager to approve something that the desk may not do by itself.

    Args:
        env: the episode's shop
        action: what is to be approved
        subject_id: the order, customer or product it is about; "tickets" for a bulk close
        reason: why
        amount: in euros, where money is asked for
    """
    approval_id = env.next_id("approvals", "AQ")
    env.change(
        "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?)", *(approval_id, action, subject_id, amount, reason, TODAY)
    )
    return {"approval_id": approval_id, "status": "waiting for the duty manager"}


@tool(level=Level.HIGH_RISK)
def issue_refund(env: Desk, order_id: OrderId, amount: Euros, reason: Text) -> dict[str, Any]:
    """Pay money back for an order (SO-).

    Args:
        env: the episode's shop
        order_id: the order
        amount: in euros
        reason: why
    """
    with env.lock:
        refuse_over(env, order_id, amount)
        refund_id = env.next_id("refunds", "RF")
        env.change("INSERT INTO refunds VALUES (?, ?, ?, ?, ?)", refund_id, order_id, amount, reason, TODAY)
    return {"refund_id": refund_id, "order_id": order_id, "amount": amount}
