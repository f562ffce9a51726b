r"""The keys and tokens that are known by their own form: one row for each vendor, as data.

To add one, add a row to `SHAPES`; the tests try the example of every row. Expressions are as in `redact_patterns`.

>>> [shape.kind for shape in SHAPES if shape.name == "GitHub token"]
['token']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hermes_lab.log.redact_patterns import LEFT, PLACEHOLDER, SLASH, SPACE


def looks_random(secret: bytes) -> bool:
    """Tell a key from a slug or a row of x: its end has digits or capitals, and some variety.

    >>> looks_random(b"sk-" + b"a1B2" * 8), looks_random(b"ghp_" + b"x" * 36)
    (True, False)
    """
    tail = secret[-16:]
    return len(set(tail)) >= 4 and any(48 <= byte <= 57 or 65 <= byte <= 90 for byte in tail)


def looks_opaque(secret: bytes) -> bool:
    """Tell credentials from the words that follow `bearer` in prose."""
    if PLACEHOLDER.match(secret.decode()):
        return False
    return len(secret) >= 24 or any(48 <= byte <= 57 for byte in secret)


class Shape(NamedTuple):
    """A secret that is known by its own form.

    Attributes:
        name: whose secret it is.
        kind: what the replacement says.
        secret: the expression of the part that is replaced, with no group of its own.
        example: a made-up secret, in two parts so that scanners of this repository find none.
        before: the expression of what must stand before it, and stays.
        context: an example of that.
        check: has the last word on a match.
    """

    name: str
    kind: str
    secret: str
    example: tuple[str, str]
    before: str = LEFT
    context: str = ""
    check: Callable[[bytes], bool] = looks_random


_FAKE = "a1B2c3D4" * 8
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HEX = "0a1b2c3d4e5f6789" * 4

SHAPES = (
    Shape("Anthropic", "api_key", r"sk-ant-[A-Za-z0-9_-]{16,}", ("sk-ant-", "api03-" + _FAKE)),
    Shape("OpenAI project", "api_key", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16,}", ("sk-proj-", _FAKE)),
    Shape("OpenRouter", "api_key", r"sk-or-[A-Za-z0-9_-]{16,}", ("sk-or-", "v1-" + _HEX)),
    # OpenAI, DeepSeek, Moonshot, DashScope, Nous and others. Sixteen in a row: CSS classes such as sk-a-b-c have none.
    Shape(
        "sk- of many vendors",
        "api_key",
        r"sk-[A-Za-z0-9_-]*[A-Za-z0-9]{16}[A-Za-z0-9_-]*",
        ("sk-", _FAKE[:32]),
    ),
    Shape(
        "sk- with a UUID, as Langfuse",
        "api_key",
        rf"sk-[A-Za-z0-9_-]*{_UUID}",
        ("sk-lf-", "0a1b2c3d-4e5f-6789-8abc-def012345678"),
    ),
    Shape("AWS key id", "api_key", r"A(?:KIA|SIA)[A-Z0-9]{16}[A-Za-z0-9]*", ("AKIA", "IOSFODNN7Q4XBPLE")),
    Shape("GitHub token", "token", r"gh[opusr]_[A-Za-z0-9]{20,}", ("ghp_", _FAKE[:36])),
    Shape("GitHub fine-grained", "token", r"github_pat_[A-Za-z0-9_]{22,}", ("github_pat_", _FAKE)),
    Shape("GitLab", "token", r"gl(?:pat|dt|rt|cbt|ptt|oas)-[A-Za-z0-9_.-]{16,}", ("glpat-", _FAKE[:20])),
    Shape("Hugging Face", "token", r"(?:hf|api_org)_[A-Za-z0-9]{24,}", ("hf_", _FAKE[:34])),
    Shape(
        "Slack",
        "token",
        r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}",
        ("xoxb-", "123456789012-" + _FAKE[:24]),
    ),
    Shape("Slack app", "token", r"xapp-[0-9]-[A-Za-z0-9-]{10,}", ("xapp-1-", "A0B1-" + _FAKE)),
    Shape("Google API", "api_key", r"AIza[A-Za-z0-9_-]{30,}", ("AIza", _FAKE[:35])),
    Shape("Google OAuth", "token", r"ya29\.[A-Za-z0-9_-]{20,}", ("ya29.", _FAKE)),
    Shape("Google client secret", "secret", r"GOCSPX-[A-Za-z0-9_-]{20,}", ("GOCSPX-", _FAKE[:28])),
    Shape("Stripe", "api_key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}", ("sk_live_", _FAKE[:24])),
    Shape("Stripe webhook", "secret", r"whsec_[A-Za-z0-9+/=]{24,}", ("whsec_", _FAKE[:32])),
    Shape("npm", "token", r"npm_[A-Za-z0-9]{30,}", ("npm_", _FAKE[:36])),
    Shape("PyPI", "token", r"pypi-[A-Za-z0-9_-]{40,}", ("pypi-", "AgEIcHlwaS5vcmc" + _FAKE)),
    Shape(
        "SendGrid",
        "api_key",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        ("SG.", _FAKE[:22] + "." + _FAKE[:43]),
    ),
    Shape("Groq", "api_key", r"gsk_[A-Za-z0-9]{20,}", ("gsk_", _FAKE[:52])),
    Shape("xAI", "api_key", r"xai-[A-Za-z0-9]{20,}", ("xai-", _FAKE)),
    Shape("Perplexity", "api_key", r"pplx-[A-Za-z0-9]{20,}", ("pplx-", _FAKE[:48])),
    Shape("Replicate", "token", r"r8_[A-Za-z0-9]{30,}", ("r8_", _FAKE[:37])),
    Shape("NVIDIA", "api_key", r"nvapi-[A-Za-z0-9_-]{30,}", ("nvapi-", _FAKE)),
    Shape("Tavily", "api_key", r"tvly-[A-Za-z0-9-]{20,}", ("tvly-", "dev-" + _FAKE[:32])),
    Shape("Databricks", "token", r"dapi[0-9a-f]{32}[0-9A-Za-z-]*", ("dapi", _HEX[:32])),
    Shape("DigitalOcean", "token", r"do[opr]_v1_[0-9a-f]{32,}", ("dop_v1_", _HEX)),
    Shape("Docker", "token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", ("dckr_pat_", _FAKE[:27])),
    Shape("Notion", "token", r"ntn_[A-Za-z0-9]{30,}", ("ntn_", _FAKE[:46])),
    Shape("Linear", "api_key", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", ("lin_api_", _FAKE[:40])),
    Shape("Shopify", "token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}", ("shpat_", _HEX[:32])),
    Shape("Vault", "token", r"hv[sbr]\.[A-Za-z0-9_-]{20,}", ("hvs.", _FAKE)),
    Shape("LangSmith", "api_key", r"lsv2_(?:pt|sk)_[0-9a-f_]{32,}", ("lsv2_pt_", _HEX[:32] + "_0a1b2c3d4e")),
    Shape("Fireworks", "api_key", r"fw_[A-Za-z0-9]{20,}", ("fw_", _FAKE[:24])),
    Shape("Firecrawl", "api_key", r"fc-[0-9a-f]{32}", ("fc-", _HEX[:32])),
    Shape("E2B", "api_key", r"e2b_[0-9a-f]{32,}", ("e2b_", _HEX[:40])),
    Shape("Atlassian", "token", r"ATATT3[A-Za-z0-9_=-]{40,}", ("ATATT3", _FAKE)),
    Shape("Sentry", "token", r"sntry[su]_[A-Za-z0-9_=-]{30,}", ("sntryu_", _HEX)),
    Shape("Mailgun", "api_key", r"key-[0-9a-f]{32}", ("key-", _HEX[:32])),
    Shape("Twilio", "api_key", r"SK[0-9a-f]{32}", ("SK", _HEX[:32])),
    Shape("age", "private_key", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}", ("AGE-SECRET-KEY-1", "Q5P3Z7XW" * 7)),
    Shape(
        "Telegram bot",
        "token",
        r"[0-9]{6,12}:A[A-Za-z0-9_-]{33,}",
        ("123456789:A", _FAKE[:34]),
        LEFT + "(?:bot)?",
        "https://api.telegram.org/bot",
    ),
    Shape(
        "Discord bot",
        "token",
        r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        ("M", "TIzNDU2Nzg5MDEyMzQ1Njc4.G" + "aB3dE." + _FAKE[:38]),
    ),
    Shape(
        "JSON web token, or another signed eyJ",
        "jwt",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*",
        ("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + _FAKE[:43]),
    ),
    Shape(
        "Slack webhook",
        "token",
        rf"T[A-Za-z0-9]+{SLASH}B[A-Za-z0-9]+{SLASH}[A-Za-z0-9]{{16,}}",
        ("T0000", "/B0000/" + _FAKE[:24]),
        rf"hooks\.slack\.com{SLASH}services{SLASH}",
        "https://hooks.slack.com/services/",
    ),
    Shape(
        "Discord webhook",
        "token",
        r"[A-Za-z0-9_-]{30,}",
        (_FAKE[:30], _FAKE[:38]),
        rf"discord(?:app)?\.com{SLASH}api{SLASH}webhooks{SLASH}[0-9]+{SLASH}",
        "https://discord.com/api/webhooks/123456/",
    ),
    Shape(
        "Bearer",
        "bearer",
        rf"(?:[A-Za-z0-9._~+=-]|{SLASH}){{8,}}",
        ("opaque", "." + _FAKE[:16]),
        rf"(?i:bearer){SPACE}+",
        "Authorization: Bearer ",
        looks_opaque,
    ),
)
"""The order counts where two shapes begin alike: the first one wins."""
