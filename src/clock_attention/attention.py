"""`clock_attention`: the function. Checks its arguments, picks an implementation, and returns (output, weights)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from clock_attention.clocks import CAUSAL_NORMS, CLOCKS, Phi, check_pace, clock_pair, resolve_phi, resolve_variance
from clock_attention.kernels import portable, reference

IMPLEMENTATIONS = ("auto", "reference", "portable", "banded", "cuda")


def clock_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    *,
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
) -> tuple[Tensor, Tensor | None]:
    """Attend where the clocks of two ordered sequences are likely to meet (Algorithm 1).

    Args:
        query: projected target features (B, H, S, D).
        key: projected source features (B, H, T, D).
        value: projected source values (B, H, T, Dv).
        query_padding_mask: bool (B, S), True = padding, as in `torch.nn`. Queries need one too: padded steps must
            not enter the time norm or the clock.
        key_padding_mask: bool (B, T), True = padding.
        attn_mask: bool (True = forbidden) or additive float, broadcastable to (B, H, S, T).
        clocks: "normalized" (both run 0 → 1; parallel decoding), "unnormalized" (as printed in the paper), or
            "causal" (source normalized, target diffusive in units of `pace`: no step sees a later one).
        phi: rate function, "rational" (the paper's), "softplus", "exp" or a callable ≥ 0.
        variance: "surrogate" (Eq. 4/5), "empirical" (K/μ² estimated from the rates) or "exact" (∫∫ J C J for white
            noise); with causal clocks the last two apply to the source and the target keeps the surrogate. "local"
            is for causal clocks only: one token, however long the sequence. None: "local" for causal clocks,
            "surrogate" for the others.
        log_variance_term: keep the −½ log Σ² that the paper drops.
        logit_scale: number, or tensor of one element per head.
        pace: target steps per source token, number or (B,) tensor; required by, and only for, causal clocks.
        causal_norm: how causal clocks normalise the target: "none", "rms", "channel" or "cumulative".
        eps: the ε of Algorithm 1.
        impl: "auto", or one of "reference", "portable", "banded", "cuda".
        return_weights: False returns None for the weights, which are then never built where S × T can be avoided.

    Returns:
        output (B, H, S, Dv) and weights (B, H, S, T) or None. Rows with no allowed key are zero in both.
    """
    validate(query, key, value, clocks=clocks, pace=pace, causal_norm=causal_norm, impl=impl)
    variance = resolve_variance(variance, clocks)
    phi_function = resolve_phi(phi)
    batch, heads, targets, _ = query.shape
    sources = key.shape[2]
    query_valid = valid_steps("query_padding_mask", query_padding_mask, (batch, targets), query.device)
    key_valid = valid_steps("key_padding_mask", key_padding_mask, (batch, sources), key.device)
    check_attn_mask(attn_mask, (batch, heads, targets, sources))
    scale = head_scale(logit_scale, heads, query)

    if impl in ("auto", "banded"):
        from clock_attention.kernels import banded  # Numba takes half a second to load, and not every program needs it

        refusal = banded.refusal(query, attn_mask)
        # Double precision is asked for its exactness, not its speed: not worth compiling a kernel unasked.
        if refusal is None and (impl == "banded" or query.dtype != torch.float64):
            return banded.attend(
                query,
                key,
                value,
                query_valid=None if query_padding_mask is None else query_valid,
                key_valid=None if key_padding_mask is None else key_valid,
                clocks=clocks,
                phi=phi,
                variance=variance,
                log_variance_term=log_variance_term,
                logit_scale=scale,
                eps=eps,
                pace=pace,
                causal_norm=causal_norm,
                return_weights=return_weights,
            )
        if impl == "banded":
            raise ValueError(f"impl: got 'banded', but {refusal}; use impl='auto' or 'portable'")
        impl = "portable"
    if impl == "cuda":
        from clock_attention.kernels import cuda  # FlexAttention loads torch's compiler

        if (refusal := cuda.refusal(query, attn_mask)) is not None:
            raise ValueError(f"impl: got 'cuda', but {refusal}; use impl='auto' or 'portable'")
    if impl == "reference":
        output, weights = reference.forward(
            query,
            key,
            value,
            query_valid=query_valid,
            key_valid=key_valid,
            attn_mask=attn_mask,
            clocks=clocks,
            phi=phi,
            variance=variance,
            log_variance_term=log_variance_term,
            logit_scale=scale,
            eps=eps,
            pace=pace,
            causal_norm=causal_norm,
        )
        return output, weights if return_weights else None

    # Clocks and distances stay in fp32 at least, also under autocast: the variance they are divided by is tiny.
    with without_autocast(query.device):
        wide = torch.promote_types(query.dtype, torch.float32)
        pair = clock_pair(
            query.to(wide),
            key.to(wide),
            query_valid,
            key_valid,
            clocks=clocks,
            phi=phi_function if callable(phi) else phi,
            variance=variance,
            eps=eps,
            pace=pace,
            causal_norm=causal_norm,
        )
        if impl == "cuda" and not return_weights:
            return cuda.forward(
                pair,
                value,
                query_valid=query_valid,
                key_valid=key_valid,
                log_variance_term=log_variance_term,
                logit_scale=scale,
                eps=eps,
            ), None
        return portable.forward(
            pair,
            value,
            query_valid=query_valid,
            key_valid=key_valid,
            attn_mask=attn_mask,
            log_variance_term=log_variance_term,
            logit_scale=scale.to(wide),
            eps=eps,
            return_weights=return_weights,
        )


def validate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    clocks: str,
    pace: float | Tensor | None,
    causal_norm: str,
    impl: str,
) -> None:
    """Raise an error that names the argument, what it got and what it wants."""
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
    for name, got, choices in (
        ("clocks", clocks, CLOCKS),
        ("causal_norm", causal_norm, CAUSAL_NORMS),
        ("impl", impl, IMPLEMENTATIONS),
    ):
        if got not in choices:
            raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(map(repr, choices))}")
    if (pace is None) == (clocks == "causal"):
        raise ValueError(
            f"pace: got {pace!r} with clocks={clocks!r}; causal clocks need the number of target steps per source "
            "token, the others take none"
        )
    if pace is not None:
        check_pace(pace, query.shape[0])


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Full precision, also inside autocast. The meta device, which computes nothing, has no autocast to leave."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def valid_steps(name: str, mask: Tensor | None, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """torch's padding mask (True = padding) turned into the valid steps the method speaks of."""
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: got dtype {mask.dtype}, expected torch.bool with True = padding")
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(f"{name}: got shape {tuple(mask.shape)}, expected {shape}")
    return ~mask


def check_attn_mask(attn_mask: Tensor | None, shape: tuple[int, int, int, int]) -> None:
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
    """logit_scale as a tensor that multiplies (B, H, S, T) logits: (H, 1, 1), or (1, 1, 1) for one number."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    scale = torch.as_tensor(logit_scale, dtype=dtype, device=like.device).reshape(-1, 1, 1)
    if scale.shape[0] not in (1, heads):
        raise ValueError(f"logit_scale: got {scale.shape[0]} values, expected 1 or one for each of {heads} heads")
    return scale
