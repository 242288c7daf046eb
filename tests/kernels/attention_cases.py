"""Inputs and comparisons that every implementation is put through."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from clock_attention import clock_attention


class LearnedRate(torch.nn.Module):
    """A callable φ with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(0.8, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(self.slope.to(x.dtype) * x)


# Every value of every option at least once, and the combinations in which they meet.
OPTIONS: list[dict[str, Any]] = [
    {},
    {"phi": "softplus"},
    {"phi": "exp", "eps": 1e-4},
    {"phi": torch.nn.functional.softplus, "log_variance_term": True},
    {"phi": LearnedRate(), "variance": "exact"},
    {"variance": "empirical"},
    {"variance": "empirical", "phi": "exp", "log_variance_term": True},
    {"variance": "exact", "phi": "softplus", "log_variance_term": True},
    {"clocks": "unnormalized"},
    {"clocks": "unnormalized", "variance": "empirical", "phi": "softplus"},
    {"clocks": "unnormalized", "variance": "exact", "log_variance_term": True},
    {"clocks": "causal", "pace": 1.5},
    {"clocks": "causal", "pace": 0.7, "causal_norm": "cumulative", "phi": "exp"},
    {"clocks": "causal", "pace": 2.5, "causal_norm": "rms", "variance": "empirical"},
    {"clocks": "causal", "pace": 3.0, "causal_norm": "none", "variance": "surrogate", "log_variance_term": True},
    {"clocks": "causal", "pace": 2.0, "causal_norm": "channel", "variance": "exact", "phi": LearnedRate()},
]
CONTENTS = ("none", "features", "scores")


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


def content_of(
    kind: str, shape: tuple[int, int, int, int, int, int], seed: int, dtype: torch.dtype = torch.float64, width: int = 6
) -> tuple[Tensor, ...]:
    """The tensors of a content term: none, two feature tensors, or one of scores."""
    batch, heads, targets, sources, _, _ = shape
    g = torch.Generator().manual_seed(seed + 77)
    sizes = {"none": (), "features": ((targets, width), (sources, width)), "scores": ((targets, sources),)}[kind]
    return tuple(torch.randn(batch, heads, *size, generator=g, dtype=torch.float64).to(dtype) for size in sizes)


def padding(batch: int, length: int, seed: int) -> Tensor:
    """Padding at the end, True = padding; at least one step of each item is valid, and some items keep just one."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (batch, 1), generator=g)
    return torch.arange(length) >= lengths


def gradients(inputs: tuple[Tensor, ...], cotangent_seed: int = 0, **options: object) -> tuple[Tensor, ...]:
    """Output and the gradients of a random projection of it, by query, key, value and content (see `content_of`)."""
    inputs = tuple(x.detach().clone().requires_grad_() for x in inputs)
    content: Any = None if len(inputs) == 3 else inputs[3] if len(inputs) == 4 else inputs[3:]
    output, _ = clock_attention(*inputs[:3], content=content, **options)  # type: ignore[arg-type]
    g = torch.Generator().manual_seed(cotangent_seed)
    cotangent = torch.randn(output.shape, generator=g, dtype=torch.float64).to(output.dtype)
    return (output.detach(), *torch.autograd.grad(output, inputs, cotangent))
