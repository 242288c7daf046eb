"""What does clock attention cost compared with scaled dot-product attention, and how accurate is it?

    python benchmarks/attention.py                 # everything, tens of minutes
    python benchmarks/attention.py --only 8x4x650x100x64 --kinds random

Measures forward, forward + backward, peak memory and the error against fp64 of the implementations "reference",
"portable" and "banded" (also with content evidence) and of torch's `F.scaled_dot_product_attention` ("sdpa"). Inputs
are projection outputs, so time normalization and clocks are included. Repetitions of all implementations are
interleaved, so that other load affects all of them; the table has medians as ratios to SDPA in the same run, with the
quartiles of the ratios by repetition in brackets. What exceeds the budget is measured once and marked *, or left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from clock_attention import clock_attention

SHAPES = ("8x4x650x100x64", "1x4x4096x1024x64", "1x4x16384x4096x64", "1x4x65536x8192x64")
CONTENT = "banded + content "  # and the number of channels of the content features
IMPLEMENTATIONS = ("sdpa", "reference", "portable", "banded", f"{CONTENT}32", f"{CONTENT}64")
ON_A_GPU = ("sdpa", "portable", "triton")
device = torch.device("cpu")  # --device replaces it
KINDS = ("random", "trained", "flat", "steps", "wide")
LOGITS_AT_ONCE = 2**28  # the reference and a backward pass keep several tensors of this size
LONGEST_ONCE = 20.0  # seconds: what exceeds the budget is run once; what exceeds this, not at all


def make_inputs(kind: str, shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor, Tensor, float]:
    """Query, key, value (heads split from a projection) and logit_scale.

    random: independent features; trained: both sides carry the same slowly changing signals, so the clocks run close
    to each other; flat: constant features, all channels tick alike; steps: each clock makes one large jump; wide:
    random features and a scale so small that every key matters to every query.
    """
    batch, heads, targets, sources, width = shape
    g = torch.Generator().manual_seed(seed)

    def projected(length: int) -> Tensor:
        return torch.randn(batch, length, heads, width, generator=g).transpose(1, 2)

    query, key, value = projected(targets), projected(sources), projected(sources)
    if kind == "trained":
        signal = torch.randn(batch * heads, width, 24, generator=g)
        for x, length in ((query, targets), (key, sources)):
            curve = F.interpolate(signal, size=length, mode="linear", align_corners=True).mT
            x.mul_(0.1).add_(curve.reshape(batch, heads, length, width))
    elif kind == "flat":
        query.fill_(1.0)
        key.fill_(-1.0)
    elif kind == "steps":
        for x, length in ((query, targets), (key, sources)):
            x.fill_(-3.0)
            x[:, :, length // 2 : length // 2 + 2] = 3.0 * length**0.5
    return query.to(device), key.to(device), value.to(device), 1e-4 if kind == "wide" else 1.0


def operation(
    name: str, inputs: tuple[Tensor, Tensor, Tensor, float], pair: tuple[Tensor, ...] = ()
) -> Callable[[], Tensor]:
    query, key, value, scale = inputs
    if name == "sdpa":
        return lambda: F.scaled_dot_product_attention(query, key, value)
    if name.startswith(CONTENT):
        content = pair or content_features(query, key, name)
        return lambda: clock_attention(
            query, key, value, content=content, impl="banded", return_weights=False, logit_scale=scale
        )[0]
    return lambda: clock_attention(query, key, value, impl=name, return_weights=False, logit_scale=scale)[0]


def content_features(query: Tensor, key: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Random features of both sides, heads split from a projection, scaled as for dot-product attention."""
    width, g = int(name.removeprefix(CONTENT)), torch.Generator().manual_seed(1)
    first, second = (
        torch.randn(x.shape[0], x.shape[2], x.shape[1], width, generator=g).to(query).transpose(1, 2)
        for x in (query, key)
    )
    return (first / width**0.5).requires_grad_(query.requires_grad), second.requires_grad_(query.requires_grad)


clock = time.perf_counter  # --busy replaces it


def seconds(run: Callable[[], object]) -> float:
    started = clock()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - started


def fits(name: str, shape: tuple[int, ...], backward: bool) -> bool:
    """The reference stores all pairs; the other implementations work in blocks."""
    batch, heads, targets, sources, _ = shape
    return name != "reference" or batch * heads * targets * sources * (2 if backward else 1) <= LOGITS_AT_ONCE


