"""Dispatch of the banded kernel: which calls it serves, and whether it makes their clocks or takes them from torch."""

from __future__ import annotations

import torch
from torch import Tensor

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.kernels.banded.clocks import EXP, GIVEN, RATIONAL, SOFTPLUS, TIME_NORM, TIME_NORM_NORMALIZED
from clock_attention.kernels.banded.op import banded
from clock_attention.kernels.interface import Attended, AttentionInputs, Content, Wanted
from clock_attention.options import ClockOptions

RATES = {"rational": RATIONAL, "softplus": SOFTPLUS, "exp": EXP}
KINDS = {"normalized": TIME_NORM_NORMALIZED, "unnormalized": TIME_NORM}


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why the banded kernel cannot serve a call, or None."""
    if inputs.query.device.type != "cpu":
        return f"the tensors are on {inputs.query.device}, and this implementation runs on the CPU only"
    if inputs.attn_mask is not None:
        return "attn_mask is given, and its keys need not form a band"
    if isinstance(inputs.content, Tensor):
        return "content is given as scores of all pairs; give features instead"
    if wanted.logits:
        return "logits are wanted, and only those of a band are ever computed"
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return "a torch.func transform or forward-mode differentiation is active, which it does not support"
    return None


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """Dispatch of the banded kernel: the attention over the band, with clocks made inside or by torch; see `interface`.

    Variances estimated from the rates are close to 0 where rates hardly vary. What is left of the denominator then
    makes logits and their slopes larger than fp32 can hold, so everything from the rates on runs in fp64.
    """
    masks = inputs.query_valid, inputs.key_valid
    given = torch.promote_types(torch.promote_types(inputs.query.dtype, inputs.value.dtype), torch.float32)
    work = torch.float64 if options.variance in ("empirical", "exact") else given
    query, key = inputs.query.to(work), inputs.key.to(work)
    plain = inputs.segments is None and inputs.target_range is None and not wanted.clocks
    if makes_clocks(options) and plain:
        kind, scale = KINDS[options.clocks], inputs.logit_scale.reshape(-1).expand(inputs.query.shape[1])
        out, _, _, weights = banded(
            query, key, inputs.value.to(work), None, None, *features(inputs.content, work), *masks, scale,
            kind, kind, RATES[str(options.phi)], False, options.eps, wanted.weights,
        )  # fmt: skip
        return out.to(inputs.value.dtype), weights if wanted.weights else None, None, None
    with torch.autocast("cpu", enabled=False):
        pair = clock_pair(
            query,
            key,
            inputs.valid_queries(),
            inputs.valid_keys(),
            options,
            inputs.pace,
            inputs.segments,
            inputs.target_range,
        )
    out, weights = attend_clocks(
        pair, inputs.value, masks, inputs.content, inputs.logit_scale, options, return_weights=wanted.weights
    )
    return out, weights.to(given) if wanted.weights else None, None, pair if wanted.clocks else None


def attend_clocks(
    pair: ClockPair,
    value: Tensor,
    masks: tuple[Tensor | None, Tensor | None],
    content: Content | None,
    logit_scale: Tensor,
    options: ClockOptions,
    *,
    return_weights: bool,
) -> tuple[Tensor, Tensor]:
    """The banded kernel for given clocks, of any kind and variance: output and weights (or empty)."""
    batch, heads = pair.query.shape[:2]
    work = torch.promote_types(pair.query_variance.dtype, value.dtype)
    variances = [x.to(work).expand(batch, heads, -1) for x in (pair.query_variance, pair.key_variance)]
    out, _, _, weights = banded(
        pair.query.double(), pair.key.double(), value.to(work), *variances, *features(content, work), *masks,
        logit_scale.reshape(-1).expand(heads),
        GIVEN, GIVEN, RATIONAL, options.log_variance_term, options.eps, return_weights,
    )  # fmt: skip
    return out.to(value.dtype), weights


def features(content: Content | None, work: torch.dtype) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Content features for the banded kernel in its working precision."""
    if content is None:
        return None, None
    assert not isinstance(content, Tensor)
    return content[0].to(work), content[1].to(work)


def makes_clocks(options: ClockOptions) -> bool:
    """Whether the banded kernel makes these clocks itself: not causal clocks, custom rates or other variances."""
    plain = isinstance(options.phi, str) and options.variance == "surrogate" and not options.log_variance_term
    return options.clocks in KINDS and plain
