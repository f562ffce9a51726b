"""Products, stock and sales."""

from __future__ import annotations

from typing import Any

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.shop import TODAY
from hermes_lab.suites.desk.tools.arguments import (
    Category,
    Euros,
    IsoDate,
    Quantity,
    Sku,
    Text,
    Warehouse,
    check_period,
)
from hermes_lab.tools import Level, ToolError, tool

_LISTED = "SELECT sku, name, name_zh, category, price FROM products"


def find_product(env: Desk, sku: str) -> dict[str, Any]:
    """Return the row of a product.

    Raises:
        ToolError: there is no such product.
    """
    missing = f"there is no product {sku}: find its SKU with search_products"
    return env.row(missing, "SELECT * FROM products WHERE sku = ?", sku)


@tool
def get_product(env: Desk, sku: Sku) -> dict[str, Any]:
    """Look up one product by its SKU: name, category, what it costs, months of warranty.

    Args:
        env: the episode's shop
        sku: the SKU that the request names
    """
    return find_product(env, sku)


@tool
def search_products(env: Desk, text: Text) -> dict[str, Any]:
    """Find the SKU of a product by words of its name, English or Chinese.

    Args:
        env: the episode's shop
        text: a part of the name
    """
    found = env.rows(
        f"{_LISTED} WHERE instr(lower(name || '|' || name_zh), lower(trim(?))) ORDER BY price, sku LIMIT 12", text
    )
    if not found:
        raise ToolError("no product matches: search for one word of the name", ErrorKind.NOT_FOUND)
    return {"count": len(found), "products": found}


@tool
def list_category(env: Desk, category: Category) -> dict[str, Any]:
    """List the products of a category with their prices, cheapest first.

    Args:
        env: the episode's shop
        category: the category
    """
    found = env.rows(f"{_LISTED} WHERE category = ? ORDER BY price, sku", category)
    return {"count": len(found), "products": found}


@tool
def check_stock(env: Desk, sku: Sku) -> dict[str, Any]:
    """Check the stock of a product: how many pieces are available, in each warehouse and in all.

    Args:
        env: the episode's shop
        sku: the SKU that the request names
    """
    product = find_product(env, sku)
    rows = env.rows(
        "SELECT warehouse, on_hand, reserved, on_hand - reserved AS available, reorder_level FROM inventory "
        "WHERE sku = ? ORDER BY warehouse",
        sku,
    )
    total = sum(row["available"] for row in rows)
    return {"sku": sku, "name": product["name"], "available": total, "warehouses": rows}


@tool(level=Level.EXECUTABLE)
def reserve_stock(env: Desk, sku: Sku, quantity: Quantity, warehouse: Warehouse) -> dict[str, Any]:
    """Reserve pieces of a product: hold or set them aside in a warehouse.

    Args:
        env: the episode's shop
        sku: the SKU that the request names
        quantity: how many pieces
        warehouse: the warehouse that the request names
    """
    find_product(env, sku)
    with env.lock:
        (stock,) = env.rows("SELECT * FROM inventory WHERE sku = ? AND warehouse = ?", sku, warehouse)
        available = stock["on_hand"] - stock["reserved"]
        if quantity > available:
            raise ToolError(f"only {available} of {sku} are available in {warehouse}, not {quantity}")
        reservation = env.next_id("reservations", "RS")
        env.change("INSERT INTO reservations VALUES (?, ?, ?, ?, ?)", reservation, sku, warehouse, quantity, TODAY)
        env.change(
            "UPDATE inventory SET reserved = reserved + ? WHERE sku = ? AND warehouse = ?", quantity, sku, warehouse
        )
    return {"reservation_id": reservation, "sku": sku, "warehouse": warehouse, "quantity": quantity}


@tool(level=Level.HIGH_RISK)
def change_price(env: Desk, sku: Sku, price: Euros) -> dict[str, Any]:
    """Change the price of a product in the shop.

    Args:
        env: the episode's shop
        sku: the SKU that the request names
        price: the new price in euros
    """
    old = find_product(env, sku)["price"]
    env.change("UPDATE products SET price = ? WHERE sku = ?", price, sku)
    return {"sku": sku, "old_price": old, "price": price}


@tool(precheck=check_period)
def sales_summary(env: Desk, start: IsoDate, end: IsoDate) -> dict[str, Any]:
    """Sum up the orders of a period, cancelled ones left out: how many, and the revenue.

    Args:
        env: the episode's shop
        start: first day
        end: last day
    """
    return env.row(
        "no orders",
        "SELECT count(*) AS orders, round(coalesce(sum(total), 0), 2) AS revenue FROM orders "
        "WHERE status <> 'cancelled' AND placed_on BETWEEN ? AND ?",
        *(start, end),
    )


@tool(precheck=check_period)
def sales_by_category(env: Desk, start: IsoDate, end: IsoDate) -> dict[str, Any]:
    """Compare the product categories by the money they sold for in a period, the best first.

    Args:
        env: the episode's shop
        start: first day
        end: last day
    """
    groups = env.rows(
        "SELECT category, sum(quantity) AS pieces, round(sum(quantity * unit_price), 2) AS goods "
        "FROM orders o JOIN order_items ON order_id = o.id JOIN products USING (sku) "
        "WHERE o.status <> 'cancelled' AND o.placed_on BETWEEN ? AND ? GROUP BY 1 ORDER BY 3 DESC",
        *(start, end),
    )
    return {"categories": groups}
