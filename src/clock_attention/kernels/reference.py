"""The specification: Algorithm 1 of the paper with every option, implemented literally. The oracle in fp64.

It imports only torch and shares no code with what is tested against it. Names and order of the statements follow the
printed algorithm where there is one; what the algorithm leaves open (heads, additive masks, rows without an allowed
key) is marked as such. Loops and whole matrices are used wherever they are closer to the formula, so it is slow. The
Gram form of dist² is the paper's: in fp32 it cancels catastrophically, which is what the other implementations avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, pi, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from clock_attention.kernels.interface import AttentionInputs, Wanted
    from clock_attention.options import ClockOptions

Phi = Callable[[Tensor], Tensor]


def rational(x: Tensor) -> Tensor:
    """The reference's φ "rational"."""
    return (1 + x * (1 + x + x.abs()) / (1 + x.abs())) / 2


def rational_slope(x: Tensor) -> Tensor:
    """The reference's φ' of "rational"."""
    # Without |x|, whose derivative torch takes as 0 at 0: φ'' would then be 0 there instead of 1.
    behind, ahead = 1 / (1 - x.clamp(max=0)) ** 2, 1 / (1 + x.clamp(min=0)) ** 2
    return torch.where(x > 0, 2 - ahead, behind) / 2


def softplus(x: Tensor) -> Tensor:
    """The reference's φ "softplus"."""
    return torch.logaddexp(x, torch.zeros_like(x))


RATES: dict[str, tuple[Phi, Phi]] = {  # φ and φ'
    "rational": (rational, rational_slope),
    "softplus": (softplus, torch.sigmoid),
    "exp": (torch.exp, torch.exp),
}


def rate_function(phi: str | Phi) -> tuple[Phi, Phi]:
    """The reference's φ and φ' by name, or of a given function."""
    if isinstance(phi, str):
        return RATES[phi]
    return phi, lambda x: torch.func.jvp(phi, (x,), (torch.ones_like(x),))[1]


def mean_rate(phi: Phi) -> float:
    """The reference's μ = E[φ(z)], z ~ N(0, 1), by Simpson's rule with a node at 0, where φ may have a kink."""
    steps = 24_000
    z = torch.linspace(-12, 12, steps + 1, dtype=torch.float64)
    weights = torch.full_like(z, 2.0)
    weights[1::2], weights[0], weights[-1] = 4.0, 1.0, 1.0
    parameter = next(phi.parameters(), None) if isinstance(phi, torch.nn.Module) else None
    with torch.no_grad():
        rates = phi(z if parameter is None else z.to(parameter)).double().cpu()
    density = (-z * z / 2).exp() / sqrt(2 * pi)
    return float((weights * density * rates).sum()) * (24 / steps) / 3


