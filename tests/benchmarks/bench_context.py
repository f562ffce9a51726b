"""What a prompt is shown of 500 memories and 200 skills: how long it takes to choose and assemble, and how much room.

The floor in the same run is the same prompt of an agent that knows nothing.

    python tests/benchmarks/bench_context.py
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from knowledge_samples import TYPES, knowledge, request

from hermes_lab.config import AgentConfig
from hermes_lab.context import assemble, offer
from hermes_lab.layers import NOTHING_KNOWN, Knowledge, choose
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Spec

FIND = Spec("find", "Find an order.", {"type": "object", "properties": {"order": {"type": "string"}}})
TASKS = 200


def milliseconds(known: Knowledge, tasks: list[Task]) -> tuple[float, dict[str, int]]:
    """Return the median time to choose and assemble, and the most tokens that each layer took."""
    config = AgentConfig()
    offered = offer(config, [FIND], with_answer=True)
    took: list[float] = []
    most: dict[str, int] = {}
    for task in tasks:
        started = time.perf_counter()
        assembled = assemble(config, task, offered, layers=choose(known, task, config.layers))
        took.append((time.perf_counter() - started) * 1000)
        for layer, tokens in assembled.plan.tokens.items():
            most[layer] = max(tokens, most.get(layer, 0))
    return statistics.median(took), most


def main() -> None:
    """Measure."""
    draw = random.Random(0)
    tasks = [
        Task(id=f"t{number}", family="f", type=draw.choice(TYPES[:3]), prompt=request(draw)) for number in range(TASKS)
    ]
    known = knowledge(500, 200)
    milliseconds(known, tasks[:5])  # the index of triggers is made at the first use
    floor, _ = milliseconds(NOTHING_KNOWN, tasks)
    ours, most = milliseconds(known, tasks)
    room = AgentConfig().layers
    print(f"500 memories and 200 skills: {ours:.2f} ms a prompt (wanted: under 5); knowing nothing: {floor:.3f} ms")
    print(
        f"index: at most {most['index']} of {room.index_tokens} tokens; skills: {most['skills']} of {room.skill_tokens}"
    )


if __name__ == "__main__":
    main()
