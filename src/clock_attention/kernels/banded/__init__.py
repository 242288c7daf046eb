"""Clock attention on CPU over the band of keys that matter: fused, compiled by Numba, forward and backward.

Monotone clocks make attention banded (docs/theory/kernel.md). The keys left out have at most 2⁻²⁴ of a row's weight
in total (2⁻⁵³ in fp64), less than rounding. Time norm, clocks, score, softmax and A·V of a head run in one task, and
memory is O(S + T) per head.

    dispatch  which calls are served, and with which clocks
    op        `torch.ops.clock_attention.banded`, the operator, which torch.compile sees whole; its gradient
    table     sizes, addresses and scratch of one call, by name
    threads   compiled entry points, and torch's own threads to run them on
    tasks     what one thread does with one head
    clocks    time norm → rate → running sum, and back
    rows      the band, softmax and A·V of blocks of queries
    gradients gradients of the rows
    tiles     distances, products and sums of a block of queries and a tile of keys
    simd      vectors and pointers for Numba; `simd_numpy`: the same in NumPy
"""

from clock_attention.kernels.banded.dispatch import attend, attend_clocks, refusal

__all__ = ["attend", "attend_clocks", "refusal"]
