"""Cross-attention of the acoustic model, in which the compared systems differ: clocks, dot product, LARoPE, uniform.

Clocks and dot product share one interface, in training (`forward`) and one step at a time (`start`, `step`), and the
same parameter names, so that swapping one for the other changes nothing else in a model or in its state dict. Two
baselines use the lengths of both sequences and support only parallel decoding: the dot product with length-aware
rotary positions, and uniform upsampling, which only has values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import ClockAttention
from clock_attention.speech.model.config import ModelConfig


def cross_attention(config: ModelConfig) -> ClockAttention | DotAttention | UniformAttention:
    """Build the cross-attention that a model configuration specifies."""
    if config.cross_attention == "dot":
        return DotAttention(config.width, config.heads, out_proj=config.out_proj)
    if config.cross_attention == "larope":
        return LaropeAttention(config.width, config.heads, out_proj=config.out_proj, scale=config.larope_scale)
    if config.cross_attention == "uniform":
        return UniformAttention(config.width, config.heads, out_proj=config.out_proj)
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
    """Decoding state of dot-product cross-attention."""

    key: Tensor  # (B, H, T, D)
    value: Tensor  # (B, H, T, D)
    allowed: Tensor | None  # (B, 1, 1, T), True = may be attended


class DotAttention(nn.Module):
    """Baseline cross-attention by the scaled dot product, with the parameters and interface of `ClockAttention`."""

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
        """Query padding and pace do not affect the dot product; it accepts them to share the clocks' interface."""
        state = self.start(key, key_padding_mask)
        queries = self.queries(query, query_padding_mask)
        weights = self.weights(queries, state) if need_weights else None
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        output = F.scaled_dot_product_attention(queries, state.key, state.value, attn_mask=state.allowed)
        return self.out_proj(output.transpose(1, 2).flatten(2)), weights

    def queries(self, query: Tensor, padding: Tensor | None) -> Tensor:
        return self.heads(self.q_proj(query))

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


class LaropeAttention(DotAttention):
    """Cross-attention by the dot product with length-aware rotary positions: scores depend on γ·(m/S − n/T).

    On the diagonal of the alignment, both sequences have the same position. It adds no parameters.
    """

    def __init__(self, width: int, heads: int, *, out_proj: bool, scale: float) -> None:
        super().__init__(width, heads, out_proj=out_proj)
        self.scale = scale

    def queries(self, query: Tensor, padding: Tensor | None) -> Tensor:
        return turned(super().queries(query, padding), self.scale * shares(query, padding))

    def start(self, memory: Tensor, key_padding_mask: Tensor | None = None, **options: Any) -> DotState:
        state = super().start(memory, key_padding_mask, **options)
        return replace(state, key=turned(state.key, self.scale * shares(memory, key_padding_mask)))

    def step(self, query: Tensor, state: DotState) -> tuple[Tensor, Tensor, DotState]:
        raise ValueError("larope needs the length of the utterance: it cannot decode step by step")


class UniformAttention(nn.Module):
    """Cross-attention by uniform upsampling, the trivial clock: every token gets the same share of the utterance."""

    def __init__(self, width: int, heads: int, *, out_proj: bool) -> None:
        super().__init__()
        self.num_heads = heads
        self.v_proj = nn.Linear(width, width)
        self.out_proj: nn.Module = nn.Linear(width, width) if out_proj else nn.Identity()
        nn.init.xavier_uniform_(self.v_proj.weight)
        nn.init.zeros_(self.v_proj.bias)

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
        weights = overlaps(query, query_padding_mask, key, key_padding_mask)  # (B, S, T)
        values = self.v_proj(value)
        if key_padding_mask is not None:
            values = values.masked_fill(key_padding_mask[..., None], 0.0)
        output = self.out_proj(weights @ values)
        if not need_weights:
            return output, None
        return output, weights if average_attn_weights else weights[:, None].expand(-1, self.num_heads, -1, -1)

    def start(self, memory: Tensor, key_padding_mask: Tensor | None = None, **_: Any) -> Any:
        raise ValueError("uniform needs the length of the utterance: it cannot decode step by step")

    def step(self, query: Tensor, state: Any) -> tuple[Tensor, Tensor, Any]:
        raise ValueError("uniform needs the length of the utterance: it cannot decode step by step")


def shares(x: Tensor, padding: Tensor | None) -> Tensor:
    """Relative position of each step, 0 to 1, for LARoPE and uniform attention.  (B, L, E), (B, L) → (B, L)"""
    place = torch.arange(x.shape[1], device=x.device, dtype=torch.float32).expand(x.shape[:2])
    return place / lengths(x, padding)


def lengths(x: Tensor, padding: Tensor | None) -> Tensor:
    """Sequence lengths without padding, for LARoPE and uniform attention.  (B, 1)"""
    if padding is None:
        return torch.full((x.shape[0], 1), float(x.shape[1]), device=x.device)
    return (~padding).sum(1, keepdim=True).clamp(min=1).float()


def turned(x: Tensor, position: Tensor) -> Tensor:
    """LARoPE's rotation: apply rotary positions (B, L), which may be fractional, to heads (B, H, L, D)."""
    frequency = 1e4 ** (-torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1])
    angle = position[:, None, :, None] * frequency  # (B, 1, L, D/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def overlaps(query: Tensor, query_padding: Tensor | None, key: Tensor, key_padding: Tensor | None) -> Tensor:
    """Uniform attention's weights: share of each target step in each token, both spanning 0 to 1.  (B, S, T)"""
    steps, tokens = lengths(query, query_padding)[..., None], lengths(key, key_padding)[..., None]  # (B, 1, 1)
    step = torch.arange(query.shape[1], device=query.device, dtype=torch.float32)[None, :, None]
    token = torch.arange(key.shape[1], device=key.device, dtype=torch.float32)[None, None]
    begin, end = (step / steps).clamp(max=1 - 1 / steps), ((step + 1) / steps).clamp(max=1.0)
    common = torch.minimum(end, (token + 1) / tokens) - torch.maximum(begin, token / tokens)
    weights = common.clamp(min=0) * (token < tokens)
    return (weights / weights.sum(-1, keepdim=True)).to(query.dtype)


@dataclass(frozen=True)
class PrintedState:
    """Decoding state of the printed variant of clock attention."""

    memory: Tensor  # (B, T, E)
    padding: Tensor | None  # (B, T)
    queries: Tensor  # every query so far (B, s, E)


class PrintedClockAttention(ClockAttention):
    """Cross-attention as printed in the paper: unnormalized clocks, time norm over all available queries.

    Step by step, the statistics are those of the steps so far; with teacher forcing, those of the whole utterance.
    This mismatch is inherent in the printed variant and the reason for causal clocks.
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
