"""What the embedded model does on this machine: tokens a second, agreement of fast paths, and BFCL accuracy.

Run as `python tests/benchmarks/bench_models.py [speed] [batch] [prefix] [bfcl] [--dtype float32 bfloat16]`; without a
part, all of them. `bfcl` needs `pip download --no-deps bfcl-eval==2026.3.23`, which it does itself unless `--bfcl DIR`
names the folder with the JSON lines.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from transformers import DynamicCache

from hermes_lab.models.base import Frame, Reply, Request, Role, Signature, Turn
from hermes_lab.models.embedded import fetch
from hermes_lab.models.local import LocalModel, open_local
from hermes_lab.models.local_load import load

CALL = Frame("<tool_call>\n", "\n</tool_call>")
SYSTEM = Turn(
    Role.SYSTEM,
    "You are a function calling AI model. You are careful: you use a tool to look things up or to act, "
    "never invent its results, and give a final answer once the request is done.",
)
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
BFCL = "bfcl-eval==2026.3.23"
FIRST = 120


class Case(NamedTuple):
    """A BFCL task: the question, its functions, and the answers that count."""

    id: str
    question: str
    functions: list[dict[str, Any]]
    answers: list[dict[str, dict[str, list[Any]]]]


def json_schema(declared: Any) -> Any:
    """Return the JSON Schema of a parameter as BFCL declares it."""
    if isinstance(declared, list):
        return [json_schema(part) for part in declared]
    if not isinstance(declared, dict):
        return declared
    schema = {key: json_schema(value) for key, value in declared.items() if key not in ("default", "optional")}
    kind = schema.get("type")
    if kind == "any":
        del schema["type"]
    elif isinstance(kind, str):
        schema["type"] = TYPES.get(kind, kind)
    return schema


def signature(function: dict[str, Any]) -> Signature:
    """Return a BFCL function as a tool."""
    return Signature(function["name"], function["description"], json_schema(function["parameters"]))


def call_schema(tools: Sequence[Signature]) -> dict[str, Any]:
    """Return the schema of one call of one of the tools."""
    calls = []
    for tool in tools:
        arguments = {**tool.parameters, "additionalProperties": False}
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls}


def request(case: Case) -> Request:
    """Return the request that asks the model for the case's call."""
    tools = tuple(signature(function) for function in case.functions)
    user = Turn(Role.USER, case.question)
    return Request(messages=(SYSTEM, user), tools=tools, schema=call_schema(tools), frame=CALL, max_tokens=200)


def read_cases(folder: Path, category: str) -> list[Case]:
    """Return the first cases of a category."""

    def lines(path: Path) -> list[Any]:
        with path.open(encoding="utf-8") as file:
            return [json.loads(line) for line in islice(file, FIRST)]

    name = f"BFCL_v4_{category}.json"
    tasks, answers = lines(folder / name), lines(folder / "possible_answer" / name)
    return [
        Case(task["id"], task["question"][0][-1]["content"], task["function"], answer["ground_truth"])
        for task, answer in zip(tasks, answers, strict=True)
    ]


def plain(value: Any) -> Any:
    """Return a value as BFCL compares it: text without case, blanks and most marks."""
    if isinstance(value, str):
        return re.sub(r"[ ,./\-_*^]", "", value).lower().replace("'", '"')
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def fits(value: Any, allowed: list[Any]) -> bool:
    """Whether a value is one of those allowed; in an object each key has its own."""
    for one in allowed:
        if isinstance(one, dict) and isinstance(value, dict):
            missing = [key for key in one if key not in value and "" not in one[key]]
            if not missing and all(key in one and fits(value[key], one[key]) for key in value):
                return True
        elif isinstance(one, list) and isinstance(value, list) and any(isinstance(part, dict) for part in one):
            if len(one) == len(value) and all(fits(item, [part]) for item, part in zip(value, one, strict=True)):
                return True
        elif isinstance(value, bool) == isinstance(one, bool) and plain(value) == plain(one):
            return True
    return False


def grade(case: Case, text: str) -> tuple[bool, bool]:
    """Return whether the name is right, and whether the whole call is."""
    body = text.removeprefix(CALL.prefix).removesuffix(CALL.suffix)
    try:
        call = json.loads(body)
    except json.JSONDecodeError:
        return False, False
    (name, allowed), *_ = case.answers[0].items()
    if call["name"] != name:
        return False, False
    given = call["arguments"]
    missing = [key for key, values in allowed.items() if key not in given and "" not in values]
    return True, not missing and all(key in allowed and fits(given[key], allowed[key]) for key in given)


