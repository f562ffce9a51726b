"""Whether a new memory or skill contradicts, duplicates or supersedes one that stands. Pure; nothing is merged here.

A statement is read by its words: what it is about, whether it is negated, which of two opposites, which numbers with
which unit, and which of values that exclude each other it holds. Two statements about the same thing that differ in
one of these contradict. Accepted limits: no synonyms, no arithmetic between units, and things that exclude each other
without standing in `words` (two names of people, say) are only seen where both have the same key. A model
may be asked where the words say nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hermes_lab.conflicts.reading import Read, overlap, read, words_of
from hermes_lab.tasks import ANY_TYPE
from hermes_lab.text import tokens

SAME_SUBJECT = 0.6
"""Overlap of what two statements are about, from which on they are taken to be about the same."""

SAME_CONTENT = 0.8
"""Overlap from which on they are taken to say the same, where nothing in them differs."""

_HELD = 0.5  # share of an old statement that one which says "instead" must hold
_ASKED = 0.25  # overlap from which on a model is asked
_MOST_ASKED = 5
_MOST_SENTENCES = 20  # of one memory that are compared one by one


class Kind(enum.StrEnum):
    """How two statements stand to each other."""

    CONTRADICTS = "contradicts"
    DUPLICATES = "duplicates"
    SUPERSEDES = "supersedes"


class Statement(NamedTuple):
    """What is compared: an id or name, a text, the task type that it is for, and its subject where it has one."""

    id: str
    text: str
    scope: str = ANY_TYPE
    key: str | None = None


class Conflict(NamedTuple):
    """A conflict: its kind, id of the standing one, both texts (the new one first), and what showed it."""

    kind: Kind
    other: str
    texts: tuple[str, str]
    why: str


Judge = Callable[[str, str], str | None]
"""Asked with the new and the old text; returns the name of a `Kind`, or None. It may ask a model."""


def compare(new: Statement, old: Statement) -> Conflict | None:
    """Return how `new` stands to `old`; None where they can stand side by side.

    >>> compare(Statement("n", "Never attach the log."), Statement("o", "Always attach the log.")).kind.value
    'contradicts'
    >>> compare(Statement("n", "请用中文回复"), Statement("o", "回复请用中文。")).kind.value
    'duplicates'
    >>> compare(Statement("n", "Ticket TK-12 is open."), Statement("o", "Ticket TK-13 is open.")) is None
    True
    """
    if ANY_TYPE not in (new.scope, old.scope) and new.scope != old.scope:
        return None
    kind_and_why = _compare(new, old) or _compare_sentences(new.text, old.text)
    return None if kind_and_why is None else Conflict(kind_and_why[0], old.id, (new.text, old.text), kind_and_why[1])


def find(new: Statement, standing: Iterable[Statement], judge: Judge | None = None) -> tuple[Conflict, ...]:
    """Return every conflict of `new` with what stands, contradictions first.

    Args:
        new: the memory that is proposed.
        standing: those that are active; one with the same id is left out.
        judge: asked about the few likest statements in which the words show no conflict.
    """
    found: list[Conflict] = []
    open_ones: list[tuple[float, Statement]] = []
    for old in standing:
        if old.id == new.id:
            continue
        conflict = compare(new, old)
        if conflict is not None:
            found.append(conflict)
        elif judge is not None:
            open_ones.append((overlap(read(new.text).about, read(old.text).about), old))
    if judge is not None:
        found.extend(_judged(new, open_ones, judge))
    return tuple(sorted(found, key=lambda one: (one.kind, one.other)))


def find_in_texts(new: Statement, standing: Iterable[Statement]) -> tuple[Conflict, ...]:
    """Return the conflicts of a long text, such as a skill's, with others: near-duplicates, and lines that contradict.

    Args:
        new: the skill that is proposed, by name.
        standing: the others; one with the same name is what it edits, and is left out.
    """
    found: list[Conflict] = []
    lines = sentences(new.text)
    by_word: dict[str, list[str]] = {}
    for line in lines:
        for word in read(line).about:
            by_word.setdefault(word, []).append(line)
    mine = frozenset(tokens(new.text))
    for old in standing:
        if old.id == new.id:
            continue
        if overlap(mine, words_of(old.text)) >= SAME_CONTENT:
            found.append(Conflict(Kind.DUPLICATES, old.id, (new.text, old.text), "nearly the same words"))
        found.extend(_contradicting_lines(by_word, old))
    return tuple(sorted(set(found), key=lambda one: (one.kind, one.other, one.texts)))


def sentences(text: str) -> list[str]:
    """Return the sentences and list items of a text, without marks of Markdown; lines of code blocks stay out."""
    found: list[str] = []
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        if in_code:
            continue
        plain = re.sub(r"^[\s>#*+\-\d.)]+", "", line)
        found.extend(part.strip() for part in re.split(r"(?<=[.!?])\s+|[。！？；]", plain) if part.strip())
    return found


def _contradicting_lines(by_word: Mapping[str, Sequence[str]], old: Statement) -> Iterable[Conflict]:
    for line in sentences(old.text):
        about = read(line).about
        shared: dict[str, int] = {}
        for word in about:
            for mine in by_word.get(word, ()):
                shared[mine] = shared.get(mine, 0) + 1
        for mine, count in sorted(shared.items()):
            if count < 2 or count < SAME_SUBJECT * len(about):
                continue
            differs = _difference(read(mine), read(line))
            if differs and overlap(read(mine).about, about) >= SAME_SUBJECT:
                yield Conflict(Kind.CONTRADICTS, old.id, (mine, line), differs)


def contradicts(a: str, b: str) -> str | None:
    """Return in what two statements about the same thing contradict each other; None where they do not."""
    first, second = read(a), read(b)
    if overlap(first.about, second.about) < SAME_SUBJECT or _different_things(first, second):
        return None
    return _difference(first, second)


def polarity(text: str) -> bool:
    """Return whether a statement is negated.

    >>> polarity("Never refund."), polarity("退款不需要审批"), polarity("Refund.")
    (True, True, False)
    """
    return read(text).negated


def _judged(new: Statement, open_ones: list[tuple[float, Statement]], judge: Judge) -> Iterable[Conflict]:
    likest = sorted(open_ones, key=lambda pair: (-pair[0], pair[1].id))[:_MOST_ASKED]
    for score, old in likest:
        said = judge(new.text, old.text) if score >= _ASKED else None
        if said in set(Kind):
            yield Conflict(Kind(said), old.id, (new.text, old.text), "a model says so")


def _compare(new: Statement, old: Statement) -> tuple[Kind, str] | None:
    a, b = read(new.text), read(old.text)
    same_key = new.key is not None and old.key is not None and new.key.casefold() == old.key.casefold()
    if _different_things(a, b) and not same_key:
        return None
    alike = overlap(a.about, b.about)
    differs = _difference(a, b) if alike >= SAME_SUBJECT else None
    if a.updates and b.about and len(a.about & b.about) >= _HELD * len(b.about):
        return Kind.SUPERSEDES, "it says that it holds in place of the other"
    if same_key and (differs or alike < SAME_CONTENT):
        return Kind.SUPERSEDES, f"another value of {new.key}"
    if differs:
        return Kind.CONTRADICTS, differs
    if alike >= SAME_CONTENT and (a.values, a.numbers) == (b.values, b.numbers) and not _swapped(a.about, b.about):
        return Kind.DUPLICATES, "the same words"
    return None


def _compare_sentences(new: str, old: str) -> tuple[Kind, str] | None:
    """Return the contradiction of two sentences, where a statement has several and only one of them is the matter."""
    mine, theirs = sentences(new)[:_MOST_SENTENCES], sentences(old)[:_MOST_SENTENCES]
    if len(mine) < 2 and len(theirs) < 2:
        return None
    for sentence in mine:
        for other in theirs:
            differs = contradicts(sentence, other)
            if differs:
                return Kind.CONTRADICTS, f"{differs}: {sentence!r} against {other!r}"
    return None


def _swapped(a: frozenset[str], b: frozenset[str]) -> bool:
    """Return whether each holds a word (of Chinese: a character) that the other lacks, as where one name is another."""
    first, second = _parts(a), _parts(b)
    return bool(first - second and second - first)


def _parts(about: frozenset[str]) -> set[str]:
    return {part for word in about for part in ([word] if word.isascii() else word)}


def _different_things(a: Read, b: Read) -> bool:
    """Return whether both name things by number (orders, tickets), and other ones."""
    return bool(a.ids and b.ids and not a.ids & b.ids)


def _spares(a: Read, b: Read) -> bool:
    """Return whether one forbids a value and the other asks for another: not in English, but in Chinese."""
    if a.negated == b.negated:
        return False
    return any(group in b.values and not values & b.values[group] for group, values in a.values.items())


def _difference(a: Read, b: Read) -> str | None:
    opposite = [pair for pair in a.poles if pair in b.poles and a.poles[pair] != b.poles[pair]]
    if (len(opposite) + (a.negated != b.negated)) % 2 and not _spares(a, b):
        return "opposites" if opposite else "one says not"
    for unit, numbers in a.numbers.items():
        other = b.numbers.get(unit)
        if other is not None and not numbers & other:
            return f"{'/'.join(sorted(numbers))} or {'/'.join(sorted(other))} {unit}".strip()
    for group, values in a.values.items():
        # That one of two is not wanted can hold together with the other, or with that one not being wanted either.
        held = None if a.negated or b.negated else b.values.get(group)
        if held is not None and not values & held:
            return f"{'/'.join(sorted(values))} or {'/'.join(sorted(held))}"
    if a.order and b.order and overlap(a.order[0], b.order[1]) >= SAME_SUBJECT <= overlap(a.order[1], b.order[0]):
        return "the other order"
    return None