def masked_time_norm(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    """The reference's MaskedTimeNorm (Algorithm 1)."""
    count = mask.sum(-2, keepdim=True).clamp(min=1)  # open in the paper: an item may be all padding
    mu = (x * mask).sum(-2, keepdim=True) / count
    v = ((x - mu) ** 2 * mask).sum(-2, keepdim=True) / count
    z = (x - mu) / torch.sqrt(v + eps)
    return z * mask


def causal_norm(x: Tensor, mask: Tensor, norm: str, eps: float) -> Tensor:
    """The reference's norm of causal target features (B, H, L, D): step s is normalised with steps ≤ s only."""
    if norm == "cumulative":
        prefixes = ((x[..., : s + 1, :], mask[..., : s + 1, :]) for s in range(x.shape[-2]))
        return torch.cat([masked_time_norm(*prefix, eps)[..., -1:, :] for prefix in prefixes], -2)
    if norm == "channel":
        x = x - x.mean(-1, keepdim=True)
    if norm in ("channel", "rms"):
        x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * mask


def ticks(eta: Tensor, mask: Tensor, phi: Phi, eps: float) -> Tensor:
    """The reference's g on mid-edges, 0 where either end is padding.  (B, H, L-1, D)"""
    pm = mask[..., :-1, :] * mask[..., 1:, :]
    y = (eta[..., :-1, :] + eta[..., 1:, :]) / 2
    rate = phi(y)
    if not torch._C._are_functorch_transforms_active() and bool((rate < 0).any()):
        raise ValueError(f"phi: got a function that returns {float(rate.min()):.3g}, expected values ≥ 0")
    return (rate + eps) * pm


def running_sum(g: Tensor) -> Tensor:
    """The reference's λ_0 = 0, λ_i = Σ_{j<i} g_j.  (B, H, L-1, D) → (B, H, L, D)"""
    return torch.cat([torch.zeros_like(g.sum(-2, keepdim=True)), g.cumsum(-2)], -2)


def normalized(z_0: Tensor, mask: Tensor) -> Tensor:
    """The reference's normalized clock: a running sum divided by its end."""
    total = z_0[..., -1:, :]
    return z_0 / torch.where(total > 0, total, 1.0) * mask  # open in the paper: one step has no edge, so λ = 0


def paced(z_0: Tensor, unit: Tensor, mask: Tensor) -> Tensor:
    """The reference's causal target clock: a running sum divided by μ r T."""
    return z_0 / unit * mask


def half_steps(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The reference's i + ½ for the i-th valid step, and the number of valid steps.  (B, 1, L, 1), (B, 1, 1, 1)"""
    return (mask.cumsum(-2) - 0.5).clamp(min=0.5), mask.sum(-2, keepdim=True).clamp(min=1)


def noise_ratio(g: Tensor, mask: Tensor) -> Tensor:
    """The reference's K/μ² of the rates of each head (Newey–West), averaged over channels.  (B, H, 1, 1)"""
    items = []
    for rates, valid in zip(g, mask[:, 0, :, 0] > 0, strict=True):  # (H, L-1, D), (L,)
        edge = (valid[:-1] & valid[1:])[None, :, None]
        edges = int(edge.sum())
        if edges == 0:
            items.append(rates.new_ones(rates.shape[0], 1, 1))
            continue
        mean = rates.sum(-2, keepdim=True) / edges
        deviation = torch.where(edge, rates - mean, 0.0)
        bandwidth = floor(4 * (edges / 100) ** (2 / 9))
        integrated = (deviation * deviation).sum(-2, keepdim=True) / edges
        for lag in range(1, min(bandwidth, rates.shape[-2] - 1) + 1):
            covariance = (deviation[:, lag:] * deviation[:, :-lag]).sum(-2, keepdim=True) / edges
            integrated = integrated + 2 * (1 - lag / (bandwidth + 1)) * covariance
        items.append((integrated / (mean * mean).clamp(min=1e-12)).mean(-1, keepdim=True).clamp(min=1e-3))
    return torch.stack(items)


def white_noise_variance(eta: Tensor, mask: Tensor, phi: str | Phi, normalize: bool) -> Tensor:
    """The reference's A(s) = ∫∫ J_s C J_s with C = δ, at the centre of cell s, half of it before s.  (B, H, L, 1)"""
    value, slope = rate_function(phi)
    rate, power = value(eta) * mask, slope(eta) ** 2 * mask  # (B, H, L, D)
    length = eta.shape[-2]
    before = torch.ones(length, length, dtype=eta.dtype, device=eta.device).tril()
    before = before - 0.5 * torch.eye(length, dtype=eta.dtype, device=eta.device)  # (s, u): the share of u before s
    total = rate.sum(-2, keepdim=True).clamp(min=1e-12)
    if normalize:
        reading = before @ rate / total
        variance = (1 - reading) ** 2 * (before @ power) + reading**2 * ((1 - before) @ power)
    else:
        variance = before @ power * mask.sum(-2, keepdim=True).clamp(min=1)
    return (variance / total**2).mean(-1, keepdim=True).clamp(min=1e-12)


def bridge_clock(eta: Tensor, mask: Tensor, phi: str | Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """The reference's clock from 0 to 1 and its variance (Eq. 4)."""
    g = ticks(eta, mask, rate_function(phi)[0], eps)
    half, count = half_steps(mask)
    pos = half / count
    var = pos * (1 - pos) / count
    if variance == "empirical":
        var = var * noise_ratio(g, mask)
    elif variance == "exact":
        var = white_noise_variance(eta, mask, phi, True)
    return normalized(running_sum(g), mask), var


def free_clock(eta: Tensor, mask: Tensor, phi: str | Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """The reference's unnormalized clock as printed, and its variance (Eq. 5)."""
    g = ticks(eta, mask, rate_function(phi)[0], eps)
    half, count = half_steps(mask)
    var = half / count
    if variance == "empirical":
        var = var * noise_ratio(g, mask)
    elif variance == "exact":
        var = white_noise_variance(eta, mask, phi, False)
    return running_sum(g) * mask, var


def causal_clocks(
    query: Tensor, key: Tensor, s_mask: Tensor, t_mask: Tensor, pace: float | Tensor | None, options: ClockOptions
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The reference's causal clocks. Source: no time norm. Target: λ̄ = λ̃/(μ r T), Ã = (s + ½)/(r T)²; "local": ½/T²."""
    phi, eps, variance = rate_function(options.phi)[0], options.eps, str(options.variance)
    tokens = t_mask.sum(-2, keepdim=True).clamp(min=1)  # (B, 1, 1, 1)
    pace = torch.as_tensor(pace, dtype=query.dtype, device=query.device).reshape(-1, 1, 1, 1)
    lambda_t, var_t = bridge_clock(key * t_mask, t_mask, options.phi, variance, eps)
    eta = causal_norm(query, s_mask, options.causal_norm, eps)
    lambda_s = paced(running_sum(ticks(eta, s_mask, phi, eps)), mean_rate(phi) * pace * tokens, s_mask)
    var_s = half_steps(s_mask)[0] / (pace * tokens) ** 2
    if variance == "local":
        var_s, var_t = 0.5 / tokens**2 * torch.ones_like(s_mask), 0.5 / tokens**2 * torch.ones_like(t_mask)
    return lambda_s, var_s, lambda_t, var_t


def both_clocks(
    query: Tensor, key: Tensor, s_mask: Tensor, t_mask: Tensor, pace: float | Tensor | None, options: ClockOptions
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The reference's clocks of both sides: λ_s (B, H, S, D), A_X (B, H or 1, S, 1), λ_t, A_Y."""
    if options.clocks == "causal":
        return causal_clocks(query, key, s_mask, t_mask, pace, options)
    clock = bridge_clock if options.clocks == "normalized" else free_clock
    eta_s = masked_time_norm(query, s_mask, options.eps)
    eta_t = masked_time_norm(key, t_mask, options.eps)
    lambda_s, var_s = clock(eta_s, s_mask, options.phi, str(options.variance), options.eps)
    lambda_t, var_t = clock(eta_t, t_mask, options.phi, str(options.variance), options.eps)
    return lambda_s, var_s, lambda_t, var_t


def pinned_clocks(
    query: Tensor, key: Tensor, s_mask: Tensor, t_mask: Tensor, segments: tuple[Tensor, Tensor], options: ClockOptions
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The reference's clocks in segments: each begins at the same reading on both sides, with its own bridge."""
    phi, found = rate_function(options.phi)[0], []
    for x, mask, side in ((query, s_mask, 0), (key, t_mask, 1)):
        g = ticks(masked_time_norm(x, mask, options.eps), mask, phi, options.eps)
        clocks, variances = [], []
        for item in range(x.shape[0]):
            ids, source = segments[side][item], segments[1][item]
            valid, tokens = mask[item, 0, :, 0] > 0, t_mask[item, 0, :, 0] > 0
            steps, var = torch.zeros_like(g[item]), torch.zeros_like(mask[item])
            passed = torch.zeros_like(mask[item])
            for j in range(int(max(segments[0].max(), segments[1].max())) + 1):
                share = float((tokens & (source == j)).sum()) / max(1, int(tokens.sum()))
                leaving = ((ids == j) & valid)[:-1]
                total = g[item][:, leaving].sum(-2, keepdim=True)
                fine = g[item] / torch.where(total > 0, total, 1.0) * share
                steps = torch.where(leaving[None, :, None], fine, steps)
                if not bool((total > 0).any()):  # no edge on this side: later segments start after its share
                    passed = passed + share * (ids > j)[None, :, None]
                inside = (valid & (ids == j)).nonzero().flatten().tolist()
                for i, s in enumerate(inside):
                    pos = (i + 0.5) / len(inside)
                    var[0, s, 0] = share**2 * pos * (1 - pos) / len(inside)
            clocks.append(running_sum(steps) + passed)
            variances.append(var)
        found += [torch.stack(clocks) * mask, torch.stack(variances)]
    lambda_s, var_s, lambda_t, var_t = found
    return lambda_s, var_s, lambda_t, var_t


def end_reading(x: Tensor, lambda_t: Tensor) -> Tensor:
    """The reference's end reading: as given (B, H or 1), or the mean reading of keys with these weights (B, H, T)."""
    return x[:, :, None, None] if x.ndim == 2 else (x[..., None] * lambda_t).sum(-2, keepdim=True)


def gram_distance(lambda_s: Tensor, lambda_t: Tensor) -> Tensor:
    """The reference's ‖λ_s − λ_t‖² as printed in Algorithm 1: by inner products."""
    A = (lambda_s**2).sum(-1, keepdim=True)
    B = (lambda_t**2).sum(-1, keepdim=True).mT
    D = lambda_s @ lambda_t.mT
    return A + B - 2 * D


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why the reference cannot serve a call: always None, because it serves every call."""
    return None


def attend(
    inputs: AttentionInputs, options: ClockOptions, wanted: Wanted
) -> tuple[Tensor, Tensor | None, Tensor | None, tuple[Tensor, ...] | None]:
    """The reference: o, A, logits and clocks of Algorithm 1 for projected features."""
    query, key, value = inputs.query, inputs.key, inputs.value
    q_kpm = inputs.valid_queries()[:, None, :, None]  # (B, 1, S, 1)
    k_kpm = inputs.valid_keys()[:, None, :, None]  # (B, 1, T, 1)
    # Open in the paper: padding may hold anything, even NaN, so it is cleared before it is multiplied by 0.
    query, key, value = query.masked_fill(~q_kpm, 0.0), key.masked_fill(~k_kpm, 0.0), value.masked_fill(~k_kpm, 0.0)
    s_mask, t_mask = q_kpm.to(query.dtype), k_kpm.to(key.dtype)

    if inputs.segments is None:
        lambda_s, var_s, lambda_t, var_t = both_clocks(query, key, s_mask, t_mask, inputs.pace, options)
    else:
        lambda_s, var_s, lambda_t, var_t = pinned_clocks(query, key, s_mask, t_mask, inputs.segments, options)
    if inputs.target_range is not None:  # the target is a part of the source
        start, end = (end_reading(x.to(query.dtype), lambda_t) for x in inputs.target_range)
        stretch = (end - start).clamp(min=0.0)
        lambda_s, var_s = start + stretch * lambda_s, stretch.mean(-1, keepdim=True) ** 2 * var_s
    sigma2 = var_s + var_t.mT
    score = -gram_distance(lambda_s, lambda_t) / (2 * sqrt(query.shape[-1]) * sigma2 + options.eps)
    if options.log_variance_term:
        score = score - torch.log(sigma2) / 2
    logits = score * inputs.logit_scale.to(score.dtype)
    if isinstance(inputs.content, Tensor):
        logits = logits + inputs.content.to(logits.dtype)
    elif inputs.content is not None:
        features_s = inputs.content[0].to(logits.dtype).masked_fill(~q_kpm, 0.0)
        features_t = inputs.content[1].to(logits.dtype).masked_fill(~k_kpm, 0.0)
        logits = logits + features_s @ features_t.mT

    allow = q_kpm & k_kpm.mT  # (B, 1, S, T)
    if inputs.attn_mask is not None:
        if inputs.attn_mask.dtype == torch.bool:
            allow = allow & ~inputs.attn_mask
        else:
            logits = logits + inputs.attn_mask.to(logits.dtype)
            allow = allow & (inputs.attn_mask != -torch.inf)
    logits = logits.masked_fill(~allow, -torch.inf)
    # Open in the paper: a row with no allowed key attends to nothing, and gives zeros instead of NaN.
    some = allow.any(-1, keepdim=True)
    A = torch.softmax(logits.masked_fill(~some, 0.0), -1).masked_fill(~some, 0.0)
    o = A.to(value.dtype) @ value
    clocks = (lambda_s, lambda_t, var_s[..., 0], var_t[..., 0])
    return o, A if wanted.weights else None, logits if wanted.logits else None, clocks if wanted.clocks else None