def bfcl_folder(named: str | None) -> Path:
    """Return the folder with BFCL's JSON lines; fetch them where none is named."""
    if named:
        return Path(named)
    target = Path(tempfile.mkdtemp(prefix="bfcl-"))
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", target, BFCL], check=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel:
        wheel.extractall(target)
    return target / "bfcl_eval" / "data"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` gives and the seconds it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def embedded(dtype: str, **options: Any) -> LocalModel:
    """Return the embedded model in a dtype."""
    return open_local("embedded", options={"dtype": dtype, **options})


def agreement(first: Sequence[Reply], second: Sequence[Reply]) -> str:
    """Return how many replies are the same text."""
    same = sum(one.text == other.text for one, other in zip(first, second, strict=True))
    return f"{same}/{len(first)}"


def bare_rate(dtype: str, batch: int, prompt: int = 250, new: int = 50) -> float:
    """Return generated tokens a second of a plain loop over the model's own forward pass: the floor."""
    weights = load(str(fetch()), dtype=dtype).weights
    ids = torch.randint(100, 40_000, (batch, prompt), generator=torch.Generator().manual_seed(0))

    def generate() -> None:
        cache = DynamicCache(config=weights.config)
        tokens = ids
        with torch.inference_mode():
            for _ in range(new):
                logits = weights(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                tokens = logits[:, -1].argmax(-1, keepdim=True)

    generate()
    return batch * new / timed(generate)[1]


def speed(dtypes: Sequence[str]) -> None:
    """Print generated tokens a second, 250 tokens in and 50 out, beside the plain loop."""
    print("\ngenerated tokens a second, 250 in + 50 out (ours: free text, greedy, no shared prefix)")
    print(f"{'dtype':<10}{'batch':>6}{'ours':>8}{'plain':>8}{'ratio':>7}")
    for dtype in dtypes:
        for batch in (1, 8):
            model = embedded(dtype, prefix_mb=0, batch_size=batch)
            requests = [
                Request(messages=(Turn(Role.USER, f"{number} " * 108 + "Tell a long story."),), max_tokens=50)
                for number in range(10, 10 + batch)
            ]
            model.generate(requests)
            replies, seconds = timed(lambda model=model, requests=requests: model.generate(requests))
            ours = sum(reply.output_tokens for reply in replies) / seconds
            plain_rate = bare_rate(dtype, batch)
            print(f"{dtype:<10}{batch:>6}{ours:>8.1f}{plain_rate:>8.1f}{ours / plain_rate:>7.2f}")


def batch_and_single(cases: Sequence[Case], dtypes: Sequence[str]) -> None:
    """Print decisions and time of batch 8 against batch 1 on 64 tool calls."""
    print("\n64 tool calls of BFCL, batch 8 against batch 1")
    print(f"{'dtype':<10}{'same':>8}{'1: s':>8}{'8: s':>8}{'ratio':>7}")
    requests = [request(case) for case in cases[:64]]
    for dtype in dtypes:
        single = embedded(dtype, batch_size=1)
        single.generate(requests[:2])
        ones, seconds_one = timed(lambda model=single: model.generate(requests))
        eight = embedded(dtype, batch_size=8)
        eight.generate(requests[:2])
        eights, seconds_eight = timed(lambda model=eight: model.generate(requests))
        same = agreement(ones, eights)
        print(f"{dtype:<10}{same:>8}{seconds_one:>8.1f}{seconds_eight:>8.1f}{seconds_one / seconds_eight:>7.2f}")


def shared_prefix(cases: Sequence[Case], dtypes: Sequence[str]) -> None:
    """Print time and decisions with a system turn of 28 tools, kept and computed afresh."""
    tools = tuple({case.functions[0]["name"]: signature(case.functions[0]) for case in cases}.values())[:28]
    requests = [
        Request(
            messages=(SYSTEM, Turn(Role.USER, case.question)),
            tools=tools,
            schema=call_schema(tools),
            frame=CALL,
            max_tokens=100,
        )
        for case in cases[:16]
    ]
    print(f"\n16 tool calls with {len(tools)} tools listed, the system turn kept and computed afresh")
    print(f"{'dtype':<10}{'tokens':>8}{'same':>8}{'afresh s':>10}{'kept s':>8}{'again s':>9}{'ratio':>7}")
    for dtype in dtypes:
        afresh = embedded(dtype, prefix_mb=0)
        first, seconds_afresh = timed(lambda model=afresh: model.generate(requests))
        kept = embedded(dtype)
        second, seconds_kept = timed(lambda model=kept: model.generate(requests))
        _, seconds_again = timed(lambda model=kept: model.generate(requests))
        same = agreement(first, second)
        figures = f"{seconds_afresh:>10.1f}{seconds_kept:>8.1f}{seconds_again:>9.1f}"
        print(f"{dtype:<10}{kept.most_tokens(requests[0]):>8}{same:>8}{figures}{seconds_afresh / seconds_kept:>7.1f}")


def accuracy(folder: Path, dtypes: Sequence[str]) -> None:
    """Print BFCL accuracy with all tools in listing order, and how often the dtypes agree."""
    print(f"\nBFCL, first {FIRST}: name right, whole call right")
    print(f"{'category':<16}{'dtype':<10}{'name':>8}{'full':>8}{'tokens in':>11}{'out':>7}{'s':>7}{'as first':>10}")
    for category in ("simple_python", "multiple"):
        cases = read_cases(folder, category)
        requests = [request(case) for case in cases]
        first: list[Reply] | None = None
        for dtype in dtypes:
            model = embedded(dtype)
            replies, seconds = timed(lambda model=model, requests=requests: model.generate(requests))
            grades = [grade(case, reply.text) for case, reply in zip(cases, replies, strict=True)]
            name, full = (sum(right) / len(cases) for right in zip(*grades, strict=True))
            first = first or replies
            tokens = sum(reply.input_tokens for reply in replies)
            out = sum(reply.output_tokens for reply in replies)
            same = agreement(first, replies)
            print(f"{category:<16}{dtype:<10}{name:>8.3f}{full:>8.3f}{tokens:>11}{out:>7}{seconds:>7.0f}{same:>10}")


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["speed", "batch", "prefix", "bfcl"], default=[])
    parser.add_argument("--bfcl", help="folder with BFCL's JSON lines")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, help="of torch; more than there are free cores makes it slower")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    parts = asked.parts or ["speed", "batch", "prefix", "bfcl"]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    if "speed" in parts:
        speed(asked.dtype)
    if parts == ["speed"]:
        return
    folder = bfcl_folder(asked.bfcl)
    cases = read_cases(folder, "simple_python")
    if "batch" in parts:
        batch_and_single(cases, asked.dtype)
    if "prefix" in parts:
        shared_prefix(cases, asked.dtype)
    if "bfcl" in parts:
        accuracy(folder, asked.dtype)


if __name__ == "__main__":
    main()
