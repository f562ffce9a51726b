r"""Read one `<tool_call>` block of a model's text: which calls it makes, what it spoils, where it ends.

A block begins at an open tag. Its end tag may be missing, misspelt, or stand inside a string first, so the
value is read by its own grammar, and the tags are only believed where that grammar does not own them.

>>> reader = BlockReader("<tool_call>\n{'name': 'now', 'arguments': {}}\n</tool_call> Done.")
>>> block = reader.read(0)
>>> block.attempts[0].shape
Shape(name='now', arguments={}, repaired=True, bare=False, extra='')
>>> reader.text[block.end:]
' Done.'

Reading all blocks of a text takes linear time together, however it is written:

- The quick path reads the stretch from a tag to the next tag, and these stretches do not overlap.
- The slow path reads from a tag onwards, and may pass later tags and still fail, after which the later tags
  start reads of their own. But a read passes a tag only inside a string, and of two reads that are inside the
  same kind of string one must have begun in the middle of the other's string: each quote then closes the one
  and opens the other. So no more than one read is inside a double-quoted string at any character, one inside
  a single-quoted string and one outside: every character is read at most three times.
- The search for the end of a broken block stops at that end; a string it tries runs at most to the next such
  quote.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from hermes_lab.models.exact_json import JsonError, read_exact
from hermes_lab.models.hermes_objects import Attempt, Item, as_attempts, read_row

CALL = "<tool_call>"
CALL_END = "</tool_call>"
REASONING = {"<think>": "</think>", "<scratch_pad>": "</scratch_pad>"}

_TAGS = "</?(?:tool_call|think|scratch_pad)>"
_TAG = re.compile(_TAGS)
_FENCE = re.compile(r"\s*+```[\w+-]*+")
_ATTEMPT = re.compile(r"\s*+(?:```[\w+-]*+\s*+)?(?:\{|\[\s*+\{)")
_LEFTOVERS = re.compile(r"[\s}\]`,;]*+")
_GOES_ON = re.compile(r"[\s}\]]*+(?:[\"':]|,\s*+(?:[\"']|\w++\s*+:))")
# What is left when a quote inside a string ended it, and the object with it: `{"s": "he said "}} and
# left"}}`.
_DEBRIS = re.compile(r"[^{\"']*+(?:[\"'](?!\s*+[}\]])[^{\"']*+)*+[\"']")
_QUOTES = re.compile(r"\\.|([\"'])", re.DOTALL)
# What the search for the end of a broken block looks at: whole strings on one line, quotes that begin none,
# line breaks, and tags. A quote counts only where a string can begin or end, so an apostrophe in a word does
# not.
_LANDMARK = re.compile(
    r"""
    (?P<string>(?<![^\s{\[(,:=])(?:"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+')
        (?=\s*+(?:[,:}\])<]|\Z)|\s++["']))
    |(?P<quote>(?<![^\s{\[(,:=])["'])
    |(?P<newline>\n)
    |(?P<closed>\}\s*+</tool_call>)
    |(?P<tag>"""
    + _TAGS
    + ")",
    re.VERBOSE,
)


class Tag(NamedTuple):
    """A tag and where it stands."""

    name: str
    start: int
    end: int


class Reach(enum.Enum):
    """How far a string of a block may reach beyond the block, holding what looks like calls."""

    SECOND_END_TAG = enum.auto()
    END_OF_TEXT = enum.auto()


class Block(NamedTuple):
    """What a block holds.

    Attributes:
        attempts: its calls, read or not; none if the tag was written by mistake.
        end: where the text goes on.
        next_tag: the tag to go on with.
        unclosed: whether the JSON was whole and the end tag missing.
        reach: how far its last string may reach, if that is in doubt.
    """

    attempts: list[Attempt]
    end: int
    next_tag: int
    unclosed: bool = False
    reach: Reach | None = None


class BlockReader:
    """The tags of one text, and the blocks that they open."""

    def __init__(self, text: str) -> None:
        """Find all tags; which of them count is for `read` and its caller to tell."""
        self.text = text
        self.tags = [Tag(match.group(), *match.span()) for match in _TAG.finditer(text)]

    def is_quoted(self, index: int) -> bool:
        """Tell whether the tag stands in quotes or backticks of its own: a mention in prose."""
        tag = self.tags[index]
        before = self.text[tag.start - 1 : tag.start] if tag.start else ""
        return before != "" and before in "`'\"*" and self.text.startswith(before, tag.end)

    def read(self, index: int, inline: bool = False, after_open: bool = False, until: str = "") -> Block | None:
        """Read the block that the open tag at `index` begins.

        Args:
            index: the tag, in `tags`.
            inline: there is prose before the tag, on its line.
            after_open: the text just before the tag is a call without an end tag.
            until: a tag that ends a broken block wherever it stands: the end of the reasoning around it.

        Returns:
            The block, or None when the tag is only mentioned.
        """
        tag = self.tags[index]
        limit, closed = self._extent(index + 1)
        body = self.text[tag.end : limit]
        if closed and _links_names(body) and (inline or self._prose_after(index + 1)):
            return None
        if not _ATTEMPT.match(self.text, tag.end):
            return self._without_object(index, body, closed, inline, after_open, until)
        try:
            value = read_exact(body)
        except JsonError:
            return self._mend(index, until)
        end = self.tags[index + 1].end if closed else tag.end + len(body.rstrip())
        attempts = as_attempts([Item(value, tag.start, end, not closed)])
        return Block(attempts, end, index + 2 if closed else index + 1, unclosed=not closed)

    def _extent(self, index: int) -> tuple[int, bool]:
        """Return where the tag at `index` (or else the text's end) is, and whether it ends a call."""
        start = self.tags[index].start if index < len(self.tags) else len(self.text)
        return start, self.ends_at(index)

    def _tag_from(self, index: int, position: int) -> int:
        while index < len(self.tags) and self.tags[index].start < position:
            index += 1
        return index

    def _prose_after(self, index: int) -> bool:
        end = self.tags[index].end
        limit, _ = self._extent(index + 1)
        line = self.text.find("\n", end, limit)
        return self.text[end : limit if line < 0 else line].strip() != ""

    def _without_object(
        self, index: int, body: str, closed: bool, inline: bool, after_open: bool, until: str
    ) -> Block | None:
        """Read a block that does not begin with an object: a mention, a tag by mistake, or no call."""
        tag = self.tags[index]
        blank = not body.strip()
        if not closed and (after_open or (blank and self._opens(index + 1))):
            # An open tag written for an end tag, or written twice: the call is not here.
            return Block([], tag.end, index + 1)
        alone = not inline and (blank or body.lstrip(" \t\r").startswith("\n"))
        if not closed and not alone:
            return None
        reason = "the tag is empty" if blank else "no JSON object in the tag"
        if not blank:
            return self._broken(index, [], tag.end, JsonError(reason, tag.end), until)
        end = self.tags[index + 1].end if closed else len(body) + tag.end
        return Block([Attempt(tag.start, end, None, reason)], end, index + 2 if closed else index + 1)

    def _opens(self, index: int) -> bool:
        return index < len(self.tags) and self.tags[index].name == CALL

    def ends_at(self, index: int) -> bool:
        """Tell whether the tag at `index` is there and ends a call, being no mention."""
        return index < len(self.tags) and self.tags[index].name == CALL_END and not self.is_quoted(index)

    def _mend(self, index: int, until: str) -> Block:
        """Read a block that is not exactly one JSON value up to the next tag."""
        tag = self.tags[index]
        fence = _FENCE.match(self.text, tag.end)
        items, end, error = read_row(self.text, fence.end() if fence else tag.end)
        next_tag = self._tag_from(index + 1, end)
        limit, closed = self._extent(next_tag)
        rest = self.text[end:limit]
        if error is None and _is_remainder(rest, closed):
            error = JsonError("the object was closed before its end", end)
            items = items[:-1]
        if error is not None:
            return self._broken(index, items, end, error, until)
        extra: list[Attempt] = []
        if closed:
            if "{" in rest:
                extra.append(Attempt(end, limit, None, "an object after other text in the tag"))
            end = self.tags[next_tag].end
            next_tag += 1
        else:
            end += self._leftovers(rest)
        spoiled = bool(extra) or rest.strip("` \t\r\n") != ""
        if len(items) == 1 and not extra:
            items = [items[0]._replace(start=tag.start, end=end)]
        changed = not closed or fence is not None or rest.strip() != "" or len(items) > 1
        items = [item._replace(repaired=item.repaired or changed) for item in items]
        # Where braces had to be added, the end tag may have stood inside a string.
        reach = Reach.SECOND_END_TAG if any(item.completed for item in items) else None
        return Block(as_attempts(items, spoiled) + extra, end, next_tag, not closed, reach)

    def _leftovers(self, rest: str) -> int:
        """Return how much after an unclosed call belongs to it: brackets, a fence, half an end tag."""
        match = _LEFTOVERS.match(rest)
        width = match.end() if match else 0
        return len(rest) if CALL_END.startswith(rest[width : width + len(CALL_END)]) else width

    def _broken(self, index: int, items: list[Item], position: int, error: JsonError, until: str) -> Block:
        """Make a block of an attempt that failed at or after `position`, and the whole calls before it."""
        # If the text ends between two parts of the value, then all tags on the way stood in strings of it.
        is_whole_rest = error.position >= len(self.text) and error.open_quote is None and not until
        last = len(self.tags) if is_whole_rest else self._end_of_broken(index + 1, position, until)
        limit, closed = self._extent(last)
        end = self.tags[last].end if closed else limit
        start = items[-1].end if items else self.tags[index].start
        attempts = as_attempts([item._replace(repaired=True) for item in items], spoiled=True)
        attempts.append(Attempt(start, end, None, str(error)))
        reach = self._reach(limit, closed, error)
        return Block(attempts, end, last + 1 if closed else last, reach=reach)

    def _end_of_broken(self, index: int, position: int, until: str) -> int:
        """Return the index of the tag that ends a broken block: the first one that no string can own.

        A whole string owns the tags in it. A quote that begins no whole string may own the rest of its line,
        except for an end tag just after a closing brace.
        """
        in_doubt = False
        for mark in _LANDMARK.finditer(self.text, position):
            if mark.lastgroup == "quote":
                in_doubt = True
            elif mark.lastgroup == "newline":
                in_doubt = False
            elif mark.lastgroup == "closed":
                return self._tag_from(index, mark.end() - len(CALL_END))
            elif mark.lastgroup == "tag" and (not in_doubt or mark.group() == until):
                return self._tag_from(index, mark.start())
        return len(self.tags)

    def _reach(self, limit: int, closed: bool, error: JsonError) -> Reach:
        """Tell how far a string of a broken block may reach; an end tag on a later line bounds it."""
        quote = error.open_quote
        if quote is not None and (not closed or self.text.find("\n", quote, limit) < 0):
            return Reach.END_OF_TEXT
        return Reach.SECOND_END_TAG


def _is_remainder(rest: str, closed: bool) -> bool:
    """Tell whether the text after an object seems to belong into it, the object having ended too early."""
    if _GOES_ON.match(rest) or _DEBRIS.match(rest):
        return True
    return closed and is_fragment(rest.lstrip(" \t\r\n}]`"))


def is_fragment(text: str) -> bool:
    """Tell whether `text` may be one end of a JSON object: brackets or quotes do not come in pairs."""
    if text.count("{") != text.count("}") or text.count("[") != text.count("]"):
        return True
    quotes = [match.group(1) for match in _QUOTES.finditer(text)]
    return quotes.count('"') % 2 == 1 or quotes.count("'") % 2 == 1


def _links_names(body: str) -> bool:
    """Tell whether what stands between two tags is nothing, "...", or words of the sentence that names them."""
    if "\n" not in body and not re.search(r"\w", body):
        return True
    return body[0] in " \n,.;:)" and body[-1] in " (" and not _ATTEMPT.match(body)
