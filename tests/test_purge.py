"""Purging: what was purged is nowhere in the lab any more, everything else is as it was, and it is recorded."""

import gzip
import json
import types

import duckdb
import pytest
from log_samples import DAY0, append, event, line, new_lab, stream

from hermes_lab import payload
from hermes_lab.errors import BusyError, MissingError
from hermes_lab.log import files, purge

SECRET = "wally-王小明-🕵"
IDS = [
    "t1",
    "任务-二",
    "it's",
    'say "hi"',
    "a\\b",
    "nul\x00",
    "🚀",
    "lone \ud800",
    "\U0010f800",
    "x' or '1'='1",
    "%",
    "a\nb",
    "t",
]


def mine(task, **columns):
    return event(task_id=task, **columns)


def everything_below(folder):
    """Yield each file's name and every form of its content: raw, unzipped, and as text of Parquet cells."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield path, data
        if data[:2] == b"\x1f\x8b":
            yield path, gzip.decompress(data)
        if data[:4] == b"PAR1":
            with duckdb.connect() as connection:
                rows = connection.execute("select * from read_parquet(?)", [str(path)]).fetchall()
            yield path, repr(rows).encode(errors="surrogatepass")


def where_is(folder, text):
    """Return the files below `folder` that hold `text` in any spelling that the log or JSON may give it."""
    stored = payload.store_text(text)
    spellings = {
        text.encode(errors="surrogatepass"),
        stored.encode(),
        json.dumps(text)[1:-1].encode(),
        json.dumps(stored, ensure_ascii=False)[1:-1].encode(),
        json.dumps(json.dumps(stored, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1].encode(),
        repr(stored)[1:-1].encode(),
    }
    return sorted({str(path) for path, data in everything_below(folder) for s in spellings if s in data})


def others_of(lab):
    return list(lab.log.events("task_id is distinct from $t and action <> 'purged'", {"t": "victim"}))


@pytest.fixture
def busy_soon(monkeypatch):
    """Waiting for a lock is over at once."""
    ticks = iter(range(0, 10**9, 100))
    clock = types.SimpleNamespace(monotonic=lambda: next(ticks), sleep=lambda s: None)
    monkeypatch.setattr(files, "time", clock)


def full_lab(folder):
    """A lab with the victim's data in every kind of place."""
    lab = new_lab(folder, "spill_over = 1024")
    long_own, long_shared = payload.dumps(SECRET * 200), payload.dumps("shared" * 400)
    for _ in range(2):  # two segments that compaction merges, and keeps as retired files
        append(lab, [mine("victim", name=SECRET, observation=SECRET), *stream(1, 2, 3, ["a", "乙"])], seal=True)
    lab.log.compact()
    append(lab, [mine("victim", output=long_own), mine("victim", output=long_shared)], seal=True)
    append(lab, [mine("a", output=long_shared), mine("乙", name="untouched")], seal=True)
    append(lab, stream(2, 3, 4, ["a", "victim"], observation="of both"), seal=True)
    # Live: whole, of a writer that died with half a line, and lines that are no events.
    append(lab, [mine("victim", input=payload.dumps({"who": SECRET})), mine("a", input="1")])
    bad = line(task_id="victim", name=SECRET).replace(b'"ts":"', b'"ts":"x')
    (lab.log.layout.live / "dead.jsonl").write_bytes(
        line(task_id="victim", name=SECRET) + bad + b"not of that one\n" + line(task_id="victim", name=SECRET)[:-4]
    )
    return lab


def test_no_byte_of_the_purged_data_is_left_anywhere(tmp_path):
    lab = full_lab(tmp_path / "lab")
    assert len(where_is(lab.path, SECRET)) >= 5
    before = others_of(lab)
    assert len(before) > 10
    retired = [p for p in lab.log.layout.folder.glob("date=*/*.parquet") if str(p) in where_is(lab.path, SECRET)]
    assert len(retired) >= 3
    count = lab.log.sql("select count(*) from events where task_id = 'victim'").fetchall()[0][0]

    done = lab.log.purge("task_id", "victim", by="王", reason="她要求的")

    assert (done.events, done.payloads, done.set_aside) == (count, 1, 1)
    assert where_is(lab.path, SECRET) == []
    assert where_is(lab.path, "victim") == []
    assert others_of(lab) == before
    assert lab.log.verify().problems == []
    assert lab.log.verify().notes == []
    assert lab.log.sql("select count(*) from events where task_id = 'victim'").fetchall() == [(0,)]
    kept = [json.loads(row)["raw"] for row in (lab.log.layout.rejected / "dead.jsonl").read_bytes().splitlines()]
    assert kept == ["not of that one"]


def test_a_payload_that_others_share_stays_and_one_that_nobody_needs_goes(tmp_path):
    lab = full_lab(tmp_path / "lab")
    lab.log.purge("task_id", "victim", by="me", reason="asked")
    assert len(list(lab.log.layout.spill.glob("*/*.gz"))) == 1
    assert lab.log.sql("select output from events where length(output) > 1000").fetchall() == [
        ('"' + "shared" * 400 + '"',)
    ]
    lab.log.purge("task_id", "a", by="me", reason="asked")
    assert list(lab.log.layout.spill.glob("*/*.gz")) == []


