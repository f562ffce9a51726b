"""Secrets never reach the disk, and ordinary logs stay as they are."""

import datetime as dt
import json
import re
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hermes_lab import events, payload
from hermes_lab.events import Action, Event
from hermes_lab.log import redact_patterns, redact_shapes
from hermes_lab.log.redact import Redactor
from hermes_lab.log.redact_environ import is_secret
from hermes_lab.log.redact_names import name_kind

REDACTOR = Redactor.patterns_only()

# Made-up secrets, put together so that scanners of this repository find none.
KEY = "sk-" + "a1B2" * 8
GITHUB = "gh" + "p_" + "a1B2c3D4" * 5
JWT = "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0In0" + "." + "a1B2c3D4" * 5
BODY = "MIIEvQ" + "IBADANBgkqhkiG9w0BAQEFAASC" * 2
BEGIN, END = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"
RSA = BEGIN.replace("PRIV", "RSA PRIV")
PASS = "hunter2" + "!x"
BASIC = "dXNlcj" + "pwYXNzd29yZA=="


def _event(**fields):
    when = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
    return Event(event_id="01a22d30-901c-75dc-8711-516ab210cc12", ts=when, action=Action.TOOL_CALLED, **fields)


SHAPES = [(shape.name, shape.context, shape) for shape in redact_shapes.SHAPES]

