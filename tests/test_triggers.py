"""Triggers: the frozen pairs, the same result in any order and in bulk, and time."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.skills.folders import read_folder
from hermes_lab.skills.library import Library
from hermes_lab.skills.trigger_replay import Recorded
from hermes_lab.skills.triggers import QUERY_CHARS, Index, Trigger, words

FOLDER = Path(__file__).parent / "skills"
FROZEN = {
    "pairs.jsonl": "1a614765bfd646f0bc90feccda59a1748c9acad83e150e321136e8de9c104434",
    "library": "05de814fce26297aef620aa1cb0b694a7195008a1385f89e3880fa557ec09c25",
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(one.skill for one in read_folder(FOLDER / "library").found)


def pairs() -> list[dict]:
    return [json.loads(line) for line in (FOLDER / "pairs.jsonl").read_text("utf-8").splitlines()]


def test_the_labelled_pairs_are_those_that_were_frozen_before_tuning():
    assert hashlib.sha256((FOLDER / "pairs.jsonl").read_bytes()).hexdigest() == FROZEN["pairs.jsonl"]
    whole = hashlib.sha256()
    # In the order of `find library -name SKILL.md | sort` with LC_ALL=C.
    for path in sorted((FOLDER / "library").rglob("SKILL.md"), key=lambda path: str(path).encode()):
        whole.update(path.read_bytes())
    assert whole.hexdigest() == FROZEN["library"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_recall_and_precision_on_the_frozen_pairs(library, language):
    asked = [pair for pair in pairs() if pair["language"] == language]
    assert len(asked) >= 40
    fired = right = recalled = wanted = 0
    for pair in asked:
        found = {one.skill.name for one in library.triggered(pair["query"], limit=3)}
        fired += len(found)
        right += len(found & set(pair["skills"]))
        wanted += bool(pair["skills"])
        recalled += bool(found & set(pair["skills"]))
    assert recalled / wanted >= 0.9
    assert right / fired >= 0.7


def test_the_same_skills_give_the_same_result_in_any_order(library):
    skills = list(library)
    queries = [pair["query"] for pair in pairs()]
    first = [[(one.skill.name, one.score) for one in library.triggered(query)] for query in queries]
    for seed in range(3):
        random.Random(seed).shuffle(skills)
        again = Library(skills)
        assert [[(one.skill.name, one.score) for one in again.triggered(query)] for query in queries] == first


def test_another_process_gives_the_same_scores_to_the_last_bit(library):
    code = (
        "import json, sys; from pathlib import Path; from hermes_lab.skills.folders import read_folder; "
        "from hermes_lab.skills.library import Library; "
        "lib = Library(one.skill for one in read_folder(Path(sys.argv[1])).found); "
        "print(json.dumps([[repr(x) for x in sorted(lib.index.scores(q).items())] for q in json.load(sys.stdin)]))"
    )
    queries = [pair["query"] for pair in pairs()][::4]
    mine = [[repr(one) for one in sorted(library.index.scores(query).items())] for query in queries]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(FOLDER / "library")],
            input=json.dumps(queries),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1", "PATH": ""},
            cwd=FOLDER.parent.parent,
        )
        assert json.loads(done.stdout) == mine


odd = st.one_of(
    st.sampled_from(
        [
            "退款 refund",
            "ORDER-1042",
            "getOrderStatus",
            "Ｆｕｌｌ　ｗｉｄｔｈ",
            "的的的",
            "\ud800 x",
            "\x00\n\t",
            "ΑΣ ας",
        ]
    ),
    st.text(max_size=30),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(odd, max_size=8), st.lists(odd, min_size=1, max_size=4))
def test_in_bulk_every_score_is_the_one_that_asking_gives(queries, descriptions):
    index = Index(Trigger(f"s{n}", [text[:5]], text, text[::-1]) for n, text in enumerate(descriptions))
    recorded = Recorded([*queries, *queries])
    for place, name in enumerate(index.names):
        alone = [index.scores(query).get(place, 0.0) for query in [*queries, *queries]]
        assert recorded.scores(index, name).tolist() == alone
        assert recorded.fires(index, name).tolist() == [score >= index.weights.threshold for score in alone]


def test_in_bulk_the_labelled_queries_score_the_same(library):
    queries = [pair["query"] for pair in pairs()] + ["x " * QUERY_CHARS + "refund"]
    recorded = Recorded(queries)
    for place, name in enumerate(library.index.names):
        assert recorded.scores(library.index, name).tolist() == [
            library.index.scores(query).get(place, 0.0) for query in queries
        ]


def test_nothing_is_triggered_without_a_shared_word(library):
    for query in ("", "   ", "？！", "xyzzy", "的", "\ud800"):
        assert library.triggered(query) == ()
    assert Library().triggered("anything") == ()


def test_a_long_query_is_looked_at_from_both_ends():
    index = Index([Trigger("refunds", ["refund"]), Trigger("tea", ["茶叶"])])
    filler = "lorem " * QUERY_CHARS
    assert [one.name for one in index.match(f"refund {filler} 茶叶")] == ["refunds", "tea"]
    assert index.match(f"{filler} refund {filler}") == ()


def test_endings_and_identifiers_do_not_hide_a_word():
    assert words("reviewing") == words("Reviews") == words("review")
    assert words("getOrderStatus") == words("order status, get")[:2] or "order" in words("getOrderStatus")


def test_a_skill_for_some_types_only_is_triggered_for_them_only():
    from hermes_lab.skills.skill import read_skill

    text = (
        "---\nname: refunds\ndescription: Refund an order.\nmetadata: {hermes-lab: {task_types: [returns]}}\n---\nx\n"
    )
    library = Library([read_skill(text)])
    assert [one.skill.name for one in library.triggered("refund my order", "returns")] == ["refunds"]
    assert library.triggered("refund my order", "weather") == ()
    assert library.triggered("refund my order") == ()


def test_matching_a_thousand_skills_takes_milliseconds(library):
    rng = random.Random(7)
    known = sorted(library.index.rarity)
    triggers = [
        Trigger(f"s{n}", rng.sample(known, 3), " ".join(rng.sample(known, 25)), " ".join(rng.sample(known, 5)))
        for n in range(1000)
    ]
    index = Index(triggers)
    queries = [pair["query"] for pair in pairs()]
    index.match(queries[0])
    took = []
    for query in queries:
        began = time.perf_counter()
        index.match(query)
        took.append(time.perf_counter() - began)
    # 5 ms is wanted; a busy machine must not break a build, so the test allows ten times the median that we see.
    assert sorted(took)[len(took) // 2] < 0.005
