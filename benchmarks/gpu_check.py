"""Is clock attention right and fast on this GPU? One command, one file to send in.

    make gpu-check                      # or: python benchmarks/gpu_check.py --out out/gpu_check.json

1. What needs no GPU: the roofline estimates (benchmarks/gpu_cost.py).
2. The self-check that `impl="auto"` makes, and many shapes against the fp64 reference, forward and backward.
3. torch.compile(fullgraph=True) and a CUDA graph.
4. Milliseconds, median of 50, of Triton, the portable path, SDPA (FlashAttention where torch has it) and FlexAttention.

Without a GPU it stops after 1, says so and exits with 2; with wrong results it exits with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))

import gpu_cost
from attention import make_inputs

from clock_attention import clock_attention
from clock_attention.kernels import selfcheck

SHAPES = ("8x4x650x100x64", "1x4x4096x1024x64", "1x4x16384x4096x64")
WIDTHS = (8, 16, 32, 64, 80, 128, 256)


def environment() -> dict[str, Any]:
    import triton

    major, minor = torch.cuda.get_device_capability()
    return {
        "device": torch.cuda.get_device_name(), "capability": f"{major}.{minor}", "torch": torch.__version__,
        "cuda": torch.version.cuda, "hip": torch.version.hip, "triton": triton.__version__,
        "python": platform.python_version(),
    }  # fmt: skip


def correctness() -> list[dict[str, Any]]:
    """Output and gradients against the fp64 reference on the CPU; bounds as in `tests/kernels/triton_cases.py`."""
    rows = []
    for width in WIDTHS:
        for dtype, bounds in ((torch.float32, (2e-5, 1e-4)), (torch.bfloat16, (3e-2, 1e-1))):
            for content in (0, width):
                g = torch.Generator().manual_seed(width)
                sizes = [(203, width), (91, width), (91, width)] + ([(203, content), (91, content)] if content else [])
                inputs = [torch.randn(2, 2, *size, generator=g).to(dtype) for size in sizes]
                if content:
                    inputs[3], inputs[4] = (F.normalize(x.float(), dim=-1).to(dtype) for x in inputs[3:])
                padding = torch.arange(203) >= torch.tensor([[203], [150]])
                found = [run(inputs, padding, *place) for place in (("cuda", dtype), ("cpu", torch.float64))]
                errors = [
                    float((a.cpu().double() - b).abs().max() / b.abs().max().clamp(min=1.0))
                    for a, b in zip(*found, strict=True)
                ]
                good = errors[0] <= bounds[0] and max(errors[1:]) <= bounds[1]
                rows.append({"width": width, "dtype": str(dtype), "content": content, "output": errors[0],
                             "gradients": max(errors[1:]), "good": good})  # fmt: skip
                print(rows[-1], flush=True)
    return rows


def run(inputs: list[torch.Tensor], padding: torch.Tensor, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    leaves = [x.to(device, dtype).requires_grad_() for x in inputs]
    output, _ = clock_attention(
        *leaves[:3], padding.to(device), content=tuple(leaves[3:]) or None, return_weights=False,
        impl="triton" if device == "cuda" else "reference",
    )  # fmt: skip
    return [output.detach(), *torch.autograd.grad(output.square().sum(), leaves)]


def graphs() -> dict[str, bool]:
    """Whether a compiled graph and a captured one give the same numbers."""
    query, key, value, _ = make_inputs("random", (2, 4, 300, 80, 64))
    inputs = [x.cuda() for x in (query, key, value)]

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return clock_attention(*tensors, impl="triton", return_weights=False)[0]

    with torch.no_grad():
        expected = call(*inputs)
        compiled = torch.compile(call, fullgraph=True)(*inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = call(*inputs)
        graph.replay()
        torch.cuda.synchronize()
    return {
        "compiled": bool(torch.allclose(compiled, expected, atol=1e-4)),
        "captured": bool(torch.equal(captured, expected)),
    }


def milliseconds(call: Callable[[], object], repetitions: int = 50) -> float:
    for _ in range(5):
        call()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repetitions)]
    for before, after in marks:
        before.record()
        call()
        after.record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in marks)


def speed() -> list[dict[str, Any]]:
    from torch.nn.attention.flex_attention import flex_attention

    flex = torch.compile(flex_attention)
    rows = []
    for text in SHAPES:
        shape = tuple(map(int, text.split("x")))
        for kind in ("random", "trained"):
            for dtype in (torch.float32, torch.bfloat16):
                query, key, value, _ = make_inputs(kind, shape)
                inputs = [x.to("cuda", dtype).contiguous().requires_grad_() for x in (query, key, value)]
                calls = {
                    "triton": lambda q, k, v: clock_attention(q, k, v, impl="triton", return_weights=False)[0],
                    "portable": lambda q, k, v: clock_attention(q, k, v, impl="portable", return_weights=False)[0],
                    "sdpa": F.scaled_dot_product_attention,
                    "flex": flex,
                }
                for backward in (False, True):
                    times: dict[str, float | str] = {}
                    for name, call in calls.items():
                        try:
                            times[name] = milliseconds(once(call, inputs, backward))
                        except Exception as error:  # out of memory, or nothing built for this chip: say so and continue
                            times[name] = f"{type(error).__name__}: {error}"[:200]
                    rows.append({"shape": text, "clocks": kind, "dtype": str(dtype), "backward": backward, **times})
                    print(rows[-1], flush=True)
    return rows


def once(call: Callable[..., torch.Tensor], inputs: list[torch.Tensor], backward: bool) -> Callable[[], object]:
    if backward:
        return lambda: torch.autograd.grad(call(*inputs).sum(), inputs)

    def forward() -> None:
        with torch.no_grad():
            call(*inputs)

    return forward


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/gpu_check.json"))
    arguments = parser.parse_args()
    gpu_cost.show(gpu_cost.table(SHAPES[:1]))
    if not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is False, so nothing more can be checked here", file=sys.stderr)
        return 2
    found: dict[str, Any] = {"environment": environment()}
    print(found["environment"])
    found["selfcheck"] = selfcheck.largest_differences(torch.device("cuda"))
    found["trusted"] = selfcheck.trusted("cuda", 0)
    found["correctness"] = correctness()
    found["graphs"] = graphs()
    found["speed"] = speed()
    good = found["trusted"] and all(row["good"] for row in found["correctness"]) and all(found["graphs"].values())
    found["good"] = good
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(found, indent=1))
    temporary.replace(arguments.out)
    print(
        f"{'right' if good else 'WRONG: see the rows that are not good'}; written to {arguments.out}, please send it in"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