# Text, the secret in it, what is left.
POSITIVES = [
    # named values: JSON, YAML, .env, shells, URLs, headers, code
    (f'{{"password": "{PASS}"}}', PASS, '{"password": "[redacted:password]"}'),
    (f'{{"password":"{PASS}","n":1}}', PASS, '{"password":"[redacted:password]","n":1}'),
    (f'{{"clientSecret" : "{PASS}"}}', PASS, '{"clientSecret" : "[redacted:secret]"}'),
    (f'{{"X-Api-Key": "{PASS}"}}', PASS, '{"X-Api-Key": "[redacted:api_key]"}'),
    (f'{{"api_keys": ["{PASS}", "${{KEY}}"]}}', PASS, '{"api_keys": ["[redacted:api_key]", "${KEY}"]}'),
    ('{"password": "abc\\"def\\\\"}', "def", '{"password": "[redacted:password]"}'),
    (
        '{"password": "p\\u0061ssw0rd-1", "a": "\\u00e9"}',
        "ssw0rd",
        '{"password": "[redacted:password]", "a": "\\u00e9"}',
    ),
    ('{"p\\u0061ssword": "abcdef"}', "abcdef", '{"p\\u0061ssword": "[redacted:password]"}'),
    (f'{{"a": "{{\\"token\\": \\"{PASS}\\"}}"}}', PASS, '{"a": "{\\"token\\": \\"[redacted:token]\\"}"}'),
    (f"password={PASS}", PASS, "password=[redacted:password]"),
    ("password=swordfish", "swordfish", "password=[redacted:password]"),
    (f"password: {PASS}\nuser: bob", PASS, "password: [redacted:password]\nuser: bob"),
    ("password: swordfish\nuser: bob", "swordfish", "password: [redacted:password]\nuser: bob"),
    (f"db_password = '{PASS}'", PASS, "db_password = '[redacted:password]'"),
    (f'os.environ["DB_PASSWORD"] = "{PASS}"', PASS, 'os.environ["DB_PASSWORD"] = "[redacted:password]"'),
    (f"{{'api_key': '{PASS}', 'n': 1}}", PASS, "{'api_key': '[redacted:api_key]', 'n': 1}"),
    (f"client_secret: {PASS}", PASS, "client_secret: [redacted:secret]"),
    (f"export OPENAI_API_KEY={PASS}&(x)", PASS, "export OPENAI_API_KEY=[redacted:api_key]"),
    (f'SECRET_KEY="{PASS}"', PASS, 'SECRET_KEY="[redacted:api_key]"'),
    (f"AWS_SECRET_ACCESS_KEY={'wJal/' + 'rXUt+FEMI'}", "rXUt", "AWS_SECRET_ACCESS_KEY=[redacted:api_key]"),
    (f"aws_secret_access_key = {'wJal/' + 'rXUt+FEMI'}", "rXUt", "aws_secret_access_key = [redacted:api_key]"),
    (f"https://h/p?access_token={PASS}&x=1", PASS, "https://h/p?access_token=[redacted:token]&x=1"),
    (f"//registry.npmjs.org/:_authToken={PASS}", PASS, "//registry.npmjs.org/:_authToken=[redacted:token]"),
    (f"mysql --password {PASS} -u root", PASS, "mysql --password [redacted:password] -u root"),
    (f"mysql --password={PASS} -u root", PASS, "mysql --password=[redacted:password] -u root"),
    (f"x --api-key '{PASS}'", PASS, "x --api-key '[redacted:api_key]'"),
    (f'["x", "--token", "{PASS}", "y"]', PASS, '["x", "--token", "[redacted:token]", "y"]'),
    (f"**Password:** {PASS}", PASS, "**Password:** [redacted:password]"),
    (f"API key: `{PASS}`", PASS, "API key: `[redacted:api_key]`"),
    (f"密码：{PASS}，请保密", PASS, "密码：[redacted:password]，请保密"),
    (f'{{"密钥": "{PASS}"}}', PASS, '{"密钥": "[redacted:api_key]"}'),
    (f'{{"\\u5bc6\\u94a5": "{PASS}"}}', PASS, '{"\\u5bc6\\u94a5": "[redacted:api_key]"}'),
    ("Server=x;Password=a1$b2c;Database=y", "a1$b2c", "Server=x;Password=[redacted:password];Database=y"),
    ("password='correct horse battery'", "horse", "password='[redacted:password]'"),
    ("passphrase: ünïcödé1", "cödé1", "passphrase: [redacted:password]"),
    (f"my password is {PASS}, keep it", PASS, "my password is [redacted:password], keep it"),
    (f"密码是{PASS}", PASS, "密码是[redacted:password]"),
    (f"q=api_key%3D{PASS}&x", PASS, "q=api_key%3D[redacted:api_key]&x"),
    ("<password>swordfish</password>", "swordfish", "<password>[redacted:password]</password>"),
    (f"DB_PASS={PASS}", PASS, "DB_PASS=[redacted:password]"),
    # headers
    (f"Authorization: Bearer {'abcd' * 6}", "abcd", "Authorization: Bearer [redacted:bearer]"),
    (f"authorization: bearer {PASS[:7]}1", PASS[:7], "authorization: bearer [redacted:bearer]"),
    (f"Authorization: Basic {BASIC}", BASIC, "Authorization: Basic [redacted:basic]"),
    (f"curl -H 'Authorization: Basic {BASIC}' x", BASIC, "curl -H 'Authorization: Basic [redacted:basic]' x"),
    (f'{{"Authorization": "Basic {BASIC}"}}', BASIC, '{"Authorization": "Basic [redacted:basic]"}'),
    (f'{{"Authorization": "Bearer {"abcd" * 3}"}}', "abcd", '{"Authorization": "Bearer [redacted:bearer]"}'),
    (f"Authorization: Token {PASS}", PASS, "Authorization: Token [redacted:authorization]"),
    (f"X-Api-Key: {PASS}", PASS, "X-Api-Key: [redacted:api_key]"),
    (f"X-Auth-Token: {PASS}\r\nHost: x", PASS, "X-Auth-Token: [redacted:token]\r\nHost: x"),
    # PEM keys
    (f"{BEGIN}\n{BODY}\n{END}\nok", BODY, "[redacted:private_key]\nok"),
    (f"{RSA}\nProc-Type: 4,ENCRYPTED\nDEK-Info: A,B\n\n{BODY}\n{BODY[:20]}", BODY[:20], "[redacted:private_key]"),
    (f"a {BEGIN}\n{BODY}\n{BODY[:9]}", BODY[:9], "a [redacted:private_key]"),
    (f"key: |\n  {BEGIN}\n  {BODY}\n  {BODY} ", BODY, "key: |\n  [redacted:private_key] "),
    (f"{BEGIN}\\n{BODY}\\n{END}\\n", BODY, "[redacted:private_key]\\n"),
    (f'say "{BEGIN}\\\\n{BODY}\\\\n{BODY[:5]}', BODY[:5], 'say "[redacted:private_key]'),
    (f"... \n{BODY}\n{END} rest", BODY, "... [redacted:private_key] rest"),
    (f'{{"private_key": "{BEGIN}\\n{BODY}\\n{END}\\n"}}', BODY, '{"private_key": "[redacted:private_key]\\n"}'),
    # passwords in URLs
    (f"postgres://bob:{PASS}@db:5432/x", PASS, "postgres://bob:[redacted:url_password]@db:5432/x"),
    ("redis://:p%40ss%2F@h", "p%40", "redis://:[redacted:url_password]@h"),
    ("mysql://u:p@ss#1/x?@h/d", "ss#1", "mysql://u:[redacted:url_password]@ss#1/x?@h/d"),
    ("mysql://u:pa/ss#1?@h/d", "ss#1", "mysql://u:[redacted:url_password]@h/d"),
    ("mongodb://u:p@ss:w@h1:27017,h2:27017/d", "ss:w", "mongodb://u:[redacted:url_password]@h1:27017,h2:27017/d"),
    ("http:\\/\\/u:passw\\/1@h", "passw", "http:\\/\\/u:[redacted:url_password]@h"),
    ("redis://u:pa'ss@h", "pa'ss", "redis://u:[redacted:url_password]@h"),
    ("见https://用户:密码1@例子.中国/路", "密码1", "见https://用户:[redacted:url_password]@例子.中国/路"),
    (f"https://x:{GITHUB}@github.com/a", GITHUB, "https://x:[redacted:token]@github.com/a"),
    # beside other text
    (f"密钥{KEY}。", KEY, "密钥[redacted:api_key]。"),
    (f"tab\\t{KEY} and \\u00e9{KEY}", KEY, "tab\\t[redacted:api_key] and \\u00e9[redacted:api_key]"),
    (f"\\\\n{KEY}\\\\r{KEY}", KEY, "\\\\n[redacted:api_key]\\\\r[redacted:api_key]"),
    (f"\x1b[32m{KEY}\x1b[0m", KEY, "\x1b[32m[redacted:api_key]\x1b[0m"),
    (f"x%20{KEY}", KEY, "x%20[redacted:api_key]"),
    (
        f"https://api.telegram.org/bot{'12345678:A' + 'a1B2' * 9}/getMe",
        "a1B2",
        "https://api.telegram.org/bot[redacted:token]/getMe",
    ),
    (f'{{"{KEY}": 1, "{KEY}x": 2}}', KEY, '{"[redacted:api_key]": 1, "[redacted:api_key]#2": 2}'),
    (f'{{"Cookie": "{JWT}"}}', JWT, '{"Cookie": "[redacted:jwt]"}'),
]

