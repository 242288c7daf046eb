"""`clock_attention`: the function. Checks its arguments, picks an implementation, and returns (output, weights)."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from clock_attention.clocks import ClockPair
from clock_attention.kernels import portable, reference, selfcheck
from clock_attention.kernels.interface import Attended, AttentionInputs, Content, Wanted, constant_when_compiled
from clock_attention.options import IMPLEMENTATIONS, ClockOptions, check_pace, checkable
from clock_attention.rates import Phi

__all__ = ["IMPLEMENTATIONS", "clock_attention"]

ROUNDING = 1e-5  # by which a computed reading may lie outside 0 … 1


def clock_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    *,
    content: Content | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    target_range: tuple[float | Tensor, float | Tensor] | None = None,
    clocks: str = "normalized",
    phi: str | Phi = "rational",
    variance: str | None = None,
    log_variance_term: bool = False,
    logit_scale: float | Tensor = 1.0,
    pace: float | Tensor | None = None,
    causal_norm: str = "none",
    eps: float = 1e-6,
    impl: str = "auto",
    return_weights: bool = True,
    return_clocks: bool = False,
    return_logits: bool = False,
) -> tuple[Any, ...]:
    """Attend where the clocks of two ordered sequences are likely to meet (Algorithm 1).

    Args:
        query: projected target features (B, H, S, D).
        key: projected source features (B, H, T, D).
        value: projected source values (B, H, T, Dv).
        query_padding_mask: bool (B, S), True = padding, as in `torch.nn`. Queries need one too: padded steps must
            not enter the time norm or the clock.
        key_padding_mask: bool (B, T), True = padding.
        attn_mask: bool (True = forbidden) or additive float, broadcastable to (B, H, S, T).
        content: evidence from comparing the two sequences, added to the logits: a pair of features (B, H, S, C) and
            (B, H, T, C), whose inner products are the scores, or the scores (B, H, S, T) themselves. The clocks are
            then the prior and this is the log-likelihood. None: the clocks alone, the paper's method.
        segments: two-scale clocks: int64 (B, S) and (B, T), the number of the segment (word, phrase, bar) each step
            belongs to, starting at 0 and never decreasing, with the same segments on both sides. Every segment starts
            at the same reading of both clocks and has its own bridge, so uncertainty does not grow with the number of
            segments. Requires normalized clocks with the surrogate variance. None: one scale, as in the paper.
        target_range: where in the source the target starts and ends, for a target that is a part of the source: two
            readings between 0 and 1, numbers or tensors (B,) or (B, H), or two sets of weights on the keys (B, H, T),
            whose mean readings are taken. Differentiable. Requires normalized clocks. None: (0, 1).
        clocks, phi, variance, log_variance_term, causal_norm, eps, impl: see `ClockOptions`.
        logit_scale: number, or tensor of one element per head; multiplies the clocks' score, not the content.
        pace: target steps per source token, number or (B,) tensor; required by, and only for, causal clocks.
        return_weights: False returns None for the weights, and does not build them where S × T can be avoided.
        return_clocks: also return the `ClockPair` that was used: λ of both sides and their variances.
        return_logits: also return the logits (B, H, S, T), −inf where a key is not allowed.

    Returns:
        output (B, H, S, Dv) and weights (B, H, S, T) or None; then the clocks and the logits, if requested. Rows with
        no allowed key are zero in output and weights.
    """
    options = ClockOptions(
        clocks=clocks,
        phi=phi,
        variance=variance,
        log_variance_term=log_variance_term,
        causal_norm=causal_norm,
        eps=eps,
        impl=impl,
    )
    masks = (query_padding_mask, key_padding_mask, attn_mask)
    inputs = checked_inputs(
        query, key, value, *masks, content, logit_scale, pace, options, segments=segments, target_range=target_range
    )
    found = attend(inputs, options, Wanted(return_weights, return_logits, return_clocks))
    output, weights, logits, made = found
    extra = ((made,) if return_clocks else ()) + ((logits,) if return_logits else ())
    return output, weights, *extra


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """Run an implementation of `clock_attention`: the one that `options.impl` names, or the best for this call."""
    impl = forced_implementation() if options.impl == "auto" else options.impl
    if impl == "auto" and portable.exporting():
        impl = "portable"  # an exported program has any length, and runs where this package is not installed
    if impl == "reference":
        output, weights, logits, made = reference.attend(inputs, options, wanted)
        return output, weights, logits, None if made is None else ClockPair(*made)
    # Double precision is used for accuracy, not speed: not worth compiling a kernel unless requested.
    if impl == "banded" or (impl == "auto" and inputs.query.device.type == "cpu" and not is_double(inputs)):
        from clock_attention.kernels import banded  # Numba takes half a second to load, and not every program needs it

        if (refusal := banded.refusal(inputs, options, wanted)) is None:
            return banded.attend(inputs, options, wanted)
        if impl == "banded":
            raise ValueError(f"impl: got 'banded', but {refusal}; use impl='auto' or 'portable'")
    if impl == "triton" or (impl == "auto" and inputs.query.device.type == "cuda" and trusts_triton(inputs)):
        triton = imported_triton()
        if (refusal := triton.refusal(inputs, options, wanted)) is None:
            return triton.attend(inputs, options, wanted)
        if impl == "triton":
            raise ValueError(f"impl: got 'triton', but {refusal}; use impl='auto' or 'portable'")
    return portable.attend(inputs, options, wanted)


@constant_when_compiled
def forced_implementation() -> str:
    """The implementation that the environment variable CLOCK_ATTENTION_IMPL selects in place of "auto"."""
    impl = os.environ.get("CLOCK_ATTENTION_IMPL") or "auto"
    if impl not in IMPLEMENTATIONS:
        raise ValueError(
            f"CLOCK_ATTENTION_IMPL: got {impl!r}, expected one of {', '.join(map(repr, IMPLEMENTATIONS))}, or nothing"
        )
    return impl


def is_double(inputs: AttentionInputs) -> bool:
    """Whether the attention is computed in fp64, which the Triton implementation does not support."""
    return inputs.query.dtype == torch.float64


def trusts_triton(inputs: AttentionInputs) -> bool:
    """Whether the Triton implementation has passed its self-check on this device."""
    device = inputs.query.device
    return not is_double(inputs) and selfcheck.trusted(device.type, device.index or 0)


def imported_triton() -> Any:
    """Import the Triton implementation, or raise an error that says how to install it."""
    try:
        from clock_attention.kernels import triton
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        raise ModuleNotFoundError(
            "impl: got 'triton', but triton is not installed; pip install 'clock-attention[gpu]' (Linux), or use "
            "impl='auto'",
            name="triton",
        ) from None
    return triton


def checked_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_padding_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    content: Content | None,
    logit_scale: float | Tensor,
    pace: float | Tensor | None,
    options: ClockOptions,
    *,
    segments: tuple[Tensor, Tensor] | None = None,
    target_range: tuple[float | Tensor, float | Tensor] | None = None,
) -> AttentionInputs:
    """Check the arguments of `clock_attention` and turn them into tensors for a kernel; errors name the argument."""
    check_features(query, key, value)
    check_content(content, query, key)
    if (pace is None) == (options.clocks == "causal"):
        raise ValueError(
            f"pace: got {pace!r} with clocks={options.clocks!r}; causal clocks need the number of target steps per "
            "source token, the others take none"
        )
    batch, heads, targets, _ = query.shape
    sources = key.shape[2]
    if pace is not None:
        check_pace(pace, batch)
    check_attn_mask(attn_mask, (batch, heads, targets, sources))
    masks = {"query_padding_mask": query_padding_mask, "key_padding_mask": key_padding_mask, "attn_mask": attn_mask}
    check_devices(query, {"key": key, "value": value, **masks, "content": content, "segments": segments})
    return AttentionInputs(
        query,
        key,
        value,
        head_scale(logit_scale, heads, query),
        None if query_padding_mask is None else valid_steps("query_padding_mask", query_padding_mask, (batch, targets)),
        None if key_padding_mask is None else valid_steps("key_padding_mask", key_padding_mask, (batch, sources)),
        attn_mask,
        pace,
        content,
        checked_segments(segments, query, key, options),
        checked_range(target_range, query, key, options),
    )


def check_features(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Check query, key and value of `clock_attention`."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.ndim != 4:
            raise ValueError(
                f"{name}: got shape {tuple(tensor.shape)}, expected 4 dimensions (batch, heads, steps, channels); "
                "ClockAttention splits the heads for you"
            )
        if not tensor.is_floating_point():
            raise TypeError(f"{name}: got dtype {tensor.dtype}, expected a floating point type")
        if tensor.shape[2] == 0 or tensor.shape[3] == 0:
            raise ValueError(f"{name}: got shape {tuple(tensor.shape)}, expected at least one step and channel")
    if key.shape != (*query.shape[:2], key.shape[2], query.shape[3]):
        raise ValueError(
            f"key: got shape {tuple(key.shape)}, expected batch, heads and channels of the query "
            f"{tuple(query.shape)}, that is ({query.shape[0]}, {query.shape[1]}, T, {query.shape[3]})"
        )
    if value.shape[:3] != key.shape[:3]:
        raise ValueError(
            f"value: got shape {tuple(value.shape)}, expected one value for every key {tuple(key.shape)}, "
            f"that is ({key.shape[0]}, {key.shape[1]}, {key.shape[2]}, Dv)"
        )


def check_devices(query: Tensor, others: dict[str, Tensor | tuple[Tensor, ...] | None]) -> None:
    """Check that the tensors of `clock_attention` are on the query's device: compiled kernels read their memory."""
    for name, given in others.items():
        for tensor in (given,) if given is None or isinstance(given, Tensor) else given:
            if tensor is not None and tensor.device != query.device:
                raise ValueError(
                    f"{name}: got a tensor on {tensor.device}, expected it on {query.device}, as the query; move it "
                    f"with .to({str(query.device)!r})"
                )


