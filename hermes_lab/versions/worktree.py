"""The file `configs/agent.json` that shows the last version to people, and Git's index of it.

Both follow from the history and are written anew after each commit. Nothing reads the file to run an agent; a person
who edited it is told so before anything is written over.
"""

from __future__ import annotations

import io
from collections.abc import Collection

from hermes_lab.log import files
from hermes_lab.versions import content
from hermes_lab.versions.repository import FILE, FILE_MODE, Repository


def edited(repository: Repository, names: Collection[str]) -> str | None:
    """Return what is wrong with the file, and what to do; None where it holds a version, or is not there.

    Args:
        repository: whose file it is.
        names: the hashes of the versions that there are; a killed writer may have left an older one in the file.
    """
    path = repository.folder / FILE
    if not path.exists():
        return None
    found = content.name_in(path.read_bytes())
    if found in names:
        return None
    return (
        f"{path} was edited by hand: it holds {found or 'no configuration'}, which is no version. Delete it, or move "
        "it away, where it can be tried with --config FILE; the next version writes it anew"
    )


def write(repository: Repository, data: bytes) -> None:
    """Let the file and the index hold the last version; a file that does so already is left as it is."""
    path = repository.folder / FILE
    if path.exists() and path.read_bytes() == data and (repository.git / "index").exists():
        return
    files.atomic_write(path, data)
    files.atomic_write(repository.git / "index", _index(repository, data))


def _index(repository: Repository, data: bytes) -> bytes:
    from dulwich.index import IndexChecksumWriter, index_entry_from_stat, write_index_dict
    from dulwich.objects import Blob

    entry = index_entry_from_stat((repository.folder / FILE).stat(), Blob.from_string(data).id, FILE_MODE)
    whole = io.BytesIO()
    writer = IndexChecksumWriter(whole)
    write_index_dict(writer, {FILE.encode(): entry})
    writer.write_checksum()
    return whole.getvalue()
