"""The versions that a repository's branch holds, first to last, each held against what its commit says.

It reads any store of Git objects: a lab's own, or one that came in a bundle.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from hermes_lab.config import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.versions import content, record
from hermes_lab.versions.errors import DamagedHistoryError
from hermes_lab.versions.record import Version
from hermes_lab.versions.repository import FILE, read_object

if TYPE_CHECKING:
    from dulwich.object_store import BaseObjectStore
    from dulwich.objects import Blob, Commit, ShaFile, Tree


def read(store: BaseObjectStore, head: str | None) -> tuple[Version, ...]:
    """Return the versions up to the commit `head`; none where there is none.

    Raises:
        DamagedHistoryError: a commit is lost, changed, or not one of ours; the numbers have a gap.
    """
    backwards: list[Version] = []
    commit_id = None if head is None else head.encode()
    while commit_id is not None:
        commit = _commit(store, commit_id)
        backwards.append(_version(commit))
        parents = commit.parents
        if len(parents) > 1:
            raise _foreign(commit_id, "it merges two histories, and ours is one line")
        commit_id = parents[0] if parents else None
    versions = tuple(reversed(backwards))
    for number, version in enumerate(versions):
        parent = versions[number - 1].name if number else None
        if version.name != record.name_of(number) or version.parent != parent:
            raise _foreign(
                version.commit.encode(),
                f"as number {number} of the line it cannot be {version.name} on {version.parent}",
            )
    return versions


def data(store: BaseObjectStore, version: Version) -> bytes:
    """Return the file of a version, byte for byte as it was committed.

    Raises:
        DamagedHistoryError: it is lost or changed.
    """
    blob: Blob = _parts(store, version)[2]
    return blob.data


def objects(store: BaseObjectStore, versions: Iterable[Version]) -> list[ShaFile]:
    """Return the commit, tree and file of each version, each object once, and what is needed by another before it.

    Raises:
        DamagedHistoryError: one is lost or changed.
    """
    found: dict[bytes, ShaFile] = {}
    for version in versions:
        for one in reversed(_parts(store, version)):
            found[one.id] = one
    return list(found.values())


def config(store: BaseObjectStore, version: Version) -> AgentConfig:
    """Return the configuration of a version.

    Raises:
        DamagedHistoryError: its file is lost, or is not what the commit says that it is.
        ConfigError: a newer hermes-lab wrote it.
    """
    written = data(store, version)
    if content.name_in(written) != version.config:
        raise _foreign(version.commit.encode(), f"its {FILE} is not the {version.config} that it names")
    return content.decode(written, f"the configuration {version.name}", name=version.config)


def _parts(store: BaseObjectStore, version: Version) -> tuple[Commit, Tree, Blob]:
    from dulwich.objects import Blob, Tree

    commit_id = version.commit.encode()
    commit = _commit(store, commit_id)
    tree = read_object(store, commit.tree)
    if not isinstance(tree, Tree) or FILE.encode() not in tree:
        raise _foreign(commit_id, f"it has no {FILE}")
    blob = read_object(store, tree[FILE.encode()][1])
    if not isinstance(blob, Blob):
        raise _foreign(commit_id, f"its {FILE} is no file")
    return commit, tree, blob


def _commit(store: BaseObjectStore, commit_id: bytes) -> Commit:
    from dulwich.objects import Commit

    found = read_object(store, commit_id)
    if not isinstance(found, Commit):
        raise _foreign(commit_id, "it is no commit")
    return found


def version(store: BaseObjectStore, commit_id: str) -> Version:
    """Return what a commit says of its version; where it stands in the line is not looked at.

    Raises:
        DamagedHistoryError: it is lost, changed, or not one of ours.
    """
    return _version(_commit(store, commit_id.encode()))


def _version(commit: Commit) -> Version:
    try:
        version = record.from_message(commit.message)
        record.check(version)
    except (ValueError, ConfigError) as error:
        raise _foreign(commit.id, str(error)) from None
    ts = dt.datetime.fromtimestamp(commit.commit_time, dt.UTC)
    return msgspec.structs.replace(version, ts=ts, commit=commit.id.decode())


def _foreign(commit_id: bytes, why: str) -> DamagedHistoryError:
    return DamagedHistoryError(
        f"the commit {commit_id.decode(errors='replace')[:12]} of the configuration history was not made by "
        f"hermes-lab, or was changed: {why}"
    )
