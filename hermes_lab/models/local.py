"""Local models: `embedded`, and any causal language model that transformers loads (`hf:<folder, id or .gguf>`).

Replies are decoded in batches formed by the order of the requests. The tokens of a system turn that several prompts
begin with are computed once and kept. In float32 a reply does not depend on what else is in its batch.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import llguidance
import msgspec
import torch
import transformers

from hermes_lab.errors import ConfigError
from hermes_lab.kinds import ErrorKind
from hermes_lab.models import embedded
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.local_batch import Failure, Job, batches, first_of_each
from hermes_lab.models.local_decode import Decoder
from hermes_lab.models.local_engine import Engine
from hermes_lab.models.local_load import Loaded, load
from hermes_lab.models.local_prompt import Prompter, PromptError
from hermes_lab.models.local_reply import failed_reply, reply
from hermes_lab.models.local_schema import Grammars, SchemaError
from hermes_lab.models.prompt import wording

DECODING = 1
"""Raised when a change of this code could give the same request another reply."""

_MIB = 1 << 20
_UNLIMITED = 1_000_000
_END_TEXTS = ("<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|endoftext|>")
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `lab.toml` may set about a local model.

    Attributes:
        dtype: of the weights; None for bfloat16 on a GPU, and on a CPU that has instructions for it.
        device: as torch names it, such as "cuda:1"; None for a GPU where there is one.
        batch_size: replies decoded at once.
        threads: CPU threads that torch uses, in the whole process; None leaves them as they are.
        prefix_mb: memory in MiB for system turns that are kept; 0 computes them afresh each time.
    """

    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    device: str | None = None
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 8
    threads: _Positive | None = None
    prefix_mb: Annotated[int, msgspec.Meta(ge=0)] = 1024


def open_local(name: str, source: str | None = None, options: Mapping[str, Any] | None = None) -> LocalModel:
    """Load a local model.

    Args:
        name: `embedded`, or `hf:` and a folder, a `.gguf` file or the id of a repository of the Hugging Face hub; any
            name where `source` says what it is.
        source: in the same form; None: it is `name`.
        options: fields of `LocalOptions`.

    Raises:
        ConfigError: an unknown option or a wrong value, or files that cannot be loaded.
        MissingError: there is no such model, or it could not be fetched.
    """
    chosen = read_options(name, options or {})
    if chosen.threads is not None:
        torch.set_num_threads(chosen.threads)
    wanted = (source or name).removeprefix("hf:")
    path = str(embedded.fetch()) if wanted == "embedded" else wanted
    return LocalModel(name, load(path, device=chosen.device, dtype=chosen.dtype), chosen)


