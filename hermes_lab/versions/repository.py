"""The Git repository of a lab's configurations, on disk: objects, the branch and the tags, written to survive a kill.

Git's formats are dulwich's; no `git` program, hook or user's Git configuration takes part. Every file is written whole
or not at all (`files.atomic_write`), the branch last, so that one rename decides whether a version is there. Git's own
lock files are not taken, for a killed process would leave them behind; writers hold the lab's lock instead.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_lab.errors import BusyError
from hermes_lab.log import files
from hermes_lab.versions.errors import DamagedHistoryError

if TYPE_CHECKING:
    from dulwich.object_store import BaseObjectStore, DiskObjectStore
    from dulwich.objects import ShaFile

BRANCH = "refs/heads/main"
TAGS = "refs/tags/"
FILE = "agent.json"
"""The one file of every commit."""

FILE_MODE = 0o100644

_HEAD = f"ref: {BRANCH}\n"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n\tautocrlf = false\n"
# What is no part of the history: configurations that ran, our lock, and files that are being written.
_EXCLUDE = "/c-*.json\n/.lock\n.*.tmp\n"


class Repository:
    """The repository in a folder; it need not be there yet.

    Attributes:
        folder: the lab's `configs`, which is the working tree.
        git: its `.git`.
    """

    def __init__(self, folder: Path) -> None:
        """Name the repository in `folder`; nothing is read."""
        self.folder = folder
        self.git = folder / ".git"

    def exists(self) -> bool:
        """Return whether it is there."""
        return self.git.exists()

    def create(self) -> None:
        """Make it, empty, in one step: a repository is there whole or not at all."""
        draft = Path(tempfile.mkdtemp(prefix=".git-", suffix=".tmp", dir=self.folder))
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (draft / name).mkdir(parents=True)
        for name, text in (("HEAD", _HEAD), ("config", _CONFIG), ("info/exclude", _EXCLUDE)):
            files.atomic_write(draft / name, text.encode())
        for place in (draft / "refs", draft / "objects", draft):
            files.fsync_folder(place)
        draft.chmod(0o777 & ~_umask())
        draft.rename(self.git)
        files.fsync_folder(self.folder)

    def store(self) -> DiskObjectStore:
        """Return the objects, loose and packed, for reading."""
        from dulwich.object_store import DiskObjectStore

        return DiskObjectStore(self.git / "objects")

    def head(self) -> str | None:
        """Return the commit that the branch is at; None before the first.

        Raises:
            DamagedHistoryError: the branch holds no commit's id.
        """
        return self._ref(BRANCH)

    def tags(self) -> dict[str, str]:
        """Return the tags' commits by name.

        Raises:
            DamagedHistoryError: a tag holds no commit's id.
        """
        loose = {path.name for path in (self.git / TAGS).glob("[!.]*") if path.is_file()}
        packed = {name[len(TAGS) :] for name in self._packed() if name.startswith(TAGS)}
        found = {name: self._ref(TAGS + name) for name in loose | packed}
        return {name: commit for name, commit in found.items() if commit is not None}

    def add_commit(self, data: bytes, message: bytes, *, parent: str | None, by: str, approver: str) -> str:
        """Write a commit whose tree is `FILE` with `data`, and return its id; no branch is moved to it yet."""
        from dulwich.objects import Blob, Commit, ObjectID, Tree

        blob = Blob.from_string(data)
        tree = Tree()
        tree.add(FILE.encode(), FILE_MODE, blob.id)
        commit = Commit()
        commit.tree = tree.id
        commit.parents = [ObjectID(parent.encode())] if parent else []
        commit.author, commit.committer = _identity(by), _identity(approver)
        commit.author_time = commit.commit_time = int(dt.datetime.now(dt.UTC).timestamp())
        commit.author_timezone = commit.commit_timezone = 0
        commit.encoding = b"UTF-8"
        commit.message = message
        for one in (blob, tree, commit):
            self.add(one)
        return commit.id.decode()

    def add(self, one: ShaFile) -> None:
        """Write an object, so that it is on disk when this returns."""
        name = one.id.decode()
        place = self.git / "objects" / name[:2]
        if not place.exists():
            place.mkdir()
            files.fsync_folder(place.parent)
        if not (place / name[2:]).exists():
            files.atomic_write(place / name[2:], one.as_legacy_object())

    def set_head(self, commit: str) -> None:
        """Move the branch to a commit: from here on its version is there.

        Raises:
            BusyError: a `git` command that somebody runs holds the branch.
        """
        lock = self.git / f"{BRANCH}.lock"
        if lock.exists():
            raise BusyError(f"a git command is at work on the branch: let it end, or delete {lock} if none is running")
        self._write_ref(BRANCH, commit)

    def set_tag(self, name: str, commit: str) -> None:
        """Let a tag name a commit."""
        self._write_ref(TAGS + name, commit)

    def remove_abandoned(self) -> None:
        """Delete what killed writers left half done; call it with the lab's lock held."""
        for pattern in (".*.tmp", ".git/.*.tmp", ".git/refs/*/.*.tmp", ".git/objects/??/.*.tmp"):
            found = list(self.folder.glob(pattern))
            files.remove_abandoned(path for path in found if path.is_file())
            for draft in (path for path in found if path.is_dir()):
                shutil.rmtree(draft)

    def _write_ref(self, name: str, commit: str) -> None:
        path = self.git / name
        path.parent.mkdir(parents=True, exist_ok=True)  # `git pack-refs` may remove a folder that it emptied
        files.atomic_write(path, commit.encode() + b"\n")

    def _ref(self, name: str) -> str | None:
        path = self.git / name
        with contextlib.suppress(FileNotFoundError):
            return _commit_id(path.read_bytes(), path)
        packed = self._packed().get(name)
        return None if packed is None else _commit_id(packed, self.git / "packed-refs")

    def _packed(self) -> dict[str, bytes]:
        from dulwich.refs import DiskRefsContainer

        if not (self.git / "packed-refs").exists():
            return {}
        with damage(f"{self.git / 'packed-refs'} cannot be read"):
            found = DiskRefsContainer(self.git).get_packed_refs()
            return {name.decode(): bytes(commit) for name, commit in found.items()}


