"""Who may decide: a person with a name, who gives a reason. Never a model, the system, or nobody.

The check is of form only: it keeps programs from signing by slip, and names from looking like others. That a name is
the person's own is for the operating system's accounts, which say who may write into the lab's folder.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MOST_NAME_CHARS = 80
MOST_REASON_CHARS = 2_000

EXPIRY = "expiry"
"""Stands in place of a person where a proposal expired: the one decision that needs nobody."""

# What must never sign: these words anywhere in a name, so that "Support Agent" is refused, too ...
_MACHINE_WORDS = """
model agent assistant system reflector reflection bot robot llm chatgpt automatic autopilot unattended callback cron
scheduler pipeline evolver nobody unknown anonymous expiry hermeslab developer
模型 助手 系统 智能体 机器人 自动 代理 无人 匿名 未知 程序 脚本
"""
# ... and these where they are all of it, for a person may be called Claude Monet or Ai Weiwei.
_MACHINE_NAMES = """
ai auto claude deepseek evolve function gate gemini gpt hermes llama mistral none nous null qwen rule script tool
"""
_MACHINES = frozenset(_MACHINE_WORDS.split())
_WHOLE = frozenset(_MACHINE_NAMES.split())
_WORD = re.compile(r"[^\W_]+")
_MACHINE_FORM = re.compile(
    r"(?:^|[^a-z])(?:gpt|hermes|llama|claude|qwen|gemini|mistral|deepseek)[-_ ]?\d|:|/", re.IGNORECASE
)
_LOOKALIKES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


def why_not_person(name: object, models: Iterable[str] = ()) -> str | None:
    """Return why `name` cannot sign a decision; None where it can.

    >>> why_not_person("Li Wei"), why_not_person("王芳"), why_not_person("O'Neil, Zoë")
    (None, None, None)
    >>> why_not_person("Hermes-3-Llama-3.1-8B")
    "'Hermes-3-Llama-3.1-8B' names a model or a program, and only a person decides"
    >>> why_not_person("  ")
    'nobody is named'

    Args:
        name: who decides.
        models: names of the models in use, which cannot decide either.
    """
    if not isinstance(name, str) or not name.strip():
        return "nobody is named"
    if len(name) > MOST_NAME_CHARS:
        return f"the name is longer than {MOST_NAME_CHARS} characters"
    if any(unicodedata.category(char).startswith(("C", "Zl", "Zp")) for char in name):
        return f"{name!a} holds characters that cannot be seen"
    plain = unicodedata.normalize("NFKC", name).casefold()
    words = _WORD.findall(plain)
    if not any(char.isalpha() for char in plain):
        return f"{name!r} is no name: it has no letter"
    if any(_mixes_scripts(word) for word in words):
        return f"{name!r} mixes alphabets within a word, so it looks like another name"
    is_model = plain.strip() in {unicodedata.normalize("NFKC", model).casefold() for model in models}
    if is_model or _MACHINES.intersection(words) or _WHOLE.issuperset(words) or _MACHINE_FORM.search(plain):
        return f"{name!r} names a model or a program, and only a person decides"
    return None


def why_no_reason(reason: object) -> str | None:
    r"""Return why `reason` is none; None where it is one.

    >>> why_no_reason("seen in three episodes"), why_no_reason("\u200b ")
    (None, 'no reason is given')
    """
    if not isinstance(reason, str) or not any(char.isalnum() for char in reason):
        return "no reason is given"
    if len(reason) > MOST_REASON_CHARS:
        return f"the reason is longer than {MOST_REASON_CHARS} characters"
    return None


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()}
    return "LATIN" in scripts and any(script in scripts for script in _LOOKALIKES)
