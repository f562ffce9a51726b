"""All the desk's tools, in the order in which they are offered, each with the desk's log of calls around it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.suites.desk.environment import Desk
from hermes_lab.suites.desk.tools import appointments, catalogue, customers, orders, reporting, returns, tickets
from hermes_lab.tools.base import Environment, Result, Spec, Tool
from hermes_lab.tools.python import python

_ABOUT_POLICIES = (
    "Search the shop's written policies for a rule, deadline or fee: returns, refunds, shipping, warranty, repairs, "
    "privacy, coupons, prices, appointments, escalation."
)


class DeskTool:
    """A tool that may be out of order for a moment, as the task says, and whose calls the desk writes down.

    Attributes:
        spec: that of the tool within, shorter, perhaps with another description.
    """

    def __init__(self, inner: Tool, description: str | None = None) -> None:
        self.spec: Spec = replace(
            inner.spec,
            description=description or inner.spec.description,
            parameters=_without_null(inner.spec.parameters),
        )
        self._inner = inner

    def run(
        self, environment: Environment | None, arguments: dict[str, Any], *, seconds: float | None = None
    ) -> Result:
        """Run one call; see `tools.base.Tool`."""
        if not isinstance(environment, Desk):
            text = f"{self.spec.name} works on the desk's environment only: open the task with the suite `desk`"
            return Result({"error": text}, Status.ERROR, ErrorKind.TOOL_UNAVAILABLE)
        if environment.fails_now(self.spec.name):
            text = f"{self.spec.name} is not reachable at the moment: try again"
            return Result({"error": text}, Status.ERROR, ErrorKind.TOOL_UNAVAILABLE, transient=True)
        if environment.closed:
            return Result({"error": "the episode is over"}, Status.ERROR, ErrorKind.TOOL_UNAVAILABLE)
        result = self._inner.run(environment, arguments, seconds=seconds)
        environment.write_down(self.spec.name, self.spec.level.value, arguments, result.status is Status.OK)
        return result


def _without_null(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments without the nulls that stand for "left out", which every prompt would carry.

    >>> tier = {"anyOf": [{"enum": ["gold"]}, {"type": "null"}], "default": None, "description": "which"}
    >>> _without_null({"type": "object", "properties": {"tier": tier}})["properties"]
    {'tier': {'enum': ['gold'], 'description': 'which'}}
    """
    properties = {}
    for name, schema in parameters["properties"].items():
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if schema.get("default", "") is None and len(kinds) == 1:
            schema = {**kinds[0], "description": schema["description"]}
        properties[name] = schema
    return {**parameters, "properties": properties}


@functools.cache
def toolbox() -> Mapping[str, Tool]:
    """Return the tools by name, in the order in which every task offers them."""
    tools: tuple[Tool, ...] = (
        orders.get_order,
        orders.list_customer_orders,
        orders.track_shipment,
        orders.change_shipping_address,
        orders.check_coupon,
        orders.apply_coupon,
        returns.get_return,
        returns.open_return,
        returns.request_approval,
        returns.issue_refund,
        customers.find_customer,
        customers.get_customer,
        customers.update_contact,
        customers.send_message,
        customers.grant_store_credit,
        customers.delete_customer_data,
        tickets.get_ticket,
        tickets.list_tickets,
        tickets.list_staff_tickets,
        tickets.create_ticket,
        tickets.set_ticket_status,
        tickets.set_ticket_priority,
        tickets.assign_ticket,
        tickets.add_ticket_note,
        tickets.bulk_close_tickets,
        catalogue.get_product,
        catalogue.search_products,
        catalogue.list_category,
        catalogue.check_stock,
        catalogue.reserve_stock,
        catalogue.change_price,
        appointments.list_appointments,
        appointments.list_customer_appointments,
        appointments.find_free_slots,
        appointments.book_appointment,
        appointments.reschedule_appointment,
        appointments.cancel_appointment,
        reporting.search_policies,
        catalogue.sales_summary,
        catalogue.sales_by_category,
        reporting.query_database,
        python,
    )
    abouts = {"search_policies": _ABOUT_POLICIES}
    return MappingProxyType({tool.spec.name: DeskTool(tool, abouts.get(tool.spec.name)) for tool in tools})
