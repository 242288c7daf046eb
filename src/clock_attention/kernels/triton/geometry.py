"""Tile sizes, warps and the precision of products, for each kernel and width.

Wide heads and fp32 products, which take three passes, need more registers, so they get smaller tiles or more warps:
none may spill, and a quarter of a multiprocessor's threads must be resident (`benchmarks/triton_resources.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

WIDEST = 256
CHANNELS = 16  # of a product over channels at a time
REGISTERS = 128  # per thread, on NVIDIA: with more of them less than a quarter of the threads could be resident
READING_WARPS = 2
CHOOSING_WARPS = 4
STEP_KEYS = 64  # keys that a decoding step looks at together
STEP_WARPS = 4


@dataclass(frozen=True)
class Geometry:
    """How one kernel cuts a head."""

    queries: int
    keys: int
    warps: int

    @property
    def options(self) -> dict[str, int]:
        return launch(self.warps)


def launch(warps: int) -> dict[str, int]:
    """What the compiler is told."""
    limit = {} if torch.version.hip else {"maxnreg": REGISTERS}
    return {"num_warps": warps, "num_stages": 1, **limit}


def block_width(width: int) -> int:
    """Channels of a matrix operand: a power of two, and at least the 16 that matrix units take."""
    return max(16, 1 << (width - 1).bit_length())


def forward_geometry(width: int, value_width: int, content_width: int, dtype: torch.dtype) -> Geometry:
    if max(value_width, content_width) > 128:
        return Geometry(32, 16 if dtype == torch.float32 else 32, 8)
    if dtype == torch.float32:
        return Geometry(32, 32, 4 if value_width <= 64 else 8)
    return Geometry(64, 32, 8)


def backward_geometry(
    width: int, value_width: int, content_width: int, dtype: torch.dtype
) -> tuple[Geometry, Geometry]:
    """For the gradients of the queries and for those of the keys."""
    widest = max(width, value_width, content_width)
    rows, cols, warps = 16, 32, 8
    if widest > 64:
        cols, warps = 16 if dtype == torch.float32 else 32, 16
    elif dtype != torch.float32 and not content_width:
        rows = 32
    return Geometry(rows, cols, warps), Geometry(cols, rows, warps)


def precision() -> str:
    """How fp32 matrix products are taken: never in plain TF32. AMD's matrix units multiply fp32 as it is."""
    return "ieee" if torch.version.hip else "tf32x3"
