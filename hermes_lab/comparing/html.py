"""Draws a comparison as HTML: a fragment for notebooks, and a page that needs no other file. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hermes_lab.comparing import text
from hermes_lab.comparing.comparison import Comparison, Dimension, TypeRow

_SHOWN = 20
"""Tasks of one version only that are named; the rest is counted."""

_STYLE = """
.hermes-comparison { font: 14px/1.5 system-ui, sans-serif; max-width: 60em; }
.hermes-comparison table { border-collapse: collapse; margin: 0.5em 0 1em; }
.hermes-comparison th, .hermes-comparison td { padding: 0.2em 0.8em; text-align: right; }
.hermes-comparison tr { border-bottom: 1px solid #8884; }
.hermes-comparison th:first-child, .hermes-comparison td:first-child { text-align: left; }
.hermes-comparison .warning { border-left: 3px solid #b58900; padding-left: 0.6em; }
"""


def page(found: Comparison) -> str:
    """Return a whole HTML page."""
    title = escape(f"{found.labels[1]} against {found.labels[0]}")
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f"<!doctype html>\n<html><head>{head}</head><body>\n{fragment(found)}\n</body></html>\n"


def fragment(found: Comparison) -> str:
    """Return HTML to put into a page."""
    scoring = [] if found.scoring_hash is None else [f"scoring {found.scoring_hash}"]
    parts = [
        f"<style>{_STYLE}</style>",
        f"<h3>{escape(text.headline(found))}</h3>",
        *(f'<p class="warning">{escape(warning)}</p>' for warning in found.warnings),
        _listed([*text.facts(found), *scoring]),
        _interval_bar(found),
        "<h4>By task type</h4>",
        _types(found),
        "<h4>Other measures, described and not judged</h4>",
        _dimensions(found),
        _only(found.labels[0], found.only_old),
        _only(found.labels[1], found.only_new),
    ]
    return '<div class="hermes-comparison">' + "\n".join(part for part in parts if part) + "</div>"


def _listed(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _interval_bar(found: Comparison) -> str:
    """Return a drawing of the interval about 0."""
    if found.interval is None or found.difference is None:
        return ""
    low, high = found.interval
    reach = max(abs(low), abs(high), abs(found.difference), 0.01)
    left, right, middle = (300 + 290 * value / reach for value in (low, high, found.difference))
    return (
        '<svg width="600" height="30" role="img"><title>interval of the difference; the upright line is 0</title>'
        '<line x1="300" x2="300" y1="2" y2="28" stroke="gray"/>'
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="15" y2="15" stroke="currentColor" stroke-width="3"/>'
        f'<circle cx="{middle:.1f}" cy="15" r="5" fill="currentColor"/></svg>'
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _types(found: Comparison) -> str:
    old, new = found.labels
    header = ["task type", f"tasks {old}", f"tasks {new}", "share", f"score {old}", f"score {new}"]
    header += [f"cost {old}", f"cost {new}", "penalties", "difference"]
    return _table(header, (_type_cells(row) for row in found.types))


def _type_cells(row: TypeRow) -> list[str]:
    penalties = f"{text.number(row.old_penalty)} / {text.number(row.new_penalty)}"
    scores = [text.number(value) for value in (row.old_score, row.new_score, row.old_cost, row.new_cost)]
    counts = [str(row.old_tasks), str(row.new_tasks), f"{row.share:.0%}"]
    return [row.task_type, *counts, *scores, penalties, text.points(row.difference)]


def _dimensions(found: Comparison) -> str:
    header = ["measure", *found.labels, "difference", "known in"]
    return _table(header, (_dimension_cells(row) for row in found.dimensions))


def _dimension_cells(row: Dimension) -> list[str]:
    return [row.name, text.number(row.old), text.number(row.new), text.number(row.difference), str(row.known)]


def _only(label: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"<p>Only {escape(label)} ran {len(names)} tasks: {escape(', '.join(names[:_SHOWN]))}{more}</p>"
