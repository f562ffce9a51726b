"""What the embedded model does on this machine: tokens a second, batches, and a shared prefix, with what agrees.

Run as `python tests/benchmarks/bench_models.py [speed] [batch] [prefix] [--dtype float32 bfloat16]`; without a part,
all of them. Accuracy is measured in `bench_bfcl.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from bfcl_files import wheel
from transformers import DynamicCache

from hermes_lab.config import AgentConfig
from hermes_lab.context import assemble, decision_schema, offer
from hermes_lab.models.base import Reply, Request, Role, Turn
from hermes_lab.models.embedded import fetch
from hermes_lab.models.local import LocalModel, open_local
from hermes_lab.models.local_load import load
from hermes_lab.suites.bfcl import read_bfcl
from hermes_lab.suites.stored import StoredSuite


def tool_call_requests(count: int) -> list[Request]:
    """Return questions of BFCL's simple_python as the agent puts them."""
    content = read_bfcl(wheel(), "simple_python")
    suite = StoredSuite(content)
    toolbox = suite.toolbox()
    config = AgentConfig()
    made = []
    for task in suite.tasks(limit=count):
        offered = offer(config, [toolbox[name].spec for name in task.tools], with_answer=False)
        made.append(assemble(config, task, offered).request)
    return made


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


def batch_and_single(requests: Sequence[Request], dtypes: Sequence[str]) -> None:
    """Print decisions and time of batch 8 against batch 1 on 64 tool calls."""
    print("\n64 tool calls of BFCL, batch 8 against batch 1")
    print(f"{'dtype':<10}{'same':>8}{'1: s':>8}{'8: s':>8}{'ratio':>7}")
    for dtype in dtypes:
        single = embedded(dtype, batch_size=1)
        single.generate(requests[:2])
        ones, seconds_one = timed(lambda model=single: model.generate(requests))
        eight = embedded(dtype, batch_size=8)
        eight.generate(requests[:2])
        eights, seconds_eight = timed(lambda model=eight: model.generate(requests))
        same = agreement(ones, eights)
        print(f"{dtype:<10}{same:>8}{seconds_one:>8.1f}{seconds_eight:>8.1f}{seconds_one / seconds_eight:>7.2f}")


def shared_prefix(requests: Sequence[Request], dtypes: Sequence[str]) -> None:
    """Print time and decisions with a system turn of 28 tools, kept and computed afresh."""
    tools = tuple({one.tools[0].name: one.tools[0] for one in requests}.values())[:28]
    schema = decision_schema(tools)
    requests = [msgspec.structs.replace(one, tools=tools, schema=schema) for one in requests[:16]]
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


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["speed", "batch", "prefix"], default=[])
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, help="of torch; more than there are free cores makes it slower")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    parts = asked.parts or ["speed", "batch", "prefix"]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    if "speed" in parts:
        speed(asked.dtype)
    if parts == ["speed"]:
        return
    requests = tool_call_requests(64)
    if "batch" in parts:
        batch_and_single(requests, asked.dtype)
    if "prefix" in parts:
        shared_prefix(requests, asked.dtype)


if __name__ == "__main__":
    main()
