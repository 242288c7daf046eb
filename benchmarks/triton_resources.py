"""Do the Triton kernels fit? Registers, shared memory, spills and occupancy of every variant, without a GPU.

    python benchmarks/triton_resources.py --out results/triton_resources.json    # everything, about half an hour
    python benchmarks/triton_resources.py --only sm_80 --widths 64               # a part, to standard output

Each kernel is compiled for A100 (sm_80), H100 (sm_90), B200 (sm_100) and MI300 (gfx942) with the tile sizes that
`kernels/triton/geometry.py` gives it, for each head width, in fp32, bf16 and fp16, plain ("plain") and with all that
costs resources at once ("full": content of the head's width, the log-variance term, gradients of the weights, both
masks). The budget: 0 bytes spilled and at least 25 % of a multiprocessor's threads resident. Exit code 1 if exceeded.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parents[1] / "src/clock_attention/kernels/triton"
TARGETS = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64),
}
WIDTHS = (8, 16, 32, 64, 128, 256)
DTYPES = ("fp32", "bf16", "fp16")
OPTIONS = ("plain", "full")
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
CONTENTS = ("content", "key_content")
WHOLE = ("heads", "queries", "keys", "tiles", "key_tiles", "steps", "halvings", "width", "value_width",
         "content_width")  # fmt: skip
REAL = ("spread", "eps", "tolerance")
TYPES = {"clock": "*fp64", "grad_clock": "*fp64", "grad_scale": "*fp64", "fill": "*i32", "key_fill": "*i32",
         "ranges": "*i32", "key_counts": "*i32", "live": "*u8", "key_live": "*u8"}  # fmt: skip


def argument_type(name: str, dtype: str, content: bool) -> str:
    if name in CONTENTS and not content:
        return "*fp64"  # the clock stands where there is none
    if name in WHOLE or re.fullmatch(r".*_[bhs]", name):
        return "i32"
    if name in REAL:
        return "fp32"
    return TYPES.get(name) or (f"*{dtype}" if name in ELEMENTS else "*fp32")


def kernels(width: int, options: str, target: str, dtype: str) -> dict[str, tuple[Any, dict[str, Any], dict[str, int]]]:
    """Every kernel with its constants and launch options."""
    import torch

    from clock_attention.kernels.triton import backward_keys, backward_queries, forward, geometry, readings, step
    from clock_attention.kernels.triton.meeting import CHUNK, FIELDS

    full = options == "full"
    content = width if full else 0
    element = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
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
    by_query, by_key = backward_queries.query_gradients, backward_keys.key_gradients
    found = {
        "read_clock": (readings.read_clock, geometry.READING_WARPS, {}),
        "read_clock of keys": (readings.read_clock, geometry.READING_WARPS, {"BLOCK": cut.keys, "FIELDS": 1}),
        "choose_tiles": (readings.choose_tiles, geometry.choosing_warps(width), {}),
        "attend_tile": (forward.attend_tile, cut.forward_warps, {}),
        "write_weights": (forward.write_weights, cut.forward_warps, {}),
        **{part_name("query_gradients", p): (by_query, cut.query_warps, p) for p in cut.query_parts(full)},
        "far_scales": (backward_queries.far_scales, cut.key_warps, {}),
        **{part_name("key_gradients", p): (by_key, cut.key_warps, p) for p in cut.key_parts(full)},
        "attend_step": (step.attend_step, geometry.STEP_WARPS, {"BLOCK": 1, "KEY_BLOCK": geometry.step_keys(width)}),
    }
    tile = {"BLOCK": cut.queries, "KEY_BLOCK": cut.keys}
    return {
        name: (kernel, {**constants, **tile, **part}, {"num_warps": warps, "num_stages": 1, **limit})
        for name, (kernel, warps, part) in found.items()
    }


def part_name(kernel: str, part: dict[str, bool]) -> str:
    """Name of a launch: all gradients of a side do not fit in one."""
    return f"{kernel} of {' and '.join(name.lower() for name, on in part.items() if on)}"


def signature_of(kernel: Any, constants: dict[str, Any], dtype: str) -> dict[str, str]:
    """The type of every argument."""
    content = constants["CONTENT"] > 0
    return {
        name: "constexpr" if name in constants else argument_type(name, dtype, content) for name in kernel.arg_names
    }


def compile_kernel(
    kernel: Any, constants: dict[str, Any], options: dict[str, int], target: str, dtype: str
) -> tuple[Any, str]:
    """The compiled kernel and the assembler's output."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    signature = signature_of(kernel, constants, dtype)
    # As at run time: torch's allocations are aligned, and so is every stride of a head whose width is a multiple of 16.
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*") or (re.fullmatch(r".*_[bhs]", name) and constants["WIDTH"] % 16 == 0)
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    triton.knobs.compilation.always_compile = True  # a kernel from the cache has no assembler output
    triton.knobs.nvidia.dump_ptxas_log = True
    with contextlib.redirect_stdout(io.StringIO()) as log:
        compiled = triton.compile(source, target=GPUTarget(*TARGETS[target]), options=dict(options))
    return compiled, log.getvalue()


