"""What a proposal must satisfy, in code: clean text, evidence, support, no wish to change the core. Pure.

Each check returns why a proposal cannot be, or None. They run when something is proposed, and again when a person
approves it, for a proposal may come from anywhere.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath

from hermes_lab.conflicts.finding import sentences
from hermes_lab.kinds import Action
from hermes_lab.memory.records import MOST_CHARS, Memory
from hermes_lab.memory.support import Evidence, why_unsupported
from hermes_lab.proposals.steps import Proposal, SkillText, Source

MOST_SKILL_CHARS = 200_000
MOST_FILES = 200
MOST_FILE_CHARS = 1_000_000
MOST_EVIDENCE = 200
LEAST_EPISODES = 2
"""Episodes that a skill's evidence must come from: one trajectory is never enough."""

MOST_REMOVED = 0.5
"""Share of a standing skill's lines that an edit may take away; beyond it, it is a rewrite."""

_REFLECTIONS = (Source.MICRO_REFLECTION, Source.FULL_REFLECTION)
_NAME = re.compile(r"[^\W_][\w .+-]{0,63}\Z")
_RESERVED_NAMES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
_CONTROL_TOKENS = re.compile(
    r"<\s*\|\s*(?:im_start|im_end|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id)\s*\|\s*>"
    r"|</?\s*(?:tool_call|tool_response|tools|scratch_pad|think|schema)\s*>",
    re.IGNORECASE,
)
_SHOWN_JOINERS = ("\u200c", "\u200d")  # scripts and emoji need them

# What only a person may change, in files: a text that asks for it changes nothing, and is not kept as if it could.
_CORE = (
    r"permission|privilege|access level|(?:deny|ask|permission) rules?|high[_ -]?risk|read[_ -]?only|"
    r"approv(?:als?|er|ing|e)|confirmation|confirming|human review|path scope|sql scope|scopes?|sandbox|guard ?rails?|"
    r"safety (?:checks?|rules?)|lab\.toml|the gate|scorer|secrets?|api[_ ]keys?|write path"
    r"|权限|拒绝规则|询问规则|高风险|只读|审批|批准|确认|人工审核|沙箱|安全(?:检查|规则|限制)|作用域|路径范围|密钥|评分器"
)
_CHANGE = (
    r"grant|widen|relax|reveal|lower|(?:rais|remov|disabl|ignor|overrid|downgrad|upgrad|escalat|chang|rewrit)(?:e|ing)|"
    r"(?:bypass|skip|edit|print)(?:p?ing)?|(?:turn|switch)(?:ing)? off|without|no longer needs?|needs? no|never asks?|"
    r"not ask|don't ask|not need|set|auto-?"
    r"|授予|降低|降级|提升|放宽|扩大|移除|删除|禁用|绕过|跳过|忽略|覆盖|关闭|取消|无需|不用|不需要|不必|免去|修改|更改|改为|自动"
)
_WISH = re.compile(
    rf"(?:\b|(?<=[\u4e00-\u9fff])|(?=[\u4e00-\u9fff]))(?:{_CHANGE})[^.!?。！？\n]{{0,60}}?(?:{_CORE})"
    rf"|(?:{_CORE})[^.!?。！？\n]{{0,40}}?(?:{_CHANGE})",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:never|not|don't|cannot|no one|nobody|only (?:a )?person)\b|不要|不得|不能|不可|禁止|切勿|严禁|只有人|别",
    re.IGNORECASE,
)
_GRANTS = re.compile(r"without|needs? no|not need|never asks?|not ask|don't ask|无需|不用|不需要|不必", re.IGNORECASE)