def measure(
    kind: str, shape: tuple[int, ...], backward: bool, names: tuple[str, ...], repetitions: int, budget: float
) -> dict[str, list[float]]:
    """Seconds of every implementation, repetitions interleaved."""
    inputs = make_inputs(kind, shape)
    leaves = [x.requires_grad_(backward) for x in inputs[:3]]
    cotangent = torch.randn(shape[0], shape[2], shape[1], shape[4]).transpose(1, 2).to(device)

    def call(name: str) -> Callable[[], object]:
        pair = content_features(*inputs[:2], name) if name.startswith(CONTENT) else ()
        forward = operation(name, inputs, pair)
        return (lambda: torch.autograd.grad(forward(), [*leaves, *pair], cotangent)) if backward else forward

    times: dict[str, list[float]] = {}
    with torch.set_grad_enabled(backward):
        calls = {name: call(name) for name in names if fits(name, shape, backward)}
        round_seconds = 0.0
        for name, run in calls.items():
            if (once := seconds(run)) <= LONGEST_ONCE:
                times[name] = [] if once * repetitions <= budget else [once]
                round_seconds += once
        # Timings of a few milliseconds are noisy: short operations are repeated more often.
        for _ in range(max(repetitions, min(41, int(8 / round_seconds)))):
            for name, values in times.items():
                if len(values) != 1 or values[0] * repetitions <= budget:
                    values.append(seconds(calls[name]))
    return times


def peak_memory(name: str, shape: str, backward: bool) -> float | None:
    """MiB beyond the inputs, in a fresh process."""
    command = [sys.executable, __file__, "--peak", name, shape, "backward" if backward else "forward"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(found.stdout) if found.returncode == 0 else None


def print_peak(name: str, shape: str, direction: str) -> None:
    measure("random", (1, 1, 64, 16, 8), True, (name,), 1, 1.0)  # one-time loading is not part of the operation
    inputs = make_inputs("random", tuple(map(int, shape.split("x"))))
    leaves = [x.requires_grad_(direction == "backward") for x in inputs[:3]]
    resting = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    output = operation(name, inputs)()
    if direction == "backward":
        torch.autograd.grad(output, leaves, torch.ones_like(output))
    print(max(0, status("VmHWM") - resting) / 1024)


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise LookupError(field)


def largest_error(name: str, kind: str, shape: tuple[int, ...]) -> float | None:
    """Against fp64, one head. Where all pairs do not fit, the oracle is the portable path in fp64."""
    one = (1, 1, *shape[2:])
    if name == "sdpa" or not fits(name, one, False):
        return None
    query, key, value, scale = make_inputs(kind, one)
    oracle = "reference" if shape[2] * shape[3] <= 2**23 else "portable"
    with torch.no_grad():
        doubles = [x.double() for x in (query, key, value)]
        content = None
        if name.startswith(CONTENT):
            content = tuple(x.double() for x in content_features(query, key, name))
        exact, _ = clock_attention(*doubles, content=content, impl=oracle, return_weights=False, logit_scale=scale)
        found = operation(name, (query, key, value, scale))()
    return float((found - exact).abs().max())


def machine() -> dict[str, object]:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "processor": model,
        "threads": torch.get_num_threads(),
        "timer": clock.__name__,
        "load_before": os.getloadavg()[0],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "seed": 0,
    }


def ratio_text(times: dict[str, list[float]], name: str) -> str:
    """Ratio of medians to SDPA, with the quartiles of the ratios by repetition."""
    if name not in times or "sdpa" not in times:
        return "–"
    ours, theirs = times[name], times["sdpa"]
    ratio = statistics.median(ours) / statistics.median(theirs)
    if min(len(ours), len(theirs)) < 4:
        return f"{ratio:.3g}*"
    low, _, high = statistics.quantiles([a / b for a, b in zip(ours, theirs, strict=False)], n=4)
    return f"{ratio:.2f} [{low:.2f}–{high:.2f}]"