NEGATIVES = [
    '{"max_tokens": 512}',
    '{"input_tokens": 12, "cached_tokens": 3, "output_tokens": 99999999}',
    '{"tokens": ["the", "cat", "sat-on-the-mat"]}',
    '{"token": "foo"}',
    '{"token": "Washington", "label": "LOC"}',
    '{"token": "the cat sat on the mat"}',
    '{"token": 12345678}',
    '{"token_type": "bearer", "expires_in": 3600}',
    '{"eos_token": "<|endoftext|>", "pad_token": "[PAD]12345"}',
    '{"next_page_token": "CAUQAA12345678"}',
    '{"nextToken": "CAUQAA12345678"}',
    '{"password": null, "secret": true}',
    '{"password": {"type": "string", "minLength": 8}}',
    '{"required": ["username", "password", "something-else-1"]}',
    '{"password": ""}',
    '{"password": "********"}',
    '{"password": "Forgot your password?"}',
    '{"password": "密码不能为空的"}',
    '{"api_key": "$OPENAI_API_KEY"}',
    '{"api_key": "${OPENAI_API_KEY}"}',
    '{"api_key": "${{ secrets.OPENAI_API_KEY }}"}',
    '{"api_key": "{{openai_api_key}}"}',
    '{"api_key": "<your-key-goes-here-1>"}',
    '{"api_key": "YOUR_API_KEY"}',
    '{"api_key": "your-api-key-here"}',
    '{"api_key": "OPENAI_API_KEY"}',
    '{"api_key": "xxxxxxxxxxxx"}',
    '{"api_key": "[redacted:api_key]"}',
    '{"Authorization": "Bearer [redacted:bearer]"}',
    '{"Authorization": "Bearer $TOKEN"}',
    '{"credentials": "/home/bob/.config/gcloud/cred1.json"}',
    '{"auth": "required", "oauth": "disabled"}',
    "OPENAI_API_KEY=$(cat /run/key1)",
    "OPENAI_API_KEY=%OPENAI_API_KEY1%",
    "password=[redacted:password]",
    "password: ****",
    "password = os.environ['DB_PASSWORD']",
    'api_key=os.getenv("OPENAI_API_KEY_1")',
    "self.token = self.tokenizer_1.token",
    "token = get_token_1(user)",
    "api_key=api_key, password=user_password)",
    "password = form.password.data",
    "def login(password: SecretStr, token: Optional[str] = None):",
    "apiKey: process.env.OPENAI_KEY_1",
    "the token bucket: refills at 10/s",
    "token: expired",
    "Password: incorrect.",
    "password reset was requested; the secret garden",
    "secret: everything is fine",
    "the secret: never give up",
    "sk-learn, task-id-0123456789abcdef01234, disk-0123456789abcdefABCD",
    '<div class="sk-text-repr-fallback sk-toggleable__control-1">',
    "Bearer authentication, the bearer certificates, Bearer <token>",
    "basic authentication needs Basic realm",
    "use --password to set it, --token is required",
    "pwd: /root/project1, PWD=/home/bob/x1",
    "https://example.org:8080/a@b http://localhost:3000/@vite/client",
    "https://user@example.org/x:y@z",
    "http://[::1]:8080/a@b",
    "postgres://$USER:$PASSWORD@host/db postgres://<user>:<password>@host",
    "https://u:[redacted:url_password]@h",
    "git@github.com:org/repo.git",
    "01a22d30-901c-75dc-8711-516ab210cc12",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    '{"request_hash": "9f86d081884c7d659a2feaa0c55ad015"}',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9",
    "lines between -----BEGIN " + "PRIVATE KEY----- and -----END " + "PRIVATE KEY-----",
    "-----BEGIN " + "PUBLIC KEY-----\n" + BODY + "\n-----END " + "PUBLIC KEY-----",
    "ghp_" + "x" * 36,
    "sk-" + "X" * 40,
    "AKIA stands for a key id; AIza too; hf_hub_download; npm_config_registry",
    "12:34:56 A, 1700000000:A",
    "密码：请重置",
    '{"auth": {"type": "none-at-all-1"}}',
    '{"author": "Somebody Else 123", "authority": "abc12345"}',
    '{"keyword": "value12345", "monkey": "value12345", "key": "value12345"}',
    "12345678901234567890",
    "password is required, the secret is patience",
    "def connect(password: ReadableBuffer | None, passwd: HTTPPasswordMgr",
    'getpass(prompt: str = "Password: ", stream: TextIO | None = None)',
    "std::shared_ptr<Aws::Auth::Provider1> p",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTest-a1B2c3",
    "Vec<Token>value12345 and <token> value",
    "util._assertion_pass = call_hook_1",
    '{"credentials": "include", "auth": "https://login.example.org/1"}',
    "['http://a:1', 'u@x']",
    "-1.5e300",
]


