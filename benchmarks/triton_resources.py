"""Do the Triton kernels fit? Registers, shared memory, spills and occupancy of every variant, without a GPU.

    python benchmarks/triton_resources.py --out results/triton_resources.json    # everything, about half an hour
    python benchmarks/triton_resources.py --only sm_80 --widths 64               # a part, to standard output

Each kernel is compiled for A100 (sm_80), H100 (sm_90), B200 (sm_100) and MI300 (gfx942) with the tile sizes that
`kernels/triton/geometry.py` gives it, for each head width, in fp32 and bf16, plain ("plain") and with everything that
costs resources at once ("full": content of the head's width, the log-variance term, gradients of the weights, both
masks). The budget: 0 bytes spilled and at least 25 % of a multiprocessor's threads resident. Exit code 1 if exceeded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64),
}
WIDTHS = (8, 16, 32, 64, 128, 256)
DTYPES = ("fp32", "bf16", "fp16")
LEAST_OCCUPANCY = 0.25


@dataclass(frozen=True)
class Chip:
    """What a multiprocessor (or compute unit) has: its threads, registers and shared memory."""

    warps: int
    registers: int  # of 32 bits, per multiprocessor; on AMD per SIMD and lane
    shared: int


CHIPS = {
    "sm_80": Chip(64, 65536, 164 * 1024),
    "sm_90": Chip(64, 65536, 228 * 1024),
    "sm_100": Chip(64, 65536, 228 * 1024),
    "gfx942": Chip(32, 512, 64 * 1024),
}
ELEMENTS = ("value", "grad_value", "content", "key_content", "grad_content")
WHOLE = ("heads", "queries", "keys", "tiles", "key_tiles", "steps", "halvings", "width", "value_width",
         "content_width")  # fmt: skip
REAL = ("spread", "eps", "tolerance")
TYPES = {"clock": "*fp64", "grad_clock": "*fp64", "fill": "*i32", "key_fill": "*i32", "ranges": "*i32",
         "key_counts": "*i32", "live": "*u8", "key_live": "*u8"}  # fmt: skip


def argument_type(name: str, dtype: str) -> str:
    if name in WHOLE or re.fullmatch(r".*_[bhs]", name):
        return "i32"
    if name in REAL:
        return "fp32"
    return TYPES.get(name) or (f"*{dtype}" if name in ELEMENTS else "*fp32")


def kernels(width: int, full: bool, target: str, dtype: str) -> dict[str, tuple[Any, dict[str, Any], dict[str, int]]]:
    """Every kernel with its constants and launch options."""
    import torch

    from clock_attention.kernels.triton import backward, forward, geometry, readings, step
    from clock_attention.kernels.triton.operator import CHUNK, FIELDS

    content = width if full else 0
    element = torch.float32 if dtype == "fp32" else torch.bfloat16
    cut = geometry.tile_geometry(width, width, content, element)
    limit = {} if target.startswith("gfx") else {"maxnreg": geometry.REGISTERS}
    block = geometry.block_width(width)
    constants = {
        "WIDTH": width, "BLOCK_WIDTH": block, "VALUE": width, "BLOCK_VALUE": block, "CONTENT": content,
        "BLOCK_CONTENT": geometry.block_width(max(content, 1)), "CHANNELS": geometry.CHANNELS,
        "LOG_TERM": full, "WEIGHTS": full, "MASKED": full,
        "KEY_MASKED": full, "FIELDS": FIELDS, "CHUNK": CHUNK,
        "PRECISION": "ieee" if target.startswith("gfx") else "tf32x3",
    }  # fmt: skip
    # Where one launch does not hold the gradients of all keys, two do.
    parts = ["key_gradients"] if cut.keys_at_once else ["key_gradients of values", "key_gradients of clocks"]
    found = {
        "read_clock": (readings.read_clock, cut, geometry.READING_WARPS),
        "choose_tiles": (readings.choose_tiles, cut, geometry.choosing_warps(width)),
        "attend_tile": (forward.attend_tile, cut, cut.forward_warps),
        "write_weights": (forward.write_weights, cut, cut.forward_warps),
        "query_gradients": (backward.query_gradients, cut, cut.query_warps),
        **dict.fromkeys(parts, (backward.key_gradients, cut, cut.key_warps)),
        "attend_step": (
            step.attend_step,
            geometry.Geometry(1, geometry.step_keys(width)),
            geometry.STEP_WARPS,
        ),
    }
    return {
        name: (
            kernel,
            {
                **constants,
                "BLOCK": cut.queries,
                "KEY_BLOCK": cut.keys,
                "VALUES": "clocks" not in name,
                "CLOCKS": "values" not in name,
            },
            {"num_warps": warps, "num_stages": 1, **limit},
        )
        for name, (kernel, cut, warps) in found.items()
    }


def compile_kernel(kernel: Any, constants: dict[str, Any], options: dict[str, int], target: str, dtype: str) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else argument_type(name, dtype) for name in names}
    # As at run time: torch's allocations are aligned, and so is every stride of a head whose width is a multiple of 16.
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*") or (re.fullmatch(r".*_[bhs]", name) and constants["WIDTH"] % 16 == 0)
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=GPUTarget(*TARGETS[target]), options=dict(options))


def nvidia_usage(compiled: Any, target: str) -> tuple[int, int]:
    """Registers per thread and bytes spilled, from ptxas."""
    import triton

    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin" / "ptxas-blackwell"  # the newer of the two
    if not ptxas.exists():
        ptxas = ptxas.with_name("ptxas")
    ptx = compiled.asm["ptx"]
    arch = re.search(r"\.target (sm_\w+)", ptx)
    assert arch is not None
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [str(ptxas), "-v", f"-arch={arch[1]}", file.name, "-o", os.devnull]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = int(re.search(r"Used (\d+) registers", text)[1])  # type: ignore[index]
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", text))
    return registers, spilled


def amd_usage(compiled: Any) -> tuple[int, int]:
    """Vector registers per lane and bytes spilled (or otherwise on the stack), from the code object's metadata."""
    text = compiled.asm["amdgcn"]

    def number(name: str) -> int:
        return int(re.search(rf"{name}:?\s+(\d+)", text)[1])  # type: ignore[index]

    spilled = 4 * number(r"\.vgpr_spill_count") + number(r"\.private_segment_fixed_size")
    return number(r"\.vgpr_count"), spilled


