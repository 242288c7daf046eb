"""Clock attention on a GPU, in Triton: only the band of key tiles that matter, forward and backward.

`attend` makes the clocks in torch and passes them to the operator. Importing this package imports triton.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.kernels.interface import Attended, AttentionInputs, Wanted
from clock_attention.kernels.portable import without_autocast
from clock_attention.kernels.triton import geometry
from clock_attention.kernels.triton.operator import attend as attend_operator
from clock_attention.options import ClockOptions


def interpreted() -> bool:
    """Whether Triton interprets its kernels in Python, on CPU tensors, which is how they are tested without a GPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes")


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why the Triton kernels cannot serve a call, or None."""
    device = inputs.query.device
    if device.type != "cuda" and not interpreted():
        return f"the tensors are on {device}, and Triton runs on GPUs (or interpreted, with TRITON_INTERPRET=1)"
    if inputs.attn_mask is not None:
        return "attn_mask is given, and its keys need not form a band"
    if isinstance(inputs.content, Tensor):
        return "content is given as scores, which nothing bounds; features of both sides are served"
    if wanted.logits:
        return "logits are wanted, and only those of a band are ever computed"
    features = (inputs.query, inputs.value, *(inputs.content or ()))
    if torch.float64 in {x.dtype for x in features}:
        return "the inputs are fp64, and this implementation computes in fp32"
    widest = max(x.shape[-1] for x in features)
    if widest > geometry.WIDEST:
        return f"a head is {widest} channels wide, and tiles hold at most {geometry.WIDEST}"
    batch, heads = inputs.query.shape[:2]
    if max(batch, heads) > geometry.MOST_ITEMS:
        return f"there are {batch} sequences of {heads} heads, and a grid holds at most {geometry.MOST_ITEMS} of each"
    most = max(heads * x.shape[2] * x.shape[3] for x in features)
    if wanted.weights:
        most = max(most, inputs.query.shape[2] * inputs.key.shape[2])
    if most > geometry.MOST_ELEMENTS:
        return f"a sequence has {most} elements, and 32 bits address {geometry.MOST_ELEMENTS}"
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return "a torch.func transform or forward-mode differentiation is active, which it does not support"
    return None


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """The attention over the band by the Triton kernels; see `interface`."""
    # Clocks stay in fp32 at least, also under autocast: the variance they are divided by is tiny.
    with without_autocast(inputs.query.device):
        query, key = inputs.query.to(torch.float32), inputs.key.to(torch.float32)
        valid = inputs.valid_queries(), inputs.valid_keys()
        pair = clock_pair(query, key, *valid, options, inputs.pace, inputs.segments, inputs.target_range)
        output, weights = attend_clocks(pair, inputs, options, wanted)
    return output, weights, None, pair if wanted.clocks else None


def attend_clocks(
    pair: ClockPair, inputs: AttentionInputs, options: ClockOptions, wanted: Wanted
) -> tuple[Tensor, Tensor | None]:
    """The Triton kernels for given clocks."""
    batch, heads = pair.query.shape[:2]
    content: tuple[Tensor | None, Tensor | None] = (None, None)
    if inputs.content is not None:
        one, other = inputs.content
        shared = torch.promote_types(one.dtype, other.dtype)
        content = (one.to(shared), other.to(shared))
    output, _, weights = attend_operator(
        pair.query,
        pair.key,
        inputs.value,
        pair.query_variance.to(torch.float32).expand(batch, heads, -1),
        pair.key_variance.to(torch.float32).expand(batch, heads, -1),
        inputs.query_valid,
        inputs.key_valid,
        inputs.logit_scale.reshape(-1).expand(heads),
        *content,
        options.log_variance_term,
        options.eps,
        wanted.weights,
    )
    return output.to(inputs.value.dtype), weights if wanted.weights else None