def nvidia_usage(log: str) -> tuple[int, int]:
    """Registers per thread and bytes spilled, as Triton's own call of ptxas reports them."""
    registers = int(re.search(r"Used (\d+) registers", log)[1])  # type: ignore[index]
    return registers, sum(int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", log))


def amd_usage(compiled: Any) -> tuple[int, int]:
    """Vector registers per lane and bytes spilled (or otherwise on the stack), from the code object's metadata."""
    text = compiled.asm["amdgcn"]

    def number(name: str) -> int:
        return int(re.search(rf"{name}:?\s+(\d+)", text)[1])  # type: ignore[index]

    spilled = 4 * number(r"\.vgpr_spill_count") + number(r"\.private_segment_fixed_size")
    return number(r"\.vgpr_count"), spilled


def occupancy(target: str, registers: int, shared: int, warps: int) -> float:
    """Resident warps as a share of the most that a multiprocessor holds."""
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


SOURCES = tuple(
    KERNELS / f"{name}.py" for name in ("scores", "readings", "forward", "backward_queries", "backward_keys", "step")
)


def digest(files: Sequence[Path], without: Sequence[str] = ()) -> str:
    """Hash of the sources' code: comments, docstrings, layout and definitions with one of these names are left out."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    for tree in trees:
        tree.body = [node for node in tree.body if getattr(node, "name", None) not in without]
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
                del node.body[0]
    return hashlib.sha256("".join(map(ast.dump, trees)).encode()).hexdigest()[:16]


def fingerprint(sources: str, constants: dict[str, Any], options: dict[str, int]) -> str:
    """Hash of everything that decides what a variant is compiled to: a row with another one is stale."""
    return hashlib.sha256(repr((sources, sorted(constants.items()), sorted(options.items()))).encode()).hexdigest()[:16]


def variants() -> dict[tuple[Any, ...], str]:
    """The identity of every row of a whole table, and its fingerprint."""
    sources = digest(SOURCES)
    return {
        (name, target, dtype, width, options): fingerprint(sources, constants, launch)
        for target, dtype, width, options in itertools.product(TARGETS, DTYPES, WIDTHS, OPTIONS)
        for name, (_, constants, launch) in kernels(width, options, target, dtype).items()
    }


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("kernel", "target", "dtype", "width", "options"))


def write(path: Path, table: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    lines = ",\n".join(map(json.dumps, table["rows"]))
    temporary.write_text(f'{{"triton": "{table["triton"]}", "rows": [\n{lines}\n]}}\n')
    temporary.replace(path)


def measure(
    target: str, dtype: str, width: int, options: str, only: list[str] | None, done: set[tuple[Any, ...]],
    known: dict[str, tuple[int, int, int]],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """A row for every kernel not yet done. `known` keeps what was compiled: variants can differ in name alone."""
    sources = digest(SOURCES)
    for name, (kernel, constants, launch) in kernels(width, options, target, dtype).items():
        if (only and name not in only) or (name, target, dtype, width, options) in done:
            continue
        started = time.process_time()
        own = {name: value for name, value in constants.items() if name in kernel.arg_names}
        same = repr((name.partition(" of ")[0], target, own, signature_of(kernel, own, dtype), launch))
        if same not in known:
            compiled, log = compile_kernel(kernel, constants, launch, target, dtype)
            usage = amd_usage(compiled) if target.startswith("gfx") else nvidia_usage(log)
            known[same] = (*usage, compiled.metadata.shared)
        (registers, spilled, shared), warps = known[same], launch["num_warps"]
        yield {
            "kernel": name, "target": target, "dtype": dtype, "width": width, "options": options,
            "tile": f"{constants['BLOCK']}x{constants['KEY_BLOCK']}", "warps": warps, "registers": registers,
            "shared": shared, "spilled": spilled,
            "occupancy": round(occupancy(target, registers, shared, warps), 3),
            "seconds": round(time.process_time() - started, 2),
            "sources": fingerprint(sources, constants, launch),
        }  # fmt: skip


def within_budget(row: dict[str, Any]) -> bool:
    return row["spilled"] == 0 and row["occupancy"] >= LEAST_OCCUPANCY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--widths", nargs="*", type=int, default=list(WIDTHS))
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--options", nargs="*", default=list(OPTIONS), choices=OPTIONS)
    parser.add_argument("--kernels", nargs="*")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        parser.error("TRITON_INTERPRET is set, so that nothing would be compiled: unset it")
    import triton

    rows: list[dict[str, Any]] = []
    if arguments.out and arguments.out.exists():  # rows that are not stale are kept, so a table can grow by parts
        known = json.loads(arguments.out.read_text())
        wanted = variants() if known["triton"] == triton.__version__ else {}
        rows = [row for row in known["rows"] if row.get("sources") == wanted.get(identity(row), "none")]
    done = {identity(row) for row in rows}
    known_usage: dict[str, tuple[int, int, int]] = {}
    for target in arguments.only:
        for width in arguments.widths:
            for dtype in arguments.dtypes:
                for options in arguments.options:
                    for row in measure(target, dtype, width, options, arguments.kernels, done, known_usage):
                        rows.append(row)
                        mark = "" if within_budget(row) else "  OVER BUDGET"
                        print(" ".join(f"{key}={value}" for key, value in row.items()) + mark, flush=True)
                        if arguments.out:
                            write(arguments.out, {"triton": triton.__version__, "rows": rows})
    over = [row for row in rows if not within_budget(row)]
    print(f"{len(rows)} variants, {len(over)} over budget")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