@pytest.mark.parametrize(("name", "before", "shape"), SHAPES, ids=[name for name, *_ in SHAPES])
def test_every_shape_of_the_table_is_redacted_and_suspected(name, before, shape):
    secret = "".join(shape.example)
    assert REDACTOR.text(f"see {before}{secret}, ok") == f"see {before}[redacted:{shape.kind}], ok"
    assert REDACTOR.text(f"密{before}{secret}") == f"密{before}[redacted:{shape.kind}]"
    for line in _embeddings(before + secret):
        assert REDACTOR.suspects(line.encode())
        assert secret not in _flat(REDACTOR.text(line))
    assert shape.secret.count("(") == shape.secret.count("(?:"), "a shape has no group of its own"


@pytest.mark.parametrize(("text", "secret", "clean"), POSITIVES)
def test_secrets_are_redacted(text, secret, clean):
    assert REDACTOR.text(text) == clean
    assert REDACTOR.text(clean) is clean
    for embedded in _embeddings(text):
        assert REDACTOR.suspects(embedded.encode())
        assert _strings(REDACTOR.text(embedded)) == _strings(embedded, REDACTOR)


@pytest.mark.parametrize("text", NEGATIVES)
def test_ordinary_text_stays(text):
    assert REDACTOR.text(text) is text
    for embedded in _embeddings(text):
        assert REDACTOR.text(embedded) is embedded


