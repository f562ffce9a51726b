"""Dead loops: how many episodes diverge with the deterministic checks on, and off, on 36 tasks made for it.

Each task needs one call of a tool whose back end takes only what its documentation allows (enums, formats, ranges,
required fields) and refuses everything else with the same bare message, as services do. With checks off, arguments are
neither bound to the schema nor checked, and repeats run. The embedded model does the work.

    python tests/benchmarks/bench_dead_loops.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

import hermes_lab
from hermes_lab import runs
from hermes_lab.checks import ALL_GUARDS, Guards, bad_arguments
from hermes_lab.config import AgentConfig
from hermes_lab.kinds import Status
from hermes_lab.tasks import Task
from hermes_lab.tools import tool
from hermes_lab.tools.base import Result, Spec, Tool

TicketId = Annotated[str, Meta(pattern=r"^TK-[0-9]{4}$")]
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Source = Literal["orders_db", "crm_db", "billing_db"]


@tool()
def set_priority(ticket: TicketId, priority: Literal["p1", "p2", "p3", "p4"]) -> None:
    """Set the priority of a ticket.

    Args:
        ticket: id of the ticket, like TK-0001.
        priority: p1 is urgent, p4 is low.
    """


@tool()
def book_room(room: Literal["aurora", "borealis", "cirrus"], day: Day, hours: Annotated[int, Meta(ge=1, le=8)]) -> None:
    """Book a meeting room.

    Args:
        room: which room.
        day: ISO date.
        hours: for how long.
    """


@tool()
def convert_money(amount: float, source: Literal["EUR", "USD", "CNY"], target: Literal["EUR", "USD", "CNY"]) -> None:
    """Convert an amount of money.

    Args:
        amount: how much.
        source: currency code to convert from.
        target: currency code to convert to.
    """


@tool()
def count_rows(source: Source, table: Literal["orders", "customers", "invoices"], since: Day) -> None:
    """Count the rows of a table in a database since a day.

    Args:
        source: the database.
        table: the table.
        since: ISO date.
    """


@tool()
def send_sms(
    phone: Annotated[str, Meta(pattern=r"^\+[0-9]{8,15}$")], text: Annotated[str, Meta(max_length=80)]
) -> None:
    """Send a text message.

    Args:
        phone: international number with +.
        text: what to say.
    """


@tool()
def schedule_backup(every: Literal["hourly", "daily", "weekly"], keep_days: Annotated[int, Meta(ge=1, le=90)]) -> None:
    """Schedule backups.

    Args:
        every: how often.
        keep_days: days to keep each.
    """


@tool()
def restart_service(service: Literal["api", "web", "worker"], mode: Literal["graceful", "forced"]) -> None:
    """Restart a service.

    Args:
        service: which one.
        mode: graceful waits for requests to end.
    """


@tool()
def invite_user(
    email: Annotated[str, Meta(pattern=r"^[a-z.]+@[a-z.]+$")], role: Literal["viewer", "editor", "admin"]
) -> None:
    """Invite a user.

    Args:
        email: address.
        role: what they may do.
    """


@tool()
def set_heating(zone: Literal["north", "south", "lobby"], celsius: Annotated[int, Meta(ge=5, le=30)]) -> None:
    """Set the heating of a zone.

    Args:
        zone: part of the building.
        celsius: degrees.
    """


@tool()
def export_report(form: Literal["csv", "pdf"], quarter: Literal["Q1", "Q2", "Q3", "Q4"]) -> None:
    """Export the report of a quarter.

    Args:
        form: file format.
        quarter: which quarter.
    """


@tool()
def assign_shift(weekday: Literal["mon", "tue", "wed", "thu", "fri"], slot: Literal["early", "late"]) -> None:
    """Assign a shift.

    Args:
        weekday: short day name.
        slot: early or late.
    """


@tool()
def track_parcel(
    carrier: Literal["dhl", "ups", "sf"], code: Annotated[str, Meta(pattern=r"^[A-Z]{2}[0-9]{6}$")]
) -> None:
    """Track a parcel.

    Args:
        carrier: short name of the carrier.
        code: two capitals and six digits.
    """


PROMPTS: dict[Any, tuple[str, str, str]] = {
    set_priority: ("Make ticket 12 urgent.", "Ticket number 7 can wait, set it to low.", "把工单 305 设为最高优先级。"),
    book_room: (
        "Book the Aurora room for April 3rd 2026, two hours.",
        "I need Cirrus all morning (4 hours) on 2026/05/11.",
        "Reserve Borealis for one hour on the 9th of June 2026.",
    ),
    convert_money: ("How many dollars are 20 euros?", "Convert 500 yuan to euros.", "Turn 99.5 US dollars into yuan."),
    count_rows: (
        "How many orders came in since 1 March 2026?",
        "Count the customers in the CRM since January 2026.",
        "Number of invoices in billing since 15.02.2026?",
    ),
    send_sms: (
        "Text 0049 171 5550101 that the van is late.",
        "Send an SMS to +1 (202) 555-0143: your table is ready.",
        "给 0086 138 0013 8000 发短信：货到了。",
    ),
    schedule_backup: (
        "Back up once a day and keep them for two weeks.",
        "Weekly backups, kept for a month please.",
        "Every hour, keep for 3 days.",
    ),
    restart_service: (
        "Restart the API gently.",
        "Kill and restart the web service now.",
        "Bounce the worker, let it finish its jobs.",
    ),
    invite_user: (
        "Invite Mara, mara@example.org, she only needs to read.",
        "Add Lin (lin.wei@example.org) who may change texts.",
        "Give tom@example.org full rights.",
    ),
    set_heating: ("Make the north side 21 degrees.", "Lobby down to eighteen.", "It should be 23 C in the south."),
    export_report: (
        "I need the first quarter as a spreadsheet file.",
        "PDF of the report for October to December.",
        "Export April to June as comma separated values.",
    ),
    assign_shift: ("Put me on Monday morning.", "I take the late shift on Thursday.", "Wednesday, the early one."),
    track_parcel: (
        "Where is DHL parcel ab 123456?",
        "Track UPS code XY-654321.",
        "顺丰单号 sf 777888 到哪了？",
    ),
}


class Strict:
    """A tool whose back end refuses what its schema does not allow, always with the same words."""

    def __init__(self, inner: Tool) -> None:
        self.spec: Spec = inner.spec

    def run(self, environment: None, arguments: dict[str, Any], *, seconds: float | None = None) -> Result:
        if bad_arguments(self.spec, arguments) is not None:
            from hermes_lab.kinds import ErrorKind

            return Result({"error": "400 request rejected"}, Status.ERROR, ErrorKind.TOOL_FAILED, latency_ms=0.0)
        return Result({"status": "done"}, latency_ms=0.0)


class DeadLoops:
    """The suite: each task offers its tool and two others."""

    name = "dead-loops"

    def __init__(self) -> None:
        self._tools: Mapping[str, Tool] = {one.spec.name: Strict(one) for one in PROMPTS}

    def toolbox(self) -> Mapping[str, Tool]:
        return self._tools

    def open(self, task: Task) -> None:
        return None

    def tasks(self) -> list[Task]:
        names = list(self._tools)
        made = []
        for place, (one, prompts) in enumerate(PROMPTS.items()):
            offered = (one.spec.name, names[(place + 4) % len(names)], names[(place + 8) % len(names)])
            for number, prompt in enumerate(prompts):
                made.append(
                    Task(
                        id=f"{one.spec.name}-{number}",
                        family=one.spec.name,
                        type="dead-loops",
                        prompt=prompt,
                        tools=offered,
                    )
                )
        return made


def diverged(lab: hermes_lab.Lab, guards: Guards) -> tuple[int, int, dict[str, int], float]:
    """Return how many episodes diverged, of how many, how they ended, and the model calls an episode."""
    suite = DeadLoops()
    run = runs.plan(lab, suite, AgentConfig(), tasks=suite.tasks(), guards=guards).go()
    ends: dict[str, int] = {}
    for outcome in run.outcomes:
        ends[str(outcome.ending.end)] = ends.get(str(outcome.ending.end), 0) + 1
    after = lab.log.sql(
        """
        with calls as (select episode_id, step, name, status from events where run_id = ? and action = 'tool_called'),
        third as (
            select episode_id, step from calls where status = 'error'
            qualify row_number() over (partition by episode_id, name order by step) = 3
        )
        select count(*) from events join third using (episode_id)
        where events.action = 'generation' and events.step > third.step
        """,
        [run.run_id],
    ).fetchall()[0][0]
    assert after == 0, f"{after} model calls came after a third identical failure"
    calls = sum(outcome.ending.steps + outcome.ending.reflections for outcome in run.outcomes) / len(run.outcomes)
    return ends.get("diverged", 0), len(run.outcomes), ends, calls


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = hermes_lab.open(Path(folder) / "lab")
        off, count, ends_off, calls_off = diverged(lab, Guards(arguments=False, prechecks=False, repeats=False))
        on, _, ends_on, calls_on = diverged(lab, ALL_GUARDS)
    print(f"checks off: {off} of {count} diverge ({ends_off}), {calls_off:.1f} model calls an episode")
    print(f"checks on:  {on} of {count} diverge ({ends_on}), {calls_on:.1f} model calls an episode")
    if off:
        print(f"the share of diverging episodes is {100 * (1 - on / off):.0f}% lower with checks on")


if __name__ == "__main__":
    main()
