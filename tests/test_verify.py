"""Checking a log: every change of what was sealed is found and named, and nothing else is."""

import datetime as dt
import json
import shutil

import msgspec
import pytest
from log_samples import DAY0, append, event, line, new_lab, stream, tree

from hermes_lab import payload
from hermes_lab.errors import CorruptLogError, HermesLabError
from hermes_lab.lab import open_lab
from hermes_lab.log.manifest import entries

TASKS = ["t1", "任务二", "🚀"]


def build(folder, *, spill=True, live=True):
    """A lab with a segment a day for three days, long payloads, and live events."""
    lab = new_lab(folder, "spill_over = 1024")
    for day in range(3):
        made = [event(ts=DAY0 + dt.timedelta(days=day, hours=h), task_id=t, step=h) for h, t in enumerate(TASKS)]
        if spill:
            made.append(event(ts=DAY0 + dt.timedelta(days=day), output=payload.dumps(f"长{day}" * 1000)))
        append(lab, made, seal=True)
    if live:
        append(lab, [event(task_id="live", observation="活")])
        append(lab, [event(task_id="live", output=payload.dumps("live" * 1000))] if spill else [event()])
    return lab


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two such labs, with long payloads and without; tests work on copies."""
    folder = tmp_path_factory.mktemp("verify")
    return {spill: build(folder / str(spill), spill=spill) for spill in (True, False)}


@pytest.fixture
def lab(built, tmp_path):
    shutil.copytree(built[True].path, tmp_path / "实验")
    return open_lab(tmp_path / "实验")


@pytest.fixture
def lean(built, tmp_path):
    """A copy without long payloads."""
    shutil.copytree(built[False].path, tmp_path / "实验")
    return open_lab(tmp_path / "实验")


def segments(lab):
    return sorted(lab.log.layout.folder.glob("date=*/*.parquet"))


def spills(lab):
    return sorted(lab.log.layout.spill.glob("*/*.gz"))


def live_files(lab):
    return sorted(lab.log.layout.live.glob("*.jsonl"))


def manifest_lines(lab):
    return lab.log.layout.manifest.read_bytes().splitlines(keepends=True)


def flip(path, place, bit=1):
    data = bytearray(path.read_bytes())
    data[place] ^= bit
    path.write_bytes(data)


def found(lab, **options):
    """What a check finds, as pairs of kind and place below the log's folder."""
    problems = lab.log.verify(**options).problems
    folder = str(lab.log.layout.folder) + "/"
    return sorted((problem.kind, problem.where.removeprefix(folder)) for problem in problems)


def name(lab, path):
    return str(path.relative_to(lab.log.layout.folder))


def test_a_clean_log_is_ok_and_counted(lab):
    checked = lab.log.verify()
    assert checked.ok
    assert (checked.problems, checked.notes) == ([], [])
    assert (checked.entries, checked.segments, checked.rows) == (3, 3, 12)
    assert (checked.live_files, checked.live_rows) == (2, 2)
    assert (checked.torn_bytes, checked.rejected) == (0, 0)
    assert checked.head == json.loads(manifest_lines(lab)[-1])["hash"]
    assert lab.log.verify(expect_head=checked.head).ok


def test_an_empty_log_is_ok(tmp_path):
    lab = new_lab(tmp_path / "lab")
    checked = lab.log.verify()
    assert checked.ok
    assert (checked.entries, checked.segments, checked.rows, checked.head) == (0, 0, 0, "0" * 64)


def test_a_log_is_ok_after_every_step_of_its_life(tmp_path):
    lab = build(tmp_path / "lab")
    heads = ["0" * 64, lab.log.verify().head]
    for step in (
        lab.log.seal,
        lambda: append(lab, stream(5, 3, 4, TASKS), seal=True),
        lab.log.compact,
        lambda: append(lab, stream(6, 2, 4, ["t1"])),
        lambda: lab.log.purge("task_id", "t1", by="某人", reason="asked"),
        lab.log.compact,
        lambda: lab.log.purge("task_id", "live", by="某人", reason="asked"),
        lab.log.seal,
    ):
        step()
        checked = lab.log.verify(expect_head=heads[-1])
        assert (checked.problems, checked.notes) == ([], [])
        heads.append(checked.head)
    for head in heads:
        assert lab.log.verify(expect_head=head).ok