def read_options(name: str, options: Mapping[str, Any]) -> LocalOptions:
    """Return the options of the model `name`.

    Raises:
        ConfigError: an unknown option or a wrong value; the message says which.
    """
    try:
        return msgspec.convert(dict(options), LocalOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(LocalOptions.__struct_fields__)
        raise ConfigError(f"options of the model {name!r}: {error} (the options are {known})") from None


class LocalModel:
    """A local model; implements `models.base.Model`. Threads may share it: their calls wait for each other."""

    def __init__(self, name: str, loaded: Loaded, options: LocalOptions | None = None) -> None:
        """Make a loaded model ready; `open_local` does both.

        Args:
            name: as in `lab.toml`.
            loaded: weights and tokenizer.
            options: how it decodes.
        """
        self._name = name
        self._options = options or LocalOptions()
        self._lock = threading.Lock()
        self._prompter = Prompter(loaded.tokenizer)
        self._engine = Engine(loaded, self._options.prefix_mb * _MIB)
        ends = _end_tokens(loaded, self._engine.vocabulary)
        self._grammars = Grammars(loaded.tokenizer, self._engine.vocabulary, ends)
        self._decoder = Decoder(self._prompter.decode, ends)
        self._context = _context(self._engine, loaded.tokenizer)
        self._fingerprint = _fingerprint(self._engine, loaded)

    @property
    def name(self) -> str:
        """As named in `lab.toml`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Changes with the weights, the tokenizer, dtype, device, versions and the wording of prompts."""
        return self._fingerprint

    @property
    def context_tokens(self) -> int | None:
        """Tokens that fit in a prompt and its reply."""
        return self._context

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        """Answer each request; see `Model.generate`.

        Time and latency of a reply count from when its batch begins, not while it waits for other batches. Identical
        greedy requests are computed once; the others' replies say `from_cache`.
        """
        limits: Sequence[float | None] = [None] * len(requests) if seconds is None else seconds
        firsts = first_of_each(requests, limits)
        jobs: dict[int, Job] = {}
        replies: dict[int, Reply] = {}
        with self._lock:
            for place in dict.fromkeys(firsts):
                prepared = self._prepare(requests[place], limits[place])
                if isinstance(prepared, Job):
                    jobs[place] = prepared
                else:
                    replies[place] = failed_reply(prepared, self._name)
            uses = Counter(job.shared for job in jobs.values())
            for places in batches(jobs, self._options.batch_size if self._engine.shares else 1):
                written = self._decode([jobs[place] for place in places], uses)
                replies.update(zip(places, written, strict=True))
        return [
            replies[first] if first == place else msgspec.structs.replace(replies[first], from_cache=True)
            for place, first in enumerate(firsts)
        ]

    def most_tokens(self, request: Request) -> int:
        """Return the tokens of the prompt, exactly; 0 where the chat template refuses it."""
        try:
            return len(self._prompter.tokens(request))
        except PromptError:
            return 0

    def close(self) -> None:
        """Let go of the weights."""
        with self._lock:
            self._engine.close()

    def _prepare(self, request: Request, seconds: float | None) -> Job | Failure:
        """Return the request, ready to be decoded, or why it cannot be."""
        try:
            prompt = self._prompter.tokens(request)
            binding = None if request.schema is None else self._grammars.bind(request.schema)
        except (PromptError, SchemaError) as error:
            return Failure(ErrorKind.BAD_ARGUMENTS, str(error))
        if not prompt:
            return Failure(ErrorKind.BAD_ARGUMENTS, "the prompt is empty: give at least one turn")
        room = request.max_tokens if self._context is None else self._context - len(prompt)
        if room < 1:
            message = (
                f"the prompt has {len(prompt)} tokens and {self._name} takes {self._context}, the reply included: "
                "shorten it, or offer fewer tools"
            )
            return Failure(ErrorKind.CONTEXT_LENGTH, message, len(prompt))
        shared = self._prompter.shared(request)
        if len(shared) == len(prompt) or tuple(prompt[: len(shared)]) != shared:
            shared = ()
        return Job(request, prompt, shared, min(request.max_tokens, room), binding, seconds)

    def _decode(self, jobs: Sequence[Job], uses: Mapping[tuple[int, ...], int]) -> list[Reply]:
        """Decode one batch; where the device has no room for it, its halves."""
        try:
            prefixes = [self._engine.prefix(job.shared, uses[job.shared]) for job in jobs]
            held = [len(prefix.tokens) if prefix else 0 for prefix in prefixes]
            written = self._decoder.run(self._engine.rows(prefixes), jobs, held)
            return [reply(writing, self._name, self._prompter) for writing in written]
        except torch.OutOfMemoryError as error:
            if len(jobs) == 1:
                message = f"{error}: shorten the prompt, or use a smaller model or dtype"
                return [failed_reply(Failure(ErrorKind.MEMORY_LIMIT, message, len(jobs[0].prompt)), self._name)]
        half = len(jobs) // 2
        return self._decode(jobs[:half], uses) + self._decode(jobs[half:], uses)


def _end_tokens(loaded: Loaded, width: int) -> list[int]:
    """Return the ids of the tokens that end a turn, the tokenizer's own first."""
    configured = getattr(loaded.weights.generation_config, "eos_token_id", None)
    ends = [loaded.tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])]
    vocabulary = loaded.tokenizer.get_vocab()
    ends += [vocabulary[text] for text in _END_TEXTS if text in vocabulary]
    return list(dict.fromkeys(int(end) for end in ends if end is not None and 0 <= end < width))


def _context(engine: Engine, tokenizer: Any) -> int | None:
    limits = [engine.context_tokens, tokenizer.model_max_length]
    known = [int(limit) for limit in limits if limit and limit < _UNLIMITED]
    return min(known, default=None)


def _fingerprint(engine: Engine, loaded: Loaded) -> str:
    parts = [
        DECODING,
        engine.fingerprint(),
        hashlib.sha256(loaded.tokenizer.backend_tokenizer.to_str().encode()).hexdigest(),
        loaded.tokenizer.chat_template,
        loaded.dtype,
        loaded.device.type,
        torch.backends.cpu.get_cpu_capability() if loaded.device.type == "cpu" else torch.version.cuda,
        torch.__version__,
        transformers.__version__,
        llguidance.__version__,
        wording(),
        engine.shares,
    ]
    return hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]
