"""The tool `search_documents`: the passages of a folder's text files that fit a query best."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from hermes_lab.errors import MissingError
from hermes_lab.kinds import Action, ErrorKind
from hermes_lab.text import tokens
from hermes_lab.tools.base import Level, ToolError
from hermes_lab.tools.bm25 import Bm25
from hermes_lab.tools.decorator import FunctionTool, tool
from hermes_lab.tools.passages import Passage, Stamp, read_passages, text_files

_Query = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=10)]


class Hit(NamedTuple):
    """A passage and how well it fits."""

    passage: Passage
    score: float


class DocumentIndex:
    """The passages of a folder, searchable; it looks for changed files at every search. Thread-safe.

    Raises:
        MissingError: there is no such folder.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).expanduser().resolve()
        if not self.folder.is_dir():
            raise MissingError(f"there is no folder {self.folder}: name one that holds .md or .txt files")
        self._lock = threading.Lock()
        self._stamps: dict[str, Stamp] = {}
        self._of_file: dict[str, list[Passage]] = {}
        self._passages: list[Passage] = []
        self._index = Bm25([])

    def search(self, query: str, k: int = 3) -> list[Hit]:
        """Return the `k` passages that fit `query` best, the best first; fewer where fewer share a word with it."""
        with self._lock:
            self._refresh()
            passages, index = self._passages, self._index
        return [Hit(passages[place], score) for place, score in index.search(_stems(query), k)]

    def _refresh(self) -> None:
        stamps = text_files(self.folder)
        if stamps == self._stamps:
            return
        fresh = {file for file, stamp in stamps.items() if self._stamps.get(file) != stamp}
        self._of_file = {
            file: read_passages(self.folder, file) if file in fresh else self._of_file[file] for file in stamps
        }
        self._stamps = stamps
        self._passages = [passage for passages in self._of_file.values() for passage in passages]
        self._index = Bm25(_stems(f"{passage.file} {passage.heading} {passage.text}") for passage in self._passages)


def _stems(text: str) -> list[str]:
    return [_stem(token) for token in tokens(text)]


def _stem(token: str) -> str:
    """Return a word without its plural ending: `policies` as `policy`, `returns` as `return`."""
    if len(token) < 4 or not token.endswith("s") or token.endswith(("ss", "us", "is")):
        return token
    if token.endswith("ies"):
        return token[:-3] + "y"
    if token.endswith(("sses", "shes", "ches", "xes")):
        return token[:-2]
    return token[:-1]


def documents(
    folder: Path | str, name: str = "search_documents", *, text_chars: int = 600
) -> FunctionTool[..., list[dict[str, Any]]]:
    """Return a tool that searches the .md and .txt files of `folder`, in English and Chinese.

    >>> search = documents("docs")                              # doctest: +SKIP
    >>> search.run(None, {"query": "return policy"}).output     # doctest: +SKIP
    [{'file': 'returns.md', 'heading': 'Returns > Time', 'line': 12, 'score': 4.21, 'text': ...}]

    Args:
        folder: it and its subfolders are searched; hidden files and links that lead out of it are not.
        name: the tool's name.
        text_chars: length to which each passage is cut.

    Raises:
        MissingError: there is no such folder.
    """
    index = DocumentIndex(folder)

    @tool(name=name, level=Level.READ_ONLY, action=Action.RETRIEVAL)
    def search(query: _Query, k: _Count = 3) -> list[dict[str, Any]]:
        """Search the documents and return the passages that fit best.

        Args:
            query: words to look for.
            k: how many passages.
        """
        if not index.folder.is_dir():
            raise ToolError(f"the folder {index.folder.name} is gone", ErrorKind.NOT_FOUND)
        return [_row(hit, text_chars) for hit in index.search(query, k)]

    return search


def _row(hit: Hit, text_chars: int) -> dict[str, Any]:
    passage = hit.passage
    text = passage.text if len(passage.text) <= text_chars else passage.text[: text_chars - 1] + "…"
    where = {"file": passage.file, "heading": passage.heading, "line": passage.line}
    return {**where, "score": round(hit.score, 3), "text": text}
