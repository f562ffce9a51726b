"""What redaction costs: microseconds a line of the log, beside a decode of the line, the least that any reader does.

Run as `python tests/benchmarks/bench_redact.py`.
"""

from __future__ import annotations

import json
import sys
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from hermes_lab.log.redact import Redactor

SECRET = "sk-" + "a1B2" * 8
ENVIRON = {f"VENDOR{i}_API_KEY": f"v{i}-Zx9/{i}+Qw=" for i in range(10)}
ROUNDS = 7


def line(output: object, size: int) -> bytes:
    """Return a line of the log with `output`, padded to `size` bytes with what a tool might say."""
    event = {
        "event_id": "01a22d30-901c-75dc-8711-516ab210cc12",
        "ts": "2026-11-30T12:00:00.123456Z",
        "episode_id": "episode-7",
        "action": "tool_called",
        "name": "files.search",
        "input": json.dumps({"query": "where the token bucket refills", "limit": 3}),
        "output": json.dumps({"rows": [output], "text": ""}),
        "input_tokens": 512,
        "request_hash": "0123456789abcdef" * 2,
        "schema_version": 1,
    }
    missing = size - len(json.dumps(event))
    words = "12 files, none of them matches;\n"
    event["output"] = json.dumps(
        {"rows": [output], "text": (words * (missing // len(words) + 1))[: missing - missing // 20]}
    )
    return json.dumps(event).encode()


def micros(work: Callable[[], object]) -> float:
    """Return the microseconds of the quickest round."""
    timer = timeit.Timer(work)
    number = max(1, timer.autorange()[0] // 5)
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def main() -> None:
    """Print a row for each kind of line."""
    decode = msgspec.json.Decoder().decode
    plain, with_environ = Redactor.patterns_only(), Redactor(ENVIRON)
    heads = ("bytes", "decode", "suspects", "x decode", "with env", "text", "x decode")
    print(f"{'microseconds a line':<28}" + "".join(f"{head:>10}" for head in heads))
    for kind, output, size in (
        ("no secret", "ok", 550),
        ("a key", SECRET, 550),
        ("a password, escaped thrice", json.dumps({"password": "hunter2!"}), 550),
        ("no secret, long", "ok", 65_536),
        ("a key, long", SECRET, 65_536),
    ):
        data = line(output, size)
        column = json.loads(data)["output"]
        assert plain.suspects(data) == with_environ.suspects(data) == (output != "ok"), kind
        assert (plain.text(column) is column) == (output == "ok"), kind
        floor = micros(partial(decode, data))
        suspects = micros(partial(plain.suspects, data))
        environ = micros(partial(with_environ.suspects, data))
        text = micros(partial(plain.text, column))
        figures = (floor, suspects, suspects / floor, environ, text, text / floor)
        print(f"{kind:<28}{len(data):>10}" + "".join(f"{figure:>10.2f}" for figure in figures))


if __name__ == "__main__":
    main()
