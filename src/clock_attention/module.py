"""`ClockAttention`: a drop-in replacement for `torch.nn.MultiheadAttention` as cross-attention."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention.attention import attend, checked_inputs, head_scale, valid_steps
from clock_attention.clocks import causal_target_clock, pace_unit
from clock_attention.compatibility import gathered, take_multihead_weights
from clock_attention.kernels.interface import Wanted
from clock_attention.kernels.portable import without_autocast
from clock_attention.options import ClockOptions, check_pace, checkable
from clock_attention.padding import blanked, check_features, padding_as_bool, steps_in
from clock_attention.rates import Phi, mean_rate, resolve_phi
from clock_attention.streaming import ClockState, advance_clocks, attend_step, start_clocks

OPTIONS = tuple(field.name for field in fields(ClockOptions))  # here: torch.compile cannot look into dataclasses
STEPPING = ("auto", "portable", "banded", "triton")  # implementations that can take one step
SMALL_SCALE = 0.1  # below it, a learned logit_scale approaches 0 instead of crossing it


class ClockAttention(nn.Module):
    """Multi-head clock attention with the call and the return value of `nn.MultiheadAttention`.

    Args:
        embed_dim, num_heads, bias, kdim, vdim, dropout, batch_first: as in `nn.MultiheadAttention`, except that
            `batch_first` defaults to True. Attention dropout needs the whole weight matrix and is slow.
        clocks: "normalized" for parallel decoding, "causal" for autoregressive decoding, "unnormalized" for the
            paper's printed autoregressive variant.
        out_proj: False is the paper's preset (no extra parameters); True matches `nn.MultiheadAttention`.
        phi, variance, log_variance_term, eps, impl: see `ClockOptions`.
        logit_scale: "learned" (one scalar per head, starting at 1 and always positive, see `scale`) or a constant.
        content_dim: channels of each head's content features, whose scaled inner products are added to the logits:
            evidence, as the clocks never compare the two sequences. None: no content, as in the paper.
        free_ends: the target may be a part of the source: its clock starts where the content of its first step is
            found in the source, and ends where that of its last step is. Requires normalized clocks and `content_dim`.
        clock_width: channels of each head's clock. None takes the head's width, as the paper does; 1 gives each head
            one scalar clock, as in the theory, which cannot skip a token while it moves less than a token per step.
        pace: causal clocks only: target steps per source token (default 1). A buffer saved with the weights; set it
            from the training data with `set_pace`.
        causal_norm: causal clocks only: "none", "rms", "channel" or "cumulative". With the single channel of a
            scalar clock, "channel" would leave nothing and is rejected, and "rms" leaves little more than the sign.

    Unlike self-attention, clocks integrate over their whole sequence, so padding of the *queries* must be known too:
    pass `query_padding_mask`, or use `ClockDecoderLayer`, which does.
    """

    clocks: str
    phi: str | Phi
    variance: str
    log_variance_term: bool
    causal_norm: str
    eps: float
    impl: str
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
        content_dim: int | None = None,
        free_ends: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"embed_dim={embed_dim}, num_heads={num_heads}: expected positive numbers, the first a multiple of "
                "the second"
            )
        for name, width in (("clock_width", clock_width), ("content_dim", content_dim)):
            if width is not None and width < 1:
                raise ValueError(f"{name}: got {width}, expected at least one channel, or None")
        options = ClockOptions(clocks, phi, variance, log_variance_term, causal_norm, eps, impl)
        clock_dim = embed_dim if clock_width is None else num_heads * clock_width
        if clocks != "causal" and (pace is not None or causal_norm != "none"):
            raise ValueError(f"clocks={clocks!r} take neither pace nor causal_norm; only 'causal' clocks do")
        if causal_norm == "channel" and clock_dim == num_heads:
            raise ValueError(
                "causal_norm: got 'channel' with one channel per clock, which standardised over itself is always 0; "
                "use 'none' or more channels (clock_width)"
            )
        if free_ends and (content_dim is None or clocks != "normalized"):
            raise ValueError(
                f"free_ends: got content_dim={content_dim} and clocks={clocks!r}, expected content, by which the ends "
                "are found, and normalized clocks"
            )
        self.free_ends = free_ends
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        for field in fields(options):  # plain attributes, so that a rate function with parameters is a submodule
            setattr(self, field.name, getattr(options, field.name))
        self.warned_of_padding = False  # whether the warning has been shown
        self.q_proj = nn.Linear(embed_dim, clock_dim, bias, device=device, dtype=dtype)
        self.k_proj = nn.Linear(kdim or embed_dim, clock_dim, bias, device=device, dtype=dtype)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self.out_proj: nn.Module = (
            nn.Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype) if out_proj else nn.Identity()
        )
        self.content_q_proj: nn.Linear | None = None
        self.content_k_proj: nn.Linear | None = None
        if content_dim is not None:
            width = num_heads * content_dim
            self.content_q_proj = nn.Linear(embed_dim, width, bias, device=device, dtype=dtype)
            self.content_k_proj = nn.Linear(kdim or embed_dim, width, bias, device=device, dtype=dtype)
        if logit_scale == "learned":
            self.logit_scale: Tensor | float = nn.Parameter(torch.ones(num_heads, device=device, dtype=dtype))
        elif isinstance(logit_scale, Real):
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
        inward = (self.q_proj, self.k_proj, self.v_proj, self.content_q_proj, self.content_k_proj)
        for projection in inward:
            if projection is not None:
                nn.init.xavier_uniform_(projection.weight)
        for module in (*inward, self.out_proj):
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        take_multihead_weights(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    @property
    def options(self) -> ClockOptions:
        """How this module's clocks are made and scored."""
        return ClockOptions(**{name: getattr(self, name) for name in OPTIONS})

    def scale(self) -> Tensor | float:
        """The factor applied to the clocks' score, positive if learned.

        The parameter itself where it is at least 0.1, so that state dicts keep their meaning; below, an exponential
        that continues it smoothly towards 0. A negative factor would attend where the clocks do *not* meet.
        """
        raw = self.logit_scale
        if not isinstance(raw, Tensor):
            return raw
        return torch.where(raw >= SMALL_SCALE, raw, SMALL_SCALE * (raw.clamp(max=SMALL_SCALE) / SMALL_SCALE - 1).exp())

    def set_pace(self, pace: float) -> None:
        """Set the target steps per source token, as measured on the training data; smaller reads the source faster."""
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
        segments: tuple[Tensor, Tensor] | None = None,
        target_range: tuple[float | Tensor, float | Tensor] | None = None,
        return_clocks: bool = False,
        return_logits: bool = False,
    ) -> tuple[Any, ...]:
        """Signature and return value of `nn.MultiheadAttention.forward`, plus a mask of the queries.

        `pace` overrides the stored one for this call (causal clocks): a number or one per item. `segments` and
        `target_range` are those of `clock_attention.clock_attention`. `return_clocks` and `return_logits` add the
        `ClockPair` and the logits (B, H, S, T) of this call to the return value, batch first.
        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is only a hint, as in nn.MultiheadAttention: expected an attn_mask with it")
        batched = query.dim() == 3
        for name, x, width in (
            ("query", query, self.embed_dim),
            ("key", key, self.k_proj.in_features),
            ("value", value, self.v_proj.in_features),
        ):
            check_features(name, x, 3 if batched else 2, width, batch_first=self.batch_first)
        items = 0 if self.batch_first else 1  # the dimension of the batch
        if batched and key.shape[items] != query.shape[items]:
            raise ValueError(
                f"key: got shape {tuple(key.shape)} for a query {tuple(query.shape)}, expected the same batch in "
                f"dimension {items}, because batch_first={self.batch_first}"
            )
        if not batched:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            query_padding_mask = None if query_padding_mask is None else query_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        key_padding_mask = padding_as_bool("key_padding_mask", key_padding_mask)
        query_padding_mask = padding_as_bool("query_padding_mask", query_padding_mask)
        self.warn_of_unknown_padding(query, query_padding_mask, key_padding_mask)
        query = blanked("query_padding_mask", query, query_padding_mask)
        shared = value is key  # the usual case: one encoder output
        key = blanked("key_padding_mask", key, key_padding_mask)
        value = key if shared else blanked("key_padding_mask", value, key_padding_mask)
        values = self.heads(self.v_proj(value))
        dropping = self.training and self.dropout > 0
        options, content = self.options, self.content(query, key)
        if self.free_ends and target_range is None:
            assert content is not None
            target_range = content_at_ends(content, query_padding_mask, key_padding_mask)
        inputs = checked_inputs(
            self.heads(self.q_proj(query)),
            self.heads(self.k_proj(key)),
            values,
            query_padding_mask,
            key_padding_mask,
            self.mask_for_heads(attn_mask, query.shape[0]),
            content,
            self.scale(),
            self.pace_for(pace),
            options,
            segments=segments,
            target_range=target_range,
        )
        wanted = Wanted(weights=need_weights or dropping, logits=return_logits, clocks=return_clocks)
        output, weights, logits, made = attend(inputs, options, wanted)
        extra = ((made,) if return_clocks else ()) + ((logits,) if return_logits else ())
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
            return output.squeeze(0), None if weights is None else weights.squeeze(0), *extra
        return output if self.batch_first else output.transpose(0, 1), weights, *extra

    @gathered
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
            memory: encoder output (B, T, E), used as keys and, unless `value` is given, as values; (T, B, E) if the
                module is not `batch_first`.
            key_padding_mask: bool (B, T), True = padding.
            value: values in the same layout, if they differ from the keys.
            pace: target steps per source token for this decoding, number or (B,); None takes the stored one.
            margin: how many tokens past the last one the clock must read before `state.finished`.
        """
        self.require_causal("start")
        value = memory if value is None else value
        check_features("memory", memory, 3, self.k_proj.in_features, batch_first=self.batch_first)
        check_features("value", value, 3, self.v_proj.in_features, batch_first=self.batch_first)
        if memory.shape[:2] != value.shape[:2]:
            raise ValueError(f"value: got shape {tuple(value.shape)}, expected one for every key {tuple(memory.shape)}")
        if not self.batch_first:
            memory, value = memory.transpose(0, 1), value.transpose(0, 1)
        if memory.shape[1] == 0:
            raise ValueError(f"memory: got shape {tuple(memory.shape)}, expected at least one source token")
        mask = padding_as_bool("key_padding_mask", key_padding_mask)
        keys = blanked("key_padding_mask", memory, mask)
        chosen = self.pace_for(pace)
        assert chosen is not None
        return start_clocks(
            self.heads(self.k_proj(keys)),
            self.heads(self.v_proj(blanked("key_padding_mask", value, mask))),
            steps_in("key_padding_mask", mask, memory),
            self.options,
            pace=chosen,
            margin=margin,
            content_key=None if self.content_k_proj is None else self.heads(self.content_k_proj(keys)),
        )

    @gathered
    def step(self, query: Tensor, state: ClockState) -> tuple[Tensor, Tensor, ClockState]:
        """One target step, query (B, E): output (B, E), weights (B, H, T) and the state for the next step.

        Steps are for decoding: no attention dropout, not even in training mode.
        """
        self.require_causal("step")
        if self.impl not in STEPPING:
            raise ValueError(
                f"impl: got {self.impl!r}, but one step is taken by {', '.join(map(repr, STEPPING))} only; set "
                "attention.impl to one of them to decode"
            )
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
        content = None
        if self.content_q_proj is not None:
            if state.content_key is None:
                raise ValueError("state: got one without content features; it was started by another module")
            content = self.content_q_proj(query).unflatten(-1, (self.num_heads, -1))  # (B, H, C)
            content = content / content.shape[-1] ** 0.5
        with without_autocast(query.device):
            options = self.options
            state = advance_clocks(state, projected, options)
            scale = head_scale(self.scale(), self.num_heads, state.last)
            output, weights = attend_step(state, options, scale, content)
        # A state started under autocast keeps its values in lower precision.
        return self.out_proj(output.flatten(1).to(projected.dtype)), weights, state

    @gathered
    def target_clock(
        self,
        query: Tensor,
        source_lengths: Tensor | Sequence[int] | None = None,
        query_padding_mask: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        pace: float | Tensor | None = None,
    ) -> Tensor:
        """Target clock λ̄ on every channel (B, H, S, D), for losses and figures: 1 means the last source token.

        The source is given by the number of its tokens or by its `key_padding_mask`; masks as in `forward`.
        """
        self.require_causal("target_clock")
        check_features("query", query, 3, self.embed_dim, batch_first=self.batch_first)
        if not self.batch_first:
            query = query.transpose(0, 1)
        if (source_lengths is None) == (key_padding_mask is None):
            raise ValueError("target_clock: expected either source_lengths or key_padding_mask")
        if source_lengths is not None:
            lengths = torch.as_tensor(source_lengths)
            if lengths.shape != (query.shape[0],) or lengths.is_floating_point() or lengths.dtype == torch.bool:
                raise ValueError(
                    f"source_lengths: got {lengths.dtype} {tuple(lengths.shape)}, expected one integer for each of "
                    f"{query.shape[0]} items"
                )
            if checkable(lengths) and bool((lengths < 1).any()):
                raise ValueError(f"source_lengths: got {lengths.tolist()}, expected at least one token for each item")
            tokens = torch.arange(int(lengths.max()), device=query.device) < lengths.to(query.device)[:, None]
        else:
            padded = padding_as_bool("key_padding_mask", key_padding_mask)
            assert padded is not None
            tokens = valid_steps("key_padding_mask", padded, (query.shape[0], padded.shape[-1]))
        mask = padding_as_bool("query_padding_mask", query_padding_mask)
        x = self.heads(self.q_proj(blanked("query_padding_mask", query, mask)))
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        chosen = self.pace_for(pace)
        assert chosen is not None
        check_pace(chosen, query.shape[0])
        unit = pace_unit(chosen, tokens, x.dtype)
        valid = steps_in("query_padding_mask", mask, query)
        clock, _ = causal_target_clock(
            x, valid, resolve_phi(self.phi), self.causal_norm, unit, mean_rate(self.phi), self.eps
        )
        return clock

    def content(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor] | None:
        """Content features of both sides (B, H, L, C), the queries' divided by √C as in dot-product attention."""
        if self.content_q_proj is None or self.content_k_proj is None:
            return None
        features = self.heads(self.content_q_proj(query))
        return features / features.shape[-1] ** 0.5, self.heads(self.content_k_proj(key))

    def warn_of_unknown_padding(self, query: Tensor, query_padding: Tensor | None, key_padding: Tensor | None) -> None:
        """Warn once about padded sources with targets of unknown length, as in calls by torch's own decoder layer."""
        known = query_padding is not None or key_padding is None or query.shape[0] == 1 or self.clocks == "causal"
        if known or self.warned_of_padding or torch.compiler.is_compiling():
            return
        self.warned_of_padding = True
        warnings.warn(
            "ClockAttention was given key_padding_mask but no query_padding_mask: if targets are padded too, their "
            "padding enters the time norm and the clock. Use ClockDecoderLayer or swap_cross_attention instead of "
            "nn.TransformerDecoderLayer, or pass query_padding_mask (all False if nothing is padded)",
            stacklevel=3,
        )

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


def content_at_ends(
    content: tuple[Tensor, Tensor], query_padding: Tensor | None, key_padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weights (B, H, T) that locate the content of the first and of the last valid query among the keys."""
    query, key = content
    if query_padding is None:
        ends = query[..., [0, -1], :]
    else:
        place = torch.arange(query.shape[2], device=query.device)
        first = torch.where(query_padding, query.shape[2], place).amin(-1).clamp(max=query.shape[2] - 1)
        last = torch.where(query_padding, -1, place).amax(-1).clamp(min=0)
        index = torch.stack([first, last], -1)[:, None, :, None]  # (B, 1, 2, 1)
        ends = query.gather(2, index.expand(-1, query.shape[1], -1, query.shape[3]))
    logits = ends @ key.mT  # (B, H, 2, T)
    if key_padding is not None:
        nothing = key_padding.all(-1, keepdim=True)  # then any weights will do
        logits = logits.masked_fill((key_padding & ~nothing)[:, None, None], -torch.inf)
    weights = torch.softmax(logits, -1)
    return weights[:, :, 0], weights[:, :, 1]