def test_what_a_crash_leaves_behind_is_no_problem(lab):
    layout = lab.log.layout
    torn = line(task_id="torn")[:-20]
    unfinished = live_files(lab)[0]
    unfinished.write_bytes(unfinished.read_bytes() + torn)
    (layout.live / "x.new").write_bytes(b"")
    (segments(lab)[0].parent / "x.tmp").write_bytes(b"half a segment")
    with layout.manifest.open("ab") as file:
        file.write(manifest_lines(lab)[0][:100])
    unnamed = layout.folder / "date=2026-11-01" / "renamed.parquet"
    unnamed.write_bytes(b"a segment that has its name already")
    pending = {"hash": "f" * 64, "renamed": [name(lab, unnamed)], "delete": []}
    layout.pending.write_text(json.dumps(pending), encoding="utf-8")
    (layout.spill / "ab").mkdir(exist_ok=True)
    shutil.copy(spills(lab)[0], layout.spill / "ab" / f"{'ab' * 32}.gz")
    checked = lab.log.verify()
    assert checked.problems == []
    assert len(checked.notes) == 3
    assert lab.log.seal().torn_bytes == len(torn)
    checked = lab.log.verify()
    assert checked.problems == []
    assert not unnamed.exists()
    assert not list(layout.folder.rglob("*.tmp"))


@pytest.mark.parametrize("place", [0, 3, 100, 0.5, -1, -5, -60], ids=str)
@pytest.mark.parametrize("which", range(3))
def test_one_flipped_byte_of_a_segment_is_found(lean, which, place):
    path = segments(lean)[which]
    flip(path, int(path.stat().st_size * place) if isinstance(place, float) else place)
    assert found(lean) == [("changed", name(lean, path))]


@pytest.mark.parametrize("place", [-1, -60])
def test_one_flipped_byte_of_a_segment_is_found_where_there_are_long_payloads(lab, place):
    flip(segments(lab)[1], place)
    assert found(lab) == [("changed", name(lab, segments(lab)[1]))]


def test_every_flipped_byte_of_the_manifest_is_found(lean):
    """At some hundred places, each alone: found, and never a failure of the check itself."""
    whole = lean.log.layout.manifest.read_bytes()
    misses, failures = [], []
    for place in range(0, len(whole), 7):
        for bit in (1, 4, 32):
            lean.log.layout.manifest.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                if lean.log.verify().ok:
                    misses.append((place, bit))
            except HermesLabError as error:
                if "newer hermes-lab" not in str(error):
                    failures.append((place, bit, error))
    assert (misses, failures) == ([], [])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_edited_entry_of_the_manifest_is_named_and_nothing_else(lean, number):
    lines = manifest_lines(lean)
    edited = lines[number - 1].replace(b'"rows":3', b'"rows":4', 1)
    assert edited != lines[number - 1]
    lean.log.layout.manifest.write_bytes(b"".join([*lines[: number - 1], edited, *lines[number:]]))
    assert found(lean) == [("changed", f"manifest.jsonl line {number}")]


def test_an_unreadable_entry_of_the_manifest_is_named_and_nothing_else(lean):
    flip(lean.log.layout.manifest, 0)
    assert found(lean) == [("changed", "manifest.jsonl")]


def test_an_entry_that_claims_to_be_newer_is_found(lean):
    lines = manifest_lines(lean)
    newer = lines[1].replace(b'"format":1', b'"format":3')
    lean.log.layout.manifest.write_bytes(lines[0] + newer + lines[2])
    assert not lean.log.verify().ok


def test_a_forged_entry_with_a_hash_of_its_own_breaks_the_next(lean):

    chain = list(entries(lean.log.layout.manifest))
    forged = msgspec.structs.replace(chain[1], at=chain[1].at + dt.timedelta(seconds=1))
    chain[1] = msgspec.structs.replace(forged, hash=forged.digest())
    encode = msgspec.json.Encoder(order="deterministic").encode
    lean.log.layout.manifest.write_bytes(b"".join(encode(entry) + b"\n" for entry in chain))
    assert found(lean) == [("changed", "manifest.jsonl line 3")]


