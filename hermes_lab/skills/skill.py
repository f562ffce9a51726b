"""A skill as a value: what its `SKILL.md` declares, read from the front matter as others write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_lab.skills.file import SkillFile, parse
from hermes_lab.skills.front_matter import SkillError

NAME_CHARS = 64
"""Length of a name at most; both formats say so."""

DESCRIPTION_CHARS = 1024
"""Length of a description at most; both formats say so."""

_HEADING = re.compile(r"#{1,6}[ \t]+(.+)")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*\))?")


class Needs(NamedTuple):
    """What a skill cannot do without.

    Attributes:
        tools: names of tools.
        skills: names of other skills.
        inputs: what the user or another skill must give, in words.
    """

    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


class Skill(NamedTuple):
    """A skill.

    What it needs and gives is declared as `metadata: {hermes-lab: {needs: {tools, skills, inputs}, gives}}`;
    `metadata.hermes.requires_tools` counts as needed tools.

    Attributes:
        name: unique within a library.
        description: what it does and when to use it.
        body: the Markdown.
        tags: words and phrases that trigger it: `tags`, `triggers` and `keywords`.
        task_types: the types of tasks it is for; empty for all.
        needs: see `Needs`.
        gives: what it leaves behind for others, in words.
        related: names of skills that it points to.
        allowed_tools: tools that it says it uses. Nothing is allowed by being named here.
        text: the whole SKILL.md.
        files: text of its other files by relative path.
        sha256: of the text.
        config_version: the version at work when it was learned.
        source: id of the proposal's event, or the path that it was read from.
        notes: what had to be overlooked in reading it.
    """

    name: str
    description: str
    body: str
    tags: tuple[str, ...] = ()
    task_types: tuple[str, ...] = ()
    needs: Needs = Needs()
    gives: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    text: str = ""
    files: Mapping[str, str] = {}
    sha256: str = ""
    config_version: str | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()


def read_skill(
    text: str,
    where: str = "SKILL.md",
    *,
    name: str | None = None,
    files: Mapping[str, str] | None = None,
    config_version: str | None = None,
    source: str | None = None,
) -> Skill:
    r"""Return the skill that a `SKILL.md` describes.

    >>> read_skill("---\nname: tea\ndescription: Make tea.\ntags: [tea, 茶]\n---\nBoil water.\n").tags
    ('tea', '茶')

    Args:
        text: the whole file.
        where: the file, for messages.
        name: the name where the file has none, such as that of its folder.
        files: the skill's other files.
        config_version: the version at work when it was learned.
        source: where it comes from.

    Raises:
        SkillError: the text is no skill, or has neither name nor description nor body.
    """
    file = parse(text, where)
    front = file.front
    called = _text(front.get("name")) or name
    if not called:
        raise SkillError(f"{where}: the front matter has no `name`")
    described = _text(front.get("description"))
    notes = file.notes
    if not described:
        described = _first_sentence(file.body)
        notes = (*notes, f"{where}: there is no description, so the first line of the body stands for it")
    if not described:
        raise SkillError(f"{where}: it has neither a description nor a body")
    return _skill(file, called, described)._replace(
        files=dict(files or {}), config_version=config_version, source=source, notes=notes
    )


def _skill(file: SkillFile, name: str, description: str) -> Skill:
    from hermes_lab.proposals.standing import sha256

    front = file.front
    metadata = _table(front.get("metadata"))
    hermes, ours = _table(metadata.get("hermes")), _table(metadata.get("hermes-lab"))
    needs = _table(ours.get("needs"))
    places = (front, metadata, hermes, ours)
    return Skill(
        name=name,
        description=description,
        body=file.body,
        tags=_distinct(
            word for place in places for key in ("tags", "triggers", "keywords") for word in _texts(place.get(key))
        ),
        task_types=_distinct(_texts(ours.get("task_types"))),
        needs=Needs(
            tools=_distinct(
                (
                    *_texts(needs.get("tools")),
                    *_texts(hermes.get("requires_tools")),
                    *_texts(front.get("requires_tools")),
                )
            ),
            skills=_distinct(_texts(needs.get("skills"))),
            inputs=_distinct(_texts(needs.get("inputs"))),
        ),
        gives=_distinct(_texts(ours.get("gives"))),
        related=_distinct((*_texts(hermes.get("related_skills")), *_texts(front.get("related_skills")))),
        allowed_tools=_distinct(_tool_names(front.get("allowed-tools"))),
        text=file.text,
        sha256=sha256(file.text),
    )


def headings(body: str) -> list[str]:
    r"""Return the headings of a Markdown text, without those in blocks of code.

    >>> headings("# Tea\nx\n```\n# comment\n```\n## Steps\n")
    ['Tea', 'Steps']
    """
    found = []
    fence = ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or mark.group(1) == fence):
            fence = "" if fence else mark.group(1)
        elif not fence and (heading := _HEADING.match(line)):
            found.append(heading.group(1).strip())
    return found


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    """Return the texts of a list, or of a text that holds a list with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return []
    return [item.strip() for item in value if isinstance(item, str) and item.strip()]


def _tool_names(value: Any) -> list[str]:
    """Return the tools of `allowed-tools`, a list or a text with blanks or commas, without their patterns."""
    entries = value if isinstance(value, list) else _TOOL.findall(value) if isinstance(value, str) else []
    return [entry.split("(")[0].strip() for entry in entries if isinstance(entry, str) and entry.strip()]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _first_sentence(body: str) -> str:
    for line in body.splitlines():
        text = line.strip()
        if text and not text.startswith(("#", "```", "~~~", "---", "<!--")):
            return text[:DESCRIPTION_CHARS]
    return ""
