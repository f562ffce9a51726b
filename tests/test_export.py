"""Exporting: the same rows in a new lab that stands on its own, or nothing at all."""

import pytest
from log_samples import append, event, new_lab, stream, tree

from hermes_lab import payload
from hermes_lab.errors import EventError, HermesLabError, MissingError, QueryError, WriteError
from hermes_lab.lab import open_lab
from hermes_lab.log import export as exporting
from hermes_lab.log import files, spill
from hermes_lab.log.layout import Layout

TASKS = ["t1", "任务二", "t'3", "🚀", "lone \ud800"]
SHARED = payload.dumps({"内容": "🚀" * 800})


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A lab with sealed days, long payloads, odd text and live events; tests only read it."""
    lab = new_lab(tmp_path_factory.mktemp("export") / "lab", "spill_over = 1024\nthin = { evaluated = 3 }")
    append(lab, stream(1, 4, 10, TASKS, observation="看\x00\ud83d"), seal=True)
    append(lab, [event(task_id="t1", output=SHARED), event(task_id="任务二", output=SHARED)], seal=True)
    append(lab, [event(task_id="t1", observation="独" * 1000), event(task_id=None, name="no task")])
    return lab


ALL = "select * from events order by event_id"


def test_everything_is_exported_row_by_row(full, tmp_path):
    done = full.export(tmp_path / "出口")
    copy = open_lab(tmp_path / "出口", create=False)
    assert copy.log.sql(ALL).fetchall() == full.log.sql(ALL).fetchall()
    assert list(copy.log.events()) == list(full.log.events())
    assert (done.events, done.payloads) == (44, 2)
    assert done.segments == copy.log.status()["segments"]
    assert copy.log.status()["live_files"] == 0
    assert (copy.log.verify().problems, copy.log.verify().notes) == ([], [])
    assert copy.settings == full.settings
    assert list(copy.log.layout.folder.rglob("*.tmp")) == []


@pytest.mark.parametrize(
    ("where", "params"),
    [
        ("task_id = 't1'", []),
        ("task_id = ?", ["任务二"]),
        ("task_id in ($a, $b)", {"a": "t'3", "b": "🚀"}),
        ("ts >= '2026-11-03'", []),
        ("ts < '2026-11-02' or task_id is null", []),
        ("status = 'error' and step > 2", []),
        ("episode_id like '🚀%' or action = 'generation'", []),
        ("task_id in (select task_id from events where name = 'search')", []),
        ("true order by ts desc limit 7", []),
    ],
)
def test_a_slice_is_what_its_condition_says(full, tmp_path, where, params):
    full.export(tmp_path / "out", where, params)
    copy = open_lab(tmp_path / "out", create=False)
    tail = "" if "limit" in where else " order by event_id"
    expected = sorted(map(repr, full.log.sql(f"select * from events where {where}{tail}", params).fetchall()))
    assert expected
    assert sorted(map(repr, copy.log.sql(ALL).fetchall())) == expected
    assert (copy.log.verify().problems, copy.log.verify().notes) == ([], [])
    stubs = "select output from stored_events union select observation from stored_events"
    needed = copy.log.sql(f"select count(*) from ({stubs}) where starts_with(output, '{{\"$spill')").fetchall()[0][0]
    assert len(list(copy.log.layout.spill.glob("*/*.gz"))) == needed


def test_a_condition_on_a_long_payload_sees_the_payload(full, tmp_path):
    assert full.export(tmp_path / "out", "output like '%🚀🚀%'").events == 2


def test_an_export_can_be_exported_and_written_to(full, tmp_path):
    full.export(tmp_path / "one", "task_id = 't1'")
    one = open_lab(tmp_path / "one")
    append(one, [event(task_id="t1", name="later")], seal=True)
    one.export(tmp_path / "two")
    two = open_lab(tmp_path / "two")
    assert list(two.log.events()) == list(one.log.events())
    assert one.log.verify().ok
    assert two.log.verify().ok


def test_a_folder_that_holds_something_is_refused_and_left_alone(full, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(WriteError, match="not an empty folder"):
        full.export(tmp_path / "out")
    assert tree(tmp_path / "out") == {"notes.txt": b"mine"}
    full.export(tmp_path / "first")
    before = tree(tmp_path / "first")
    with pytest.raises(WriteError, match="not an empty folder"):
        full.export(tmp_path / "first", "task_id = 't1'")
    with pytest.raises(WriteError, match="holds a log already"):
        exporting.export(full.log.snapshot(), "true", (), Layout(tmp_path / "first" / "events"))
    assert tree(tmp_path / "first") == before


def test_an_empty_folder_is_fine(full, tmp_path):
    (tmp_path / "out").mkdir()
    assert full.export(tmp_path / "out", "task_id is null").events == 1


def test_a_file_is_refused(full, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(HermesLabError):
        full.export(tmp_path / "out")


FAILURES = [
    ("false", MissingError),
    ("nope = 1", QueryError),
    ("true; drop view events", QueryError),
    ("1 = (with w as (delete from live_events returning 1) select count(*) from w)", QueryError),
    ("task_id = ", QueryError),
]


@pytest.mark.parametrize(("where", "error"), FAILURES)
def test_nothing_is_left_after_a_failure(full, tmp_path, where, error):
    before = tree(full.path)
    with pytest.raises(error):
        full.export(tmp_path / "out", where)
    assert tree(tmp_path) == {}
    assert not (tmp_path / "out" / "events").exists()
    assert tree(full.path) == before


def test_not_even_the_new_folder_is_left_after_a_failure(full, tmp_path):
    with pytest.raises(MissingError):
        full.export(tmp_path / "out", "false")
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_when_a_row_cannot_be_worked_out(full, tmp_path):
    with pytest.raises(QueryError):
        full.export(tmp_path / "out", "error(name)::boolean")
    assert not (tmp_path / "out" / "events").exists()


def test_nothing_is_left_when_a_long_payload_is_lost(tmp_path):
    lab = new_lab(tmp_path / "lab", "spill_over = 1024")
    append(lab, [event(output=SHARED)], seal=True)
    spill.file_of(lab.log.layout.spill, next(lab.log.layout.spill.glob("*/*.gz")).stem).unlink()
    with pytest.raises(HermesLabError, match="exporting"):
        lab.export(tmp_path / "out")
    assert tree(tmp_path / "out") == {}
    assert not (tmp_path / "out" / "events").exists()


def test_nothing_is_left_when_the_disk_is_full(full, tmp_path, monkeypatch):
    def full_disk(path, data):
        raise OSError(28, "No space left on device", str(path))

    snapshot = full.log.snapshot()
    monkeypatch.setattr(files, "atomic_write", full_disk)
    with pytest.raises(WriteError, match="the disk is full"):
        exporting.export(snapshot, "true", (), Layout(tmp_path / "out" / "events"))
    assert not (tmp_path / "out" / "events").exists()


def test_a_damaged_payload_is_not_exported_as_if_it_were_whole(tmp_path):
    lab = new_lab(tmp_path / "lab", "spill_over = 1024")
    append(lab, [event(output=SHARED)], seal=True)
    path = next(lab.log.layout.spill.glob("*/*.gz"))
    path.write_bytes(b"garbage")
    try:
        lab.export(tmp_path / "out")
    except (HermesLabError, EventError):
        return
    assert [problem.kind for problem in open_lab(tmp_path / "out").log.verify().problems] == ["changed"]
