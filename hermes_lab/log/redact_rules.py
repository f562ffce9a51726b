r"""Redacts one piece of text that is not JSON itself: the rules behind `redact`, each a function over UTF-8 bytes.

Bytes, because RE2 searches them in linear time whatever the text. Every rule returns its input where it finds
nothing, and none touches what it wrote. The text may be a part of JSON (cut off, or within prose), so quotes and
newlines count in their escaped forms, too.

>>> plain(b"curl -H 'X-Api-Key: 0123-abcd' https://bob:s3cret@example.org/?token=${TOKEN}")
b"curl -H 'X-Api-Key: [redacted:api_key]' https://bob:[redacted:url_password]@example.org/?token=${TOKEN}"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import re2

from hermes_lab.log import redact_patterns as table
from hermes_lab.log.redact_names import LONG, MARKED, SCHEME, WORDS_ONLY, marker, name_kind, named_value, unescape
from hermes_lab.log.redact_shapes import SHAPES

_MAX_PEM = 1 << 15

_SCHEME = re.compile(SCHEME.pattern.encode())
_DOTTED = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+")
_CLASS = re.compile(r"_?(?:[A-Z]+[a-z]+){2,}")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
_NAME_BEFORE = re.compile(rb"[A-Za-z0-9_.-]*\Z")
_NEWLINE = re.compile(rb"[\r\n]|(?<!\\)\\++(?:[nr]|u000[aAdD])")
_OPEN = re.compile(rb"[bruBRU]?(\\*)([\"'`])")
_CLOSE = {quote: re.compile(rb"(?=[\\" + quote + rb"])(\\*+)(" + quote + rb")?|[\r\n]") for quote in (b'"', b"'", b"`")}
# Letters beyond ASCII up to U+07FF, as they are or escaped: values end at Chinese text and punctuation.
_LETTER = rb"[\xc3-\xdf][\x80-\xbf]|\\+u0(?:0[c-fC-F]|[1-7][0-9a-fA-F])[0-9a-fA-F]"
_BARE = re.compile(rb"(?:[^\x00-\x20\"'`\\<>,;&|(){}\[\]\x7f-\xff]|" + _LETTER + rb")+")
# In a line of a .env file a value needs no quotes, whatever it holds.
_BARE_ENV = re.compile(rb"(?:[^\x00-\x20\"'`\\<>\[\x7f-\xff]|" + _LETTER + rb")+")
_LINE_END = re.compile(rb"[ \t]*(?:\Z|[\r\n\"'`\\,;}&]|\*\*)")

_PEM_BODY = re.compile(
    rb"(?:(?:[\r\n]|\\+[nr])+[A-Z][A-Za-z-]+: [^\r\n\\]*)*"
    rb"(?:(?:[\r\n]|\\+[nr])[ \t]*|\\+(?:[t/]|u00[0-9a-fA-F]{2})|[A-Za-z0-9+/=]| (?=[A-Za-z0-9+/=]{16}))*+"
)
_PEM_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\r\n"
_PEM_KEY = re.compile(rb"[A-Za-z0-9+/]{16}")


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 64 << 20
    return options


def compile_re2(source: str) -> Any:
    """Compile for RE2 over bytes; the result is Any, since re2 has no stubs."""
    return re2.compile(source.encode(), _options())


def compile_filter(source: str) -> Callable[[bytes], object]:
    """Return a function that returns None where `source` matches nowhere; a set of one is quicker than a search."""
    one = re2.Set.SearchSet(_options())
    one.Add(source.encode())
    one.Compile()
    match: Callable[[bytes], object] = one.Match
    return match


_SHAPES = compile_re2("|".join(f"{shape.before}({shape.secret})" for shape in SHAPES))
_PEM = compile_re2(table.PEM_EDGE)
_URL = compile_re2(table.URL)
_NAMED = compile_re2(
    f"({table.NAME}){table.HEAD_END}|{table.FLAG}({table.NAME}){table.FLAG_END}|{table.ELEMENT}({table.NAME})>"
)
_BY_FLAG, _BY_ELEMENT = 2, 3  # groups
_IS = compile_re2(table.IS)


def plain(data: bytes) -> bytes:
    """Return `data` without the secrets of all rules: keys, then what shapes, URLs and names tell."""
    for rule in (_pem_keys, _shapes, _url_passwords, _named_values):
        data = rule(data)
    return data


def replaced(data: bytes, spans: list[tuple[int, int, str]]) -> bytes:
    """Return `data` with text in place of spans that are in order and do not overlap."""
    if not spans:
        return data
    pieces: list[bytes] = []
    done = 0
    for start, end, text in spans:
        pieces += (data[done:start], text.encode())
        done = end
    return b"".join((*pieces, data[done:]))


def _pem_keys(data: bytes) -> bytes:
    """Redact PEM private keys, also those whose begin or end was cut off."""
    spans = []
    edges = [edge.span() for edge in _PEM.finditer(data)]
    last, i = 0, 0
    while i < len(edges):
        start, end = edges[i]
        i += 1
        if data.startswith(b"-----END", start):
            before = data[max(last, start - _MAX_PEM) : start]
            start -= len(before) - len(before.rstrip(_PEM_CHARS))
        elif i < len(edges) and edges[i][0] - end < _MAX_PEM and data.startswith(b"-----END", edges[i][0]):
            end = edges[i][1]
            i += 1
        elif body := _PEM_BODY.match(data, end):
            end = body.end()
        last = end
        if _PEM_KEY.search(data, start, end):
            spans.append((start, end, marker("private_key")))
    return replaced(data, spans)


def _shapes(data: bytes) -> bytes:
    spans = []
    for match in _SHAPES.finditer(data):
        group = match.lastindex
        shape = SHAPES[group - 1]
        if shape.check(match.group(group)):
            spans.append((*match.span(group), marker(shape.kind)))
    return replaced(data, spans)


def _url_passwords(data: bytes) -> bytes:
    spans = []
    for match in _URL.finditer(data):
        password = match.group(1).decode("utf-8", "replace")
        if not MARKED.fullmatch(password) and not table.PLACEHOLDER.match(password):
            spans.append((*match.span(1), marker("url_password")))
    return replaced(data, spans)


class _Head(NamedTuple):
    """The name of a secret and where it starts, the group of `_NAMED` that found it, and what its value follows."""

    kind: str
    start: int
    name: str
    group: int
    separator: bytes


def _named_values(data: bytes) -> bytes:
    """Redact what stands after a secret's name."""
    spans = []
    pos = 0
    while match := _NAMED.search(data, pos):
        pos = match.end()
        group = match.lastindex
        start, end = match.span(group)
        if before := _NAME_BEFORE.search(data, max(0, start - 40), start):
            start = before.start()
        name = data[start:end].decode("utf-8", "replace")
        kind = name_kind(unescape(name))
        if kind is None:
            continue
        head = _Head(kind, start, name, group, data[end:pos])
        found = _quoted(data, pos, head) or _bare(data, pos, head)
        if found is not None:
            spans.append(found)
            pos = found[1]
    return replaced(data, spans)