@contextlib.contextmanager
def damage(what: str) -> Iterator[None]:
    """Turn what dulwich raises over broken files into a `DamagedHistoryError` that says `what` is broken, and why."""
    import struct
    import zlib

    from dulwich import errors
    from dulwich.pack import PackFileDisappeared, UnresolvedDeltas

    broken = (
        errors.ChecksumMismatch,
        errors.FileFormatException,
        errors.WrongObjectException,
        errors.ObjectMissing,
        errors.ApplyDeltaError,
        errors.NotGitRepository,
        errors.RefFormatError,
        PackFileDisappeared,
        UnresolvedDeltas,
        struct.error,
        zlib.error,
        LookupError,
        ValueError,
        AssertionError,
        EOFError,
        StopIteration,
    )
    try:
        yield
    except broken as error:
        why = f"{type(error).__name__} {error}".strip()
        raise DamagedHistoryError(f"{what}: {why}") from None


def read_object(store: BaseObjectStore, name: bytes) -> ShaFile:
    """Return an object, after holding what it says against its id.

    Raises:
        DamagedHistoryError: it is lost or changed.
    """
    from dulwich.objects import ObjectID

    with damage(f"the object {name.decode(errors='replace')} cannot be read"):
        found = store[ObjectID(name)]
        same = type(found).from_string(found.as_raw_string())
        if same.id != name:
            raise ValueError("its content is not what had this id")
        same.check()
        return same


def _commit_id(data: bytes, path: Path) -> str:
    text = data.decode("ascii", "replace").strip()
    if len(text) != 40 or set(text) - set("0123456789abcdef"):
        raise DamagedHistoryError(f"{path} holds no commit's id but {text[:50]!r}")
    return text


def _identity(name: str) -> bytes:
    """Return a name as Git wants it: no angle brackets but those around the address, which is left empty."""
    plain = " ".join(name.replace("<", " ").replace(">", " ").split())
    return f"{plain} <>".encode()


def _umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old
