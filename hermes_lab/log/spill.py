"""Long payloads, kept beside the log under the hash of their content, with a short stub in their place.

A stub is the text `{"$spill":"<sha256>","bytes":N}`. Text of anybody else that begins like one gets a dollar sign
more (`guard`), so that nobody can make a query read a payload by naming its hash.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from pathlib import Path

from hermes_lab import payload
from hermes_lab.log import files

STUB_START = '{"$spill":"'
"""How every stub begins; the view `events` looks for it."""

_STUB = re.compile(r'\{"\$spill":"([0-9a-f]{64})","bytes":(\d+)\}')
_LIKE_STUB = re.compile(r'\{"\$+spill"')
_GUARDED = re.compile(r'\{"\$\$+spill"')


def guard(text: str) -> str:
    """Return `text` so that it can be told from a stub; `unguard` takes it back."""
    return '{"$' + text[2:] if _LIKE_STUB.match(text) else text


def unguard(text: str) -> str:
    """Return the text that `guard` was given. JSON columns need none: `payload.loads` takes it back."""
    return '{"' + text[3:] if _GUARDED.match(text) else text


def file_of(folder: Path, digest: str) -> Path:
    """Return where the payload of that hash lies below the spill folder."""
    return folder / digest[:2] / f"{digest}.gz"


def digest_of(stub: str) -> str | None:
    """Return the hash that a stub names, or None where `stub` is none."""
    match = _STUB.fullmatch(stub)
    return match.group(1) if match else None


def store(folder: Path, text: str) -> str:
    """Write `text` durably below `folder` and return the stub that stands for it.

    Raises:
        OSError: the disk did not take it.
    """
    content = payload.store_text(text).encode()
    digest = hashlib.sha256(content).hexdigest()
    path = file_of(folder, digest)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.atomic_write(path, gzip.compress(content, compresslevel=3, mtime=0))
        files.fsync_folder(folder)
    return f'{STUB_START}{digest}","bytes":{len(content)}}}'


def load(folder: Path, stub: str) -> str:
    """Return the payload, in its stored form, that `stub` stands for.

    Where the file is lost or damaged the stub comes back with `"lost":true` in it: one lost payload must not fail a
    query over a million whole ones, and `log verify` names it.
    """
    digest = digest_of(stub)
    if digest is None:
        return stub
    content = read_checked(folder, digest)
    if content is None:
        return stub[:-1] + ',"lost":true}'
    return content.decode()


def read_checked(folder: Path, digest: str) -> bytes | None:
    """Return the content under that hash, or None where it is lost or not what the hash says."""
    try:
        content = gzip.decompress(file_of(folder, digest).read_bytes())
    except (OSError, EOFError, zlib.error):
        return None
    return content if hashlib.sha256(content).hexdigest() == digest else None