def why_unclean(text: str, *, most_chars: int = MOST_CHARS, lines: bool = False) -> str | None:
    r"""Return why a text cannot be kept: empty, too long, invisible or direction-changing characters, chat marks.

    >>> why_unclean("Reply in Chinese."), why_unclean("a\u202eb")
    (None, "it holds the character '\\u202e', which cannot be seen: take it out")

    Args:
        text: of a memory or a skill.
        most_chars: length that it may have.
        lines: whether it is a file's, which may speak about tags such as `<tool_call>`.
    """
    if not any(char.isalnum() for char in text):
        return "it says nothing"
    if len(text) > most_chars:
        return f"it has {len(text):,} characters, and {most_chars:,} are the most"
    for char in text:
        if _is_hidden(char):
            return f"it holds the character {char!a}, which cannot be seen: take it out"
    mark = _CONTROL_TOKENS.search(unicodedata.normalize("NFKC", text))
    if mark and not (lines and "|" not in mark.group()):
        return f"it holds the mark {mark.group()!r} of the prompt format: take it out"
    return None


def core_wish(text: str) -> str | None:
    """Return the sentence that asks to change what only a person can: permissions, rules, scopes, secrets, this queue.

    >>> core_wish("Lower the permission level of issue_refund to executable.")
    'Lower the permission level of issue_refund to executable.'
    >>> core_wish("把退款工具的权限降级为可执行") is None, core_wish("Never skip the approval of refunds.") is None
    (False, True)
    """
    for sentence in sentences(unicodedata.normalize("NFKC", text)):
        found = _WISH.search(_without_hidden(sentence))
        if found is None:
            continue
        forbids = _FORBIDS.search(sentence[: found.start() + 8])
        if forbids and not _GRANTS.search(found.group()):
            continue
        return sentence[:200]
    return None


def why_not_memory(memory: Memory, source: Source, evidence: Sequence[Evidence], wanted: int, text: str) -> str | None:
    """Return why a memory cannot be; None where it can.

    Args:
        memory: the record.
        source: who proposes it.
        evidence: the events that it names, as the log has them.
        wanted: how many it names.
        text: that it is to have; a person may have edited it.
    """
    wrong = why_unclean(text) or why_no_evidence(source, len(evidence), wanted)
    if wrong:
        return wrong
    if source in _REFLECTIONS:
        if memory.pinned:
            return "only a person pins a memory"
        return why_unsupported(text, memory.kind, evidence) if text == memory.text else None
    if source is Source.IMPORT and text == memory.text and not _is_listed(memory, evidence):
        return "no import in its evidence lists this entry"
    return None


def why_not_skill(
    name: str, skill: SkillText, source: Source, evidence: Sequence[Evidence], wanted: int, standing: str | None
) -> str | None:
    """Return why a skill cannot be; None where it can.

    Args:
        name: of the skill.
        skill: its texts.
        source: who proposes it.
        evidence: the events that it names, as the log has them.
        wanted: how many it names.
        standing: the text that it edits; None for a new one.
    """
    wrong = (
        why_not_name(name)
        or why_unclean(skill.text, most_chars=MOST_SKILL_CHARS, lines=True)
        or _why_no_skill(name, skill.text)
        or why_not_files(skill.files)
        or why_no_evidence(source, len(evidence), wanted)
    )
    if wrong or source not in _REFLECTIONS:
        return wrong
    episodes = {one.episode_id for one in evidence if one.episode_id}
    if len(episodes) < LEAST_EPISODES:
        return f"its evidence comes from {len(episodes)} episodes, and one trajectory is never enough for a skill"
    removal = removed_lines(standing or "", skill.text)
    total = len(_solid(standing or ""))
    if total and len(removal) > MOST_REMOVED * total:
        return f"it takes {len(removal)} of {total} lines away: an edit is a diff, and this is a rewrite"
    return None


def why_core(source: Source, texts: Iterable[str]) -> str | None:
    """Return why these texts cannot be approved as they are: a reflection's wish to change the core waits in the queue.

    A person reads it there, and makes such a change in `lab.toml` or not at all. What a person or a file of theirs
    says is only pointed out (`concerns`).
    """
    wish = next((found for text in texts if (found := core_wish(text))), None)
    if wish is None or source not in _REFLECTIONS:
        return None
    return f"it asks for a change of the core, which a person makes in lab.toml: {wish!r}; edit or reject it"