def test_a_dropped_entry_is_found_with_the_segment_that_it_listed(lean):
    lines = manifest_lines(lean)
    dropped = json.loads(lines[1])["add"][0]["path"]
    lean.log.layout.manifest.write_bytes(lines[0] + lines[2])
    assert found(lean) == [("added", dropped), ("changed", "manifest.jsonl line 2")]


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        ([1, 0, 2], [1, 2, 3]),
        ([0, 2, 1], [2, 3]),
        ([2, 1, 0], [1, 2, 3]),
        ([0, 0, 1, 2], [2, 3, 4]),
        ([0, 1, 1, 2], [3, 4]),
        ([0, 1, 2, 2], [4]),
    ],
)
def test_moved_and_doubled_entries_are_found(lean, order, wrong):
    lines = manifest_lines(lean)
    lean.log.layout.manifest.write_bytes(b"".join(lines[i] for i in order))
    assert found(lean) == [("changed", f"manifest.jsonl line {number}") for number in wrong]


def test_a_cut_end_of_the_manifest_is_found_by_the_expected_head(lean):
    head = lean.log.verify().head
    lines = manifest_lines(lean)
    cut = lean.log.layout.folder / json.loads(lines[2])["add"][0]["path"]
    lean.log.layout.manifest.write_bytes(lines[0] + lines[1])
    assert found(lean) == [("added", name(lean, cut))]
    cut.unlink()
    assert found(lean) == []
    assert found(lean, expect_head=head) == [("lost", "manifest.jsonl")]
    assert found(lean, expect_head=json.loads(lines[1])["hash"]) == []
    assert found(lean, expect_head="no hash at all") == [("lost", "manifest.jsonl")]


def test_a_lost_manifest_is_found(lean):
    head = lean.log.verify().head
    lean.log.layout.manifest.unlink()
    expected = [("added", name(lean, path)) for path in segments(lean)]
    assert found(lean) == expected
    assert found(lean, expect_head=head) == [*expected, ("lost", "manifest.jsonl")]


def test_a_deleted_segment_is_found(lab):
    lost = segments(lab)[1]
    lost.unlink()
    assert found(lab) == [("lost", name(lab, lost))]


@pytest.mark.parametrize("suffix", [".parquet", ".txt", ""])
def test_an_added_file_is_found(lab, suffix):
    added = segments(lab)[0].with_name(f"加{suffix}")
    shutil.copy(segments(lab)[1], added)
    assert found(lab) == [("added", name(lab, added))]


def test_a_segment_in_a_new_folder_is_found(lab):
    added = lab.log.layout.folder / "date=1999-01-01" / "x.parquet"
    added.parent.mkdir()
    shutil.copy(segments(lab)[0], added)
    assert found(lab) == [("added", name(lab, added))]


def test_a_renamed_segment_is_found(lab):
    old = segments(lab)[0]
    new = old.with_name("other.parquet")
    old.rename(new)
    assert found(lab) == sorted([("added", name(lab, new)), ("lost", name(lab, old))])


