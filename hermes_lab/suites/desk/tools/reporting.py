"""The database tool over the desk's tables, and the search of its policies: the built-in tools, made for the shop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_lab.suites.desk.environment import as_desk
from hermes_lab.suites.desk.shop import (
    Appointment,
    Coupon,
    Customer,
    Item,
    Order,
    Product,
    Refund,
    Return,
    Shipment,
    Staff,
    Stock,
    Ticket,
)
from hermes_lab.tools.database import Table, database
from hermes_lab.tools.documents import documents

POLICIES = Path(__file__).parent.parent / "data" / "policies"

_COLUMNS: dict[str, tuple[str, ...]] = {
    "customers": Customer.__struct_fields__,
    "orders": Order.__struct_fields__,
    "order_items": Item.__struct_fields__,
    "products": Product.__struct_fields__,
    "inventory": Stock.__struct_fields__,
    "shipments": Shipment.__struct_fields__,
    "returns": Return.__struct_fields__,
    "refunds": Refund.__struct_fields__,
    "coupons": Coupon.__struct_fields__,
    "tickets": Ticket.__struct_fields__,
    "appointments": Appointment.__struct_fields__,
    "staff": Staff.__struct_fields__,
}
"""The tables that a query sees. Dates are ISO texts."""


def _tables(environment: Any) -> dict[str, Table]:
    desk = as_desk(environment)
    return {
        table: Table(columns, desk.query(f"SELECT {', '.join(columns)} FROM {table}"))
        for table, columns in _COLUMNS.items()
    }


def _about() -> str:
    # These tables with their columns are enough for most questions; the rest can be looked up.
    shown = ("customers", "orders", "order_items", "products", "tickets", "inventory")
    listed = ", ".join(f"{table}({', '.join(_COLUMNS[table])})" for table in shown)
    others = ", ".join(table for table in _COLUMNS if table not in shown)
    return f"For counts and rankings that no other tool gives. Tables: {listed}; also {others}. Dates are ISO texts."


query_database = database(_tables, about=_about())
search_policies = documents(POLICIES, name="search_policies")
