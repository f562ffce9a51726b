r"""What secrets look like in plain text: names that tell, URLs, PEM, and what only looks like a secret.

Expressions are RE2's (linear time, no lookaround), over UTF-8 bytes, unless they are compiled here. Text in a log is
JSON within JSON strings, escaped any number of times, so wherever an escape can stand they allow any run of
backslashes. What `SUSPECT` and the shapes find in a text they must find in its JSON-escaped form, too.

>>> import re2
>>> [bool(re2.search(NAME + HEAD_END, text)) for text in ('"api_key": 1', r'\\"token\\": 1', '"input_tokens": 1')]
[True, True, False]
"""

from __future__ import annotations

import re

SPACE = r"(?:[ \t\r\n]|\\+(?:[nrt]|u00(?:0[9aAdD]|20)))"
"""White space as it is, or escaped."""

SLASH = r"\\*/"

LEFT = r"(?:^|[^A-Za-z0-9]|\\[bfnrt]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}|\[[0-9;]{0,11}m|3D)"
r"""What may stand right before a key: no letter or digit, unless it ends an escape such as \n, %3D or a colour code."""

MARKER = r"\[redacted:(?:env:[A-Za-z0-9_]+|[a-z_]+)\]"
"""What replaces a secret."""


# The kinds of names under which secrets stand, most specific first. A name counts by its end, whatever its case:
# OPENAI_API_KEY, dbPassword and X-Api-Key do; input_tokens and token_type do not.
NAMES = (
    (
        "password",
        r"pass(?:word|wd|phrase|code)s?|pwd"
        r"|(?:db|database|user|mysql|pg|postgres|redis|mongo|root|admin|smtp|imap|mail|ftp|ssh|proxy|login|auth|account|key"
        r"|store|wifi)[_-]?pass",
    ),
    ("private_key", r"(?:private|ssh)[-_. ]?keys?"),
    (
        "api_key",
        r"(?:api|access|secret|encryption|signing|master|account|auth|deploy|subscription)[-_. ]?keys?",
    ),
    ("secret", r"secrets?"),
    ("token", r"token"),
    ("credential", r"credentials?"),
    ("authorization", r"auth(?:orization)?"),
)

CJK_NAMES = (("password", "密码"), ("password", "口令"), ("api_key", "密钥"))


def _escaped(text: str) -> str:
    r"""Return the expression of `text` as it is, or as \uXXXX escapes."""
    escapes = "".join(rf"\\+u(?i:{ord(char):04x})" for char in text)
    return f"(?:{text}|{escapes})"


NAME = f"(?:(?i:{'|'.join(rx for _, rx in NAMES)})|{'|'.join(_escaped(name) for _, name in CJK_NAMES)})"

_QUOTE = r"\\*[\"'`*]"
IS = rf"(?:{SPACE}+is{SPACE}+|{_escaped('是')}|{_escaped('为')})"
HEAD_END = (
    rf"(?:(?:{_QUOTE}){{1,2}}\]?)?"
    rf"(?:{SPACE}*(?::=?|={{1,2}}>?|%3[aAdD]|{_escaped('：')})(?:\*\*)?{SPACE}*|{IS})"
)
"""What separates a name from its value: `"api_key": `, `password=`, `**Token:** `, `env["X_TOKEN"] = `, ` is `."""

ELEMENT = r"<[A-Za-z0-9_:.-]{0,40}"
"""The start of an XML element; the name and > follow."""

FLAG = r"--[A-Za-z0-9_-]{0,40}"
FLAG_END = rf"(?:{SPACE}+|{_QUOTE}{SPACE}*,{SPACE}*)"
"""The same for `--password VALUE`, also as two strings of a list."""

PEM_EDGE = r"-----(?:BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

