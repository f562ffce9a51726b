"""Triggers of skills: how right they are on the frozen pairs, how quick, and up to which size of a library.

Prints recall at 3 (share of the queries with a labelled skill that bring it in) and precision (share of the skills
brought in that are labelled) by language; microseconds a match over 50, 200 and 1,000 skills; recorded queries a second
for one rule, with and without finding their words first; and recall at 3 as distractors are added: synthetic ones that
repeat phrases and tags of the library's own skills (hard: they say just what queries ask for), or the skills of a
folder of yours.

    python tests/benchmarks/bench_skills.py [--folder ~/.hermes/skills]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from hermes_lab.skills.folders import read_folder
from hermes_lab.skills.library import Library, trigger_of
from hermes_lab.skills.trigger_replay import Recorded
from hermes_lab.skills.triggers import Index, Trigger

SKILLS = Path(__file__).parent.parent / "skills"
LANGUAGES = ("en", "zh")
RECORDED = 200_000


def pairs(name: str) -> list[dict]:
    """Return labelled pairs."""
    return [json.loads(line) for line in (SKILLS / name).read_text("utf-8").splitlines()]


def figures(index: Index, labelled: Sequence[dict]) -> tuple[float, float, int]:
    """Return recall at 3, precision, and how many queries that should bring in nothing brought in something."""
    fired = right = wanted = recalled = noise = 0
    for pair in labelled:
        found = {match.name for match in index.match(pair["query"], 3)}
        fired += len(found)
        right += len(found & set(pair["skills"]))
        if pair["skills"]:
            wanted += 1
            recalled += bool(found & set(pair["skills"]))
        else:
            noise += bool(found)
    return recalled / wanted, right / max(1, fired), noise


def of_language(labelled: Sequence[dict], language: str) -> list[dict]:
    """Return the pairs in one language."""
    return [pair for pair in labelled if pair["language"] == language]


def say_quality(triggers: Sequence[Trigger], dev: Sequence[Trigger]) -> None:
    for name, library in (("pairs.jsonl", triggers), ("dev_pairs.jsonl", [*triggers, *dev])):
        index = Index(library)
        for language in LANGUAGES:
            labelled = of_language(pairs(name), language)
            recall, precision, noise = figures(index, labelled)
            print(
                f"{name} {language}: {len(labelled)} queries, {len(index.names)} skills: "
                f"recall at 3 {recall:.3f}, precision {precision:.3f}, {noise} fired on nothing"
            )


def distractors(triggers: Sequence[Trigger], count: int, rng: random.Random) -> list[Trigger]:
    """Return skills made of phrases of the given ones: two to four from different skills of one language."""
    chinese = [one for one in triggers if not one.description.isascii()]
    english = [one for one in triggers if one.description.isascii()]
    made = []
    for number in range(count):
        like = rng.sample(chinese if number % 2 else english, 4)
        parts = [_stretch(one.description, rng) for one in like]
        tags = [rng.choice(list(one.tags)) for one in like[:2]]
        made.append(Trigger(f"d{number:05}", tags, "; ".join(parts), like[0].headings))
    return made


def _stretch(text: str, rng: random.Random) -> str:
    pieces = text.split() if text.isascii() else text.replace("，", "、").split("、")
    length = min(len(pieces), 6 if text.isascii() else 2)
    start = rng.randrange(len(pieces) - length + 1)
    return (" " if text.isascii() else "、").join(pieces[start : start + length])


def say_size(triggers: Sequence[Trigger], others: Sequence[Trigger]) -> None:
    labelled = pairs("pairs.jsonl")
    made = distractors(triggers, 2_000, random.Random(1))
    kinds = {"synthetic distractors": made, "skills of the folder": others}
    for kind, more in kinds.items():
        for count in (0, 25, 50, 100, 150, 200, 300, 450, 950, 2_000):
            if count > len(more):
                continue
            index = Index([*triggers, *more[:count]])
            shown = [figures(index, of_language(labelled, language)) for language in LANGUAGES]
            text = ", ".join(
                f"{language} recall {recall:.3f} precision {precision:.3f}"
                for language, (recall, precision, _) in zip(LANGUAGES, shown, strict=True)
            )
            print(f"{len(index.names)} skills with {kind}: {text}")


def say_speed(triggers: Sequence[Trigger]) -> None:
    labelled = pairs("pairs.jsonl")
    made = distractors(triggers, 1_000 - len(triggers), random.Random(2))
    for size in (50, 200, 1_000):
        library = [*triggers, *made][:size]
        began = time.perf_counter()
        index = Index(library)
        prepared = (time.perf_counter() - began) * 1e3
        for language in LANGUAGES:
            took = []
            for pair in of_language(labelled, language) * 20:
                began = time.perf_counter()
                index.match(pair["query"])
                took.append((time.perf_counter() - began) * 1e6)
            took.sort()
            print(
                f"match, {size} skills, {language}: median {statistics.median(took):.0f} us, "
                f"99% {took[len(took) * 99 // 100]:.0f} us, worst {took[-1]:.0f} us (prepared in {prepared:.0f} ms)"
            )


def recorded(language: str, distinct: int) -> list[str]:
    """Return queries put together from the labelled ones: 9 words each, or two pieces of Chinese ones."""
    rng = random.Random(3)
    base = [pair["query"] for pair in of_language(pairs("pairs.jsonl"), language)]
    made: dict[str, None] = {}
    while len(made) < distinct:
        first, second = rng.choice(base), rng.choice(base)
        if language == "en":
            made[" ".join(rng.choices(first.split() + second.split(), k=9))] = None
        else:
            made[f"{first[rng.randrange(len(first)) :]}，{second[: rng.randrange(2, len(second))]}"] = None
    queries = list(made)
    return [queries[n % distinct] for n in range(RECORDED)]


def say_bulk(triggers: Sequence[Trigger]) -> None:
    index = Index(triggers)
    for language in LANGUAGES:
        for distinct in (RECORDED, RECORDED // 10):
            queries = recorded(language, min(distinct, 150_000))
            began = time.perf_counter()
            ready = Recorded(queries)
            preparing = time.perf_counter() - began
            began = time.perf_counter()
            fired = sum(int(ready.fires(index, name).sum()) for name in index.names)
            a_rule = (time.perf_counter() - began) / len(index.names)
            print(
                f"bulk {language}: {len(queries):,} queries, {len(set(queries)):,} distinct: words found at "
                f"{len(queries) / preparing:,.0f} queries/s, once; then {len(queries) / a_rule:,.0f} queries/s a rule; "
                f"one rule from raw text {len(queries) / (preparing + a_rule):,.0f} queries/s ({fired:,} fired)"
            )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path)
    folder = options.parse_args().folder
    triggers = [trigger_of(one.skill) for one in read_folder(SKILLS / "library").found]
    dev = [trigger_of(one.skill) for one in read_folder(SKILLS / "dev_library").found]
    others = [trigger_of(skill) for skill in Library(one.skill for one in read_folder(folder).found)] if folder else []
    random.Random(4).shuffle(others)
    say_quality(triggers, dev)
    say_speed(triggers)
    say_bulk(triggers)
    say_size(triggers, others)


if __name__ == "__main__":
    main()