@pytest.mark.parametrize("kind", [kind for kind, _ in redact_patterns.NAMES])
def test_every_kind_of_name_is_known(kind):
    assert kind in {
        name_kind(n) for n in ("a_pwd", "x-api-key", "SECRET", "authToken", "my.private_key", "auth", "credentials")
    }


def _embeddings(text):
    """Yield JSON texts that hold `text` in a string, escaped one to four times, by encoders of several habits."""
    for ascii_only in (False, True):
        nested = text
        for _ in range(4):
            nested = json.dumps({"before": "x", "text": "a\n" + nested, "n": 1}, ensure_ascii=ascii_only)
            yield nested


def _strings(text, redactor=None):
    """Return the innermost text of an embedding, redacted by itself where a redactor is given."""
    while text.startswith('{"before'):
        text = json.loads(text)["text"].removeprefix("a\n")
    return redactor.text("a\n" + text).removeprefix("a\n") if redactor else text


def _flat(text):
    while text.startswith('{"before'):
        text = json.loads(text)["text"].removeprefix("a\n")
    return text


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "text", [f'{{"password": "{PASS}"}}', f"x\n{KEY}\t", f"{BEGIN}\n{BODY}\n{END}", f"a://b:{PASS}@h"]
)
def test_json_that_was_cut_off_is_redacted_at_any_depth(text, depth):
    for _ in range(depth):
        text = json.dumps({"out": text, "and": "more"})
    for cut in ("x", "x", '{"a'):
        broken = text + cut
        clean = REDACTOR.text(broken)
        assert not any(secret in clean for secret in (PASS, KEY, BODY))
        assert clean.endswith(cut)
        assert clean.count('"') == broken.count('"')
    cut = text[: text.rindex("x" if KEY in text or PASS in text else BODY) + 4]
    assert not any(secret in REDACTOR.text(cut) for secret in (PASS, KEY, BODY[:16]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[("password", "password"), ("DB_PASSWORD", "password"), ("dbPass", "password"), ("用户密码", "password")],
        *[
            ("x-api-key", "api_key"),
            ("secretKey", "api_key"),
            ("ssh_key", "private_key"),
            ("credentials", "credential"),
        ],
        *[
            ("authToken", "token"),
            ("TOKEN", "token"),
            ("proxy-authorization", "authorization"),
            ("oauth", "authorization"),
        ],
        *[
            ("tokens", None),
            ("input_tokens", None),
            ("pad_token", None),
            ("nextPageToken", None),
            ("token_count", None),
        ],
        *[("author", None), ("key", None), ("password_hash", None), ("ſecret", None), ("to\u212aen", None), ("", None)],
    ],
)
def test_names_tell_by_their_end(name, kind):
    assert name_kind(name) == kind