_H = "[0-9a-fA-F]"
BEYOND_ASCII = rf"\\+u(?:[1-9a-fA-F]{_H}{_H}{_H}|0[1-9a-fA-F]{_H}{_H}|00[89a-fA-F]{_H})"
"""An escaped character that is no ASCII one."""

_USER = rf"(?:{MARKER}|{BEYOND_ASCII}|[^\x00-\x20\x7f/:@?#\"'<>\\\[])*"
_APOSTROPHE = r"'[A-Za-z0-9!#$%^&*._~-]"
_AUTHORITY = rf"(?:{BEYOND_ASCII}|{_APOSTROPHE}|[^\x00-\x20\x7f/?#\"'<>\\])+"
_ODD = rf"(?:{BEYOND_ASCII}|{_APOSTROPHE}|[^\x00-\x20\x7f\"'<>\\@]|\\+/)"
URL = (
    rf":{SLASH}{SLASH}{_USER}:"
    # A password ends at the last @ before a slash; with no such @ it may hold slashes, if it is no port and path.
    rf"({_AUTHORITY}|(?:[0-9]{{0,5}}[^\x00-\x20\x7f\"'<>\\@0-9/?#]|[0-9]{{6}}){_ODD}*)@"
)

# What makes a line of the log suspect, besides the shapes and names. An escaped ASCII character could be any letter
# of a secret; encoders write few of them.
SUSPECT = (
    NAME + HEAD_END,
    FLAG + NAME + FLAG_END,
    ELEMENT + NAME + ">",
    r"PRIVATE KEY(?: BLOCK)?-----",
    rf":{SLASH}{SLASH}[^\s/@:\"]*:[^\s\"@]+@",
    r"\\u00[2-7]",
)

# --- What is no secret, although it stands under a secret's name. Python expressions over text.

_WORDS = """
absent accepted always apikey api_key api-key argument arguments array authentication authorization available basic
bearer boolean changed character characters configured correct credential credentials default deprecated description
digest disabled enabled encrypted expired expires expiring failed forbidden generated hidden ignored incomplete
incorrect inherit integer invalid malformed matched mismatch missing never null number object omitted option optional
options parameter parameters passphrase passwd password passwords plaintext present production provided refreshed
rejected required reset revoked rotated secret secrets secretstr string success token tokens unauthorized undefined
unknown unset updated username verified
"""
WORDS = frozenset(_WORDS.split())

PLACEHOLDER = re.compile(
    r"""(?ix) \$[({] | \$[a-z_]\w*$ | \{\{ | \{[\w.:\[\]]*\}?$ | < | %[({] | %\w+%$ | %s
    | [*•x.…_#?-]{3,}$ | (?:your|insert|enter|replace|placeholder|redacted|masked|removed)(?![a-z]*\d)
    | (?:os\.|process\.|self\.|this\.|config\.|settings\.|env\.|environ|getenv|secrets\.|args\.|cfg\.|ctx\.
        |request\.|import\.|options\.|opts\.|params\.|vault:|arn:) | [a-z][a-z0-9+.-]*://""",
)

ABOUT = re.compile(r"(?i)passwor|passphrase|secret|token|credential|密码|口令|密钥")
"""Text about secrets, such as the labels of a form."""

PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:home|Users|etc|run|var|tmp|usr|opt|root|app|mnt|data|work|srv|secrets)\b"
    r"|[\w./\\~:-]*[/\\][\w.-]*\.(?:json|pem|key|txt|ya?ml|toml|env|crt|pub)$"
)

NOT_SECRET_TOKEN = re.compile(
    r"(?i)(?:page|eos|bos|unk|pad|sep|cls|mask|stop|special|next|continuation|cursor|sync|start|end|first|last|max|min"
    r"|per|prompt|completion|image|audio|video|think|eot|eod|control|prefix|suffix|middle|input|output|starting|lock"
    r"|change|client|request|purchase|public[-_]?key|added|each|every)[-_. ]?$"
)
"""What stands before `token` in names of tokenizers and paging."""
