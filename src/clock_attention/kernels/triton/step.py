"""One decoding step for a batch of states: every head's clock against all its keys, forward only."""

# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from clock_attention.clocks import ClockPair
from clock_attention.kernels.triton.geometry import STEP_WARPS, block_width, launch, step_keys
from clock_attention.kernels.triton.scores import LOG2E, clock_scores
from clock_attention.options import ClockOptions


@triton.jit
def attend_step(
    clock, key_clock, key_clock_b, key_clock_h, key_clock_s, variance, variance_b, variance_h,
    key_variance, key_variance_b, key_variance_h, key_variance_s, value, value_b, value_h, value_s, key_live,
    content, content_b, content_h, key_content, key_content_b, key_content_h, key_content_s,
    scales, out, weights, heads, keys, width, content_width, spread, eps,
    WIDTH: tl.constexpr, VALUE: tl.constexpr, BLOCK_VALUE: tl.constexpr, CONTENT: tl.constexpr,
    LOG_TERM: tl.constexpr, KEY_BLOCK: tl.constexpr,
):  # fmt: skip
    """Kernel of one decoding step: clocks are subtracted in fp64; with one query, the cost does not show."""
    item = tl.program_id(0).to(tl.int64)
    batch, head = item // heads, item % heads
    key_clock += batch * key_clock_b + head * key_clock_h
    value += batch * value_b + head * value_h
    weights += item * keys
    scale = tl.load(scales + head)
    own_variance = tl.load(variance + batch * variance_b + head * variance_h).to(tl.float32)
    channels = tl.arange(0, BLOCK_VALUE)
    peak, total = float("-inf"), 0.0
    result = tl.zeros((BLOCK_VALUE,), dtype=tl.float32)
    for start in range(0, keys, KEY_BLOCK):
        cols = start + tl.arange(0, KEY_BLOCK)
        inside = cols < keys
        alive = inside & (tl.load(key_live + batch * keys + cols, mask=inside, other=0) != 0)
        places = key_clock + cols.to(tl.int64) * key_clock_s
        distance = tl.zeros((KEY_BLOCK,), dtype=tl.float32)
        for c in range(width):
            gap = (tl.load(places + c, mask=inside, other=0.0) - tl.load(clock + item * WIDTH + c)).to(tl.float32)
            distance += gap * gap
        places = key_variance + batch * key_variance_b + head * key_variance_h + cols.to(tl.int64) * key_variance_s
        sigma2 = own_variance + tl.load(places, mask=inside, other=1.0).to(tl.float32)
        score, _, _ = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
        logits = score * scale
        if CONTENT > 0:
            places = key_content + batch * key_content_b + head * key_content_h + cols.to(tl.int64) * key_content_s
            for c in range(content_width):
                own = tl.load(content + batch * content_b + head * content_h + c).to(tl.float32)
                logits += own * tl.load(places + c, mask=alive, other=0.0).to(tl.float32)
        logits = tl.where(alive, logits * LOG2E, float("-inf"))
        tl.store(weights + cols, logits, mask=inside)
        higher = tl.maximum(peak, tl.max(logits, 0))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        shares = tl.exp2(logits - level)
        rescale = tl.exp2(peak - level)
        total = total * rescale + tl.sum(shares, 0)
        places = value + cols[:, None].to(tl.int64) * value_s + channels[None, :]
        values = tl.load(places, mask=alive[:, None] & (channels < VALUE)[None, :], other=0.0).to(tl.float32)
        result = result * rescale + tl.sum(shares[:, None] * values, 0)
        peak = higher
    level = tl.where(peak == float("-inf"), 0.0, peak)
    share = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    tl.store(out + item * VALUE + channels, (result * share).to(out.dtype.element_ty), mask=channels < VALUE)
    tl.debug_barrier()  # logits were written by other threads of this program
    for start in range(0, keys, KEY_BLOCK):
        cols = start + tl.arange(0, KEY_BLOCK)
        logits = tl.load(weights + cols, mask=cols < keys, other=float("-inf"))
        tl.store(weights + cols, tl.exp2(logits - level) * share, mask=cols < keys)


def attend(
    pair: ClockPair,
    value: Tensor,
    key_valid: Tensor,
    content: tuple[Tensor, Tensor] | None,
    logit_scale: Tensor,
    options: ClockOptions,
) -> tuple[Tensor, Tensor]:
    """One decoding step for a pair of clocks with one query: output (B, H, Dv), weights (B, H, T)."""
    evidence = None if content is None else (content[0].squeeze(2), content[1])
    terms = options.log_variance_term, options.eps
    return step(pair.query.squeeze(2), pair.key, *pair[2:], value, key_valid, logit_scale, *terms, evidence)


def step(
    clock: Tensor,
    key_clock: Tensor,
    variance: Tensor,
    key_variance: Tensor,
    value: Tensor,
    key_valid: Tensor,
    scale: Tensor,
    log_term: bool,
    eps: float,
    content: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """One decoding step in Triton: output (B, H, Dv) and weights (B, H, T) of one target step.

    Clock (B, H, D) and key_clock (B, H, T, D); variances (B, H or 1, 1) and (B, H or 1, T); content, if any,
    (B, H, C) and (B, H, T, C).
    """
    batch, heads, keys, width = key_clock.shape
    clock, value = clock.contiguous(), value if value.stride(-1) == 1 else value.contiguous()
    key_clock = key_clock if key_clock.stride(-1) == 1 else key_clock.contiguous()
    variance, key_variance = variance.expand(batch, heads, 1), key_variance.expand(batch, heads, keys)
    out = torch.empty(batch, heads, value.shape[-1], dtype=value.dtype, device=value.device)
    weights = torch.empty(batch, heads, keys, dtype=torch.float32, device=value.device)
    own, others = (clock, key_clock) if content is None else (x.contiguous() for x in content)
    if batch * heads:
        attend_step[(batch * heads,)](
            clock, key_clock, *key_clock.stride()[:3], variance, *variance.stride()[:2],
            key_variance, *key_variance.stride(), value, *value.stride()[:3], key_valid.to(torch.uint8).contiguous(),
            own, *own.stride()[:2], others, *others.stride()[:3],
            scale.to(torch.float32).reshape(-1).expand(heads).contiguous(), out, weights, heads, keys,
            width, 0 if content is None else own.shape[-1], 2 * width**0.5, eps,
            WIDTH=width, VALUE=value.shape[-1], BLOCK_VALUE=block_width(value.shape[-1]),
            CONTENT=0 if content is None else own.shape[-1], LOG_TERM=log_term, KEY_BLOCK=step_keys(value.shape[-1]),
            **launch(STEP_WARPS),
        )  # fmt: skip
    return out, weights
