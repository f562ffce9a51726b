"""The command `models`: the models that the lab names, their state and price, and what may be set about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import hints, show

if TYPE_CHECKING:
    from hermes_lab.models.prices import Price
    from hermes_lab.models.registry import ModelSettings

_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


@click.command(epilog="Example: hermes-lab models --fetch")
@click.option("--fetch", is_flag=True, help="Fetch the embedded model now (93 MB; it takes 640 MB on the disk).")
@click.option("--options", "with_options", is_flag=True, help="Say what may be set about models in lab.toml.")
@show.json_option
@click.pass_obj
def models(lab_path: str | None, fetch: bool, with_options: bool, as_json: bool) -> None:
    """List the models of the lab with tier, state and price; no weights are loaded and no server is asked.

    lab.toml names them ([models] light = ..., strong = ...): embedded, hf:<folder, .gguf file or hub id>,
    openai:<base url>#<model>.
    """
    if with_options:
        _show_options(as_json)
        return
    if fetch:
        from hermes_lab.models.embedded import fetch as fetch_embedded

        click.echo(f"the embedded model is in {fetch_embedded(progress=not as_json)}", err=True)
    from hermes_lab.models.registry import available

    settings = _settings(lab_path)
    rows = available(settings)
    if as_json:
        show.print_json([_record(row._asdict(), settings) for row in rows])
        return
    columns = ["model", "tier", "kind", "state", "price (USD a million tokens)", "options", "note"]
    show.print_table(columns, [_line(row, settings) for row in rows])
    click.echo(f"What may be set about a model: {hints.command(lab_path, 'models', '--options')}")


def _settings(lab_path: str | None) -> ModelSettings:
    """Return the model settings of the lab; the defaults where there is no lab yet."""
    from hermes_lab.errors import MissingError
    from hermes_lab.lab import open_lab
    from hermes_lab.models.registry import ModelSettings, check_settings

    try:
        settings = open_lab(lab_path, create=False).settings.models
    except MissingError:
        settings = ModelSettings()
    check_settings(settings)
    return settings


def _record(row: dict[str, Any], settings: ModelSettings) -> dict[str, Any]:
    from hermes_lab import payload

    price = settings.prices.get(row["name"])
    return {
        **row,
        "price": None if price is None else payload.plain(price),
        "options": settings.options.get(row["name"], {}),
    }


def _line(row: Any, settings: ModelSettings) -> tuple[Any, ...]:
    options = ", ".join(f"{key} = {value}" for key, value in settings.options.get(row.name, {}).items())
    price = _price_text(settings.prices.get(row.name), row.kind)
    return (row.name, row.tier, row.kind, row.state, price, options, row.note)


def _price_text(price: Price | None, kind: str) -> str:
    if price is None:
        return "none given" if kind == "openai" else ""
    cached = "" if price.cached_input is None else f", cached {price.cached_input:g}"
    return f"in {price.input:g}{cached}, out {price.output:g}"


def _show_options(as_json: bool) -> None:
    rows = [
        (kinds, name, default, meaning)
        for kinds, struct in _backends()
        for name, default, meaning in options_of(struct)
    ]
    if as_json:
        keys = ("models", "option", "default", "meaning")
        show.print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    show.print_table(["models", "option", "default", "meaning"], rows)
    click.echo('Write them in lab.toml: [models] options."NAME" = { batch_size = 16 }')


def _backends() -> tuple[tuple[str, type], ...]:
    from hermes_lab.models.local import LocalOptions  # this loads torch, so it is asked for by an option only
    from hermes_lab.models.openai_options import OpenAIOptions

    return (("embedded, hf", LocalOptions), ("openai", OpenAIOptions))


def options_of(struct: type) -> list[tuple[str, str, str]]:
    """Return the options that a back end takes: name, default, and meaning as its docstring has it.

    >>> from hermes_lab.models.openai_options import OpenAIOptions
    >>> options_of(OpenAIOptions)[2][:2]
    ('max_retries', '4')
    """
    import inspect

    import msgspec

    meanings = dict(_ATTRIBUTE.findall(inspect.getdoc(struct) or ""))
    rows = []
    for field in msgspec.structs.fields(struct):
        default = "" if field.default is None else repr(field.default)
        rows.append((field.name, default, " ".join(meanings.get(field.name, "").split())))
    return rows