def draw(results: list[dict], path: Path) -> None:
    """Cost against length: seconds of every implementation for random clocks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, backward in zip(axes, (False, True), strict=True):
        rows = [r for r in results if r["kind"] == "random" and r["backward"] == backward and r["batch"] == 1]
        for name in IMPLEMENTATIONS:
            points = [(r["targets"], statistics.median(r["seconds"][name])) for r in rows if r["seconds"].get(name)]
            if points:
                axis.loglog(*zip(*points, strict=True), "o-", label=name)
        axis.set_xticks(sorted({r["targets"] for r in rows}), [str(t) for t in sorted({r["targets"] for r in rows})])
        axis.minorticks_off()
        axis.set(xlabel="queries S", title="forward + backward" if backward else "forward")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds (1 × 4 heads, width 64)")
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.png")
    figure.savefig(temporary, dpi=120)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=SHAPES, help="shapes BxHxSxTxD")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--implementations", nargs="*", default=IMPLEMENTATIONS, choices=IMPLEMENTATIONS)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for all repetitions of one measurement")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--busy", action="store_true", help="one thread and its CPU time, for a machine in use")
    parser.add_argument("--out", type=Path, default=Path("out/attention.json"))
    parser.add_argument("--figure", type=Path, help="where to draw cost against length")
    parser.add_argument("--peak", nargs=3, metavar=("IMPL", "SHAPE", "DIRECTION"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    # Once a block this large is freed, glibc keeps freed memory instead of asking for fresh pages in every call. In
    # training this is the case from the first step on.
    torch.ones(31 * 2**20, dtype=torch.uint8)
    if arguments.peak:
        print_peak(*arguments.peak)
        return
    global device, clock
    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            parser.error("--device: got 'cuda', but there is no GPU here (torch.cuda.is_available() is False)")
        device, arguments.no_memory = torch.device("cuda"), True
    names = ON_A_GPU if arguments.device == "cuda" else tuple(arguments.implementations)
    if arguments.busy:
        clock = time.process_time
        torch.set_num_threads(1)
    results = []
    for text in arguments.only:
        shape = tuple(map(int, text.split("x")))
        for kind in arguments.kinds:
            errors = {name: largest_error(name, kind, shape) for name in names}
            for backward in (False, True):
                times = measure(kind, shape, backward, names, arguments.repetitions, arguments.budget)
                memory = {}
                if kind == "random" and not arguments.no_memory:
                    memory = {name: peak_memory(name, text, backward) for name in times}
                results.append(
                    {
                        "shape": text, "batch": shape[0], "targets": shape[2], "sources": shape[3], "kind": kind,
                        "backward": backward, "seconds": times, "peak_mib": memory, "error": errors,
                    }
                )  # fmt: skip
                report(results[-1])
    growth(results)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))
    temporary.replace(arguments.out)
    if arguments.figure:
        draw(results, arguments.figure)


def report(row: dict) -> None:
    times, errors, memory = row["seconds"], row["error"], row["peak_mib"]
    print(f"\n{row['shape']}, {row['kind']} clocks, {'forward + backward' if row['backward'] else 'forward'}")
    for name in times:
        error = "–" if errors[name] is None else f"{errors[name]:.1e}"
        peak = "" if memory.get(name) is None else f"{memory[name]:9.1f} MiB"
        text = f"  {name:19s} {statistics.median(times[name]) * 1e3:10.2f} ms   ÷ SDPA {ratio_text(times, name):20s}"
        print(f"{text} error {error:8s}{peak}", flush=True)
        if name.startswith(CONTENT) and "banded" in times:
            ratios = [a / b for a, b in zip(times[name], times["banded"], strict=False)]
            print(f"  {'':19s} ÷ banded {statistics.median(ratios):.2f}", flush=True)


def growth(results: list[dict]) -> None:
    """Time at 16384×4096 over time at 4096×1024: sixteen times the pairs."""
    for backward in (False, True):
        found = {
            r["targets"]: r["seconds"]
            for r in results
            if r["kind"] == "random" and r["backward"] == backward and r["batch"] == 1
        }
        if 4096 in found and 16384 in found:
            for name in found[4096]:
                if name in found[16384]:
                    factor = statistics.median(found[16384][name]) / statistics.median(found[4096][name])
                    direction = "forward + backward" if backward else "forward"
                    print(f"×16 pairs, {direction}: {name} takes ×{factor:.1f}")


if __name__ == "__main__":
    main()
