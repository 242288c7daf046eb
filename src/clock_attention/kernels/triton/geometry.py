"""Tile sizes, warps and the precision of products, for each kernel and width.

Wide heads and fp32 products, which take three passes, need more registers, so they get smaller tiles or more warps:
none may spill, and a quarter of a multiprocessor's threads must be resident (`benchmarks/triton_resources.py`). A
warp's share of a matrix is at least 16 × 8, so that with more than one warp for 128 pairs some compute the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

WIDEST = 256
MOST_ITEMS = 65535  # sequences of a batch, and heads: dimensions of the grid
MOST_ELEMENTS = 2**31 - 1  # of a sequence's tensor: it is addressed in 32 bits
CHANNELS = 16  # of a product over channels at a time
REGISTERS = 128  # per thread, on NVIDIA: with more of them less than a quarter of the threads could be resident
READING_WARPS = 2
STEP_VALUES = 4096  # that a decoding step processes together
STEP_WARPS = 4


@dataclass(frozen=True)
class Geometry:
    """How all kernels cut a head into tiles, and how many warps each uses for a tile."""

    queries: int
    keys: int
    forward_warps: int = 4
    query_warps: int = 4
    key_warps: int = 4
    keys_at_once: bool = True  # gradients of values and of key clocks by one launch

    def query_parts(self, content: bool) -> list[dict[str, bool]]:
        """The launches of `query_gradients`, by what each writes. Content gets its own: both would not fit in one."""
        return parts(("CLOCKS", "CONTENTS"), [("CLOCKS",)], content)

    def key_parts(self, content: bool) -> list[dict[str, bool]]:
        """The launches of `key_gradients`, by what each writes."""
        return parts(
            ("VALUES", "CLOCKS", "CONTENTS"),
            [("VALUES", "CLOCKS")] if self.keys_at_once else [("VALUES",), ("CLOCKS",)],
            content,
        )


def parts(names: tuple[str, ...], launches: list[tuple[str, ...]], content: bool) -> list[dict[str, bool]]:
    """Which launches of a Triton kernel compute which gradients."""
    return [{name: name in wanted for name in names} for wanted in [*launches, *([("CONTENTS",)] if content else [])]]


def launch(warps: int) -> dict[str, int]:
    """Options for Triton's compiler: warps, stages, registers."""
    limit = {} if torch.version.hip else {"maxnreg": REGISTERS}
    return {"num_warps": warps, "num_stages": 1, **limit}


def block_width(width: int) -> int:
    """Width of a tile: channels of a matrix operand, a power of two, at least the 16 that matrix units take."""
    return max(16, 1 << (width - 1).bit_length())


def tile_geometry(width: int, value_width: int, content_width: int, dtype: torch.dtype) -> Geometry:
    """Tile sizes of the Triton kernels: the same for forward and backward, so that they compute the same bits."""
    widest = max(width, value_width, content_width)
    warps = 8 if widest <= 128 else 16
    if dtype == torch.float32:
        aligned = all(w % 16 == 0 for w in (width, value_width, content_width))  # others need registers for addresses
        few = 4 if widest <= 64 else 8
        return Geometry(16, 16, few, few if widest <= 64 else warps, warps, keys_at_once=aligned and widest <= 128)
    by_query = 4 if widest <= 16 and not content_width else warps  # with heads this narrow, eight warps spill on sm_100
    # With content, values and key clocks together spill.
    return Geometry(32 if widest <= 128 else 16, 16, 8, by_query, warps, keys_at_once=not content_width)


def precision() -> str:
    """Precision of fp32 matrix products in Triton: never plain TF32; AMD's matrix units multiply fp32 directly."""
    return "ieee" if torch.version.hip else "tf32x3"


def choosing_warps(width: int) -> int:
    """Warps of the Triton kernel that chooses tiles."""
    return 4 if width <= 128 else 8


def step_keys(value_width: int) -> int:
    """Tile size of a decoding step in Triton: keys processed together."""
    return max(16, min(64, STEP_VALUES // block_width(value_width)))
