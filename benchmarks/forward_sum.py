"""What does the forward-sum loss cost, compared with torch's CTC loss?

    python benchmarks/forward_sum.py

Times loss and gradient of `forward_sum_loss` and of `F.ctc_loss` (the usual way to get a forward-sum: a blank column is
added, and every target has the tokens 1 … T) on the same scores, one thread, CPU time of this process, so that other
programs disturb less. `scan` is the path other devices take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from clock_attention.kernels.monotone import path_posterior
from clock_attention.losses import forward_sum_loss


def measure(run: Callable[[], object], repetitions: int) -> float:
    run()
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("out/forward_sum.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch, queries, keys = arguments.batch, arguments.queries, arguments.keys
    logits = (3 * torch.randn(batch, queries, keys)).requires_grad_()
    optional = (torch.arange(keys) % 5 == 0).expand(batch, keys)
    targets, sources = torch.full((batch,), queries), torch.full((batch,), keys)
    tokens = torch.arange(1, keys + 1).expand(batch, keys)

    def ctc() -> None:
        logs = F.pad(logits, (1, 0), value=-1.0).log_softmax(-1).transpose(0, 1)
        F.ctc_loss(logs, tokens, targets, sources).backward()

    runs: dict[str, Callable[[], object]] = {
        "forward_sum_loss": lambda: forward_sum_loss(logits).backward(),
        "forward_sum_loss, every fifth key optional": lambda: forward_sum_loss(logits, optional=optional).backward(),
        "scan": lambda: path_posterior(logits.detach().log_softmax(-1), targets, sources, None),
        "ctc_loss": ctc,
    }
    seconds = {name: measure(run, arguments.repetitions) for name, run in runs.items()}
    for name, value in seconds.items():
        print(f"{name:44s} {1e3 * value:7.1f} ms   {value / seconds['ctc_loss']:.2f} × ctc_loss")
    print(f"batch {batch}, {queries} × {keys}, loss and gradient, median of {arguments.repetitions}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"sizes": [batch, queries, keys], "cpu_seconds": seconds}, indent=1))


if __name__ == "__main__":
    main()