def check_content(content: Content | None, query: Tensor, key: Tensor) -> None:
    """Check the content of `clock_attention`: features of both sides with equal channels, or scores of all pairs."""
    if content is None:
        return
    pairs = (*query.shape[:3], key.shape[2])
    if isinstance(content, Tensor):
        if tuple(content.shape) != tuple(pairs):
            raise ValueError(
                f"content: got scores of shape {tuple(content.shape)}, expected (batch, heads, queries, keys) = {pairs}"
            )
        if not content.is_floating_point():
            raise TypeError(f"content: got dtype {content.dtype}, expected a floating point type")
        return
    if len(content) != 2:
        raise ValueError(f"content: got {len(content)} tensors, expected a pair (query features, key features)")
    for side, features, like in (("query", content[0], query), ("key", content[1], key)):
        if features.ndim != 4 or features.shape[:3] != like.shape[:3] or features.shape[3] == 0:
            raise ValueError(
                f"content: got {side} features of shape {tuple(features.shape)}, expected {tuple(like.shape[:3])} and "
                "at least one channel"
            )
        if not features.is_floating_point():
            raise TypeError(f"content: got {side} features of {features.dtype}, expected a floating point type")
    if content[0].shape[3] != content[1].shape[3]:
        raise ValueError(
            f"content: got {content[0].shape[3]} channels for queries and {content[1].shape[3]} for keys, expected "
            "the same number"
        )


