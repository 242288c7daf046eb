"""`ClockAttention`: a drop-in for the cross-attention role of `torch.nn.MultiheadAttention`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention.attention import IMPLEMENTATIONS, clock_attention, head_scale, valid_steps, without_autocast
from clock_attention.clocks import (
    CAUSAL_NORMS,
    CLOCKS,
    Phi,
    causal_target_clock,
    check_pace,
    mean_rate,
    pace_unit,
    resolve_phi,
    resolve_variance,
)
from clock_attention.streaming import ClockState, advance_clocks, attend_step, start_clocks


class ClockAttention(nn.Module):
    """Multi-head clock attention with the call and the return value of `nn.MultiheadAttention`.

    Args:
        embed_dim, num_heads, bias, kdim, vdim, dropout, batch_first: as in `nn.MultiheadAttention`, except that
            `batch_first` defaults to True. Attention dropout needs the whole weight matrix and is slow.
        clocks: "normalized" for parallel decoding, "causal" for autoregressive decoding, "unnormalized" for the
            paper's printed autoregressive variant.
        out_proj: False is the paper's preset (no extra parameters); True matches `nn.MultiheadAttention`.
        phi, variance, log_variance_term, eps, impl: see `clock_attention.clock_attention`.
        logit_scale: "learned" (one scalar per head, starting at 1) or a constant.
        clock_width: channels of each head's clock. None takes the head's width, as the paper does; 1 gives each head
            one scalar clock, as in the theory, which cannot pass a token over while it moves less than a token a step.
        pace: causal clocks only: target steps per source token (default 1). A buffer saved with the weights; set it
            from the training data with `set_pace`.
        causal_norm: causal clocks only: "none", "rms", "channel" or "cumulative". Over the one channel of a scalar
            clock, "channel" would leave nothing and is refused, and "rms" leaves little more than the sign.

    Unlike self-attention, clocks integrate over their whole sequence, so padding of the *queries* must be known too:
    pass `query_padding_mask`, or use `ClockDecoderLayer`, which does.
    """

    pace: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        clocks: str = "normalized",
        out_proj: bool = False,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        phi: str | Phi = "rational",
        variance: str | None = None,
        log_variance_term: bool = False,
        logit_scale: str | float = "learned",
        clock_width: int | None = None,
        pace: float | None = None,
        causal_norm: str = "none",
        eps: float = 1e-6,
        impl: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"embed_dim={embed_dim}, num_heads={num_heads}: expected positive numbers, the first a multiple of "
                "the second"
            )
        for name, got, choices in (
            ("clocks", clocks, CLOCKS),
            ("causal_norm", causal_norm, CAUSAL_NORMS),
            ("impl", impl, IMPLEMENTATIONS),
        ):
            if got not in choices:
                raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(map(repr, choices))}")
        if clock_width is not None and clock_width < 1:
            raise ValueError(f"clock_width: got {clock_width}, expected at least one channel, or None")
        clock_dim = embed_dim if clock_width is None else num_heads * clock_width
        if clocks != "causal" and (pace is not None or causal_norm != "none"):
            raise ValueError(f"clocks={clocks!r} take neither pace nor causal_norm; only 'causal' clocks do")
        if causal_norm == "channel" and clock_dim == num_heads:
            raise ValueError(
                "causal_norm: got 'channel' with one channel per clock, which standardised over itself is always 0; "
                "use 'none' or more channels (clock_width)"
            )
        resolve_phi(phi)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.clocks = clocks
        self.dropout = dropout
        self.batch_first = batch_first
        self.phi = phi
        self.variance = resolve_variance(variance, clocks)
        self.log_variance_term = log_variance_term
        self.causal_norm = causal_norm
        self.eps = eps
        self.impl = impl
        self.q_proj = nn.Linear(embed_dim, clock_dim, bias, device=device, dtype=dtype)
        self.k_proj = nn.Linear(kdim or embed_dim, clock_dim, bias, device=device, dtype=dtype)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self.out_proj: nn.Module = (
            nn.Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype) if out_proj else nn.Identity()
        )
        if logit_scale == "learned":
            self.logit_scale: Tensor | float = nn.Parameter(torch.ones(num_heads, device=device, dtype=dtype))
        elif isinstance(logit_scale, int | float):
            self.logit_scale = float(logit_scale)
        else:
            raise ValueError(f"logit_scale: got {logit_scale!r}, expected 'learned' or a number")
        if clocks == "causal":
            self.first_pace = 1.0 if pace is None else pace
            self.register_buffer("pace", torch.empty((), device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The initialisation of `nn.MultiheadAttention`: Xavier for the projections, zero for the biases."""
        if isinstance(self.logit_scale, nn.Parameter):
            nn.init.ones_(self.logit_scale)
        if self.clocks == "causal":
            self.set_pace(self.first_pace)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight)
        for module in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def set_pace(self, pace: float) -> None:
        """Target steps per source token, as measured on the training data; smaller speaks faster."""
        if self.clocks != "causal":
            raise ValueError(f"set_pace: clocks={self.clocks!r} take no pace; only 'causal' clocks do")
        check_pace(pace, 1)
        self.pace.fill_(float(pace))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        query_padding_mask: Tensor | None = None,
        pace: float | Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Signature and return value of `nn.MultiheadAttention.forward`, plus the mask of the queries.

        `pace` overrides the stored one for this call (causal clocks): a number or one per item.
        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is only a hint, as in nn.MultiheadAttention: expected an attn_mask with it")
        batched = query.dim() == 3
        for name, x, width in (
            ("query", query, self.embed_dim),
            ("key", key, self.k_proj.in_features),
            ("value", value, self.v_proj.in_features),
        ):
            check_features(name, x, 3 if batched else 2, width)
        if not batched:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            query_padding_mask = None if query_padding_mask is None else query_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        key_padding_mask = padding_as_bool("key_padding_mask", key_padding_mask)
        query_padding_mask = padding_as_bool("query_padding_mask", query_padding_mask)
        query = blanked("query_padding_mask", query, query_padding_mask)
        shared = value is key  # the usual case: one encoder output
        key = blanked("key_padding_mask", key, key_padding_mask)
        value = key if shared else blanked("key_padding_mask", value, key_padding_mask)
        values = self.heads(self.v_proj(value))
        dropping = self.training and self.dropout > 0
        output, weights = clock_attention(
            self.heads(self.q_proj(query)),
            self.heads(self.k_proj(key)),
            values,
            query_padding_mask=query_padding_mask,
            key_padding_mask=key_padding_mask,
            attn_mask=self.mask_for_heads(attn_mask, query.shape[0]),
            clocks=self.clocks,
            phi=self.phi,
            variance=self.variance,
            log_variance_term=self.log_variance_term,
            logit_scale=self.logit_scale,
            pace=self.pace_for(pace),
            causal_norm=self.causal_norm,
            eps=self.eps,
            impl=self.impl,
            return_weights=need_weights or dropping,
        )
        if dropping:
            assert weights is not None
            output = F.dropout(weights, self.dropout).to(values.dtype) @ values
        output = self.out_proj(output.transpose(1, 2).flatten(2))  # (B, S, E)
        if not need_weights:
            weights = None
        elif average_attn_weights:
            assert weights is not None
            weights = weights.mean(1)  # (B, S, T)
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def start(
        self,
        memory: Tensor,
        key_padding_mask: Tensor | None = None,
        *,
        value: Tensor | None = None,
        pace: float | Tensor | None = None,
        margin: float | Tensor = 0.5,
    ) -> ClockState:
        """Compute the source clock once; then call `step` for every target step (causal clocks).

        Args:
            memory: encoder output (B, T, E), keys and, unless they are given, values; (T, B, E) where the module is not
                `batch_first`.
            key_padding_mask: bool (B, T), True = padding.
            value: values of the same layout where they are not the keys.
            pace: target steps per source token for this decoding, number or (B,); None takes the stored one.
            margin: how many tokens past the last one the clock must read before `state.finished`.
        """
        self.require_causal("start")
        value = memory if value is None else value
        check_features("memory", memory, 3, self.k_proj.in_features)
        check_features("value", value, 3, self.v_proj.in_features)
        if memory.shape[:2] != value.shape[:2]:
            raise ValueError(f"value: got shape {tuple(value.shape)}, expected one for every key {tuple(memory.shape)}")
        if not self.batch_first:
            memory, value = memory.transpose(0, 1), value.transpose(0, 1)
        if memory.shape[1] == 0:
            raise ValueError(f"memory: got shape {tuple(memory.shape)}, expected at least one source token")
        mask = padding_as_bool("key_padding_mask", key_padding_mask)
        chosen = self.pace_for(pace)
        assert chosen is not None
        return start_clocks(
            self.heads(self.k_proj(blanked("key_padding_mask", memory, mask))),
            self.heads(self.v_proj(blanked("key_padding_mask", value, mask))),
            valid_steps("key_padding_mask", mask, memory.shape[:2], memory.device),
            pace=chosen,
            phi=self.phi,
            variance=self.variance,
            eps=self.eps,
            margin=margin,
        )

    def step(self, query: Tensor, state: ClockState) -> tuple[Tensor, Tensor, ClockState]:
        """One target step, query (B, E): output (B, E), weights (B, H, T) and the state for the next step.

        Steps are for decoding: no attention dropout, not even in training mode.
        """
        self.require_causal("step")
        if query.shape != (state.steps.shape[0], self.embed_dim):
            raise ValueError(
                f"query: got shape {tuple(query.shape)}, expected one step for each item of the state, "
                f"({state.steps.shape[0]}, {self.embed_dim})"
            )
        projected = self.q_proj(query).unflatten(-1, (self.num_heads, -1))  # (B, H, D)
        if projected.shape != state.last.shape:
            raise ValueError(
                f"state: got clocks (batch, heads, channels) = {tuple(state.last.shape)}, expected "
                f"{tuple(projected.shape)}; it was started by another module"
            )
        with without_autocast(query.device):
            state = advance_clocks(state, projected, norm=self.causal_norm, phi=self.phi, eps=self.eps)
            scale = head_scale(self.logit_scale, self.num_heads, state.last)
            output, weights = attend_step(
                state,
                variance=self.variance,
                log_variance_term=self.log_variance_term,
                logit_scale=scale,
                eps=self.eps,
            )
        # A state started under autocast keeps its values in lower precision.
        return self.out_proj(output.flatten(1).to(projected.dtype)), weights, state

    def target_clock(
        self,
        query: Tensor,
        source_lengths: Tensor | Sequence[int],
        query_padding_mask: Tensor | None = None,
        *,
        pace: float | Tensor | None = None,
    ) -> Tensor:
        """λ̄ of the target on every channel (B, H, S, D), for losses and pictures: 1 means the last source token."""
        self.require_causal("target_clock")
        check_features("query", query, 3, self.embed_dim)
        if not self.batch_first:
            query = query.transpose(0, 1)
        source_lengths = torch.as_tensor(source_lengths, device=query.device)
        x = self.heads(self.q_proj(blanked("query_padding_mask", query, query_padding_mask)))
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        valid = valid_steps("query_padding_mask", query_padding_mask, query.shape[:2], query.device)
        tokens = torch.arange(int(source_lengths.max()), device=query.device) < source_lengths[:, None]
        chosen = self.pace_for(pace)
        assert chosen is not None
        check_pace(chosen, query.shape[0])
        unit = pace_unit(chosen, tokens, x.dtype)
        clock, _ = causal_target_clock(
            x, valid, resolve_phi(self.phi), self.causal_norm, unit, mean_rate(self.phi), self.eps
        )
        return clock

    def heads(self, x: Tensor) -> Tensor:
        """(B, L, H·D) → (B, H, L, D)"""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def pace_for(self, pace: float | Tensor | None) -> float | Tensor | None:
        if pace is None:
            return self.pace if self.clocks == "causal" else None
        return pace

    def mask_for_heads(self, attn_mask: Tensor | None, batch: int) -> Tensor | None:
        """nn.MultiheadAttention's (S, T) or (B·H, S, T) masks as (B or 1, H or 1, S, T)."""
        if attn_mask is None or attn_mask.dim() != 3:
            return attn_mask
        if attn_mask.shape[0] != batch * self.num_heads:
            raise ValueError(
                f"attn_mask: got shape {tuple(attn_mask.shape)}, expected (S, T), or (batch · heads, S, T) with "
                f"{batch} · {self.num_heads} = {batch * self.num_heads} masks"
            )
        return attn_mask.unflatten(0, (-1, self.num_heads))

    def require_causal(self, method: str) -> None:
        if self.clocks != "causal":
            raise ValueError(
                f"{method}: got a module with clocks={self.clocks!r}; one step at a time needs clocks='causal', "
                "because the others read the whole target before its first step"
            )

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, clocks={self.clocks!r}, impl={self.impl!r}"


def check_features(name: str, x: Tensor, dimensions: int, width: int) -> None:
    if x.dim() != dimensions or x.shape[-1] != width:
        layout = f"(batch, steps, {width})" if dimensions == 3 else f"(steps, {width}), or (batch, steps, {width})"
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected {layout}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: got dtype {x.dtype}, expected a floating point type")


def blanked(name: str, x: Tensor, padding: Tensor | None) -> Tensor:
    """Zeros where there is padding (B, L): whatever stands there must not reach the projections' gradients."""
    if padding is None:
        return x
    return x.masked_fill(~valid_steps(name, padding, x.shape[:2], x.device)[..., None], 0.0)


def padding_as_bool(name: str, mask: Tensor | None) -> Tensor | None:
    """nn.MultiheadAttention also takes padding as an additive float mask of 0 and −inf."""
    if mask is None or not mask.is_floating_point():
        return mask
    padded = mask == -torch.inf
    if bool((mask.masked_fill(padded, 0.0) != 0).any()):
        raise ValueError(
            f"{name}: got a float mask with values other than 0 and -inf, expected padding (bool, True = padding); "
            "pass weights on keys as attn_mask"
        )
    return padded
