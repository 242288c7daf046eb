"""Algorithm 1 of the paper, literally: the oracle in fp64, and too slow and too inaccurate in fp32 for use.

Names and order of the statements follow the printed algorithm; what the algorithm leaves open (heads, additive
masks, rows without an allowed key, the other clocks and variances) is marked as such. The Gram form of dist² is
kept on purpose: in fp32 it cancels catastrophically, which is what the other implementations avoid.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from clock_attention import clocks as C
from clock_attention.clocks import Phi


def masked_time_norm(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    count = mask.sum(-2, keepdim=True).clamp(min=1)  # open in the paper: an item may be all padding
    mu = (x * mask).sum(-2, keepdim=True) / count
    v = ((x - mu) ** 2 * mask).sum(-2, keepdim=True) / count
    z = (x - mu) / torch.sqrt(v + eps)
    return z * mask


def clock(x: Tensor, mask: Tensor, phi: Phi, eps: float, normalize: bool) -> tuple[Tensor, Tensor]:
    pm = mask[..., :-1, :] * mask[..., 1:, :]
    y = (x[..., :-1, :] + x[..., 1:, :]) / 2
    g = (phi(y) + eps) * pm
    z_0 = torch.cat([torch.zeros_like(x[..., :1, :]), g.cumsum(-2)], -2)
    if normalize:
        total = g.sum(-2, keepdim=True)
        z = z_0 / torch.where(total > 0, total, 1.0)  # open in the paper: a single step has no edge, so λ = 0
        pos = (mask.cumsum(-2) - 0.5) / mask.sum(-2, keepdim=True).clamp(min=1)
        var = pos * (1 - pos)
    else:
        z = z_0
        pos = mask.cumsum(-2) - 0.5
        var = pos
    return z * mask, var


def clock_diff_score(
    eta_s: Tensor, eta_t: Tensor, s_mask: Tensor, t_mask: Tensor, phi: Phi, eps: float, normalize: bool
) -> Tensor:
    d = eta_s.shape[-1]
    len_s, len_t = s_mask.sum(-2, keepdim=True).clamp(min=1), t_mask.sum(-2, keepdim=True).clamp(min=1)
    lambda_s, var_s = clock(eta_s, s_mask, phi, eps, normalize)
    lambda_t, var_t = clock(eta_t, t_mask, phi, eps, normalize)
    sigma2 = var_s / len_s + (var_t / len_t).mT
    return -gram_distance(lambda_s, lambda_t) / (2 * sqrt(d) * sigma2 + eps)


def gram_distance(lambda_s: Tensor, lambda_t: Tensor) -> Tensor:
    A = (lambda_s**2).sum(-1, keepdim=True)
    B = (lambda_t**2).sum(-1, keepdim=True).mT
    D = lambda_s @ lambda_t.mT
    return A + B - 2 * D


def generalised_score(
    query: Tensor,
    key: Tensor,
    q_valid: Tensor,
    k_valid: Tensor,
    *,
    clocks: str,
    phi: str | Phi,
    variance: str,
    log_variance_term: bool,
    eps: float,
    pace: float | Tensor | None,
    causal_norm: str,
) -> Tensor:
    """The score for everything beyond the printed algorithm: same two lines, other clocks or other variances."""
    pair = C.clock_pair(
        query,
        key,
        q_valid,
        k_valid,
        clocks=clocks,
        phi=phi,
        variance=variance,
        eps=eps,
        pace=pace,
        causal_norm=causal_norm,
    )
    sigma2 = pair.query_variance[..., :, None] + pair.key_variance[..., None, :]
    lambda_s, lambda_t = pair.query.to(query.dtype), pair.key.to(query.dtype)
    score = -gram_distance(lambda_s, lambda_t) / (2 * sqrt(query.shape[-1]) * sigma2 + eps)
    return score - 0.5 * torch.log(sigma2) if log_variance_term else score


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    query_valid: Tensor,
    key_valid: Tensor,
    attn_mask: Tensor | None,
    clocks: str,
    phi: str | Phi,
    variance: str,
    log_variance_term: bool,
    logit_scale: Tensor,
    eps: float,
    pace: float | Tensor | None,
    causal_norm: str,
) -> tuple[Tensor, Tensor]:
    """(o, A) of Algorithm 1 for projected features; see `clock_attention.clock_attention` for the arguments."""
    q_kpm, k_kpm = query_valid[:, None, :, None], key_valid[:, None, :, None]  # (B, 1, L, 1)
    # Open in the paper: padding may hold anything, even NaN, so it is cleared before it is multiplied by 0.
    query, key, value = (
        query.masked_fill(~q_kpm, 0.0),
        key.masked_fill(~k_kpm, 0.0),
        value.masked_fill(~k_kpm, 0.0),
    )

    allow = q_kpm & k_kpm.mT  # (B, 1, S, T)
    if clocks in ("normalized", "unnormalized") and variance == "surrogate" and not log_variance_term:
        s_mask, t_mask = q_kpm.to(query.dtype), k_kpm.to(key.dtype)
        eta_s = masked_time_norm(query, s_mask, eps)
        eta_t = masked_time_norm(key, t_mask, eps)
        normalize = clocks == "normalized"
        score = clock_diff_score(eta_s, eta_t, s_mask, t_mask, C.resolve_phi(phi), eps, normalize)
    else:
        score = generalised_score(
            query,
            key,
            query_valid,
            key_valid,
            clocks=clocks,
            phi=phi,
            variance=variance,
            log_variance_term=log_variance_term,
            eps=eps,
            pace=pace,
            causal_norm=causal_norm,
        )
    logits = score * logit_scale.to(score.dtype)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            allow = allow & ~attn_mask
        else:
            logits = logits + attn_mask.to(logits.dtype)
            allow = allow & (attn_mask != -torch.inf)
    logits = logits.masked_fill(~allow, -torch.inf)
    # Open in the paper: a row with no allowed key attends to nothing, and gives zeros instead of NaN.
    some = allow.any(-1, keepdim=True)
    A = torch.softmax(logits.masked_fill(~some, 0.0), -1).masked_fill(~some, 0.0)
    o = A.to(value.dtype) @ value
    return o, A
