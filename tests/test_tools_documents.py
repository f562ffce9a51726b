"""The documents tool: BM25, passages, changes, odd files."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.errors import MissingError
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.tools import Level
from hermes_lab.tools.bm25 import Bm25
from hermes_lab.tools.documents import DocumentIndex, documents
from hermes_lab.tools.passages import MOST_BYTES, PASSAGE_CHARS, read_passages, text_files

RETURNS = """\
# Returns

Goods can be sent back within 30 days.

## Refund policy

Refunds are paid within 5 working days. Shipping is not refunded.

```
# not a heading
```

## 退货政策

商品可在三十天内退货，运费不退。
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "文档"
    (place / "sub").mkdir(parents=True)
    (place / "returns.md").write_text(RETURNS, "utf-8")
    (place / "sub" / "warranty.txt").write_text("Warranty\n\nThe warranty lasts two years.\n", "utf-8")
    (place / "data.csv").write_text("refund,1\n")
    return place


def test_the_spec(folder: Path) -> None:
    spec = documents(folder, "search_policies").spec
    assert (spec.name, spec.level, spec.action) == ("search_policies", Level.READ_ONLY, Action.RETRIEVAL)
    assert spec.parameters["properties"]["k"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
        "default": 3,
        "description": "how many passages.",
    }
    assert spec.parameters["required"] == ["query"]


def test_the_passage_that_fits_best_comes_first_with_its_place(folder: Path) -> None:
    first, *_ = documents(folder).run(None, {"query": "when is a refund paid?"}).output
    assert first.pop("score") > 0
    assert first == {
        "file": "returns.md",
        "heading": "Returns > Refund policy",
        "line": 7,
        "text": "Refunds are paid within 5 working days. Shipping is not refunded.\n\n```\n# not a heading\n```",
    }


def test_chinese_is_found_by_pairs_of_characters(folder: Path) -> None:
    (only,) = documents(folder).run(None, {"query": "运费能退吗", "k": 10}).output
    assert (only["heading"], only["line"]) == ("Returns > 退货政策", 15)


def test_the_count_bounds_the_hits(folder: Path) -> None:
    search = documents(folder)
    assert len(search.run(None, {"query": "days warranty refund", "k": 2}).output) == 2
    assert search.run(None, {"query": "zebra"}).output == []
    assert search.run(None, {"query": "?!"}).output == []
    assert search.run(None, {"query": "x", "k": 11}).status is Status.INVALID


def test_changed_new_and_lost_files_are_seen(folder: Path) -> None:
    search = documents(folder)
    assert search.run(None, {"query": "zebra"}).output == []
    added = folder / "zebra.md"
    added.write_text("A zebra has stripes.", "utf-8")
    assert [hit["file"] for hit in search.run(None, {"query": "zebras"}).output] == ["zebra.md"]
    added.write_text("A zebra has stripes, and hooves.", "utf-8")
    assert "hooves" in search.run(None, {"query": "zebra"}).output[0]["text"]
    added.unlink()
    assert search.run(None, {"query": "zebra"}).output == []


def test_links_out_of_the_folder_and_hidden_files_are_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("zebra secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more.md").write_text("zebra more")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "circle.md").symlink_to(folder / "circle.md")
    (folder / "inside.md").symlink_to(folder / "sub" / "warranty.txt")
    (folder / ".hidden.md").write_text("zebra hidden")
    (folder / ".git").mkdir()
    (folder / ".git" / "a.md").write_text("zebra git")
    os.mkfifo(folder / "pipe.txt")
    assert list(text_files(folder)) == ["inside.md", "returns.md", "sub/warranty.txt"]
    assert documents(folder).run(None, {"query": "zebra"}).output == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030", "latin-1"])
def test_any_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    text = "Grüße café" if encoding == "latin-1" else "中文政策 policy"
    (tmp_path / "a.txt").write_bytes(text.encode(encoding) + (b"\xff" if encoding == "latin-1" else b""))
    (passage,) = read_passages(tmp_path, "a.txt")
    assert passage.text.startswith(text)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_bytes(data)
    DocumentIndex(folder).search("policy 政策")


@given(st.lists(st.text(st.sampled_from("ab 。.\n#`汉"), max_size=900), max_size=6))
@settings(deadline=None)
def test_no_word_is_lost_and_lines_are_right(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    text = "\n\n".join(parts)
    folder = tmp_path_factory.getbasetemp() / "lines"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(text, "utf-8", newline="\n")
    passages = read_passages(folder, "a.txt")
    assert "".join("".join(passage.text.split()) for passage in passages) == "".join(text.split())
    lines = text.splitlines()
    for passage in passages:
        assert len(passage.text) <= PASSAGE_CHARS
        assert passage.text.split()[0] in lines[passage.line - 1]


def test_long_texts_are_split_and_huge_files_left_out(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("# Head\n" + "这是一个很长的句子。" * 300, "utf-8")
    (tmp_path / "huge.txt").write_bytes(b"a" * (MOST_BYTES + 1))
    assert list(text_files(tmp_path)) == ["long.md"]
    passages = read_passages(tmp_path, "long.md")
    assert {passage.heading for passage in passages} == {"Head"}
    assert all(passage.text.endswith("。") for passage in passages)
    hit = documents(tmp_path, text_chars=50).run(None, {"query": "句子", "k": 1}).output[0]
    assert len(hit["text"]) == 50


def test_a_folder_that_is_not_there_or_goes_away(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="没有"):
        documents(tmp_path / "没有")
    (tmp_path / "a").mkdir()
    search = documents(tmp_path / "a")
    (tmp_path / "a").rmdir()
    assert search.run(None, {"query": "x"}).error_kind is ErrorKind.NOT_FOUND


def test_searches_while_files_change(folder: Path) -> None:
    search = documents(folder)
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (folder / f"{number % 5}.md").write_text(f"# Zebra {number}\n\nrefund {number}", "utf-8")
            (folder / f"{(number + 2) % 5}.md").unlink(missing_ok=True)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: search.run(None, {"query": "refund", "k": 10}), range(60)))
    finally:
        stop.set()
        changer.join()
    assert {result.status for result in results} == {Status.OK}
    assert all(any(hit["file"] == "returns.md" for hit in result.output) for result in results)


# BM25


def _by_definition(documents: list[list[str]], query: list[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for token in set(query):
            holding = sum(token in other for other in documents)
            count = document.count(token)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            if count:
                score += idf * count * (k1 + 1) / (count + k1 * (1 - b + b * len(document) / mean))
        scores.append(score)
    return scores


_WORDS = st.lists(st.sampled_from(["红", "fox", "hen", "a"]), max_size=8)


@given(st.lists(_WORDS, min_size=1, max_size=8), _WORDS, st.integers(1, 10))
@settings(deadline=None)
def test_bm25_is_what_its_formula_says(documents: list[list[str]], query: list[str], k: int) -> None:
    found = Bm25(documents).search(query, k)
    scores = _by_definition(documents, query) if any(documents) else [0.0] * len(documents)
    positive = [place for place, score in enumerate(scores) if score > 0]
    assert len(found) == min(k, len(positive))
    assert [score for _, score in found] == pytest.approx(sorted((scores[p] for p in positive), reverse=True)[:k])
    for place, score in found:
        assert score == pytest.approx(scores[place])


def test_bm25_of_nothing() -> None:
    assert Bm25([]).search(["a"], 3) == []
    assert Bm25([["a"]]).search([], 3) == []