def checked_segments(
    segments: tuple[Tensor, Tensor] | None, query: Tensor, key: Tensor, options: ClockOptions
) -> tuple[Tensor, Tensor] | None:
    """Check the segments of `clock_attention`: one for every step of both sides."""
    if segments is None:
        return None
    if options.clocks != "normalized" or options.variance != "surrogate":
        raise ValueError(
            f"segments: got clocks={options.clocks!r} and variance={options.variance!r}, expected normalized clocks "
            "with the surrogate variance, which run between the ends of a segment"
        )
    if len(segments) != 2:
        raise ValueError(f"segments: got {len(segments)} tensors, expected a pair (of the queries, of the keys)")
    for side, numbers, like in (("query", segments[0], query), ("key", segments[1], key)):
        shape = (like.shape[0], like.shape[2])
        if tuple(numbers.shape) != shape or numbers.is_floating_point() or numbers.dtype == torch.bool:
            raise ValueError(
                f"segments: got {tuple(numbers.shape)} of {numbers.dtype} for the {side}, expected integers {shape}"
            )
        if checkable(numbers) and bool((numbers < 0).any() | (numbers.diff(dim=-1) < 0).any()):
            raise ValueError(f"segments: got negative or decreasing numbers for the {side}, expected 0, 0, …, 1, 1, …")
    return segments[0].long(), segments[1].long()