def occupancy(target: str, registers: int, shared: int, warps: int) -> float:
    """Resident warps over the most a multiprocessor holds."""
    chip = CHIPS[target]
    if target.startswith("gfx"):
        per_simd = chip.registers // max(8, -(-registers // 8) * 8)  # waves of one SIMD; four SIMDs
        blocks = 4 * min(per_simd, 8) // warps
    else:
        blocks = chip.registers // (max(8, -(-registers // 8) * 8) * 32 * warps)
        shared += 1024  # kept by the system for every block
    if shared > 1024:
        blocks = min(blocks, chip.shared // shared)
    return min(blocks, 32) * warps / chip.warps


def fingerprint() -> str:
    """Of every source that decides what is compiled: a table of other sources is stale."""
    folder = Path(__file__).parents[1] / "src/clock_attention/kernels/triton"
    files = ("scores.py", "readings.py", "forward.py", "backward.py", "step.py", "geometry.py")
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in files)).hexdigest()[:16]


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("kernel", "target", "dtype", "width", "options"))


def write(path: Path, table: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(table, indent=0))
    temporary.replace(path)


def measure(
    target: str, dtype: str, width: int, full: bool, only: list[str] | None, done: set[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    for name, (kernel, constants, options) in kernels(width, full, target, dtype).items():
        if (only and name not in only) or (name, target, dtype, width, "full" if full else "plain") in done:
            continue
        started = time.perf_counter()
        compiled = compile_kernel(kernel, constants, options, target, dtype)
        registers, spilled = amd_usage(compiled) if target.startswith("gfx") else nvidia_usage(compiled, target)
        shared, warps = compiled.metadata.shared, options["num_warps"]
        yield {
            "kernel": name, "target": target, "dtype": dtype, "width": width, "options": "full" if full else "plain",
            "tile": f"{constants['BLOCK']}x{constants['KEY_BLOCK']}", "warps": warps, "registers": registers,
            "shared": shared, "spilled": spilled,
            "occupancy": round(occupancy(target, registers, shared, warps), 3),
            "seconds": round(time.perf_counter() - started, 2),
        }  # fmt: skip


def within_budget(row: dict[str, Any]) -> bool:
    return row["spilled"] == 0 and row["occupancy"] >= LEAST_OCCUPANCY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--widths", nargs="*", type=int, default=list(WIDTHS))
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--options", nargs="*", default=["plain", "full"], choices=["plain", "full"])
    parser.add_argument("--kernels", nargs="*")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        parser.error("TRITON_INTERPRET is set, so that nothing would be compiled: unset it")
    import triton

    rows: list[dict[str, Any]] = []
    if arguments.out and arguments.out.exists():  # rows of the same sources are kept, so a table can grow by parts
        known = json.loads(arguments.out.read_text())
        rows = known["rows"] if known["sources"] == fingerprint() and known["triton"] == triton.__version__ else []
    done = {identity(row) for row in rows}
    for target in arguments.only:
        for width in arguments.widths:
            for dtype in arguments.dtypes:
                for options in arguments.options:
                    for row in measure(target, dtype, width, options == "full", arguments.kernels, done):
                        rows.append(row)
                        mark = "" if within_budget(row) else "  OVER BUDGET"
                        print(" ".join(f"{key}={value}" for key, value in row.items()) + mark, flush=True)
                        if arguments.out:
                            write(arguments.out, {"triton": triton.__version__, "sources": fingerprint(), "rows": rows})
    over = [row for row in rows if not within_budget(row)]
    print(f"{len(rows)} variants, {len(over)} over budget")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
