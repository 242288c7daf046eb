"""Clock attention in plain torch, for any device: accurate, differentiable, memory O(block · T).

Rounding in a squared distance is divided by a variance that falls to about ½/n² at both ends of a sequence. Each block
of queries therefore reads both clocks relative to its first row, and the distances of lower precision inputs are taken
in fp64, where even the cancellation of the Gram form, a matrix product, is harmless. Inputs that are fp64 themselves,
and devices without fp64, get direct differences (large ones from `torch.cdist`, which has no second derivative). While
training, each block is recomputed in the backward pass instead of keeping its (block, T) tensors.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clock_attention.clocks import ClockPair

BLOCK_ELEMENTS = 2**20  # logits alive at a time, over batch and heads: 4 MiB in fp32
DIFFERENCES = 2**22  # kept at once, over all channels: more would cost too much memory
BLOCK_ROWS = 64  # at most: a block must stay short for its first reading to be near all the others


def forward(
    pair: ClockPair,
    value: Tensor,
    *,
    query_valid: Tensor,
    key_valid: Tensor,
    attn_mask: Tensor | None,
    log_variance_term: bool,
    logit_scale: Tensor,
    eps: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Softmax over keys of the meeting score (Eq. 3), applied to the values, one block of queries at a time."""
    batch, heads, length, _ = pair.query.shape
    value = value.masked_fill(~key_valid[:, None, :, None], 0.0)
    logits = batch * heads * length * pair.key.shape[-2]
    block = max(1, min(length, BLOCK_ROWS, BLOCK_ELEMENTS * length // max(1, logits)))
    # Functorch transforms reject the hooks of checkpointing; there the blocks keep their intermediate values.
    transformed = torch._C._are_functorch_transforms_active()
    recompute = logits > BLOCK_ELEMENTS and torch.is_grad_enabled() and not transformed
    outputs, weights = [], []
    for start in range(0, length, block):
        rows = slice(start, start + block)
        arguments = (
            pair.query[..., rows, :],
            pair.key,
            pair.query_variance[..., rows],
            pair.key_variance,
            value,
            query_valid[:, rows],
            key_valid,
            mask_rows(attn_mask, rows),
            log_variance_term,
            logit_scale,
            eps,
        )
        output, weight = checkpoint(attend, *arguments, use_reentrant=False) if recompute else attend(*arguments)
        outputs.append(output)
        if return_weights:
            weights.append(weight)
    return torch.cat(outputs, -2), torch.cat(weights, -2) if return_weights else None


def mask_rows(attn_mask: Tensor | None, rows: slice) -> Tensor | None:
    """The rows of a mask that may be broadcast over them."""
    if attn_mask is None or attn_mask.shape[-2] == 1:
        return attn_mask
    return attn_mask[..., rows, :]


def attend(
    query_clock: Tensor,  # (B, H, s, D)
    key_clock: Tensor,  # (B, H, T, D)
    query_variance: Tensor,  # (B, H or 1, s)
    key_variance: Tensor,  # (B, H or 1, T)
    value: Tensor,  # (B, H, T, Dv)
    query_valid: Tensor,  # (B, s)
    key_valid: Tensor,  # (B, T)
    attn_mask: Tensor | None,
    log_variance_term: bool,
    logit_scale: Tensor,  # (H, 1, 1) or scalar
    eps: float,
) -> tuple[Tensor, Tensor]:
    """One block of queries against all keys."""
    dtype = query_variance.dtype
    # The first row's reading, not the block's mean: a row must not depend on later ones, not even in its rounding.
    centre = query_clock[..., :1, :].detach().mean(-1, keepdim=True)
    distance = squared_distance(query_clock - centre, key_clock - centre, dtype)  # (B, H, s, T)
    sigma2 = query_variance[..., :, None] + key_variance[..., None, :]  # Σ² (B, H or 1, s, T)
    score = -distance / (2 * sqrt(query_clock.shape[-1]) * sigma2 + eps)
    if log_variance_term:
        score = score - 0.5 * torch.log(sigma2)
    logits = score * logit_scale
    allow = (query_valid[:, :, None] & key_valid[:, None, :])[:, None]  # (B, 1, s, T)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            allow = allow & ~attn_mask
        else:
            logits = logits + attn_mask
            allow = allow & (attn_mask != -torch.inf)
    some = allow.any(-1, keepdim=True)
    logits = logits.masked_fill(~allow, -torch.inf).masked_fill(~some, 0.0)
    weights = torch.softmax(logits, -1).masked_fill(~some, 0.0)
    return weights.to(value.dtype) @ value, weights


def squared_distance(query_clock: Tensor, key_clock: Tensor, dtype: torch.dtype) -> Tensor:
    """‖λ_s − λ_t‖² of clocks (B, H, s, D) and (B, H, T, D), in `dtype`."""
    if query_clock.dtype == torch.float64 and dtype != torch.float64:
        norms = query_clock.square().sum(-1)[..., None] + key_clock.square().sum(-1)[..., None, :]
        return (norms - 2 * query_clock @ key_clock.mT).to(dtype)
    query_clock, key_clock = query_clock.to(dtype), key_clock.to(dtype)
    if query_clock.numel() * key_clock.shape[-2] <= DIFFERENCES:
        return (query_clock[..., :, None, :] - key_clock[..., None, :, :]).square().sum(-1)
    return torch.cdist(query_clock, key_clock, compute_mode="donot_use_mm_for_euclid_dist").square()