def _quoted(data: bytes, pos: int, head: _Head) -> tuple[int, int, str] | None:
    """Return the span and replacement of a quoted value, up to its quote, its line's end or the end of `data`."""
    opened = _OPEN.match(data, pos)
    if opened is None:
        return None
    if data[head.start - 1 : head.start] == opened.group(2) and opened.group(2) not in head.separator:
        return None  # the name is the end of a string: input("Password: ")
    start, end = opened.end(), len(data)
    depth = len(opened.group(1))
    for close in _CLOSE[opened.group(2)].finditer(data, start):
        escapes = close.group(1)
        if escapes is None:
            end = close.start()
            break
        # A quote that is escaped n times in all has 2**n - 1 backslashes; each literal backslash before it adds 2**n.
        if close.group(2) and len(escapes) % (2 * depth + 2) == depth:
            end = close.end() - 1 - depth
            break
    text = named_value(head.kind, head.name, data[start:end].decode("utf-8", "replace"))
    return None if text is None else (start, end, text)


def _bare(data: bytes, pos: int, head: _Head) -> tuple[int, int, str] | None:
    """Return the span and replacement of a value without quotes, which is on the same line."""
    if _NEWLINE.search(head.separator):
        return None
    scheme = _SCHEME.match(data, pos) if head.kind == "authorization" else None
    tight = head.separator == b"="
    match = (_BARE_ENV if tight and head.name.isupper() else _BARE).match(data, scheme.end() if scheme else pos)
    if match is None:
        return None
    raw = match.group() if tight else match.group().rstrip(b".!?:*")
    end = match.start() + len(raw)
    if scheme is None and len(raw) <= LONG and _is_prose_or_code(data, end, raw, head, tight):
        return None
    text = named_value(head.kind, head.name, data[pos:end].decode("utf-8", "replace"))
    return None if text is None else (pos, end, text)


def _is_prose_or_code(data: bytes, end: int, raw: bytes, head: _Head, tight: bool) -> bool:
    """Tell from what follows a bare value, at `end`, that it is none."""
    value = raw.decode("utf-8", "replace")
    if _DOTTED.fullmatch(value) or (_IDENTIFIER.fullmatch(value) and data[end : end + 1] in (b"(", b"[")):
        return True
    if head.group == _BY_ELEMENT:
        return not data.startswith(b"<", end)
    if head.group == _BY_FLAG:
        return value.startswith("-")
    if value.startswith(":") or (head.separator == b":" and data[head.start - 1 : head.start] == b":"):
        return True  # Auth::Provider, arn:aws:...:secret:name
    if not tight and _CLASS.fullmatch(value):
        return True
    if tight or not WORDS_ONLY.fullmatch(value):
        return False
    # "secret: everything is fine" and "the secret is patience" are prose; "password: swordfish" ends its line.
    return _IS.fullmatch(head.separator) is not None or _LINE_END.match(data, end) is None
