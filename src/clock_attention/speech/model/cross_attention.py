"""The one part in which the compared systems differ: clock attention, its printed variant, and the dot product.

All three are called alike, in training (`forward`) and one step at a time (`start`, `step`), with the same parameter
names, so that swapping one for another changes nothing else in a model or in its state dict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import ClockAttention
from clock_attention.speech.model.config import ModelConfig


def cross_attention(config: ModelConfig) -> ClockAttention | DotAttention:
    """The cross-attention that a configuration asks for."""
    if config.cross_attention == "dot":
        return DotAttention(config.width, config.heads, out_proj=config.out_proj)
    kind = PrintedClockAttention if config.target_clocks == "unnormalized" else ClockAttention
    learned = config.logit_scale == "learned"
    attention = kind(
        config.width,
        config.heads,
        clocks=config.target_clocks,
        out_proj=config.out_proj,
        logit_scale="learned" if learned else config.logit_scale_start,
        clock_width=config.clock_width,
        causal_norm=config.causal_norm,
    )
    if isinstance(attention.logit_scale, Tensor):
        nn.init.constant_(attention.logit_scale, config.logit_scale_start)
    return attention


@dataclass(frozen=True)
class DotState:
    key: Tensor  # (B, H, T, D)
    value: Tensor  # (B, H, T, D)
    allowed: Tensor | None  # (B, 1, 1, T), True = may be attended


class DotAttention(nn.Module):
    """Scaled dot-product attention with `ClockAttention`'s parameters and calls: what it is compared with."""

    def __init__(self, width: int, heads: int, *, out_proj: bool) -> None:
        super().__init__()
        self.num_heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj: nn.Module = nn.Linear(width, width) if out_proj else nn.Identity()
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = False,
        query_padding_mask: Tensor | None = None,
        pace: float | Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Padded queries and the pace mean nothing to the dot product; it takes them to be called like the clocks."""
        state = self.start(key, key_padding_mask)
        queries = self.heads(self.q_proj(query))
        weights = self.weights(queries, state) if need_weights else None
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        output = F.scaled_dot_product_attention(queries, state.key, state.value, attn_mask=state.allowed)
        return self.out_proj(output.transpose(1, 2).flatten(2)), weights

    def start(
        self, memory: Tensor, key_padding_mask: Tensor | None = None, *, pace: float | Tensor | None = None, **_: Any
    ) -> DotState:
        allowed = None if key_padding_mask is None else ~key_padding_mask[:, None, None]
        return DotState(self.heads(self.k_proj(memory)), self.heads(self.v_proj(memory)), allowed)

    def step(self, query: Tensor, state: DotState) -> tuple[Tensor, Tensor, DotState]:
        """One target step, query (B, E): output (B, E), weights (B, H, T) and the unchanged state."""
        weights = self.weights(self.heads(self.q_proj(query[:, None])), state)  # (B, H, 1, T)
        output = (weights @ state.value).transpose(1, 2).flatten(2)
        return self.out_proj(output)[:, 0], weights[:, :, 0], state

    def weights(self, queries: Tensor, state: DotState) -> Tensor:
        logits = queries @ state.key.transpose(-1, -2) / queries.shape[-1] ** 0.5  # (B, H, S, T)
        if state.allowed is not None:
            logits = logits.masked_fill(~state.allowed, -torch.inf)
        return torch.softmax(logits, -1)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


@dataclass(frozen=True)
class PrintedState:
    memory: Tensor  # (B, T, E)
    padding: Tensor | None  # (B, T)
    queries: Tensor  # every query so far (B, s, E)


class PrintedClockAttention(ClockAttention):
    """The paper's autoregressive variant: unnormalized clocks whose time norm covers whatever queries there are.

    Step by step, the statistics are those of the steps so far; with teacher forcing, those of the whole utterance.
    The two differ, which is the printed variant's own trait and the reason for causal clocks.
    """

    def start(  # type: ignore[override]
        self, memory: Tensor, key_padding_mask: Tensor | None = None, *, pace: float | Tensor | None = None, **_: Any
    ) -> PrintedState:
        return PrintedState(memory, key_padding_mask, memory[:, :0])

    def step(self, query: Tensor, state: PrintedState) -> tuple[Tensor, Tensor, PrintedState]:  # type: ignore[override]
        state = replace(state, queries=torch.cat([state.queries, query[:, None]], 1))
        output, weights = self(
            state.queries,
            state.memory,
            state.memory,
            key_padding_mask=state.padding,
            average_attn_weights=False,
            query_padding_mask=torch.zeros(state.queries.shape[:2], dtype=torch.bool, device=query.device),
        )
        assert weights is not None
        return output[:, -1], weights[:, :, -1], state