@pytest.mark.parametrize("column", ["input", "output", "observation"])
def test_a_payload_shared_within_one_segment_stays(tmp_path, column):
    lab = new_lab(tmp_path / "lab", "spill_over = 1024")
    long = payload.dumps("共" * 2000)
    made = [
        mine("victim", **{column: long}),
        mine("a", **{column: long}),
        mine("b", **{column: payload.dumps("x" * 2000)}),
    ]
    append(lab, made, seal=True)
    assert lab.log.purge("task_id", "victim", by="me", reason="asked").payloads == 0
    assert list(lab.log.events("action <> 'purged'")) == made[1:]
    assert lab.log.verify().ok
    assert lab.log.purge("task_id", "a", by="me", reason="asked").payloads == 1
    assert list(lab.log.events("action <> 'purged'")) == made[2:]


def test_a_purge_is_recorded_by_the_hash_of_the_id(tmp_path):
    lab = full_lab(tmp_path / "lab")
    done = lab.log.purge("task_id", "victim", by="王", reason="她要求的")
    record = next(iter(lab.log.events("action = 'purged'")))
    digest = purge.id_hash("victim")
    assert (record.name, record.status, record.task_id) == ("王", "ok", None)
    assert payload.loads(record.input) == {"reason": "她要求的"}
    assert payload.loads(record.output) == {"column": "task_id", "id_sha256": digest, "by": "王", "events": done.events}
    entry = json.loads(lab.log.layout.manifest.read_bytes().splitlines()[-1])
    assert entry["kind"] == "purge"
    assert entry["note"] == {
        "column": "task_id", "id_sha256": digest, "by": "王", "events": done.events, "reason": "她要求的",
    }  # fmt: skip
    assert purge.purged_ids(lab.log.layout) == {("task_id", digest)}


@pytest.mark.parametrize("identifier", IDS, ids=ascii)
@pytest.mark.parametrize("column", ["task_id", "episode_id"])
def test_any_id_is_purged_and_no_other(tmp_path, column, identifier):
    lab = new_lab(tmp_path / "lab")
    made = [event(**{column: each}, name=f"n{i}") for i, each in enumerate([*IDS, None, "t10", "T1"])]
    append(lab, made, seal=True)
    done = lab.log.purge(column, identifier, by="me", reason="asked")
    assert (done.events, done.segments, done.payloads, done.set_aside) == (1, 1, 0, 0)
    kept = [e for e in made if getattr(e, column) != identifier]
    assert list(lab.log.events("action <> 'purged'")) == kept
    assert lab.log.verify().ok


@pytest.mark.parametrize("identifier", [i for i in IDS if i not in ("%", "t", "t1", "nul\x00")], ids=ascii)
def test_set_aside_lines_of_any_id_are_purged(tmp_path, identifier):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id=identifier), event(task_id="other")])
    bad = line(task_id=identifier).replace(b'"ts":"', b'"ts":"x')
    (lab.log.layout.live / "dead.jsonl").write_bytes(bad + b"garbage\n")
    lab.log.seal()
    assert lab.log.purge("task_id", identifier, by="me", reason="asked").set_aside == 1
    assert where_is(lab.path, identifier) == []


def test_set_aside_lines_of_other_ids_stay(tmp_path):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="t1")])
    (lab.log.layout.live / "dead.jsonl").write_bytes(line(task_id="t10").replace(b'"ts":"', b'"ts":"x'))
    lab.log.seal()
    assert lab.log.purge("task_id", "t1", by="me", reason="asked").set_aside == 0


@pytest.mark.parametrize("place", ["spill/ab/.x.gz.99.tmp", "rejected/.dead.jsonl.99.tmp", "date=2026-11-01/x.tmp"])
def test_what_a_crash_left_half_written_goes_with_a_purge(tmp_path, place):
    lab = full_lab(tmp_path / "lab")
    left = lab.log.layout.folder / place
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(SECRET.encode())
    lab.log.purge("task_id", "victim", by="me", reason="asked")
    assert where_is(lab.path, SECRET) == []


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize(
    ("column", "identifier"), [("task_id", "nobody"), ("episode_id", "a"), ("task_id", "A"), ("task_id", "")]
)
def test_an_unknown_id_is_missing_and_nothing_changes(tmp_path, column, identifier, seal):
    lab = new_lab(tmp_path / "lab")
    made = append(lab, [event(task_id="a", episode_id="e")], seal=seal)
    with pytest.raises(MissingError, match="nothing was purged"):
        lab.log.purge(column, identifier, by="me", reason="asked")
    assert list(lab.log.events()) == made
    assert lab.log.verify().problems == []
    assert purge.purged_ids(lab.log.layout) == set()


def test_a_purge_waits_for_no_writer(tmp_path, busy_soon):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="a")])
    with lab.log.writer() as writer:
        writer.append(event(task_id="a"))
        writer.flush()
        with pytest.raises(BusyError, match="a writer has this log open"):
            lab.log.purge("task_id", "a", by="me", reason="asked")
    assert lab.log.sql("select count(*) from events").fetchall() == [(2,)]
    assert lab.log.purge("task_id", "a", by="me", reason="asked").events == 2


def test_a_second_purge_of_the_same_id_finds_nothing(tmp_path):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="a", ts=DAY0), event(task_id="b")])
    lab.log.purge("task_id", "a", by="me", reason="asked")
    with pytest.raises(MissingError):
        lab.log.purge("task_id", "a", by="me", reason="asked")
    append(lab, [event(task_id="a")])
    assert lab.log.purge("task_id", "a", by="me", reason="asked").events == 1


def test_who_and_why_are_redacted(tmp_path):
    lab = new_lab(tmp_path / "lab")
    append(lab, [event(task_id="a")])
    lab.log.purge("task_id", "a", by="me", reason="the password=hunter2secret was in it")
    assert where_is(lab.path, "hunter2secret") == []