def why_no_evidence(source: Source, found: int, wanted: int) -> str | None:
    """Return what is wrong with the number of events that a proposal names."""
    if wanted > MOST_EVIDENCE:
        return f"it names {wanted} events as evidence, and {MOST_EVIDENCE} are the most"
    if found < wanted:
        return f"{wanted - found} of the {wanted} events that it names as evidence are not in the log"
    if not wanted and source in _REFLECTIONS:
        return "it names no evidence"
    return None


def why_not_name(name: str) -> str | None:
    """Return why a skill cannot have this name, which is the name of a folder, too."""
    if not _NAME.match(name) or name != name.strip(" .") or name.partition(".")[0].casefold() in _RESERVED_NAMES:
        return (
            f"{name!a} is no name for a skill: up to 64 letters, digits, '-', '_', '.', '+' and blanks, a letter first"
        )
    return None


def why_not_files(files: Mapping[str, str]) -> str | None:
    """Return which of a skill's files cannot be: a path that leaves the folder, or too much text."""
    if len(files) > MOST_FILES:
        return f"it has {len(files)} files, and {MOST_FILES} are the most"
    outside = next((path for path in files if not _is_inside(path)), None)
    if outside is not None:
        return f"its file {outside!a} is no path within the skill's folder"
    if sum(map(len, files.values())) > MOST_FILE_CHARS:
        return f"its files have more than {MOST_FILE_CHARS:,} characters"
    return None


def removed_lines(standing: str, text: str) -> list[str]:
    r"""Return the lines of a standing skill that a new text does not hold any more, in order; blank lines aside.

    >>> removed_lines("a\nb\nc", "a\nc\nd")
    ['b']
    """
    left = [line.strip() for line in text.splitlines()]
    removed = []
    for line in _solid(standing):
        if line in left:
            left.remove(line)
        else:
            removed.append(line)
    return removed


def concerns(proposal: Proposal) -> tuple[str, ...]:
    """Return what a person should know of a proposal before deciding; bulk approval leaves out what has any."""
    found = []
    wish = core_wish(proposal.text)
    if wish:
        found.append(f"it asks for a change of the core, which no memory or skill can make: {wish!r}")
    for path, text in sorted(proposal.skill.files.items() if proposal.skill else ()):
        wish = core_wish(text)
        if wish:
            found.append(f"its file {path} asks for a change of the core: {wish!r}")
    if "[redacted:" in proposal.text:
        found.append("a secret was taken out of its text")
    return tuple(found)


def diff(old: str, new: str, old_name: str, new_name: str) -> list[str]:
    """Return the unified diff of two texts, a line each."""
    return list(difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=2))


def _is_listed(memory: Memory, evidence: Sequence[Evidence]) -> bool:
    """Return whether an import among the evidence lists the memory's id: the file held this very entry."""
    for one in evidence:
        listed = one.output.get("memories") if isinstance(one.output, dict) else None
        if (
            one.action == Action.IMPORTED
            and one.episode_id is None
            and isinstance(listed, list)
            and memory.id in listed
        ):
            return True
    return False


def _why_no_skill(name: str, text: str) -> str | None:
    from hermes_lab.skills.front_matter import SkillError
    from hermes_lab.skills.skill import read_skill

    try:
        called = read_skill(text, name=name).name
    except SkillError as error:
        return f"its text is no skill: {error}"
    return None if called == name else f"its text says that it is called {called!a}"


def _is_inside(path: str) -> bool:
    """Return whether a path stays within a skill's folder on every system, and is not its SKILL.md."""
    windows = PureWindowsPath(path)
    leaves = PurePosixPath(path).is_absolute() or windows.drive or windows.root or ".." in windows.parts
    odd = not path.strip() or any(_is_hidden(char) or char in '\n\t"<>|?*:' for char in path)
    return not leaves and not odd and windows.name.casefold() != "skill.md"


def _solid(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _is_hidden(char: str) -> bool:
    if char in "\n\t\r" or char in _SHOWN_JOINERS:
        return False
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _without_hidden(text: str) -> str:
    return "".join(char for char in text if not _is_hidden(char) and char not in _SHOWN_JOINERS)
