"""Inputs and comparisons that every implementation is put through."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from clock_attention import clock_attention


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int, int, int, int]:
    """(B, H, S, T, D, Dv) with odd lengths, single steps, and widths that are no power of two."""
    length = st.one_of(st.integers(1, 5), st.sampled_from([7, 16, 33, 63]))
    width = st.sampled_from([1, 2, 3, 5, 8, 17])
    return draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(length), draw(length), draw(width), draw(width)


def features(
    shape: tuple[int, int, int, int, int, int], seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, targets, sources, width, value_width = shape
    g = torch.Generator().manual_seed(seed)
    sizes = ((targets, width), (sources, width), (sources, value_width))
    query, key, value = (torch.randn(batch, heads, *size, generator=g, dtype=torch.float64).to(dtype) for size in sizes)
    return query, key, value


def padding(batch: int, length: int, seed: int) -> Tensor:
    """Padding at the end, True = padding; at least one step of each item is valid, and some items keep just one."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (batch, 1), generator=g)
    return torch.arange(length) >= lengths


def gradients(inputs: tuple[Tensor, ...], cotangent_seed: int = 0, **options: object) -> tuple[Tensor, ...]:
    """Output and the gradients of a random projection of it."""
    inputs = tuple(x.detach().clone().requires_grad_() for x in inputs)
    output, _ = clock_attention(*inputs, **options)  # type: ignore[arg-type]
    g = torch.Generator().manual_seed(cotangent_seed)
    cotangent = torch.randn(output.shape, generator=g, dtype=torch.float64).to(output.dtype)
    return (output.detach(), *torch.autograd.grad(output, inputs, cotangent))