def checked_range(
    target_range: tuple[float | Tensor, float | Tensor] | None, query: Tensor, key: Tensor, options: ClockOptions
) -> tuple[Tensor, Tensor] | None:
    """Check the target range of `clock_attention`: start and end as tensors (B, H or 1), or (B, H, T)."""
    if target_range is None:
        return None
    if options.clocks != "normalized":
        raise ValueError(f"target_range: got clocks={options.clocks!r}; only normalized clocks run from 0 to 1")
    batch, heads = query.shape[:2]
    if isinstance(target_range, float | int | Tensor) or len(target_range) != 2:
        raise ValueError(f"target_range: got {target_range!r}, expected a pair (start, end)")
    ends = []
    for end in target_range:
        number = torch.as_tensor(end, dtype=torch.promote_types(query.dtype, torch.float32), device=query.device)
        if number.shape not in ((), (batch,), (batch, heads), (batch, heads, key.shape[2])):
            raise ValueError(
                f"target_range: got shape {tuple(number.shape)}, expected a number, ({batch},), ({batch}, {heads}) or "
                f"weights on the keys ({batch}, {heads}, {key.shape[2]})"
            )
        ends.append(number if number.ndim > 1 else number.reshape(-1, 1).expand(batch, 1))
    start, end = ends
    if start.ndim != end.ndim:
        raise ValueError("target_range: got a reading and weights on the keys, expected two of the same kind")
    if start.ndim == 2 and checkable(start):
        inside = (start >= -ROUNDING) & (start <= end) & (end <= 1 + ROUNDING)  # NaN is outside
        if not bool(inside.all()):
            raise ValueError(
                f"target_range: got {target_range!r}, expected 0 ≤ start ≤ end ≤ 1, as shares of the source; divide "
                "positions in steps by its length"
            )
    return start, end


def valid_steps(name: str, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Convert a torch padding mask (True = padding) of `clock_attention` to the valid steps that kernels take."""
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: got dtype {mask.dtype}, expected torch.bool with True = padding")
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(f"{name}: got shape {tuple(mask.shape)}, expected {tuple(shape)}")
    return ~mask


def check_attn_mask(attn_mask: Tensor | None, shape: tuple[int, int, int, int]) -> None:
    """Check the attention mask of `clock_attention`."""
    if attn_mask is None:
        return
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask: got dtype {attn_mask.dtype}, expected torch.bool (True = forbidden) or an additive float"
        )
    try:
        fits = torch.broadcast_shapes(attn_mask.shape, shape) == torch.Size(shape)
    except RuntimeError:
        fits = False
    if not fits or attn_mask.ndim < 2:
        raise ValueError(
            f"attn_mask: got shape {tuple(attn_mask.shape)}, expected one that broadcasts to "
            f"(batch, heads, queries, keys) = {shape}"
        )


def head_scale(logit_scale: float | Tensor, heads: int, like: Tensor) -> Tensor:
    """The argument logit_scale as a tensor that multiplies (B, H, S, T) logits: (H, 1, 1), or (1, 1, 1)."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    scale = torch.as_tensor(logit_scale, dtype=dtype, device=like.device).reshape(-1, 1, 1)
    if scale.shape[0] not in (1, heads):
        raise ValueError(f"logit_scale: got {scale.shape[0]} values, expected 1 or one for each of {heads} heads")
    return scale
