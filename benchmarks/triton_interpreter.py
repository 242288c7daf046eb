"""Are the Triton kernels right? Thousands of random problems through Triton's interpreter, against the fp64 reference.

    python benchmarks/triton_interpreter.py --cases 2000 --out results/triton_interpreter.json

Forward and every gradient (features, values, scale, content, and through the weights where a case asks for them), odd
lengths, padding anywhere with NaN under it, all clocks and variances, tiles of four shapes, forced full bands. Bounds:
fp32 output 2e-5 and gradients 1e-4 of the largest element (or of 1); bf16 and fp16 twice the error of the literal
algorithm in the same dtype. Where the problem itself is ill-conditioned, so that plain torch on the same clocks is out
of bounds as well, twice plain torch's error; such cases are counted apart. Exit code 1 if any case is out of bounds.
Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from tests.kernels.triton_cases import judge, random_case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--out", type=Path, default=Path("out/triton_interpreter.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    import triton

    started, done, bad = time.monotonic(), [], []
    for seed in range(arguments.first, arguments.first + arguments.cases):
        found = judge(random_case(seed))
        done.append(found)
        if not found["good"]:
            bad.append(found)
            print("OUT OF BOUNDS", json.dumps(found), flush=True)
        last = seed + 1 == arguments.first + arguments.cases or time.monotonic() - started > arguments.seconds
        if len(done) % 20 == 0 or last:
            write(arguments.out, arguments.first, done, bad, time.monotonic() - started, triton.__version__)
        if last:
            break
    print(f"{len(done)} cases, {len(bad)} out of bounds, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


def write(path: Path, first: int, done: list[dict], bad: list[dict], seconds: float, version: str) -> None:
    by_dtype = {}
    for dtype in ("float32", "bfloat16", "float16"):
        rows = [row for row in done if row["case"]["dtype"] == dtype]
        if rows:
            by_dtype[dtype] = {
                "cases": len(rows), "output_max": max(r["output"] for r in rows),
                "output_median": statistics.median(r["output"] for r in rows),
                "gradient_max": max(r["gradient"] for r in rows),
                "gradient_median": statistics.median(r["gradient"] for r in rows),
            }  # fmt: skip
    found = {
        "triton": version, "torch": torch.__version__, "first_seed": first, "cases": len(done),
        "ill_conditioned": sum(row["ill_conditioned"] for row in done),
        "out_of_bounds": bad, "seconds": round(seconds), "by_dtype": by_dtype,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(found, indent=1))
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