def test_values_keep_their_types_and_what_is_no_text():
    value = {"password": 12345678, "secret": [True, None, f"x{PASS}", {"a": PASS}], 5: ("--token", PASS)}
    clean = REDACTOR.value(value)
    assert clean == {
        "password": 12345678,
        "secret": [True, None, "[redacted:secret]", {"a": PASS}],
        5: ("--token", "[redacted:token]"),
    }
    assert REDACTOR.value(clean) is clean


def test_the_rest_of_json_text_stays_as_it_was_written():
    text = '{ "a" : 1.50,\n"a":1e400, "b":"\\/\\u00e9", "c":[ ],"key":"%s" }'
    assert REDACTOR.text(text % KEY) == text % "[redacted:api_key]"


def test_keys_that_become_the_same_are_numbered():
    assert REDACTOR.value({KEY: 1, KEY + "x": 2, "a": 3}) == {
        "[redacted:api_key]": 1,
        "[redacted:api_key]#2": 2,
        "a": 3,
    }

    odd = {f'\\"password\\": \\"{PASS}{i}': i for i in range(3)}
    clean = REDACTOR.value(odd)
    assert len(clean) == 3
    assert REDACTOR.value(clean) is clean


def test_private_keys_of_other_formats_go_by_their_name():
    value = {"ssh_key": "PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\nAAAA" + "a1B2 " * 100}
    assert REDACTOR.value(value) == {"ssh_key": "[redacted:private_key]"}


# --- the environment

ODD = 'p"w\\d/é 密+\t\n1%'


ENCODERS = {
    "as it is": str,
    "quote": quote,
    "quote_plus": quote_plus,
    "quote all": lambda value: quote(value, safe=""),
    "lower case": lambda value: re.sub("%..", lambda escape: escape[0].lower(), quote(value)),
}


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("value", ["correct-Horse-9", ODD, "😀😀==abc/+"])
def test_values_of_the_environment_are_redacted_in_every_form(value, encode):
    _check_environment(value, encode(value))


def test_values_of_the_environment_that_are_no_unicode_are_redacted():
    _check_environment("\udcffbinary1", "\udcffbinary1")


def _check_environment(value, text):
    redactor = Redactor({"MY_TOKEN": value, "HOME": "/root", "USER": "somebody-1"})
    assert redactor.text(f"a{text}b") == "a[redacted:env:MY_TOKEN]b"
    for nested in _embeddings(f"a{text}b"):
        assert redactor.suspects(nested.encode("utf-8", "surrogatepass"))
        assert _flat(redactor.text(nested)) == "a[redacted:env:MY_TOKEN]b"
        assert "a[redacted:env:MY_TOKEN]b" in redactor.text(nested + "!")
    event = _event(observation=f"a{text}b", input=payload.dumps({"x": [text]}))
    assert redactor.suspects(events.encode(event))


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        *[
            ("OPENAI_API_KEY", "abcdefgh1", True),
            ("DB_PASSWORD", "12345678", True),
            ("MY_SECRET", "correcthorsebattery", True),
        ],
        *[("GITHUB_TOKEN", "a" * 7, False), ("GITHUB_TOKEN", "a" * 9, False), ("A_TOKEN", "x1" * 20_000, False)],
        *[("AUTH_MODE", "enabled!", True), ("AUTH_MODE", "disabled", False), ("AUTH_MODE", "basic-auth", False)],
        *[
            ("TOKEN_TTL", "86400000", False),
            ("MAX_TOKENS", "10000000x", False),
            ("TOKENIZERS_PARALLELISM", "falsefalse", False),
        ],
        *[
            ("GIT_AUTHOR_NAME", "Somebody 123", False),
            ("SSH_AUTH_SOCK", "/tmp/ssh-X1/agent.12", False),
            ("PWD", "/root/x123", False),
        ],
        *[
            ("CREDENTIALS_FILE", "~/.aws/credentials", False),
            ("KEY_FILE", "C:\\keys\\a.pem", False),
            ("HOME", "abcdefgh1", False),
        ],
        *[("AUTH_URL", "https://a.example.org/1", False), ("DB_AUTH", "https://a:b@example.org", True)],
        *[("AWS_SECRET_ACCESS_KEY", "/K7MDENG/bPxRfiCY", True), ("GPG_KEY", "A035C8C19219BA82", False)],
    ],
)
def test_which_variables_are_secret(name, value, secret):
    assert is_secret(name, value) is secret


