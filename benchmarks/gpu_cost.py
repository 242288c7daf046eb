"""What would the Triton kernel cost on a GPU that is not at hand? Tiles visited, operations, bytes: ESTIMATES.

    python benchmarks/gpu_cost.py --out results/gpu_cost.json

Which tiles are visited follows from the clocks and is computed as `choose_tiles` does it, in fp64. The rest is
arithmetic: direct differences take two fp32 instructions (subtract, multiply-add) per pair and channel, as often as
there are warps for a pair; the product with the values runs on the matrix units, and every tensor is moved once. The
time is the largest of the three at the chip's peak, so nothing real is faster than this. It is set against
FlashAttention at the best rate its authors published: 73 % of 312 TFLOP/s on A100 (FlashAttention-2) and 740 TFLOP/s on
H100 (FlashAttention-3), fp16.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))

from attention import make_inputs

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.options import ClockOptions

SHAPES = ("8x4x650x100x64", "1x4x4096x1024x64", "1x4x16384x4096x64")
# fp32 instructions/s, bf16 and TF32 matrix FLOP/s, bytes/s, FlashAttention's best published FLOP/s
CHIPS = {
    "A100": {"fp32": 9.75e12, "bf16": 312e12, "tf32": 156e12, "memory": 1.94e12, "flash": 0.73 * 312e12},
    "H100": {"fp32": 33.5e12, "bf16": 989e12, "tf32": 494e12, "memory": 3.35e12, "flash": 740e12},
}
QUERIES, KEYS, WARPS = 32, 16, 8  # bf16, width 64, no content: `kernels/triton/geometry.py`
REPLICAS = 128 * WARPS / (QUERIES * KEYS)  # how often a pair is computed: a warp takes at least 128 of them


def visited_tiles(pair: ClockPair, rows: int, cols: int, eps: float = 1e-6, scale: float = 1.0) -> tuple[int, int]:
    """Tiles visited and tiles in all, over batch and heads: `kernels/triton/readings.py` in plain torch."""
    seen = total = 0
    batch, heads, queries, width = pair.query.shape
    keys, spread = pair.key.shape[2], 2 * math.sqrt(width)
    variances = [x.double().expand(batch, heads, -1) for x in (pair.query_variance, pair.key_variance)]
    for b in range(batch):
        for h in range(heads):
            query, key = pair.query[b, h].double(), pair.key[b, h].double()
            own, other = variances[0][b, h], variances[1][b, h]
            cross = torch.searchsorted(key.sum(-1).contiguous(), query.sum(-1).contiguous()).clamp(max=keys - 1)
            best = torch.full_like(own, -torch.inf)
            for t in (cross, (cross - 1).clamp(min=0)):
                distance = (query - key[t]).square().sum(-1)
                best = torch.maximum(best, -scale * distance / (spread * (own + other[t]) + eps))
            floor = best - 24 * math.log(2) - math.log(keys) - 0.5
            starts = torch.arange(0, keys, cols)
            first, last = key[starts], key[(starts + cols).clamp(max=keys) - 1]
            most = torch.stack([v.max() for v in other.split(cols)])
            needed = [
                ~(bound_of(query[s : s + rows], first, last, own[s : s + rows], most, scale, spread, eps)
                  < floor[s : s + rows, None]).all(0)
                for s in range(0, queries, rows)
            ]  # fmt: skip
            for tile in needed:
                places = tile.nonzero().flatten()
                seen += int(places[-1] - places[0] + 1)
                total += len(starts)
    return seen, total


def bound_of(
    query: Tensor, first: Tensor, last: Tensor, own: Tensor, most: Tensor, scale: float, spread: float, eps: float
) -> Tensor:
    """The highest score that a row can have in a tile of keys.  (rows, tiles)"""
    gap = torch.maximum(first[None] - query[:, None], query[:, None] - last[None]).clamp(min=0.0)
    return -scale * gap.square().sum(-1) / (spread * (own[:, None] + most[None]) + eps)


def estimate(shape: tuple[int, ...], fraction: float, chip: dict[str, float], backward: bool) -> dict[str, float]:
    """Seconds at the chip's peak for each resource, bf16; and FlashAttention's at its best published rate."""
    batch, heads, queries, keys, width = shape
    pairs = batch * heads * queries * keys * fraction
    steps = batch * heads * (queries + keys)
    distances = REPLICAS * (3 if backward else 1)  # forward, by queries, by keys
    products = 1 + (4 if backward else 0)  # p·v; dp twice, dv, and the clocks' two in TF32×3
    instructions = pairs * (2 * width + 20) * distances
    matrix = pairs * 2 * width * products / chip["bf16"] + (pairs * 2 * width * 2 * 3 / chip["tf32"] if backward else 0)
    moved = steps * width * (8 + 4 + 4 + 2 + 4) * (3 if backward else 1)  # fp64 clocks read, offsets written and read
    flash = 4 * batch * heads * queries * keys * width * (3.5 if backward else 1) / chip["flash"]
    parts = {"arithmetic": instructions / chip["fp32"], "matrix": matrix, "memory": moved / chip["memory"]}
    return {**parts, "clock": max(parts.values()), "flash": flash}


def table(shapes: tuple[str, ...] = SHAPES, kinds: tuple[str, ...] = ("random", "trained")) -> list[dict]:
    rows = []
    for text in shapes:
        shape = tuple(map(int, text.split("x")))
        for kind in kinds:
            query, key, _, _ = make_inputs(kind, (1, 1, *shape[2:]))
            valid = [torch.ones(1, x.shape[2], dtype=torch.bool) for x in (query, key)]
            pair = clock_pair(query, key, *valid, ClockOptions(), None)
            seen, total = visited_tiles(pair, QUERIES, KEYS)
            share = seen / total
            for name, chip in CHIPS.items():
                for backward in (False, True):
                    rows.append({"shape": text, "clocks": kind, "chip": name, "backward": backward, "visited": share,
                                 "tiles": [seen, total],
                                 **estimate(shape, share, chip, backward)})  # fmt: skip
    return rows


def show(rows: list[dict]) -> None:
    print("Roofline ESTIMATES at the chips' peak rates, bf16; nothing here was run on a GPU")
    for row in rows:
        direction = "forward + backward" if row["backward"] else "forward"
        print(
            f"{row['shape']:>19s} {row['clocks']:8s} {row['chip']} {direction:18s} tiles {row['visited']:6.1%}  "
            f"clock ≥ {row['clock'] * 1e6:8.1f} µs (arithmetic {row['arithmetic'] * 1e6:.1f}, matrix "
            f"{row['matrix'] * 1e6:.1f}, memory {row['memory'] * 1e6:.1f})  flash ≥ {row['flash'] * 1e6:7.1f} µs  "
            f"ratio {row['clock'] / row['flash']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=SHAPES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = table(tuple(arguments.only))
    show(rows)
    if arguments.out:
        temporary = arguments.out.with_suffix(f".{os.getpid()}")
        found = {"estimate": True, "chips": CHIPS, "tile": [QUERIES, KEYS], "replicas": REPLICAS, "rows": rows}
        temporary.write_text(json.dumps(found, indent=1))
        temporary.replace(arguments.out)


if __name__ == "__main__":
    main()
