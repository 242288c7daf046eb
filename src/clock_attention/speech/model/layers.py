"""Transformer layers with the options of the testbed: either norm order, rotary positions, convolutional feed-forward.

With the paper's options they compute what `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer` compute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import ClockAttention
from clock_attention.clocks import ClockPair
from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.cross_attention import cross_attention


def sinusoids(position: Tensor, width: int) -> Tensor:
    """Layer input: the Transformer's position encoding; positions may be fractional.  (…,) → (…, width)"""
    frequency = torch.exp(torch.arange(0, width, 2, device=position.device) * (-torch.log(torch.tensor(1e4)) / width))
    angle = position[..., None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Apply rotary positions start, start + 1, … to heads (B, H, L, D); dot products depend on distances only."""
    position = torch.arange(start, start + x.shape[-2], device=x.device)
    frequency = 1e4 ** (-torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1])
    angle = position[:, None] * frequency  # (L, D/2)
    cos, sin = angle.cos(), angle.sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class SelfAttention(nn.Module):
    """Transformer self-attention, `nn.MultiheadAttention` with optional rotary positions and a cache."""

    def __init__(self, width: int, heads: int, *, dropout: float, rotary: bool) -> None:
        super().__init__()
        self.num_heads = heads
        self.dropout = dropout
        self.rotary = rotary
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj.weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, allowed: Tensor | None, causal: bool = False) -> Tensor:
        """x (B, L, E); allowed (B, 1, 1, L), True where a position may be attended to."""
        query, key, value = self.project(x)
        if self.rotary:
            query, key = rotate(query), rotate(key)
        output = F.scaled_dot_product_attention(
            query, key, value, allowed, dropout_p=self.dropout if self.training else 0.0, is_causal=causal
        )
        return self.out_proj(output.transpose(1, 2).flatten(2))

    def step(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step x (B, E) after the cached keys and values (B, H, s, D)."""
        query, key, value = self.project(x[:, None])
        if self.rotary:
            start = 0 if past is None else past[0].shape[-2]
            query, key = rotate(query, start), rotate(key, start)
        if past is not None:
            key, value = torch.cat([past[0], key], -2), torch.cat([past[1], value], -2)
        output = F.scaled_dot_product_attention(query, key, value)
        return self.out_proj(output.transpose(1, 2).flatten(2))[:, 0], (key, value)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.in_proj(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return query, key, value  # (B, H, L, D) each


class FeedForward(nn.Module):
    """Transformer feed-forward layer; with a kernel above 1 its first part is a convolution, as in FastSpeech.

    The convolution is computed as a linear layer on concatenated windows, which is faster on a CPU.
    """

    def __init__(self, width: int, inner: int, kernel: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.kernel = kernel
        # In autoregressive decoding the window ends at the current step.
        self.before, self.after = (kernel - 1, 0) if causal else (kernel // 2, kernel // 2)
        self.inner = nn.Linear(kernel * width, inner)
        self.outer = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """x (B, L, E); padding (B, L), True = padding, which a convolution must not see."""
        if self.kernel > 1:
            if padding is not None:
                x = x.masked_fill(padding[..., None], 0.0)
            length = x.shape[1]
            x = F.pad(x, (0, 0, self.before, self.after))
            x = torch.cat([x[:, place : place + length] for place in range(self.kernel)], -1)  # (B, L, kernel·E)
        return self.outer(self.dropout(F.relu(self.inner(x))))

    def step(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """One step x (B, E); `past` (B, kernel − 1, E) holds the previous kernel − 1 steps."""
        if past is None:
            past = x.new_zeros(x.shape[0], self.kernel - 1, x.shape[1])
        window = torch.cat([past, x[:, None]], 1)
        return self.outer(F.relu(self.inner(window.flatten(1)))), window[:, 1:]


class EncoderLayer(nn.Module):
    """Transformer encoder layer: self-attention, feed-forward; either norm order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attention = SelfAttention(
            config.width,
            config.heads,
            dropout=config.attention_dropout,
            rotary=config.encoder_positions == "rotary",
        )
        self.feed_forward = FeedForward(
            config.width, config.feed_forward, config.feed_forward_kernel, config.dropout, causal=False
        )
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        allowed = None if padding is None else ~padding[:, None, None]
        if self.norm_first:
            x = x + self.dropout(self.self_attention(self.norm1(x), allowed))
            return x + self.dropout(self.feed_forward(self.norm2(x), padding))
        x = self.norm1(x + self.dropout(self.self_attention(x, allowed)))
        return self.norm2(x + self.dropout(self.feed_forward(x, padding)))


@dataclass(frozen=True)
class LayerState:
    """State that a Transformer decoder layer keeps between steps."""

    meeting: Any  # state of the cross-attention: ClockState, PrintedState or DotState
    past: tuple[Tensor, Tensor] | None = None  # keys and values of self-attention
    window: Tensor | None = None  # past inputs of the convolutional feed-forward layer


class DecoderLayer(nn.Module):
    """Transformer decoder layer: self-attention, cross-attention, feed-forward; all know the padded queries."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.causal = config.autoregressive
        self.self_attention = SelfAttention(
            config.width, config.heads, dropout=config.attention_dropout, rotary=config.positions == "rotary"
        )
        self.cross_attention = cross_attention(config)
        self.feed_forward = FeedForward(
            config.width, config.feed_forward, config.feed_forward_kernel, config.dropout, causal=self.causal
        )
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(config.width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        padding: Tensor | None,
        memory_padding: Tensor | None,
        pace: Tensor | None = None,
        need_weights: bool = False,
        need_clocks: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None, ClockPair | None]:
        """x (B, S, E) → output, queries of the cross-attention (both (B, S, E)), weights (B, H, S, T), clocks.

        The last two are None unless requested; the dot product and the printed variant have no clocks.
        """
        # Padding comes last, so the causal mask alone keeps valid steps from attending to it.
        allowed = None if padding is None or self.causal else ~padding[:, None, None]
        hidden = self.self_attention(self.norm1(x) if self.norm_first else x, allowed, self.causal)
        x = x + self.dropout(hidden)
        x = x if self.norm_first else self.norm1(x)
        query = self.norm2(x) if self.norm_first else x
        attention = self.cross_attention
        read = need_clocks and isinstance(attention, ClockAttention) and attention.clocks != "unnormalized"
        hidden, weights, *made = attention(
            query,
            memory,
            memory,
            key_padding_mask=memory_padding,
            query_padding_mask=padding,
            need_weights=need_weights,
            average_attn_weights=False,
            pace=pace,
            **({"return_clocks": True} if read else {}),
        )
        x = x + self.dropout(hidden)
        x = x if self.norm_first else self.norm2(x)
        hidden = self.feed_forward(self.norm3(x) if self.norm_first else x, padding)
        x = x + self.dropout(hidden)
        return x if self.norm_first else self.norm3(x), query, weights, made[0] if made else None

    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, Tensor, LayerState]:
        """One step x (B, E) → output (B, E), weights (B, H, T), and the state for the next step."""
        hidden, past = self.self_attention.step(self.norm1(x) if self.norm_first else x, state.past)
        x = x + hidden
        x = x if self.norm_first else self.norm1(x)
        hidden, weights, meeting = self.cross_attention.step(self.norm2(x) if self.norm_first else x, state.meeting)
        x = x + hidden
        x = x if self.norm_first else self.norm2(x)
        hidden, window = self.feed_forward.step(self.norm3(x) if self.norm_first else x, state.window)
        x = x + hidden
        return (
            x if self.norm_first else self.norm3(x),
            weights,
            replace(state, meeting=meeting, past=past, window=window),
        )


class Prenet(nn.Sequential):
    """Prenet before the decoder layers: previous frames → width; a bottleneck with dropout discourages copying them."""

    def __init__(self, config: ModelConfig) -> None:
        inputs, hidden = config.mels * config.frames_per_step, config.prenet_width
        if not hidden:
            super().__init__(nn.Linear(inputs, config.width))
            return
        drop = nn.Dropout(config.prenet_dropout)
        first, second = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        super().__init__(first, nn.ReLU(), drop, second, nn.ReLU(), drop, nn.Linear(hidden, config.width))


class Postnet(nn.Module):
    """Postnet after the decoder layers: a convolutional correction of the whole mel, as in Tacotron 2."""

    def __init__(self, mels: int, layers: int, hidden: int = 128, kernel: int = 5) -> None:
        super().__init__()
        sizes = [mels, *[hidden] * (layers - 1), mels]
        self.layers = nn.ModuleList(nn.Conv1d(a, b, kernel, padding=kernel // 2) for a, b in pairwise(sizes))
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, mel: Tensor, padding: Tensor) -> Tensor:
        x = mel
        for place, layer in enumerate(self.layers):
            x = layer(x.masked_fill(padding[..., None], 0.0).transpose(1, 2)).transpose(1, 2)
            x = x if place == len(self.layers) - 1 else torch.tanh(x)
        return mel + x
