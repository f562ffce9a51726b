"""Load weights and tokenizer by transformers: a folder, a hub id or a GGUF file, with a sensible device and dtype."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

from hermes_lab.errors import ConfigError, MissingError

_notices: Any = logging  # its functions have no types

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The dtypes that `lab.toml` may name."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Weights and tokenizer, with where and how they are held."""

    weights: Any
    tokenizer: Any
    device: torch.device
    dtype: torch.dtype


def load(source: str, *, device: str | None = None, dtype: str | None = None) -> Loaded:
    """Return the causal language model of `source`: a folder, a `.gguf` file or the id of a hub repository.

    Args:
        source: what stands after `hf:`.
        device: as torch names it; None for CUDA, else Apple's MPS, else the CPU.
        dtype: one of `DTYPES`; None for bfloat16 where the device computes it quickly, else float32.

    Raises:
        MissingError: there is no such model, or it cannot be fetched.
        ConfigError: an unknown dtype or device, or files that transformers cannot load.
    """
    chosen_device = _device(device)
    chosen_dtype = _dtype(dtype, chosen_device)
    path = Path(source).expanduser()
    try:
        with quiet_transformers():
            if path.suffix == ".gguf" and path.is_file():
                weights, tokenizer = load_gguf(path, chosen_dtype)
            else:
                weights, tokenizer = _load_pretrained(source, path, chosen_dtype)
            weights = weights.to(chosen_device).eval()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, struct.error) as error:
        raise _explain(source, path, error) from error
    return Loaded(weights, tokenizer, chosen_device, chosen_dtype)


def load_gguf(path: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Return the weights of a GGUF file, no longer quantized, and its tokenizer."""
    folder, name = str(path.parent), path.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    if tokenizer.chat_template is None:  # transformers overlooks it where tokenizer files lie beside the GGUF
        field = GGUFReader(path).get_field("tokenizer.chat_template")
        tokenizer.chat_template = field.contents() if field is not None else None
    with contextlib.redirect_stderr(io.StringIO()):  # transformers shows a bar here that no setting of its own hides
        weights = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, dtype=dtype, quantization_config=GgufConfig(dequantize=True)
        )
    return weights, tokenizer


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' own progress bars and notices off the terminal for the length of the block."""
    had_bars = _notices.is_progress_bar_enabled()
    verbosity = _notices.get_verbosity()
    _notices.disable_progress_bar()
    _notices.set_verbosity_error()
    try:
        yield
    finally:
        _notices.set_verbosity(verbosity)
        if had_bars:
            _notices.enable_progress_bar()


def _load_pretrained(source: str, path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    where = str(path) if path.is_dir() else source
    tokenizer = AutoTokenizer.from_pretrained(where)
    return AutoModelForCausalLM.from_pretrained(where, dtype=dtype), tokenizer


def _device(named: str | None) -> torch.device:
    if named is not None:
        try:
            return torch.device(named)
        except RuntimeError as error:
            raise ConfigError(f"device = {named!r}: {str(error).splitlines()[0]}") from None
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def _dtype(named: str | None, device: torch.device) -> torch.dtype:
    if named is None:
        return torch.bfloat16 if device.type != "cpu" or _cpu_is_quick_in_bfloat16() else torch.float32
    if named not in DTYPES:
        raise ConfigError(f"dtype = {named!r} is not known: use one of {', '.join(DTYPES)}")
    return DTYPES[named]


def _cpu_is_quick_in_bfloat16() -> bool:
    """Tell whether the CPU has instructions for bfloat16; without them it is slower than float32.

    On the embedded model bfloat16 is as accurate on BFCL as float32 (see `tests/benchmarks/README.md`). torch offers no
    public name for this question, so one that is gone means no.
    """
    found = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(found is not None and found())


def _explain(source: str, path: Path, error: BaseException) -> ConfigError | MissingError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    looks_local = source.startswith((".", "/", "~")) or source.count("/") > 1 or path.suffix == ".gguf"
    if not path.exists() and looks_local:
        return MissingError(f"hf:{source}: there is no such file or folder: {path.absolute()}")
    if path.exists():
        return ConfigError(f"hf:{source}: transformers cannot load it: {said}")
    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}
    hint = "HF_HUB_OFFLINE is set, so only what is cached can be used" if offline else "check the id and the network"
    return MissingError(
        f"hf:{source} could not be fetched from the Hugging Face hub: {said} ({hint}); or name a folder or .gguf file"
    )