def test_the_longest_value_wins_and_none_is_shown():
    redactor = Redactor(
        {"A_TOKEN": "abcdefgh1", "B_TOKEN": "abcdefgh123", "C_TOKEN": "abcdefgh1", "D.KEY_TOKEN": "zyxwvu98"}
    )
    assert redactor.text("abcdefgh12 abcdefgh123 zyxwvu98") == (
        "[redacted:env:A_TOKEN]2 [redacted:env:B_TOKEN] [redacted:env:D_KEY_TOKEN]"
    )
    assert "abcdefgh" not in repr(redactor)
    assert "A_TOKEN" in repr(redactor)


def test_a_number_that_is_a_password_leaves_json_alone():
    redactor = Redactor({"DB_PASSWORD": "12345678"})
    assert redactor.text("12345678") == "12345678"
    assert redactor.text('{"n": 12345678, "s": "12345678"}') == '{"n": 12345678, "s": "[redacted:env:DB_PASSWORD]"}'
    assert redactor.text("it is 12345678") == "it is [redacted:env:DB_PASSWORD]"


def test_a_redactor_cannot_be_changed():
    with pytest.raises(AttributeError):
        REDACTOR.more = 1
    assert Redactor({}).text(KEY) == "[redacted:api_key]"


# --- time

HOSTILE = {
    "keys": "sk-" * 100_000,
    "URLs": "://a:" * 60_000,
    "URLs with paths": "://a:80/" * 40_000 + "@",
    "begins": BEGIN * 10_000,
    "ends": END * 10_000,
    "begins of lines": (BEGIN + "\nAa: b\n") * 8_000,
    "base64": "QUJD" * 80_000,
    "base64url": "eyJhbGci_-." * 30_000,
    "equals": "password" + "=" * 300_000,
    "quotes": 'token="' * 40_000,
    "single quotes": "password: 'a b " * 20_000,
    "deeper quotes": "".join('token="a b' + "\\" * (i % 40) for i in range(10_000)),
    "backslashes": 'password="a ' + "\\" * 300_000,
    "backslashes before": "password:" + "\\" * 300_000 + "t x",
    "escapes": "password='" + "\\u" * 150_000,
    "placeholders": "token=your" * 30_000,
    "spaces": "password \n" * 30_000 + "password" + " " * 300_000,
    "flags": json.dumps(["--token"] * 30_000),
    "brackets": "[" * 300_000 + KEY,
    "digits": "0" * 300_000 + ":A",
    "markers": "[redacted:api_key]" * 20_000 + KEY,
}


def _deep(text, size):
    while len(text) < size:
        text = json.dumps({"a": text})
    return text


@pytest.mark.parametrize("text", [*HOSTILE.values(), _deep(KEY, 300_000)], ids=[*HOSTILE, "strings in strings"])
def test_hostile_text_takes_linear_time(text):
    start = time.process_time()
    clean = REDACTOR.text(text)
    assert REDACTOR.text(clean) is clean
    REDACTOR.suspects(text.encode())
    # Seconds where the time is linear, at most; an hour where it is quadratic.
    assert time.process_time() - start < 15


# --- properties

PIECES = st.sampled_from(
    [
        *(before + "".join(shape.example) for _, before, shape in SHAPES[::3]),
        *(
            KEY,
            PASS,
            BODY,
            BEGIN,
            END,
            "://u:",
            "://",
            "@h",
            ":",
            "=",
            "Bearer ",
            "Basic ",
            "Authorization: ",
            '"',
            "\\",
        ),
        *("'", "`", "\n", "\\n", "\\\\n", "\t", "\x00", "\x7f", "/", "\\/", "{", "}", "[", "]", ",", ": ", "#2"),
        *("password", "api_key", "token", "SECRET", "auth", "密码", "：", "--password ", '"--token", ', "=> ", "**"),
        *(
            '"password": "',
            '{"token": "',
            '\\"api_key\\": \\"',
            "password=",
            "PWD=",
            "[redacted:api_key]",
            "[redacted:",
        ),
        *("\ud800", "\udfff", "\U0010f800", "é", "密", "😀", "\\u0073k-", "\\u003d", "%3D", "$X", "null", "12345678"),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=10).map("".join)
NAMES = st.one_of(
    st.sampled_from(["password", "api_key", "tokens", "token", "authorization", "auths", "secrets"]), TEXTS
)
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats())


