"""Clock attention as a FlexAttention `score_mod`, for CUDA devices.

FlexAttention hands its score function the product q·k, so the distance must come from a Gram product, which cancels
(see `reference.py`) unless what is multiplied is small. Here it is: with m the mean of a clock over its channels and
a = λ − m its deviations from it,

    ‖λ_s − λ_t‖² = ‖a_s − a_t‖² + d (m_s − m_t)²,

as deviations sum to zero over channels. Deviations are as small as the noise that Σ² describes, at both ends of the
sequence too, so the Gram product of the first term loses little; the second is a direct difference of two numbers, each
kept as a rounded part and the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.kernels import portable
from clock_attention.kernels.interface import Attended, AttentionInputs, Wanted
from clock_attention.options import ClockOptions

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why this call cannot be served, or None."""
    if inputs.query.device.type != "cuda":
        return f"the tensors are on {inputs.query.device}, and FlexAttention differentiates on CUDA devices only"
    if inputs.attn_mask is not None:
        return "attn_mask is given, which is not passed on to FlexAttention"
    if inputs.content is not None:
        return "content is given, which is not passed on to FlexAttention"
    return None


def deviations(clock: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(a, ‖a‖², m rounded, rest of m) of a clock (B, H, L, D) in fp64."""
    mean = clock.mean(-1)  # (B, H, L)
    deviation = (clock - mean[..., None]).to(dtype)
    rounded = mean.to(dtype)
    return deviation, deviation.square().sum(-1), rounded, (mean - rounded).to(dtype)


def meeting(
    pair: ClockPair, logit_scale: Tensor, options: ClockOptions, dtype: torch.dtype
) -> tuple[Tensor, Tensor, ScoreMod]:
    """Query and key for FlexAttention, and the score (Eq. 3) as a function of their product and of positions."""
    batch, heads, _, width = pair.query.shape
    query, query_norm, query_mean, query_rest = deviations(pair.query, dtype)
    key, key_norm, key_mean, key_rest = deviations(pair.key, dtype)
    query_variance = pair.query_variance.to(dtype).expand(batch, heads, -1).contiguous()
    key_variance = pair.key_variance.to(dtype).expand(batch, heads, -1).contiguous()
    scale = logit_scale.to(dtype).reshape(-1).expand(heads).contiguous()
    spread, eps, log_variance_term = 2 * sqrt(width), options.eps, options.log_variance_term

    def score_mod(product: Tensor, b: Tensor, h: Tensor, s: Tensor, t: Tensor) -> Tensor:
        ahead = (query_mean[b, h, s] - key_mean[b, h, t]) + (query_rest[b, h, s] - key_rest[b, h, t])
        gram = query_norm[b, h, s] + key_norm[b, h, t] - 2 * product
        distance = gram.clamp(min=0.0) + width * ahead * ahead
        sigma2 = query_variance[b, h, s] + key_variance[b, h, t]
        score = -distance / (spread * sigma2 + eps)
        if log_variance_term:
            score = score - 0.5 * torch.log(sigma2)
        return score * scale[h]

    return query, key, score_mod


def valid_pairs(query_valid: Tensor, key_valid: Tensor) -> BlockMask:
    """Which blocks of queries and keys hold anything but padding."""

    def mask_mod(b: Tensor, h: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return query_valid[b, s] & key_valid[b, t]

    batch, targets = query_valid.shape
    return create_block_mask(mask_mod, batch, None, targets, key_valid.shape[1], device=str(query_valid.device))


@lru_cache(maxsize=1)
def compiled_flex_attention() -> Callable:
    return torch.compile(flex_attention, dynamic=True)


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted, *, compiled: bool = True) -> Attended:
    """Output and clocks; all pairs, where they are wanted, come from the torch path.

    `compiled=False` runs FlexAttention eagerly, forward only, on any device: for tests.
    """
    if wanted.weights or wanted.logits:
        return portable.attend(inputs, options, wanted)
    query_valid, key_valid = inputs.valid_queries(), inputs.valid_keys()
    wide = torch.promote_types(inputs.query.dtype, torch.float32)
    with portable.without_autocast(inputs.query.device):
        pair = clock_pair(
            inputs.query.to(wide),
            inputs.key.to(wide),
            query_valid,
            key_valid,
            options,
            inputs.pace,
            inputs.segments,
            inputs.target_range,
        )
        output = flex_output(inputs, pair, query_valid, key_valid, options, compiled)
    return output, None, None, pair if wanted.clocks else None


def flex_output(
    inputs: AttentionInputs,
    pair: ClockPair,
    query_valid: Tensor,
    key_valid: Tensor,
    options: ClockOptions,
    compiled: bool,
) -> Tensor:
    """Output (B, H, S, Dv)."""
    value = inputs.value
    dtype = torch.promote_types(value.dtype, torch.float32)
    query, key, score_mod = meeting(pair, inputs.logit_scale, options, dtype)
    values = value.to(dtype).masked_fill(~key_valid[:, None, :, None], 0.0)
    spare, value_spare = -query.shape[-1] % 16, -values.shape[-1] % 16  # whole tiles of the GPU's matrix units
    run: Any = compiled_flex_attention() if compiled else flex_attention
    output = run(
        F.pad(query, (0, spare)),
        F.pad(key, (0, spare)),
        F.pad(values, (0, value_spare)),
        score_mod=score_mod,
        block_mask=valid_pairs(query_valid, key_valid),
        scale=1.0,
        # TF32 keeps ten bits of a product, far too few for a distance.
        kernel_options={"FLOAT32_PRECISION": "'ieee'"} if compiled else None,
    )
    some = query_valid & key_valid.any(-1, keepdim=True)  # (B, S)
    return output[..., : value.shape[-1]].masked_fill(~some[:, None, :, None], 0.0).to(value.dtype)
