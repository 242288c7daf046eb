"""The clocks of a Hugging Face cross-attention: a submodule with their parameters and options."""

from __future__ import annotations

from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention.attention import attend, checked_inputs, head_scale
from clock_attention.integrations.clock_cache import ClockCacheLayer
from clock_attention.kernels.interface import Wanted, all_valid
from clock_attention.kernels.portable import without_autocast
from clock_attention.options import ClockOptions, check_pace
from clock_attention.streaming import advance_clocks, attend_step, start_clocks


class CrossClocks(nn.Module):
    """Causal clocks for one cross-attention, between its projections and its output.

    Args:
        heads: number of attention heads.
        pace: target steps per source step; a buffer, saved with the model.
        logit_scale: "learned" (one positive number per head, starting at 1) or a constant.
        content: True adds the attention's own scaled dot products to the logits: they become the evidence, and the
            clocks the prior. False: clocks only.
        phi, variance, log_variance_term, causal_norm, eps, impl: see `ClockOptions`; `phi` by name.
    """

    pace: Tensor

    def __init__(
        self,
        heads: int,
        *,
        pace: float = 1.0,
        logit_scale: str | float = "learned",
        content: bool = False,
        phi: str = "rational",
        variance: str | None = None,
        log_variance_term: bool = False,
        causal_norm: str = "none",
        eps: float = 1e-6,
        impl: str = "auto",
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(phi, str):
            raise ValueError(f"phi: got {phi!r}, expected a name: it is saved in the model's config")
        self.options = ClockOptions(
            clocks="causal",
            phi=phi,
            variance=variance,
            log_variance_term=log_variance_term,
            causal_norm=causal_norm,
            eps=eps,
            impl=impl,
        )
        check_pace(pace, 1)
        self.content = content
        self.constant_scale = 1.0
        self.log_scale: nn.Parameter | None = None
        if logit_scale == "learned":
            self.log_scale = nn.Parameter(torch.empty(heads, device=device))
        elif isinstance(logit_scale, Real) and logit_scale > 0:
            self.constant_scale = float(logit_scale)
        else:
            raise ValueError(f"logit_scale: got {logit_scale!r}, expected 'learned' or a positive number")
        self.first_pace = float(pace)
        self.register_buffer("pace", torch.empty((), device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the clocks: sharpness 1 for every head, and the pace given at construction."""
        # torch's initialisers: transformers patches them to skip parameters already loaded from a checkpoint
        nn.init.constant_(self.pace, self.first_pace)
        if self.log_scale is not None:
            nn.init.zeros_(self.log_scale)

    @property
    def logit_scale(self) -> Tensor | float:
        """Sharpness of the clocks, positive: one number per head (H,), or the constant."""
        return self.constant_scale if self.log_scale is None else self.log_scale.float().exp()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding: Tensor | None,
        *,
        scaling: float,
        dropout: float = 0.0,
        need_weights: bool = False,
        cache: ClockCacheLayer | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend: queries (B, H, S, D), keys (B, H, T, D) → output (B, H, S, Dv) and weights (B, H, S, T) or None.

        `scaling` is the attention's own factor for its dot products, used for the content.
        """
        weights: Tensor | None
        if cache is not None and cache.steps:
            output, weights = self.go_on(query, key, value, key_padding, scaling, cache)
        else:
            output, weights = self.first_pass(query, key, value, key_padding, scaling, need_weights or dropout > 0)
            if cache is not None:
                cache.seen = query
        if cache is not None:
            cache.steps += query.shape[2]
        if dropout > 0:
            assert weights is not None
            output = F.dropout(weights, dropout).to(value.dtype) @ value
        return output.to(value.dtype), weights if need_weights else None

    def first_pass(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding: Tensor | None,
        scaling: float,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Process the target from its first step on, all steps at once."""
        content = (query * scaling, key) if self.content else None
        masks = (None, key_padding, None)
        inputs = checked_inputs(query, key, value, *masks, content, self.logit_scale, self.pace, self.options)
        output, weights, _, _ = attend(inputs, self.options, Wanted(weights=need_weights))
        return output, weights

    def go_on(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding: Tensor | None,
        scaling: float,
        cache: ClockCacheLayer,
    ) -> tuple[Tensor, Tensor]:
        """Process the steps that follow those in the cache."""
        with without_autocast(query.device):
            state = cache.state
            if state is None:
                valid = all_valid(key) if key_padding is None else ~key_padding
                content_key = key if self.content else None
                state = start_clocks(key, value, valid, self.options, pace=self.pace, content_key=content_key)
                assert cache.seen is not None
                for step in cache.seen.unbind(2):
                    state = advance_clocks(state, step, self.options)
                cache.seen = None
            scale = head_scale(self.logit_scale, query.shape[1], state.last)
            outputs, weights = [], []
            for step in query.unbind(2):
                state = advance_clocks(state, step, self.options)
                output, weight = attend_step(state, self.options, scale, step * scaling if self.content else None)
                outputs.append(output)
                weights.append(weight)
            cache.state = state
        return torch.stack(outputs, 2), torch.stack(weights, 2)

    def extra_repr(self) -> str:
        return f"content={self.content}, {self.options}"
