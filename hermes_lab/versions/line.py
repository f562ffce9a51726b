"""The line of versions as it stands on disk: read and checked without a lock, added to by one writer at a time.

The branch decides what there is. The tags, the file for people and Git's index follow it, and are put right by the
next writer where a kill left them behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_lab.config import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.log import files
from hermes_lab.versions import content, lookup, record, worktree
from hermes_lab.versions.errors import DamagedHistoryError
from hermes_lab.versions.record import Version
from hermes_lab.versions.repository import Repository

if TYPE_CHECKING:
    from dulwich.objects import ShaFile

_READING = "reading the configuration history"
_WAY_OUT = (
    "Nothing was changed. If somebody used git in `configs`, take that back with git; else bring `configs/.git` back "
    "from a copy, or move it away and import a bundle that was exported (`hermes-lab config import FILE`)"
)


class Line:
    """The versions in a folder, first to last.

    Attributes:
        folder: the lab's `configs`.
    """

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is read or made yet."""
        self.folder = folder
        self._repository = Repository(folder)

    def read(self) -> tuple[Version, ...]:
        """Return all versions; none where nothing was committed.

        Raises:
            DamagedHistoryError: a commit was lost or changed, or is not ours; the branch was set back.
        """
        if not self._repository.exists():
            return ()
        from hermes_lab.versions import chain

        with _with_way_out(), files.disk_errors(_READING):
            # The tags first: a writer moves the branch first, so that each of these is on the branch by now.
            tags = self._repository.tags()
            versions = chain.read(self._repository.store(), self._repository.head())
            lookup.check_tags(tags, versions)
        return versions

    def config(self, version: Version) -> AgentConfig:
        """Return the configuration of a version.

        Raises:
            DamagedHistoryError: its file is lost or changed.
            ConfigError: a newer hermes-lab wrote it.
        """
        from hermes_lab.versions import chain

        with _with_way_out(), files.disk_errors(_READING):
            return chain.config(self._repository.store(), version)

    def data(self, version: Version) -> bytes:
        """Return the file of a version, byte for byte.

        Raises:
            DamagedHistoryError: it is lost or changed.
        """
        from hermes_lab.versions import chain

        with _with_way_out(), files.disk_errors(_READING):
            return chain.data(self._repository.store(), version)

    def edited(self, versions: Sequence[Version]) -> str | None:
        """Return what is wrong with the file for people, and what to do; None where nothing is."""
        return worktree.edited(self._repository, {one.config for one in versions})

    def export(self, path: Path, versions: Sequence[Version]) -> None:
        """Write versions, from the first on, as a bundle.

        Raises:
            DamagedHistoryError: one is lost or changed.
            WriteError, PermissionDeniedError: the disk did not take it.
        """
        from hermes_lab.versions import bundle

        with _with_way_out(), files.disk_errors(f"exporting to {path}"):
            bundle.write(path, self._repository.store(), versions)

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[Version, ...]]:
        """Hold the lock, put right what a killed writer left, and give the versions that there are.

        Raises:
            BusyError: the lock was not to be had.
            ConfigError: somebody edited the file for people, and would lose that work.
            DamagedHistoryError, WriteError, PermissionDeniedError: the history cannot be read or written.
        """
        with files.disk_errors(f"writing the configuration history in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with files.locked(self.folder / ".lock", "another process is writing a version of the configuration"):
                self._repository.remove_abandoned()
                versions = self.read()
                by_hand = self.edited(versions)
                if by_hand:
                    raise ConfigError(by_hand)
                self._settle(versions)
                yield versions

    def add(self, versions: tuple[Version, ...], version: Version, config: AgentConfig) -> Version:
        """Commit a version after `versions`, and return it with its commit; call it within `writing`."""
        from hermes_lab.versions import chain

        if not self._repository.exists():
            self._repository.create()
        commit = self._repository.add_commit(
            content.encode(config),
            record.to_message(version),
            parent=versions[-1].commit if versions else None,
            by=version.by,
            approver=version.approver,
        )
        done = chain.version(self._repository.store(), commit)
        self._repository.set_head(commit)
        self._settle((*versions, done))
        return done

    def adopt(self, versions: tuple[Version, ...], objects: Iterable[ShaFile]) -> None:
        """Let the line be `versions`, which begin with those that there are; call it within `writing`.

        Args:
            versions: all of them.
            objects: the Git objects of those that are new.
        """
        if not self._repository.exists():
            self._repository.create()
        for one in objects:
            self._repository.add(one)
        self._repository.set_head(versions[-1].commit)
        self._settle(versions)

    def _settle(self, versions: tuple[Version, ...]) -> None:
        """Let the tags, the file for people and Git's index follow the branch."""
        if not versions:
            return
        tags = self._repository.tags()
        for version in versions:
            if version.name not in tags:
                self._repository.set_tag(version.name, version.commit)
        worktree.write(self._repository, self.data(versions[-1]))


@contextlib.contextmanager
def _with_way_out() -> Iterator[None]:
    """Say at the end of an error about damage what to do."""
    try:
        yield
    except DamagedHistoryError as error:
        raise DamagedHistoryError(f"{error}. {_WAY_OUT}") from None
