"""The command `tools`: what the tools of a suite do, how dangerous they are, and what the lab's rules say of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hermes_lab.cli import show

if TYPE_CHECKING:
    from hermes_lab.permissions import PermissionRule
    from hermes_lab.tools.base import Spec


@click.command(epilog="Example: hermes-lab tools --rules")
@click.option("--suite", default="desk", show_default=True, help="Whose tools.")
@click.option("--rules", "with_rules", is_flag=True, help="Say what the lab's deny and ask rules say of each.")
@show.json_option
@click.pass_obj
def tools(lab_path: str | None, suite: str, with_rules: bool, as_json: bool) -> None:
    """List the tools of a suite: level, what each does, and its arguments; `?` marks those that may be left out.

    read_only looks, executable changes things, high_risk always asks a person.
    """
    from hermes_lab.lab import default_path
    from hermes_lab.suites.registry import open_suite

    specs = [tool.spec for tool in open_suite(suite, default_path(lab_path).absolute()).toolbox().values()]
    rules = _rules(lab_path) if with_rules else ()
    if as_json:
        show.print_json([_record(spec, rules, with_rules) for spec in specs])
        return
    columns = ["tool", "level", "what it does", "arguments", *(["rules"] if with_rules else [])]
    rows = []
    for spec in specs:
        row = [spec.name, spec.level.value, spec.description, arguments_text(spec.parameters)]
        rows.append([*row, "; ".join(rulings(spec, rules))] if with_rules else row)
    show.print_table(columns, rows)


def _rules(lab_path: str | None) -> Sequence[PermissionRule]:
    """Return the rules of the lab; none where there is no lab yet."""
    from hermes_lab.errors import MissingError
    from hermes_lab.lab import open_lab

    try:
        return open_lab(lab_path, create=False).settings.permissions.rules
    except MissingError:
        return ()


def _record(spec: Spec, rules: Sequence[PermissionRule], with_rules: bool) -> dict[str, Any]:
    record = {
        "name": spec.name,
        "level": spec.level.value,
        "description": spec.description,
        "parameters": spec.parameters,
        "limits": {"seconds": spec.limits.seconds, "output_chars": spec.limits.output_chars},
    }
    return {**record, "rules": rulings(spec, rules)} if with_rules else record


def arguments_text(schema: dict[str, Any]) -> str:
    """Return the arguments of a tool in a line, those that may be left out with `?`.

    >>> arguments_text({"properties": {"id": {"type": "string"}, "n": {"enum": [1, 2]}}, "required": ["id"]})
    'id: string, n?: 1|2'
    """
    needed = schema.get("required", [])
    properties = schema.get("properties", {})
    return ", ".join(f"{name}{'' if name in needed else '?'}: {_type_text(of)}" for name, of in properties.items())


def _type_text(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return "|".join(dict.fromkeys(map(_type_text, schema["anyOf"])))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    return "|".join(kind) if isinstance(kind, list) else str(kind)


def rulings(spec: Spec, rules: Sequence[PermissionRule]) -> list[str]:
    """Return what each rule that is about a tool says, in order, and what holds where none applies."""
    from hermes_lab.permissions import decide

    said = [
        _rule_text(number, rule)
        for number, rule in enumerate(rules)
        if fnmatch.fnmatchcase(spec.name, rule.tool) or rule.tool == spec.name
    ]
    verdict = decide((), spec, {}, "").verdict.value
    return [*said, f"{'else ' if said else ''}{verdict}"]


def _rule_text(number: int, rule: PermissionRule) -> str:
    where = []
    if rule.argument is not None:
        where.append(f"{rule.argument} matches {rule.pattern}" if rule.pattern else f"{rule.argument} is given")
    elif rule.pattern:
        where.append(f"an argument matches {rule.pattern}")
    if rule.task_type != "*":
        where.append(f"the task type is {rule.task_type}")
    condition = f" where {' and '.join(where)}" if where else ""
    return f"{rule.decision}{condition} ({rule.name or f'rules[{number}]'})"