def _values(scalars):
    def grow(inner):
        nested = inner.map(payload.dumps) | inner.map(lambda v: json.dumps(v, indent=1))
        return st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4) | nested

    return st.recursive(scalars, grow, max_leaves=8)


VALUES = _values(SCALARS)
FINITE = _values(SCALARS.filter(lambda v: not isinstance(v, float) or abs(v) < 1e300))
MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENVIRON = {
    "A_TOKEN": 'p"w\\d/é 密+\n1%',
    "B_PASSWORD": "private_key",
    "C_SECRET": "12345678",
    "D_KEY": "\udcff😀ab#?\x01&cd",
}
WITH_ENVIRON = Redactor(ENVIRON)
REDACTORS = st.sampled_from([REDACTOR, WITH_ENVIRON])


@MANY
@given(REDACTORS, TEXTS | VALUES.map(payload.dumps))
def test_redaction_is_idempotent(redactor, text):
    clean = redactor.text(text)
    assert redactor.text(clean) is clean
    assert clean is text or clean != text


@MANY
@given(REDACTORS, VALUES)
def test_redacting_values_is_idempotent_and_keeps_what_has_no_secret(redactor, value):
    clean = redactor.value(value)
    assert redactor.value(clean) is clean
    assert _shape(clean) == _shape(value)


@MANY
@given(REDACTORS, VALUES, st.sampled_from([payload.dumps, json.dumps, lambda v: json.dumps(v, indent=2)]))
def test_text_and_value_agree(redactor, value, dumps):
    text = dumps(value)
    clean = redactor.text(text)
    assert repr(json.loads(clean)) == repr(redactor.value(json.loads(text)))
    if dumps is payload.dumps:
        assert repr(payload.loads(clean)) == repr(redactor.value(payload.loads(text)))


@MANY
@given(REDACTORS, VALUES.map(payload.dumps), TEXTS)
def test_whatever_text_changes_is_suspected_in_the_line(redactor, output, observation):
    for event in (_event(output=output), _event(observation=observation), _event(name=observation)):
        line = events.encode(event)
        event = events.decode(line)
        if any(redactor.text(t) != t for t in (event.output, event.observation, event.name) if t is not None):
            assert redactor.suspects(line)
            assert redactor.suspects(json.dumps(line.decode()).encode())


@MANY
@given(REDACTORS, TEXTS, st.integers(0, 4), st.booleans())
def test_escaping_hides_nothing_from_the_filter(redactor, text, depth, ascii_only):
    assume(redactor.suspects(text.encode("utf-8", "surrogatepass")))
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)
    assert redactor.suspects(text.encode("utf-8", "surrogatepass"))


@MANY
@given(VALUES, st.integers(0, 3), st.booleans())
def test_no_key_survives_in_json(value, depth, ascii_only):
    value = {"rows": [value, {"note": f"\n{KEY}"}], "password": PASS}
    for _ in range(depth):
        value = {"text": json.dumps(value, ensure_ascii=ascii_only)}
    text = payload.dumps(value)
    clean = REDACTOR.text(text)
    for _ in range(depth):
        clean = json.loads(clean)["text"]
    clean = json.loads(clean)
    assert clean["rows"][1] == {"note": "\n[redacted:api_key]"}
    assert clean["password"] == "[redacted:password]"


def _shape(value):
    if isinstance(value, dict):
        return [_shape(item) for item in value.values()]
    return [_shape(item) for item in value] if isinstance(value, list) else type(value)
