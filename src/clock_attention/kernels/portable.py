"""Clock attention in plain torch, for any device: accurate, differentiable, memory O(block · T).

Rounding in a squared distance is divided by a variance that falls to about ½/n² at both ends of a sequence. Each block
of queries therefore reads both clocks relative to its first row, and the distances of lower precision inputs are taken
in fp64, where even the cancellation of the Gram form, a matrix product, is harmless. Inputs that are fp64 themselves,
and devices without fp64, get direct differences (large ones from `torch.cdist`, which has no second derivative). While
training, each block is recomputed in the backward pass instead of keeping its (block, T) tensors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from math import sqrt

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.kernels.interface import Attended, AttentionInputs, Content, Wanted
from clock_attention.options import ClockOptions

BLOCK_ELEMENTS = 2**20  # logits alive at a time, over batch and heads: 4 MiB in fp32
DIFFERENCES = 2**22  # kept at once, over all channels: more would cost too much memory
BLOCK_ROWS = 64  # at most: a block must stay short for its first reading to be near all the others


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why this call cannot be served: there is no such call."""
    return None


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Full precision, also inside autocast. The meta device, which computes nothing, has no autocast to leave."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """Softmax over keys of the meeting score (Eq. 3), applied to the values, one block of queries at a time."""
    query_valid, key_valid = inputs.valid_queries(), inputs.valid_keys()
    # Clocks and distances stay in fp32 at least, also under autocast: the variance they are divided by is tiny.
    wide = torch.promote_types(inputs.query.dtype, torch.float32)
    with without_autocast(inputs.query.device):
        query, key = inputs.query.to(wide), inputs.key.to(wide)
        pair = clock_pair(
            query, key, query_valid, key_valid, options, inputs.pace, inputs.segments, inputs.target_range
        )
        content = blank_content(inputs.content, query_valid, key_valid, wide)
        output, weights, logits = attend_blocks(inputs, pair, content, query_valid, key_valid, options, wanted)
    return output, weights, logits, pair if wanted.clocks else None


def attend_blocks(
    inputs: AttentionInputs,
    pair: ClockPair,
    content: Content | None,
    query_valid: Tensor,
    key_valid: Tensor,
    options: ClockOptions,
    wanted: Wanted,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    batch, heads, length, _ = pair.query.shape
    value = inputs.value.masked_fill(~key_valid[:, None, :, None], 0.0)
    scale = inputs.logit_scale.to(pair.query_variance.dtype)
    block, recompute = length, False
    if not exporting():  # a loop over blocks would fix the length
        pairs = batch * heads * length * pair.key.shape[-2]
        block = max(1, min(length, BLOCK_ROWS, BLOCK_ELEMENTS * length // max(1, pairs)))
        # Functorch transforms reject the hooks of checkpointing; there the blocks keep their intermediate values.
        transformed = torch._C._are_functorch_transforms_active()
        recompute = pairs > BLOCK_ELEMENTS and torch.is_grad_enabled() and not transformed
    found = []
    for start in (0,) if exporting() else range(0, length, block):
        rows = slice(start, start + block)
        arguments = (
            ClockPair(pair.query[..., rows, :], pair.key, pair.query_variance[..., rows], pair.key_variance),
            value,
            query_valid[:, rows],
            key_valid,
            mask_rows(inputs.attn_mask, rows),
            content_rows(content, rows),
            scale,
            options,
        )
        found.append(checkpoint(attend_rows, *arguments, use_reentrant=False) if recompute else attend_rows(*arguments))
    output, weights, logits = zip(*found, strict=True)
    return (
        torch.cat(output, -2),
        torch.cat(weights, -2) if wanted.weights else None,
        torch.cat(logits, -2) if wanted.logits else None,
    )


def exporting() -> bool:
    """Whether torch.export is tracing, perhaps with a length that is only known later."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def blank_content(
    content: Content | None, query_valid: Tensor, key_valid: Tensor, dtype: torch.dtype
) -> Content | None:
    """In the working precision, and 0 where there is padding, which may hold anything."""
    if content is None or isinstance(content, Tensor):
        return None if content is None else content.to(dtype)
    sides = zip(content, (query_valid, key_valid), strict=True)
    query, key = (x.to(dtype).masked_fill(~valid[:, None, :, None], 0.0) for x, valid in sides)
    return query, key


def content_rows(content: Content | None, rows: slice) -> Content | None:
    if content is None or isinstance(content, Tensor):
        return None if content is None else content[..., rows, :]
    return content[0][..., rows, :], content[1]


def mask_rows(attn_mask: Tensor | None, rows: slice) -> Tensor | None:
    """The rows of a mask that may be broadcast over them."""
    if attn_mask is None or attn_mask.shape[-2] == 1:
        return attn_mask
    return attn_mask[..., rows, :]


def attend_rows(
    pair: ClockPair,
    value: Tensor,  # (B, H, T, Dv)
    query_valid: Tensor,  # (B, s)
    key_valid: Tensor,  # (B, T)
    attn_mask: Tensor | None,
    content: Content | None,
    logit_scale: Tensor,  # (H, 1, 1) or (1, 1, 1)
    options: ClockOptions,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, weights and logits of one block of queries against all keys."""
    dtype = pair.query_variance.dtype
    # The first row's reading, not the block's mean: a row must not depend on later ones, not even in its rounding.
    centre = pair.query[..., :1, :].detach().mean(-1, keepdim=True)
    distance = squared_distance(pair.query - centre, pair.key - centre, dtype)  # (B, H, s, T)
    sigma2 = pair.query_variance[..., :, None] + pair.key_variance[..., None, :]  # Σ² (B, H or 1, s, T)
    score = -distance / (2 * sqrt(pair.query.shape[-1]) * sigma2 + options.eps)
    if options.log_variance_term:
        score = score - 0.5 * torch.log(sigma2)
    logits = score * logit_scale
    if content is not None:
        logits = logits + (content if isinstance(content, Tensor) else content[0] @ content[1].mT)
    allow = (query_valid[:, :, None] & key_valid[:, None, :])[:, None]  # (B, 1, s, T)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            allow = allow & ~attn_mask
        else:
            logits = logits + attn_mask
            allow = allow & (attn_mask != -torch.inf)
    some = allow.any(-1, keepdim=True)
    logits = logits.masked_fill(~allow, -torch.inf)
    weights = torch.softmax(logits.masked_fill(~some, 0.0), -1).masked_fill(~some, 0.0)
    return weights.to(value.dtype) @ value, weights, logits


def squared_distance(query_clock: Tensor, key_clock: Tensor, dtype: torch.dtype) -> Tensor:
    """‖λ_s − λ_t‖² of clocks (B, H, s, D) and (B, H, T, D), in `dtype`."""
    if query_clock.dtype == torch.float64 and dtype != torch.float64:
        norms = query_clock.square().sum(-1)[..., None] + key_clock.square().sum(-1)[..., None, :]
        return (norms - 2 * query_clock @ key_clock.mT).to(dtype)
    query_clock, key_clock = query_clock.to(dtype), key_clock.to(dtype)
    if exporting() or query_clock.numel() * key_clock.shape[-2] <= DIFFERENCES:
        return (query_clock[..., :, None, :] - key_clock[..., None, :, :]).square().sum(-1)
    return torch.cdist(query_clock, key_clock, compute_mode="donot_use_mm_for_euclid_dist").square()
