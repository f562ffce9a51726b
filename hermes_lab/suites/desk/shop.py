"""The rows of the shop as typed values, read once from the committed data; families compute what is right from them."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

TODAY = "2026-03-16"
"""The day on which every episode takes place, a Monday."""

WAREHOUSES = ("Leeds", "Rotterdam", "Suzhou")
SERVICES = ("repair", "setup", "consultation", "pickup")
SLOT_TIMES = ("09:00", "10:00", "11:00", "13:00", "14:00", "15:00", "16:00")


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A row: its fields in the order of the table's columns."""


class Customer(_Row, frozen=True):
    """Somebody who buys."""

    id: str
    name: str
    email: str
    phone: str
    address: str
    city: str
    language: str
    tier: str
    joined: str
    store_credit: float


class Staff(_Row, frozen=True):
    """Somebody who works at the desk."""

    id: str
    name: str
    team: str
    email: str


class Product(_Row, frozen=True):
    """A thing that is sold; `price` is in euros."""

    sku: str
    name: str
    name_zh: str
    category: str
    price: float
    warranty_months: int


class Stock(_Row, frozen=True):
    """How much of a product lies in one warehouse."""

    sku: str
    warehouse: str
    on_hand: int
    reserved: int
    reorder_level: int

    @property
    def available(self) -> int:
        """What is on hand and not reserved."""
        return self.on_hand - self.reserved


class Order(_Row, frozen=True):
    """An order; amounts are in euros."""

    id: str
    customer_id: str
    placed_on: str
    status: str
    ship_to: str
    coupon: str | None
    discount: float
    postage: float
    total: float
    delivered_on: str | None


class Item(_Row, frozen=True):
    """One line of an order."""

    order_id: str
    line: int
    sku: str
    quantity: int
    unit_price: float


class Shipment(_Row, frozen=True):
    """The parcel of an order."""

    id: str
    order_id: str
    carrier: str
    tracking: str
    status: str
    shipped_on: str
    eta: str
    delivered_on: str | None


class Return(_Row, frozen=True):
    """A product that comes back; `refund_amount` is in euros."""

    id: str
    order_id: str
    sku: str
    reason: str
    status: str
    opened_on: str
    refund_amount: float


class Refund(_Row, frozen=True):
    """Money that went back, in euros."""

    id: str
    order_id: str
    amount: float
    reason: str
    created_on: str


class Coupon(_Row, frozen=True):
    """A discount code: `value` is percent or euros, as `kind` says; `minimum` is the least goods value in euros."""

    code: str
    kind: str
    value: float
    minimum: float
    valid_from: str
    valid_to: str

    def discount(self, goods: float) -> float:
        """Return what the coupon takes off goods of that value, in euros.

        >>> Coupon("A", "percent", 15.0, 0.0, "2026-01-01", "2026-12-31").discount(80.0)
        12.0
        """
        return round(goods * self.value / 100, 2) if self.kind == "percent" else self.value


class Ticket(_Row, frozen=True):
    """A matter that the desk works on."""

    id: str
    customer_id: str
    order_id: str | None
    subject: str
    priority: str
    status: str
    assignee: str | None
    created_on: str


class TicketNote(_Row, frozen=True):
    """What somebody wrote on a ticket."""

    id: int
    ticket_id: str
    author: str
    created_on: str
    text: str


class Appointment(_Row, frozen=True):
    """A visit to the workshop; each service has one bench, so a slot is taken or free."""

    id: str
    customer_id: str
    service: str
    date: str
    time: str
    status: str


class Shop(msgspec.Struct, frozen=True):
    """All the rows, a field a table."""

    customers: list[Customer]
    staff: list[Staff]
    products: list[Product]
    inventory: list[Stock]
    orders: list[Order]
    order_items: list[Item]
    shipments: list[Shipment]
    returns: list[Return]
    refunds: list[Refund]
    coupons: list[Coupon]
    tickets: list[Ticket]
    ticket_notes: list[TicketNote]
    appointments: list[Appointment]

    def customer(self, customer_id: str) -> Customer:
        """Return the customer of that id."""
        return _only(row for row in self.customers if row.id == customer_id)

    def order(self, order_id: str) -> Order:
        """Return the order of that id."""
        return _only(row for row in self.orders if row.id == order_id)

    def product(self, sku: str) -> Product:
        """Return the product of that SKU."""
        return _only(row for row in self.products if row.sku == sku)

    def items(self, order_id: str) -> list[Item]:
        """Return the lines of an order."""
        return [row for row in self.order_items if row.order_id == order_id]

    def orders_of(self, customer_id: str) -> list[Order]:
        """Return the orders of a customer, oldest first."""
        return sorted((row for row in self.orders if row.customer_id == customer_id), key=lambda row: row.placed_on)

    def stock(self, sku: str, warehouse: str) -> Stock:
        """Return the stock of a product in one warehouse."""
        return _only(row for row in self.inventory if (row.sku, row.warehouse) == (sku, warehouse))

    def available(self, sku: str) -> int:
        """Return how many of a product are free in all warehouses together."""
        return sum(row.available for row in self.inventory if row.sku == sku)

    def notes(self, ticket_id: str) -> list[TicketNote]:
        """Return the notes of a ticket, oldest first."""
        return [row for row in self.ticket_notes if row.ticket_id == ticket_id]

    def free_slots(self, service: str, date: str) -> list[str]:
        """Return the times of a day at which the bench of a service is free."""
        taken = {
            row.time
            for row in self.appointments
            if (row.service, row.date) == (service, date) and row.status != "cancelled"
        }
        return [time for time in SLOT_TIMES if time not in taken]


_Any = TypeVar("_Any")


def _only(rows: Iterable[_Any]) -> _Any:
    """Return the one row of `rows`."""
    (row,) = rows
    return row


def data_file(name: str) -> Any:
    """Return a committed data file of the suite, to be read."""
    return importlib.resources.files(__package__).joinpath("data", name)


@functools.cache
def load_shop() -> Shop:
    """Return the committed rows."""
    return msgspec.json.decode(data_file("shop.json").read_bytes(), type=Shop)
