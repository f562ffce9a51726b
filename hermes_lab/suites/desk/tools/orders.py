"""Orders and their parcels: look them up, and change what may still be changed."""

from __future__ import annotations

from typing import Any

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import TODAY, Coupon
from hermes_lab.suites.desk.tools.arguments import CustomerId, OrderId, Text
from hermes_lab.tools import Level, ToolError, tool


def find_order(env: Desk, order_id: str) -> dict[str, Any]:
    """Return the row of an order.

    Raises:
        ToolError: there is no such order.
    """
    missing = f"there is no order {order_id}: check the number, or list the customer's orders"
    return env.row(missing, "SELECT * FROM orders WHERE id = ?", order_id)


def _open_order(env: Desk, order_id: str, what: str) -> dict[str, Any]:
    order = find_order(env, order_id)
    if order["status"] not in ("processing", "packed"):
        raise ToolError(f"order {order_id} is {order['status']}: {what} only before it ships")
    return order


@tool
def get_order(env: Desk, order_id: OrderId) -> dict[str, Any]:
    """Look up one order by its number (SO-): status, items and their quantity, total, coupon, delivery address.

    Args:
        env: the episode's shop
        order_id: the order
    """
    order = find_order(env, order_id)
    order["items"] = env.rows(
        "SELECT sku, name, quantity, unit_price FROM order_items JOIN products USING (sku) "
        "WHERE order_id = ? ORDER BY line",
        order_id,
    )
    return order


@tool
def list_customer_orders(env: Desk, customer_id: CustomerId) -> dict[str, Any]:
    """List and count all orders of one customer (C-), newest first.

    Args:
        env: the episode's shop
        customer_id: the customer
    """
    orders = env.rows(
        "SELECT id, placed_on, status, total FROM orders WHERE customer_id = ? ORDER BY placed_on DESC, id DESC",
        customer_id,
    )
    return {"count": len(orders), "orders": orders}


@tool
def track_shipment(env: Desk, order_id: OrderId) -> dict[str, Any]:
    """Track the parcel or shipment of an order (SO-): carrier, tracking number, expected delivery day.

    Args:
        env: the episode's shop
        order_id: the order
    """
    order = find_order(env, order_id)
    missing = f"order {order_id} has no parcel yet, it is {order['status']}"
    return env.row(missing, "SELECT * FROM shipments WHERE order_id = ?", order_id)


@tool(level=Level.EXECUTABLE)
def change_shipping_address(env: Desk, order_id: OrderId, address: Text) -> dict[str, Any]:
    """Change the delivery address of an order (SO-); possible only before it ships.

    Args:
        env: the episode's shop
        order_id: the order
        address: the new address in full
    """
    _open_order(env, order_id, "its address can be changed")
    env.change("UPDATE orders SET ship_to = ? WHERE id = ?", address, order_id)
    return {"order_id": order_id, "ship_to": address}


@tool
def check_coupon(env: Desk, code: Text) -> dict[str, Any]:
    """Look up a coupon code: its value, least order value, and first and last day.

    Args:
        env: the episode's shop
        code: the coupon code
    """
    coupon = _coupon(env, code)
    return {**coupon, "valid_today": coupon["valid_from"] <= TODAY <= coupon["valid_to"]}


@tool(level=Level.EXECUTABLE)
def apply_coupon(env: Desk, order_id: OrderId, code: Text) -> dict[str, Any]:
    """Apply a coupon code to an order (SO-) that has not shipped.

    Args:
        env: the episode's shop
        order_id: the order
        code: the coupon code
    """
    order = _open_order(env, order_id, "a coupon can be applied")
    coupon = Coupon(**_coupon(env, code))
    if order["coupon"]:
        raise ToolError(f"order {order_id} has the coupon {order['coupon']}: one coupon an order")
    if not coupon.valid_from <= TODAY <= coupon.valid_to:
        raise ToolError(f"{coupon.code} is valid from {coupon.valid_from} to {coupon.valid_to}, and today is {TODAY}")
    goods = order["total"] - order["postage"]
    if goods < coupon.minimum:
        raise ToolError(f"{coupon.code} needs goods of {coupon.minimum} EUR, and {order_id} has {goods:.2f}")
    discount = coupon.discount(goods)
    total = round(order["total"] - discount, 2)
    env.change(
        "UPDATE orders SET coupon = ?, discount = ?, total = ? WHERE id = ?", coupon.code, discount, total, order_id
    )
    return {"order_id": order_id, "coupon": coupon.code, "discount": discount, "total": total}


def _coupon(env: Desk, code: str) -> dict[str, Any]:
    missing = f"there is no coupon {code!r}: check the spelling"
    return env.row(missing, "SELECT * FROM coupons WHERE code = upper(trim(?))", code)


def refuse_over(env: Desk, order_id: str, amount: float) -> None:
    """Refuse to give back more than an order cost, earlier refunds counted.

    Raises:
        ToolError: there is no such order, or the amount is too high.
    """
    order = find_order(env, order_id)
    (row,) = env.rows("SELECT coalesce(sum(amount), 0) AS back FROM refunds WHERE order_id = ?", order_id)
    left = round(order["total"] - row["back"], 2)
    if amount > left + 0.005:
        raise ToolError(
            f"only {left:.2f} EUR of {order_id} can be given back, not {amount:.2f}", ErrorKind.OUT_OF_SCOPE
        )
