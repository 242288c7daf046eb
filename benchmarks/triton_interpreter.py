"""Are the Triton kernels right? Thousands of random problems through Triton's interpreter, against the fp64 reference.

    python benchmarks/triton_interpreter.py --out results/triton_interpreter.json

Forward and every gradient (features, values, scale, content, and through the weights where a case asks for them): 2,000
cases with narrow heads and tiles of five shapes, then 200 with heads of 8 to 256 channels in the package's own tiles;
odd lengths, one step, padding anywhere with NaN under it, all clocks and variances, forced full bands, fp32, bf16 and
fp16. fp32 products are taken in three passes of TF32, as NVIDIA's matrix units take them, or as they are, as AMD's do.

Bounds: fp32 output 2e-5 and gradients 1e-4 of the largest element (or of 1); bf16 and fp16 twice the error of the
literal algorithm in the same dtype. Where nothing in 16 bits can be right, so that plain torch on the same clocks is
out of bounds as well, twice plain torch's error; such cases are counted apart. Exit code 1 if any is out of bounds.

Every case is a line of `--rows`; lines of the same sources are not computed again. So a run can be stopped and
resumed, and several processes can share it, each with `--first` and `--cases` of its own. Needs no GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from triton_resources import KERNELS, digest

from clock_attention.kernels.triton import geometry
from tests.kernels.triton_cases import NARROW, judge, numbered_case

ROOT = Path(__file__).parents[1]
CASES = NARROW + 200
COVERED = ("clocks", "padding", "signal", "precision", "scale", "tiles", "weights", "full_band", "log_variance_term")


def fingerprints() -> tuple[str, str]:
    """Fingerprints of the code that narrow and wide cases run through; only wide ones are cut as `geometry.py` says.

    Of that file, tiles and launches count. Warps do not: an interpreter has none.
    """
    files = [*sorted(KERNELS.glob("*.py")), ROOT / "tests/kernels/triton_cases.py"]
    kernels = digest(files, without=("tile_geometry", "Geometry", "parts"))
    return kernels, hashlib.sha256(repr((kernels, wide_cuts())).encode()).hexdigest()[:16]


def wide_cuts() -> list[Any]:
    """The tiles and the launches of the gradients of every wide case."""
    found = []
    for case in map(numbered_case, range(NARROW, CASES)):
        dtype = getattr(torch, case.dtype)
        cut = geometry.tile_geometry(case.width, case.value_width, case.content_width, dtype)
        content = case.content_width > 0
        found.append((cut.queries, cut.keys, cut.query_parts(content), cut.key_parts(content)))
    return found


def read_rows(path: Path, sources: tuple[str, str]) -> dict[int, dict[str, Any]]:
    """Rows that were computed with the same sources, by number."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]  # the last may have been cut off
    return {row["number"]: row for row in rows if row["sources"] == sources[row["number"] >= NARROW]}


def append(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")  # one write: processes do not mix their lines


def summary(rows: list[dict[str, Any]], sources: tuple[str, str]) -> dict[str, Any]:
    """Counts, and for each dtype how far the worst and the middle case were; the worst by their numbers."""
    import triton

    by_dtype = {}
    for dtype in ("float32", "bfloat16", "float16"):
        mine = [row for row in rows if row["case"]["dtype"] == dtype]
        if mine:
            by_dtype[dtype] = {
                "cases": len(mine),
                **{f"{what}_max": max(row[what] for row in mine) for what in ("output", "gradient")},
                **{f"{what}_median": statistics.median(row[what] for row in mine) for what in ("output", "gradient")},
                "nearest_to_bounds": [
                    {"number": row["number"], "of_bound": round(row["of_bound"], 3)}
                    for row in sorted(mine, key=lambda row: -row["of_bound"])[:5]
                ],
            }
    return {
        "command": "python benchmarks/triton_interpreter.py", "triton": triton.__version__, "torch": torch.__version__,
        "sources": sources, "cases": len(rows), "narrow": sum(row["number"] < NARROW for row in rows),
        "ill_conditioned": [row["number"] for row in rows if row["ill_conditioned"]],
        "out_of_bounds": [row for row in rows if not row["good"]],
        "cpu_seconds": round(sum(row["seconds"] for row in rows)), "by_dtype": by_dtype,
        "covered": {field: dict(Counter(str(row["case"][field]) for row in rows)) for field in COVERED},
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--rows", type=Path, default=Path("out/triton_interpreter.jsonl"))
    parser.add_argument("--out", type=Path, help="write the summary of all rows here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sources = fingerprints()
    known = read_rows(arguments.rows, sources)
    started = time.monotonic()
    for number in range(arguments.first, arguments.first + arguments.cases):
        if number in known:
            continue
        if time.monotonic() - started > arguments.seconds:
            break
        before = time.process_time()
        found = judge(numbered_case(number))
        seconds = round(time.process_time() - before, 2)
        row = {"number": number, "sources": sources[number >= NARROW], "seconds": seconds, **found}
        append(arguments.rows, row)
        if not found["good"]:
            print("OUT OF BOUNDS", number, json.dumps(found), flush=True)
    rows = sorted(read_rows(arguments.rows, sources).values(), key=lambda row: row["number"])
    bad = [row for row in rows if not row["good"]]
    print(f"{len(rows)} of {CASES} cases, {len(bad)} out of bounds")
    if arguments.out:
        temporary = arguments.out.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(summary(rows, sources), indent=1))
        temporary.replace(arguments.out)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
