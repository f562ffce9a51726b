"""The models that a lab names: open one by its name, hold one for each tier, and list them with their state."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.kinds import Tier
from hermes_lab.models.base import Model
from hermes_lab.models.prices import Price, PricedModel

EMBEDDED = "embedded"
HF = "hf:"
OPENAI = "openai:"
SCRIPTED = "scripted:"

KNOWN = (
    f"{EMBEDDED} (SmolLM2-135M-Instruct), {HF}<folder, .gguf file or hub id>, {OPENAI}<base url>#<model>, "
    f"{SCRIPTED}<file of JSON lines>"
)
"""The names that `open_model` takes, for messages."""

CACHE_FILE = "replies.sqlite"
"""The cache of replies, in a lab's `cache/`."""

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[models]` table of `lab.toml`.

    Attributes:
        light: the model of the light tier; see `KNOWN`.
        strong: of the strong tier; None for the light one.
        cache: whether greedy replies are kept, and given again to the same request.
        cache_max_mb: megabytes of that cache at most.
        prices: US dollars for a million tokens, by model name.
        options: options of the back end, by model name.
    """

    light: _Name = EMBEDDED
    strong: _Name | None = None
    cache: bool = True
    cache_max_mb: Annotated[float, msgspec.Meta(gt=0)] = 512.0
    prices: dict[str, Price] = {}
    options: dict[str, dict[str, Any]] = {}

    def named(self, tier: Tier) -> str:
        """Return the name of the model of a tier."""
        return self.light if tier is Tier.LIGHT or self.strong is None else self.strong


class Row(NamedTuple):
    """A model in the list of `hermes-lab models`.

    Attributes:
        name: as in `lab.toml`.
        tier: "light", "strong", "light, strong", or "" where no tier names it.
        kind: what runs it.
        state: in a few words; nothing is loaded or asked to find it out.
        note: what to do or to know.
    """

    name: str
    tier: str
    kind: str
    state: str
    note: str = ""


def open_model(name: str, options: dict[str, Any] | None = None) -> Model:
    """Open a model by its name; the back end is imported only now.

    Args:
        name: see `KNOWN`.
        options: what the back end takes: `local.LocalOptions`, `openai_options.OpenAIOptions`; none for a script.

    Raises:
        ConfigError: an unknown name, an unknown option or a wrong value; the message says what is known.
        MissingError: there is no such model or file, or it could not be fetched.
    """
    options = options or {}
    if name == EMBEDDED or name.startswith(HF):
        from hermes_lab.models.local import open_local

        return open_local(name, options=options)
    if name.startswith(OPENAI):
        from hermes_lab.models.openai import OpenAIModel

        return OpenAIModel(name, options)
    if name.startswith(SCRIPTED):
        from hermes_lab.models.scripted import ScriptedModel, read_script

        if options:
            raise ConfigError(f"the model {name!r} has no options, but {', '.join(options)} is set: take it out")
        return ScriptedModel(read_script(name.removeprefix(SCRIPTED), name), name)
    raise ConfigError(f"there is no model {name!r}: write one of {KNOWN}")


class Tiers:
    """The models of the two tiers, each opened when it is first asked for. Close it, or use it as a context manager."""

    def __init__(self, settings: ModelSettings | None = None, cache_folder: Path | str | None = None) -> None:
        """Keep the settings; nothing is opened yet.

        Args:
            settings: the `[models]` table; None for its defaults.
            cache_folder: where the cache of replies lies (a lab's `cache/`); None for no cache.

        Raises:
            ConfigError: prices or options of a model that no tier names.
        """
        self._settings = settings or ModelSettings()
        check_settings(self._settings)
        self._cache_folder = None if cache_folder is None else Path(cache_folder)
        self._opening = threading.Lock()
        self._open: dict[str, Model] = {}

    def __enter__(self) -> Tiers:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        self.close()

    @property
    def light(self) -> Model:
        """The model of the light tier; see `open_model` for what may be raised."""
        return self.of(Tier.LIGHT)

    @property
    def strong(self) -> Model:
        """The model of the strong tier: the same object as the light one where both have the same name."""
        return self.of(Tier.STRONG)

    def of(self, tier: Tier) -> Model:
        """Return the model of a tier, and open it if need be."""
        name = self._settings.named(tier)
        with self._opening:
            if name not in self._open:
                self._open[name] = self._wrapped(name)
            return self._open[name]

    def close(self) -> None:
        """Close the models that are open; one that is asked for later is opened again."""
        with self._opening:
            models = list(self._open.values())
            self._open.clear()
        for model in models:
            model.close()

    def _wrapped(self, name: str) -> Model:
        model = open_model(name, self._settings.options.get(name))
        price = self._settings.prices.get(name)
        if price is not None:
            model = PricedModel(model, price)
        # A script is in order, so it must be asked each time.
        if self._settings.cache and self._cache_folder is not None and not name.startswith(SCRIPTED):
            from hermes_lab.models.cache import CachedModel

            model = CachedModel(model, self._cache_folder / CACHE_FILE, self._settings.cache_max_mb)
        return model


def check_settings(settings: ModelSettings) -> None:
    """Look for slips that would otherwise be settings that nothing reads.

    Raises:
        ConfigError: a name of no known form, or prices or options of a model that no tier names.
    """
    named = [settings.named(tier) for tier in Tier]
    for name in named:
        _kind(name)
    for table, keys in (("prices", settings.prices), ("options", settings.options)):
        for name in keys:
            if name not in named:
                raise ConfigError(
                    f"[models.{table}] names {name!r}, which is no tier's model ({', '.join(dict.fromkeys(named))}): "
                    "write the name as it stands under light or strong"
                )


def available(settings: ModelSettings | None = None) -> list[Row]:
    """Return the models of the tiers and the embedded one, with their state; loads no weights and asks no server."""
    settings = settings or ModelSettings()
    tiers: dict[str, list[str]] = {}
    for tier in Tier:
        tiers.setdefault(settings.named(tier), []).append(str(tier))
    tiers.setdefault(EMBEDDED, [])
    return [_row(name, ", ".join(of), settings.options.get(name, {})) for name, of in tiers.items()]


def _row(name: str, tier: str, options: dict[str, Any]) -> Row:
    try:
        kind = _kind(name)
        look = {EMBEDDED: _embedded_state, HF: _hf_state, OPENAI: _openai_state, SCRIPTED: _script_state}[kind]
        state, note = look(name, options)
    except HermesLabError as error:
        return Row(name, tier, "unknown", "wrong", str(error))
    return Row(name, tier, kind.rstrip(":"), state, note)


def _kind(name: str) -> str:
    if name == EMBEDDED:
        return EMBEDDED
    for prefix in (HF, OPENAI, SCRIPTED):
        if name.startswith(prefix) and len(name) > len(prefix) and "\0" not in name:
            return prefix
    raise ConfigError(f"there is no model {name!r}: write one of {KNOWN}")


def _embedded_state(_name: str, _options: dict[str, Any]) -> tuple[str, str]:
    from hermes_lab.models import embedded

    if embedded.is_fetched():
        return "fetched", str(embedded.model_folder())
    return "not fetched", f"the first use fetches it from PyPI ({embedded.REQUIREMENT})"


def _hf_state(name: str, _options: dict[str, Any]) -> tuple[str, str]:
    source = name.removeprefix(HF)
    path = Path(source).expanduser()
    if path.exists():
        return "on disk", str(path.absolute())
    if source.startswith((".", "/", "~")) or source.endswith(".gguf") or source.count("/") != 1:
        return "missing", f"there is no {path.absolute()}"
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(source, "config.json")
    except ValueError:  # as it refuses what can be no id
        return "wrong", f"{source!r} is neither a folder, a file nor the id of a repository"
    if isinstance(found, str):
        return "fetched", "in the cache of the Hugging Face hub"
    return "not fetched", "the first use fetches it from the Hugging Face hub"


def _openai_state(name: str, options: dict[str, Any]) -> tuple[str, str]:
    from hermes_lab.models.openai_options import DEFAULT_KEY_ENV, find_key, read_address, read_options

    address = read_address(name)
    key_env = read_options(name, options).key_env
    key = find_key(name, address, key_env)
    if key is not None:
        return "not asked", f"the key in {key_env or DEFAULT_KEY_ENV} is sent to {address.host}"
    hint = f"; set {DEFAULT_KEY_ENV} if it wants one" if address.is_encrypted and not address.is_loopback else ""
    return "not asked", f"no key is sent to {address.host}{hint}"


def _script_state(name: str, _options: dict[str, Any]) -> tuple[str, str]:
    path = Path(name.removeprefix(SCRIPTED)).expanduser()
    if not os.access(path, os.R_OK):
        return "missing", f"there is no readable file {path.absolute()}"
    return "on disk", str(path.absolute())
