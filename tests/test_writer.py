"""The writer: what is acknowledged is on the disk, secrets are not, and long payloads come back."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hermes_lab import Action, Lab, Status
from hermes_lab.errors import EventError, WriteError
from hermes_lab.log import Log, LogSettings
from hermes_lab.log.redact import Redactor

KEY = "sk-" + "a1B2c3D4" * 5
PASSWORD = "hunter2-" + "x9Y8z7"
ENVIRON = {"SHOP_API_KEY": "shop-" + "q8W7e6R5t4"}


def everything_below(folder: Path) -> bytes:
    """Return the bytes of every file, spilled ones unpacked."""
    parts = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        parts.append(gzip.decompress(data) if path.suffix == ".gz" else data)
    return b"\n".join(parts)


def live_lines(log: Log) -> list[dict[str, object]]:
    return [json.loads(line) for path in log.layout.live.glob("*.jsonl") for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("durability_ms", [0, 50])
@pytest.mark.parametrize("length", [10, 100_000], ids=["in the line", "spilled"])
def test_secrets_never_touch_the_disk(tmp_path: Path, durability_ms: int, length: int) -> None:
    log = Log(tmp_path / "events")
    filler = "很长" * length
    with log.writer(durability_ms=durability_ms, redactor=Redactor(ENVIRON)) as writer:
        writer.record(Action.FEEDBACK, name="before", input={"text": filler})
        writer.record(
            Action.TOOL_CALLED,
            name="http.get",
            task_id=f"task {KEY}",
            input={"headers": {"Authorization": f"Bearer {KEY}"}, "body": json.dumps({"api_key": KEY}), "pad": filler},
            output={
                "log": f"postgres://shop:{PASSWORD}@db/orders\n{ENVIRON['SHOP_API_KEY']}",
                "pad": filler,
            },
            observation=f"used {KEY} {filler}",
        )
        writer.record(Action.FEEDBACK, name="after", output={"text": filler})
        writer.flush()
        on_disk = everything_below(tmp_path)
    sealed = log.seal()
    assert sealed.rows == 3
    rows = log.sql("select name, task_id, input, output, observation from events order by event_id").fetchall()
    for secret in (KEY, PASSWORD, *ENVIRON.values()):
        assert secret.encode() not in on_disk
        assert secret not in repr(rows)
    assert [row[0] for row in rows] == ["before", "http.get", "after"]
    assert json.loads(rows[1][2])["pad"] == filler
    assert json.loads(rows[1][3])["log"].startswith("postgres://shop:[redacted")
    assert json.loads(rows[0][2]) == json.loads(rows[2][3]) == {"text": filler}


def test_at_durability_0_an_event_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    log = Log(tmp_path / "events")
    with log.writer(durability_ms=0) as writer:
        for number in range(5):
            event = writer.record(Action.FEEDBACK, step=number)
            assert live_lines(log)[-1]["event_id"] == event.event_id
            assert writer.unsaved == 0


def test_at_durability_50_an_event_gets_there_by_itself(tmp_path: Path) -> None:
    log = Log(tmp_path / "events")
    with log.writer(durability_ms=50) as writer:
        writer.record(Action.FEEDBACK)
        deadline = time.monotonic() + 10
        while writer.unsaved:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert len(live_lines(log)) == 1


def test_a_full_file_is_closed_and_sealed_while_writing_goes_on(tmp_path: Path) -> None:
    log = Log(tmp_path / "events", LogSettings(rotate_at=20_000, seal_at=20_000))
    with log.writer(durability_ms=0) as writer:
        for number in range(500):
            writer.record(Action.TOOL_CALLED, name="find", step=number, output={"text": "x" * 200})
    assert log.status()["segments"] >= 2
    assert log.sql("select count(*), count(distinct event_id), max(step) from events").fetchall() == [(500, 500, 499)]
    assert log.verify().ok


def test_the_order_of_a_thread_is_the_order_of_its_ids(tmp_path: Path) -> None:
    log = Log(tmp_path / "events")
    with log.writer() as writer:

        def work(name: str) -> None:
            for step in range(200):
                writer.record(Action.FEEDBACK, name=name, step=step)

        threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_id = """
        select name, list(step order by event_id) = list(step order by step), count(*)
        from events group by 1 order by 1
    """
    assert log.sql(by_id).fetchall() == [(f"t{i}", True, 200) for i in range(4)]


def test_an_event_that_is_refused_leaves_no_trace(lab: Lab) -> None:
    with lab.log.writer(durability_ms=0) as writer:
        for columns in ({"latency_ms": float("nan")}, {"step": -1}, {"input": {1: 2}}, {"status": "fine"}):
            with pytest.raises(EventError):
                writer.record(Action.FEEDBACK, **columns)
        writer.record(Action.FEEDBACK, name="赞", status=Status.OK)
    assert lab.log.sql("select name from events").fetchall() == [("赞",)]


def test_closing_twice_is_fine_and_appending_afterwards_is_not(lab: Lab) -> None:
    writer = lab.log.writer()
    writer.record(Action.FEEDBACK)
    writer.close()
    writer.close()
    with pytest.raises(WriteError, match="closed"):
        writer.record(Action.FEEDBACK)


def test_a_writer_that_writes_nothing_leaves_no_file(lab: Lab) -> None:
    with lab.log.writer():
        pass
    assert list(lab.log.layout.live.iterdir()) == []


def test_a_writer_that_nobody_closed_is_closed_at_exit(tmp_path: Path) -> None:

    program = (
        "import sys, hermes_lab; w = hermes_lab.open(sys.argv[1]).log.writer(durability_ms=60_000);"
        "w.record(hermes_lab.Action.FEEDBACK)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "lab")], check=True)
    assert len(live_lines(Log(tmp_path / "lab" / "events"))) == 1
