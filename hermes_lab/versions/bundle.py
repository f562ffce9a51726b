"""A history in one file that Git, too, can read: a bundle, to be kept as a copy or brought into another lab."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes_lab.errors import ImportFormatError
from hermes_lab.log import files
from hermes_lab.versions import chain
from hermes_lab.versions.errors import DamagedHistoryError
from hermes_lab.versions.record import Version
from hermes_lab.versions.repository import BRANCH, TAGS, damage

if TYPE_CHECKING:
    from dulwich.object_store import BaseObjectStore, MemoryObjectStore

MOST_BYTES = 256 * 2**20
"""Size of a bundle at most; thousands of versions take a few MiB."""

_SIGNATURE = b"# v2 git bundle\n"


class Bundle(NamedTuple):
    """What a bundle holds.

    Attributes:
        store: the Git objects, in memory.
        head: the commit that its branch is at.
    """

    store: MemoryObjectStore
    head: str


def write(path: Path, store: BaseObjectStore, versions: Sequence[Version]) -> None:
    """Write versions, from the first on, as a bundle with the branch and a tag for each.

    Raises:
        OSError: the disk did not take it; nothing is left behind.
    """
    from dulwich.object_format import DEFAULT_OBJECT_FORMAT
    from dulwich.pack import write_pack_objects

    whole = io.BytesIO(_SIGNATURE)
    whole.seek(0, io.SEEK_END)
    for name, commit in [(BRANCH, versions[-1].commit), *((TAGS + one.name, one.commit) for one in versions)]:
        whole.write(f"{commit} {name}\n".encode())
    whole.write(b"\n")
    write_pack_objects(whole, chain.objects(store, versions), DEFAULT_OBJECT_FORMAT)
    files.atomic_write(path, whole.getvalue())


def read(path: Path) -> Bundle:
    """Read a bundle; its versions are not looked at yet.

    Raises:
        MissingError, PermissionDeniedError: the file cannot be read.
        ImportFormatError: it is no bundle, is cut or changed, rests on commits that it lacks, or has no branch `main`.
    """
    with files.disk_errors(f"reading {path}"):
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ImportFormatError(f"{path} has {size:,} bytes; a bundle of configurations has {MOST_BYTES:,} at most")
        data = path.read_bytes()
    if not data.startswith(_SIGNATURE) or b"\n\n" not in data:
        raise ImportFormatError(f"{path} is no Git bundle: `hermes-lab config export FILE` writes one")
    try:
        with damage("its objects cannot be read"):
            return _read(data)
    except DamagedHistoryError as error:
        raise ImportFormatError(f"{path} is no whole bundle of a configuration history: {error}") from None


def _read(data: bytes) -> Bundle:
    from dulwich.bundle import read_bundle
    from dulwich.object_store import MemoryObjectStore

    store = MemoryObjectStore()
    with read_bundle(io.BytesIO(data)) as bundle:
        if bundle.prerequisites:
            raise ValueError("it rests on commits that it does not hold")
        heads = {name.decode(errors="replace"): commit.decode() for name, commit in bundle.references.items()}
        if BRANCH not in heads:
            raise ValueError(f"it has no branch {BRANCH}")
        bundle.store_objects(store)
    return Bundle(store, heads[BRANCH])
