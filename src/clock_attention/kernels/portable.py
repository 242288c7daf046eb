"""Clock attention in plain torch, for any device: accurate, differentiable, memory O(block · T).

Rounding in a squared distance is divided by a variance that falls to about ½/n² at both ends of a sequence. On the CPU
each block of queries therefore reads both clocks relative to its first row, and the distances of lower precision inputs
are taken in fp64, where even the cancellation of the Gram form, a matrix product, is harmless. Inputs that are fp64
themselves, and devices without fp64, get direct differences (large ones from `torch.cdist`, which has no second
derivative). While training, each block is recomputed in the backward pass instead of keeping its (block, T) tensors.

A GPU needs few, large launches, and most have hardly any fp64 units: blocks are as large as memory allows, clocks
without padding take as few operations as possible, and distances come from an fp32 product of quantities that are small
anyway, the channels' deviations from their mean (`deviation_distance`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clock_attention.clocks import ClockPair, check_rates, clock_pair, sum_dtype
from clock_attention.kernels.interface import Attended, AttentionInputs, Content, Wanted, constant_when_compiled
from clock_attention.options import ClockOptions
from clock_attention.rates import resolve_phi

BLOCK_ELEMENTS = 2**20  # logits alive at a time, over batch and heads: 4 MiB in fp32
DIFFERENCES = 2**22  # kept at once, over all channels: more would cost too much memory
BLOCK_ROWS = 64  # at most: a block must stay short for its first reading to be near all the others
GPU_BLOCK_ELEMENTS = 2**24  # logits alive at a time where launches dominate the cost: 64 MiB in fp32


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why the portable kernel cannot serve a call: always None, because it serves every call."""
    return None


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Full precision for the portable kernel, even inside autocast, which the meta device does not have."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """The portable kernel: softmax of the meeting score (Eq. 3) times values, one block of queries at a time."""
    query_valid, key_valid = inputs.query_valid, inputs.key_valid
    # Clocks and distances stay in fp32 at least, also under autocast: the variance they are divided by is tiny.
    wide = torch.promote_types(inputs.query.dtype, torch.float32)
    with without_autocast(inputs.query.device):
        query, key = inputs.query.to(wide), inputs.key.to(wide)
        if few_launches(inputs, options):
            pair = unpadded_pair(query, key, options)
        else:
            valid = inputs.valid_queries(), inputs.valid_keys()
            pair = clock_pair(query, key, *valid, options, inputs.pace, inputs.segments, inputs.target_range)
        content = blank_content(inputs.content, query_valid, key_valid, wide)
        output, weights, logits = attend_blocks(inputs, pair, content, query_valid, key_valid, options, wanted)
    return output, weights, logits, pair if wanted.clocks else None


def attend_blocks(
    inputs: AttentionInputs,
    pair: ClockPair,
    content: Content | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    options: ClockOptions,
    wanted: Wanted,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The portable kernel for given clocks: blocks of queries one after the other."""
    batch, heads, length, _ = pair.query.shape
    value = inputs.value if key_valid is None else inputs.value.masked_fill(~key_valid[:, None, :, None], 0.0)
    scale = inputs.logit_scale.to(pair.query_variance.dtype)
    block, recompute = length, False
    if not exporting():  # a loop over blocks would fix the length
        pairs = batch * heads * length * pair.key.shape[-2]
        on_cpu = pair.query.device.type == "cpu"
        elements, rows_at_once = (BLOCK_ELEMENTS, BLOCK_ROWS) if on_cpu else (GPU_BLOCK_ELEMENTS, length)
        block = max(1, min(length, rows_at_once, elements * length // max(1, pairs)))
        # Functorch transforms reject the hooks of checkpointing; there the blocks keep their intermediate values.
        transformed = torch._C._are_functorch_transforms_active()
        recompute = pairs > elements and torch.is_grad_enabled() and not transformed
    found = []
    for start in (0,) if exporting() else range(0, length, block):
        rows = slice(start, start + block)
        arguments = (
            ClockPair(pair.query[..., rows, :], pair.key, pair.query_variance[..., rows], pair.key_variance),
            value,
            None if query_valid is None else query_valid[:, rows],
            key_valid,
            mask_rows(inputs.attn_mask, rows),
            content_rows(content, rows),
            scale,
            options,
        )
        if recompute:  # nothing is random, so there is no generator state to keep
            found.append(checkpoint(attend_rows, *arguments, use_reentrant=False, preserve_rng_state=False))
        else:
            found.append(attend_rows(*arguments))
    output, weights, logits = zip(*found, strict=True)
    return (
        joined(output),
        joined(weights) if wanted.weights else None,
        joined(logits) if wanted.logits else None,
    )


def joined(blocks: tuple[Tensor, ...]) -> Tensor:
    """Blocks of rows of the portable kernel as one tensor."""
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, -2)


def exporting() -> bool:
    """Whether torch.export is tracing the portable kernel, perhaps with a dynamic length."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def blank_content(
    content: Content | None, query_valid: Tensor | None, key_valid: Tensor | None, dtype: torch.dtype
) -> Content | None:
    """Content for the portable kernel: in the working precision, and 0 where there is padding."""
    if content is None or isinstance(content, Tensor):
        return None if content is None else content.to(dtype)
    sides = zip((x.to(dtype) for x in content), (query_valid, key_valid), strict=True)
    query, key = (x if valid is None else x.masked_fill(~valid[:, None, :, None], 0.0) for x, valid in sides)
    return query, key


def content_rows(content: Content | None, rows: slice) -> Content | None:
    """Content of one block of queries, for the portable kernel."""
    if content is None or isinstance(content, Tensor):
        return None if content is None else content[..., rows, :]
    return content[0][..., rows, :], content[1]


def mask_rows(attn_mask: Tensor | None, rows: slice) -> Tensor | None:
    """The rows of one block of a mask that may be broadcast over them, for the portable kernel."""
    if attn_mask is None or attn_mask.shape[-2] == 1:
        return attn_mask
    return attn_mask[..., rows, :]


def attend_rows(
    pair: ClockPair,
    value: Tensor,  # (B, H, T, Dv)
    query_valid: Tensor | None,  # (B, s)
    key_valid: Tensor | None,  # (B, T)
    attn_mask: Tensor | None,
    content: Content | None,
    logit_scale: Tensor,  # (H, 1, 1) or (1, 1, 1)
    options: ClockOptions,
) -> tuple[Tensor, Tensor, Tensor]:
    """The portable kernel for one block of queries against all keys: output, weights and logits."""
    distance = block_distance(pair)  # (B, H, s, T)
    sigma2 = pair.query_variance[..., :, None] + pair.key_variance[..., None, :]  # Σ² (B, H or 1, s, T)
    score = distance / (-2 * sqrt(pair.query.shape[-1]) * sigma2 - options.eps)  # the sign costs no launch here
    if options.log_variance_term:
        score = score - 0.5 * torch.log(sigma2)
    logits = score * logit_scale
    if content is not None:
        logits = logits + (content if isinstance(content, Tensor) else content[0] @ content[1].mT)
    allow = None
    if query_valid is not None:
        allow = query_valid[:, None, :, None]  # (B, 1, s, 1)
    if key_valid is not None:
        allow = key_valid[:, None, None, :] if allow is None else allow & key_valid[:, None, None, :]
    if attn_mask is not None:
        permitted = ~attn_mask if attn_mask.dtype == torch.bool else attn_mask != -torch.inf
        allow = permitted if allow is None else allow & permitted
        if attn_mask.dtype != torch.bool:
            logits = logits + attn_mask
    if allow is None:
        weights = torch.softmax(logits, -1)
    else:
        some = allow.any(-1, keepdim=True)
        logits = logits.masked_fill(~allow, -torch.inf)
        weights = torch.softmax(logits.masked_fill(~some, 0.0), -1).masked_fill(~some, 0.0)
    return weights.to(value.dtype) @ value, weights, logits


def block_distance(pair: ClockPair) -> Tensor:
    """Distances in the portable kernel: ‖λ_s − λ_t‖² in the variances' precision, by the device's best method."""
    dtype = pair.query_variance.dtype
    on_gpu = pair.query.device.type != "cpu" and pair.query.dtype == torch.float64
    if on_gpu and dtype == torch.float32 and products_are_exact():
        return deviation_distance(pair.query, pair.key)
    # The first row's reading, not the block's mean: a row must not depend on later ones, not even in its rounding.
    centre = pair.query[..., :1, :].detach().mean(-1, keepdim=True)
    return squared_distance(pair.query - centre, pair.key - centre, dtype)


@constant_when_compiled
def products_are_exact() -> bool:
    """Whether fp32 matrix products are exact enough for the portable kernel's distances; TF32 has too few digits."""
    return torch.get_float32_matmul_precision() == "highest"


def deviation_distance(query_clock: Tensor, key_clock: Tensor) -> Tensor:
    """The portable kernel's fp32 distance ‖a_s − a_t‖² + d (m_s − m_t)²: m the fp64 mean over channels, a = λ − m.

    Deviations sum to zero over channels, so the two parts add to the whole distance. They are as small as the noise
    that Σ² describes, at both ends of the sequence too, so that the Gram form of the first part loses little in fp32;
    the second is a direct difference. No matrix product in fp64.
    """
    sides = []
    for clock in (query_clock, key_clock):
        mean = clock.mean(-1, keepdim=True)  # (B, H, L, 1)
        deviation = (clock - mean).to(torch.float32)
        sides.append((mean, deviation, deviation.square().sum(-1, keepdim=True)))
    (mean_s, a_s, norm_s), (mean_t, a_t, norm_t) = sides
    ahead = (mean_s - mean_t.mT).to(torch.float32)  # (B, H, S, T)
    gram = torch.sub(norm_s + norm_t.mT, a_s @ a_t.mT, alpha=2)
    return torch.addcmul(gram, ahead, ahead, value=query_clock.shape[-1])


def few_launches(inputs: AttentionInputs, options: ClockOptions) -> bool:
    """Whether `unpadded_pair` serves this call of the portable kernel, where launches cost more than arithmetic."""
    special = (inputs.query_valid, inputs.key_valid, inputs.segments, inputs.target_range)
    normalized = options.clocks == "normalized" and options.variance == "surrogate"
    return normalized and all(x is None for x in special) and inputs.query.device.type != "cpu"


def unpadded_pair(query: Tensor, key: Tensor, options: ClockOptions) -> ClockPair:
    """`clock_pair` of normalized clocks without padding in half the operations, for the portable kernel."""
    (query_clock, query_variance), (key_clock, key_variance) = (unpadded_clock(x, options) for x in (query, key))
    return ClockPair(query_clock, key_clock, query_variance, key_variance)


def unpadded_clock(x: Tensor, options: ClockOptions) -> tuple[Tensor, Tensor]:
    """Clock λ (B, H, L, D) and bridge variance (1, 1, L) for the portable kernel, with a layer norm over time."""
    length = x.shape[-2]
    eta = F.layer_norm(x.mT, (length,), eps=options.eps)  # (B, H, D, L)
    rates = check_rates(resolve_phi(options.phi), torch.lerp(eta[..., :-1], eta[..., 1:], 0.5)) + options.eps
    clock = F.pad(rates.cumsum(-1, dtype=sum_dtype(x)), (1, 0))
    clock = clock / clock[..., -1:].clamp(min=1e-30)  # one step: no edge, λ = 0
    position = torch.linspace(0.5 / length, 1 - 0.5 / length, length, dtype=x.dtype, device=x.device)
    variance = torch.addcmul(position, position, position, value=-1) / length
    return clock.mT, variance[None, None]


def squared_distance(query_clock: Tensor, key_clock: Tensor, dtype: torch.dtype) -> Tensor:
    """Distances in the portable kernel: ‖λ_s − λ_t‖² of clocks (B, H, s, D) and (B, H, T, D), in `dtype`."""
    if query_clock.dtype == torch.float64 and dtype != torch.float64:
        norms = query_clock.square().sum(-1)[..., None] + key_clock.square().sum(-1)[..., None, :]
        return (norms - 2 * query_clock @ key_clock.mT).to(dtype)
    query_clock, key_clock = query_clock.to(dtype), key_clock.to(dtype)
    if exporting() or query_clock.numel() * key_clock.shape[-2] <= DIFFERENCES:
        return (query_clock[..., :, None, :] - key_clock[..., None, :, :]).square().sum(-1)
    return torch.cdist(query_clock, key_clock, compute_mode="donot_use_mm_for_euclid_dist").square()
