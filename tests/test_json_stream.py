"""The pieces of JSON files of any layout are the same however small the reader's steps are, and survive damage."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.importers.reading import json_window
from hermes_lab.importers.reading.json_stream import Broken, JsonReader, Piece

CONTAINERS = frozenset({"groups", "rows"})
LEAVES = frozenset({"rows"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["id", "text", "more"]), JSON, min_size=1), max_size=6)


def pieces(folder: Path, text: str | bytes) -> list[Piece | Broken]:
    path = folder / "values.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return list(JsonReader(path, CONTAINERS, LEAVES, r'\{\s*"id"').pieces())


def values(found: list[Piece | Broken]) -> list[Any]:
    return [(piece.key, piece.value) for piece in found if isinstance(piece, Piece)]


@pytest.fixture(params=[1, 7, 1 << 20])
def _steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_window, "_CHUNK", request.param)
    monkeypatch.setattr(json_window, "LINE_LIMIT", 10 if request.param < 100 else 1 << 23)


@pytest.mark.usefixtures("_steps")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_rows_come_out_of_every_layout(rows: list[Any], indent: int | None, ascii_only: bool, tmp_path: Path) -> None:
    def text(value: Any) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    found = values(pieces(tmp_path, "\n".join(text(row) for row in rows)))
    assert found == [(None, row) for row in rows]
    assert values(pieces(tmp_path, text(rows))) == found
    document = {"about": 1, "groups": [{"name": "a", "rows": rows}, {"rows": rows, "name": "b"}]}
    expected = [("rows", row) for row in rows]
    everything = [*expected, ("groups", {"name": "a"}), *expected, ("groups", {"name": "b"}), (None, {"about": 1})]
    assert values(pieces(tmp_path, text(document))) == everything
    assert values(pieces(tmp_path, gzip.compress(text(document).encode("utf-8", "surrogatepass")))) == everything


@pytest.mark.usefixtures("_steps")
def test_pieces_know_the_objects_around_them_and_their_place(tmp_path: Path) -> None:
    document = {"groups": [{"name": "a", "rows": [{"id": 1}]}, {"name": "b", "rows": [{"id": 2}]}]}
    found = pieces(tmp_path, json.dumps(document, indent=1))
    assert [(p.value, p.parents, p.where) for p in found if isinstance(p, Piece)] == [
        ({"id": 1}, (1, 2), "line 6, character 5"),
        ({"name": "a"}, (1, 2), "line 3, character 3"),
        ({"id": 2}, (1, 3), "line 14, character 5"),
        ({"name": "b"}, (1, 3), "line 11, character 3"),
    ]


@pytest.mark.usefixtures("_steps")
@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('{"id": 1}\n{"id": 2, "x":\n{"id": 3}\n', [1, 3], ["the file ends in the middle"]),
        ('{"id": 1}\n{"id": 2, x}\n{"id": 3}\n', [1, 3], ["a key is missing"]),
        ('{"id": 1}\nno\n{"id": 3}\n', [1, 3], ["not JSON"]),
        ('{"id": 1}\n}\n{"id": 3}\n', [1, 3], ["not JSON"]),
        ('{"id": 1}\n{"id": 2', [1], ["the file ends in the middle"]),
        ('{"rows": [{"id": 1}, {"id": "2}, {"id": 3}, {"id": 4}]}', [1, 3, 4], None),
        ('{"rows": [{"id": 1}, {"id" 2}, {"id": 3}]}', [1, 3], None),
        ('{"rows": [{"id": 1}, {"id": 2}', [1, 2], ["the file ends in the middle"]),
        ('[{"id": 1}, {"id": 2} {"id": 3}]', [1, 2, 3], None),
    ],
)
def test_what_is_broken_costs_only_itself(text: str, good: list[int], bad: list[str] | None, tmp_path: Path) -> None:
    found = pieces(tmp_path, text)
    assert [value["id"] for _, value in values(found)] == good
    if bad is not None:
        assert [piece.reason for piece in found if isinstance(piece, Broken)][: len(bad)] == bad


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from('{}[]",:\\ \n1a') | st.characters(), max_size=80))
def test_any_text_ends(text: str, tmp_path: Path) -> None:
    assert all(isinstance(piece, Piece | Broken) for piece in pieces(tmp_path, text))


def test_a_cut_off_gzip_file_gives_what_it_has(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"id": 1}\n' * 50_000)
    found = pieces(tmp_path, packed[:-20])
    assert isinstance(found[-1], Broken)
    assert "gzip" in found[-1].reason
    assert len(values(found)) > 100


def test_utf_16_is_read(tmp_path: Path) -> None:
    assert values(pieces(tmp_path, '{"id": "中文"}\n{"id": 2}'.encode("utf-16"))) == [
        (None, {"id": "中文"}),
        (None, {"id": 2}),
    ]


def test_memory_stays_the_same_for_a_large_document_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_window, "LINE_LIMIT", 1 << 20)
    row = json.dumps({"id": "x" * 1000})
    path = tmp_path / "large.json"
    with path.open("w", encoding="utf-8") as file:
        file.write('{"rows": [' + ", ".join([row] * 40_000) + "]}")
    tracemalloc.start()
    try:
        count = sum(1 for _ in JsonReader(path, CONTAINERS, LEAVES, r'\{\s*"id"').pieces())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 40_000
    assert peak < 16 * 2**20