def test_two_swapped_segments_are_found(lab):
    one, other = segments(lab)[:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert found(lab) == sorted([("changed", name(lab, one)), ("changed", name(lab, other))])


def test_purged_segments_that_somebody_put_back_are_found(tmp_path):
    lab = build(tmp_path / "lab", spill=False)
    old = {path: path.read_bytes() for path in segments(lab)}
    lab.log.purge("task_id", "t1", by="me", reason="asked")
    for path, data in old.items():
        path.write_bytes(data)
    assert lab.log.sql("select count(*) from events where task_id = 't1'").fetchall() == [(0,)]
    assert found(lab) == sorted(("added", name(lab, path)) for path in old)


@pytest.mark.parametrize("place", [0, 1, 0.3, 0.9, -1, -5], ids=str)
def test_one_flipped_byte_of_a_spilled_payload_is_found(lab, place):
    for path in spills(lab):
        whole = path.read_bytes()
        flip(path, int(len(whole) * place) if isinstance(place, float) else place)
        assert found(lab) == [("changed", name(lab, path))]
        path.write_bytes(whole)
    assert found(lab) == []


def test_a_deleted_spilled_payload_is_found(lab):
    for path in spills(lab):
        whole = path.read_bytes()
        path.unlink()
        assert found(lab) == [("lost", name(lab, path))]
        path.write_bytes(whole)


def test_a_changed_and_packed_again_payload_is_found(lab):
    one, other = spills(lab)[:2]
    one.write_bytes(other.read_bytes())
    assert found(lab) == [("changed", name(lab, one))]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"garbage" + data,
        lambda data: data.replace(b"{", b"[", 1),
        lambda data: data.replace(b'"ts"', b'"tx"', 1),
        lambda data: data.replace(b'"event_id":"', b'"event_id":"\x01', 1),
        lambda data: data.replace(b"}\n", b"\n", 1),
    ],
)
def test_a_damaged_line_of_a_live_file_is_named(lab, damage):
    path = live_files(lab)[0]
    path.write_bytes(damage(path.read_bytes()))
    assert found(lab) == [("changed", f"{name(lab, path)} line 1")]


@pytest.mark.parametrize(
    "change", [(b"tool_called", b"tool_cXlled"), ("活".encode(), b"\xff\xff\xff"), (b"00Z", b"00")]
)
def test_a_line_of_a_live_file_that_is_no_event_any_more_is_named(lab, change):
    path = next(path for path in live_files(lab) if change[0] in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(*change))
    assert found(lab) == [("changed", f"{name(lab, path)} line 1")]


def test_a_live_line_that_claims_to_be_newer_is_found(lab):
    path = live_files(lab)[0]
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":9'))
    assert not lab.log.verify().ok


def test_a_damaged_list_of_the_step_under_way_is_found(lab):
    lab.log.layout.pending.write_bytes(b"garbage")
    assert not lab.log.verify().ok


def test_several_faults_are_all_named(lab):
    first, second, third = segments(lab)
    first.unlink()
    added = second.with_name("new.parquet")
    shutil.copy(third, added)
    spills(lab)[0].write_bytes(b"")
    path = live_files(lab)[0]
    path.write_bytes(path.read_bytes() + b"garbage\n")
    names = {where for _, where in found(lab)}
    assert {name(lab, first), name(lab, added), f"{name(lab, path)} line 2"} <= names
    assert len(names) in (3, 4)  # the payload may have been one of the lost segment


def test_compaction_does_not_launder_a_changed_segment(tmp_path):
    lab = new_lab(tmp_path / "lab")
    for i in range(3):
        append(lab, [event(task_id=f"t{i}", ts=DAY0)], seal=True)
    changed = segments(lab)[1]
    whole = changed.read_bytes()
    # A valid Parquet file with other events in it.
    shutil.copy(segments(lab)[0], changed)
    manifest = lab.log.layout.manifest.read_bytes()
    with pytest.raises(CorruptLogError, match=f"{changed.name} was changed after it was sealed"):
        lab.log.compact()
    assert lab.log.layout.manifest.read_bytes() == manifest
    assert found(lab) == [("changed", name(lab, changed))]
    with pytest.raises(CorruptLogError, match="was changed after it was sealed"):
        lab.log.purge("task_id", "t1", by="me", reason="asked")
    assert found(lab) == [("changed", name(lab, changed))]
    changed.write_bytes(whole)
    assert lab.log.compact().removed == 3
    assert lab.log.verify().ok
    assert lab.log.sql("select task_id from events order by 1").fetchall() == [("t0",), ("t1",), ("t2",)]


def test_compaction_refuses_a_lost_segment(tmp_path):
    lab = new_lab(tmp_path / "lab")
    for i in range(2):
        append(lab, [event(task_id=f"t{i}")], seal=True)
    segments(lab)[0].unlink()
    with pytest.raises(CorruptLogError, match="is lost"):
        lab.log.compact()
    assert len(segments(lab)) == 1


def test_checking_changes_nothing(lab):

    before = tree(lab.path)
    flip(segments(lab)[0], 20)
    changed = tree(lab.path)
    lab.log.verify(expect_head="x")
    assert tree(lab.path) == changed != before
