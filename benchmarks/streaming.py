"""Does a streaming step get slower the longer the decoding has run?

    python benchmarks/streaming.py

Times single `ClockAttention.step` calls around step 40 and around step 4,000 of the same decoding (attention only, one
thread), alternating between the two so that other load affects both, and prints the ratio of medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from clock_attention import ClockAttention, ClockState


def advance(attention: ClockAttention, queries: torch.Tensor, state: ClockState, steps: int) -> ClockState:
    for s in range(steps):
        _, _, state = attention.step(queries[s % len(queries)], state)
    return state


def time_steps(attention: ClockAttention, queries: torch.Tensor, state: ClockState, steps: int) -> float:
    started = time.perf_counter()
    advance(attention, queries, state, steps)
    return (time.perf_counter() - started) / steps


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--early", type=int, default=40)
    parser.add_argument("--late", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=41)
    parser.add_argument("--out", type=Path, default=Path("out/streaming.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    attention = ClockAttention(256, 4, clocks="causal", pace=arguments.late / arguments.tokens)
    queries = torch.randn(64, 1, 256)
    early = advance(attention, queries, attention.start(torch.randn(1, arguments.tokens, 256)), arguments.early)
    late = advance(attention, queries, early, arguments.late - arguments.early)
    times: dict[str, list[float]] = {"early": [], "late": []}
    for _ in range(arguments.repetitions):
        times["early"].append(time_steps(attention, queries, early, 20))
        times["late"].append(time_steps(attention, queries, late, 20))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["late"] / medians["early"]
    for name, step in (("early", arguments.early), ("late", arguments.late)):
        print(f"step {step}: {medians[name] * 1e6:.0f} µs")
    print(f"ratio {ratio:.3f} ({arguments.tokens} tokens, width 256, 4 heads, {arguments.repetitions} repetitions)")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"medians_seconds": medians, "ratio": ratio, "tokens": arguments.tokens}))


if __name__ == "__main__":
    main()
