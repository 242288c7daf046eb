"""Clocks: from projected features to non-decreasing trajectories and the variance of their readings.

A clock is the running integral of a non-negative rate (paper, Eq. 1). Shapes follow the paper's multi-head
layout: features and clocks are (B, H, L, D), masks (B, L) with True = valid (the public functions take torch's
opposite convention, True = padding, and translate once).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clock_attention.options import (
    CAUSAL_NORMS,
    CLOCKS,
    VARIANCES,
    ClockOptions,
    check_pace,
    checkable,
    resolve_variance,
)
from clock_attention.rates import PHIS, Phi, expected_rate, mean_rate, rational, resolve_phi

__all__ = [  # names from other modules stay importable from here
    "CAUSAL_NORMS", "CLOCKS", "PHIS", "VARIANCES", "ClockOptions", "ClockPair", "Phi", "accumulate", "bridge_clock",
    "causal_norm", "causal_target_clock", "check_pace", "check_rates", "clock_pair", "cumulative_time_norm",
    "edge_rates", "exact_variance", "expected_rate", "local_variance", "masked_time_norm", "mean_rate", "noise_scale",
    "normalized_clock", "pace_unit", "pinned_clock", "rational", "resolve_phi", "resolve_variance", "source_clock",
    "standardise_running", "step_norm", "sum_dtype", "unnormalized_clock",
]  # fmt: skip


def masked_time_norm(x: Tensor, valid: Tensor, eps: float) -> Tensor:
    """MaskedTimeNorm of Algorithm 1: per channel, standardise over the valid time steps; padding becomes 0."""
    keep = valid[:, None, :, None]  # (B, 1, L, 1)
    count = keep.sum(-2, keepdim=True).clamp(min=1)
    x = x.masked_fill(~keep, 0.0)
    # In fp64 up to here: where features hardly differ, a rounded mean makes the whole clock drift.
    mean = x.sum(-2, keepdim=True, dtype=sum_dtype(x)) / count
    centred = (x - mean).to(x.dtype).masked_fill(~keep, 0.0)
    spread = centred.square().sum(-2, keepdim=True) / count
    return centred * torch.rsqrt(spread + eps)


def cumulative_time_norm(x: Tensor, valid: Tensor, eps: float) -> Tensor:
    """Causal counterpart of MaskedTimeNorm: step s is standardised with the statistics of steps ≤ s.

    Sums are taken about the first valid feature, which every step already knows, so that a large common offset
    does not cause cancellation in the variance.
    """
    keep = valid[:, None, :, None]
    x = x.masked_fill(~keep, 0.0)
    first = x.gather(-2, valid.int().argmax(-1)[:, None, None, None].expand(*x.shape[:2], 1, x.shape[-1]))
    y = (x - first).masked_fill(~keep, 0.0)
    count, wide = keep.cumsum(-2).clamp(min=1), sum_dtype(x)
    total, total_square = y.cumsum(-2, dtype=wide), y.square().cumsum(-2, dtype=wide)
    return standardise_running(y, count, total, total_square, eps).masked_fill(~keep, 0.0)


def standardise_running(y: Tensor, count: Tensor, total: Tensor, total_square: Tensor, eps: float) -> Tensor:
    """Standardise features of causal clocks, (y − mean) / √(var + ε), from running sums, at once or step by step."""
    mean = total / count
    spread = (total_square / count - mean.square()).clamp(min=0.0)
    return ((y - mean) * torch.rsqrt(spread + eps)).to(y.dtype)


def step_norm(x: Tensor, norm: str, eps: float) -> Tensor:
    """Normalise each step of a causal clock by itself, so that the whole clock can run slower at some steps.

    "channel" standardises over the step's own channels, which still fixes their mean; "rms" only bounds their size,
    so that the mean rate over channels is free as well; "none" leaves the features as they are.
    """
    if norm == "channel":
        return F.layer_norm(x, x.shape[-1:], eps=eps)
    return F.rms_norm(x, x.shape[-1:], eps=eps) if norm == "rms" else x


def causal_norm(x: Tensor, valid: Tensor, norm: str, eps: float) -> Tensor:
    """Normalise the target features of causal clocks without looking ahead."""
    if norm == "cumulative":
        return cumulative_time_norm(x, valid, eps)
    padded = ~valid[:, None, :, None]
    return step_norm(x.masked_fill(padded, 0.0), norm, eps).masked_fill(padded, 0.0)


def edge_rates(eta: Tensor, valid: Tensor, phi: Phi, eps: float) -> Tensor:
    """A clock's rates g_i = φ((η_i + η_{i+1})/2) + ε on mid-edges, zero where either end is padding.  (B, H, L-1, D)"""
    both = (valid[:, :-1] & valid[:, 1:])[:, None, :, None]
    return (check_rates(phi, 0.5 * (eta[..., :-1, :] + eta[..., 1:, :])) + eps).masked_fill(~both, 0.0)


def check_rates(phi: Phi, x: Tensor) -> Tensor:
    """A clock's rates φ(x); an error if a caller's own φ is negative, because its clock would run backwards.

    Checked on the CPU only: elsewhere the check would make every call wait for the device.
    """
    rates = phi(x)
    if phi in PHIS.values() or not checkable(rates) or not bool((rates < 0).any()):
        return rates
    raise ValueError(
        f"phi: got a function that returns {float(rates.min()):.3g} for x = {float(x.flatten()[rates.argmin()]):.3g}, "
        "expected values ≥ 0, because clocks do not run backwards"
    )


def accumulate(rates: Tensor) -> Tensor:
    """The clock λ_0 = 0, λ_i = Σ_{j<i} g_j: it reads zero at the first step.  (B, H, L-1, D) → (B, H, L, D)

    Summed and kept in fp64 where the device has it: two clocks meet where their difference is tiny compared with their
    readings, and rounding each reading to fp32 would be the largest error of the whole attention.
    """
    return F.pad(rates.cumsum(-2, dtype=sum_dtype(rates)), (0, 0, 1, 0))


def sum_dtype(x: Tensor) -> torch.dtype:
    """Precision of a clock's long sums: fp64 where the device has it."""
    return x.dtype if x.device.type == "mps" else torch.float64


class ClockPair(NamedTuple):
    """Both clocks and the variance each contributes: all that the meeting score needs."""

    query: Tensor  # λ_s (B, H, S, D), fp64 where the device has it
    key: Tensor  # λ_t (B, H, T, D), likewise
    query_variance: Tensor  # A_X(s) (B, H, S), or (B, 1, S) where it does not depend on the head
    key_variance: Tensor  # A_Y(t) (B, H, T) or (B, 1, T)


def positions(valid: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Positions (index + ½) of a clock's valid steps, and the number of valid steps.  (B, 1, L), (B, 1, 1)"""
    index = (valid.cumsum(-1).to(dtype) - 0.5).clamp(min=0.5)
    count = valid.sum(-1, keepdim=True).clamp(min=1).to(dtype)
    return index[:, None], count[:, None]


def normalized_clock(x: Tensor, valid: Tensor, phi: Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """The normalized clock λ, 0 → 1 on every channel (Eq. 1), and its Brownian-bridge variance A (Eq. 4)."""
    return bridge_clock(masked_time_norm(x, valid, eps), valid, phi, variance, eps)


def bridge_clock(eta: Tensor, valid: Tensor, phi: Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """`normalized_clock` for features that are already normalised, or need not be."""
    rates = edge_rates(eta, valid, phi, eps)
    clock = accumulate(rates)
    total = clock[..., -1:, :]  # padding adds nothing, so the last reading is the total
    clock = clock / torch.where(total > 0, total, 1.0)  # one valid step: no edge, λ = 0
    clock = clock.masked_fill(~valid[:, None, :, None], 0.0)
    index, count = positions(valid, eta.dtype)
    pos = index / count
    if variance == "exact":
        return clock, exact_variance(eta, valid, phi, normalized=True)
    return clock, pos * (1 - pos) / count * noise_scale(rates, valid, variance)


def source_clock(x: Tensor, valid: Tensor, phi: Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """The normalized source clock for a causal target; "local" replaces its bridge variance.

    There is no time norm: dividing by the total already sets the clock's unit. Standardised over time, a rare token
    would lie √T from the mean, so a source longer than any in training would begin with a different rate.
    """
    eta = x.masked_fill(~valid[:, None, :, None], 0.0)
    clock, variances = bridge_clock(eta, valid, phi, "surrogate" if variance == "local" else variance, eps)
    return clock, local_variance(valid, x.dtype).expand_as(variances) if variance == "local" else variances


def local_variance(key_valid: Tensor, dtype: torch.dtype) -> Tensor:
    """A clock's variance "local", ½/T² from either side: an error of one token, whatever the length.  (B, 1, 1)

    The bridge and the diffusive variance hold for clocks without feedback. An autoregressive target depends on its
    own last output and finds its place again at every token, so its error does not grow with length; a growing
    variance would blur long sequences more than any seen in training.
    """
    tokens = key_valid.sum(-1).clamp(min=1).to(dtype)
    return (0.5 / tokens.square())[:, None, None]


def unnormalized_clock(x: Tensor, valid: Tensor, phi: Phi, variance: str, eps: float) -> tuple[Tensor, Tensor]:
    """Unnormalized clock λ̃ and its diffusive variance as printed in Algorithm 1: var = pos, used as var/len (Eq. 5).

    The printed algorithm omits the text's rescaling λ̄ = λ̃/(μ S), so the two clocks keep their own units.
    """
    eta = masked_time_norm(x, valid, eps)
    rates = edge_rates(eta, valid, phi, eps)
    clock = accumulate(rates).masked_fill(~valid[:, None, :, None], 0.0)
    index, count = positions(valid, x.dtype)
    if variance == "exact":
        return clock, exact_variance(eta, valid, phi, normalized=False)
    return clock, index / count * noise_scale(rates, valid, variance)


def causal_target_clock(
    x: Tensor, valid: Tensor, phi: Phi, norm: str, unit: Tensor, mu: float, eps: float
) -> tuple[Tensor, Tensor]:
    """The causal target clock λ̄_s = λ̃_s/(μ r T) and Ã(s) = (s + ½)/(r T)²: diffusive, dimensionless, no look-ahead.

    `unit` is r·T per item, (B, 1, 1): the expected number of target steps, known before the first of them.
    """
    eta = causal_norm(x, valid, norm, eps)
    clock = accumulate(edge_rates(eta, valid, phi, eps)) / (mu * unit[..., None])
    index, _ = positions(valid, x.dtype)
    return clock.masked_fill(~valid[:, None, :, None], 0.0), index / unit.square()


def noise_scale(rates: Tensor, valid: Tensor, variance: str) -> Tensor | float:
    """Noise scale K/μ² of one side's clock variance (Eq. 4): 1 for the surrogate, else estimated from rates.  (B, H, 1)

    K is the integrated autocovariance, estimated with Bartlett weights (Newey–West: never negative), whose
    bandwidth depends on each item's own length, so that a batch gives the same result as its items run alone.
    """
    if variance == "surrogate" or rates.shape[-2] == 0:
        return 1.0
    both = (valid[:, :-1] & valid[:, 1:])[:, None, :, None]
    count = both.sum(-2, keepdim=True).clamp(min=1)  # edges (B, 1, 1, 1)
    mean = rates.sum(-2, keepdim=True) / count
    centred = (rates - mean).masked_fill(~both, 0.0)
    bandwidth = (4 * (count.to(sum_dtype(rates)) / 100.0) ** (2 / 9)).floor()
    integrated = centred.square().sum(-2, keepdim=True) / count  # γ(0) (B, H, 1, D)
    for lag in range(1, min(bartlett_limit(rates.shape[-2]), rates.shape[-2] - 1) + 1):
        weight = (1 - lag / (bandwidth + 1)).clamp(min=0.0).to(rates.dtype)
        covariance = (centred[..., lag:, :] * centred[..., :-lag, :]).sum(-2, keepdim=True) / count
        integrated = integrated + 2 * weight * covariance
    ratio = (integrated / mean.square().clamp(min=1e-12)).mean(-1)  # (B, H, 1)
    # A perfectly even clock has no noise; the floor keeps its score finite instead of infinitely sharp.
    return torch.where(both.any(-2), ratio.clamp(min=1e-3), 1.0)


def bartlett_limit(edges: int) -> int:
    """The largest lag that a clock's empirical variance can use for any item of this padded length."""
    return int(4 * (edges / 100.0) ** (2 / 9))


def exact_variance(eta: Tensor, valid: Tensor, phi: Phi, *, normalized: bool) -> Tensor:
    """A clock's exact variance A(s) = ∫∫ J_s(u) C(u, v) J_s(v) for white noise on η, mean over channels.  (B, H, L)

    With J_s(u) = (1{u ≤ s} − λ_s) φ'(η_u)/∫φ the double integral collapses to two running sums. It is evaluated
    at the centre of each step, as the surrogate's pos = (i + ½)/n is, so the end points keep a positive variance.
    Unnormalized clocks take J_s(u) = 1{u ≤ s} φ'(η_u), in the units of the printed surrogate var/len.
    """
    keep = valid[:, None, :, None]
    rate, slope = torch.func.jvp(phi, (eta,), (torch.ones_like(eta),))[:2]
    rate, power = rate.masked_fill(~keep, 0.0), slope.square().masked_fill(~keep, 0.0)
    total_rate = rate.sum(-2, keepdim=True).clamp(min=1e-12)
    before_power = power.cumsum(-2) - 0.5 * power  # ∫_0^s φ'²
    if not normalized:
        count = keep.sum(-2, keepdim=True).clamp(min=1)
        return (before_power * count / total_rate.square()).mean(-1).clamp(min=1e-12)
    reading = (rate.cumsum(-2) - 0.5 * rate) / total_rate  # λ_s
    after_power = power.sum(-2, keepdim=True) - before_power
    exact = (1 - reading).square() * before_power + reading.square() * after_power
    return (exact / total_rate.square()).mean(-1).clamp(min=1e-12)


def pace_unit(pace: float | Tensor, key_valid: Tensor, dtype: torch.dtype) -> Tensor:
    """Unit r·T of causal clocks: target steps expected for each item's source.  (B, 1, 1)"""
    pace = torch.as_tensor(pace, dtype=dtype, device=key_valid.device).expand(key_valid.shape[0])
    return (pace * key_valid.sum(-1).clamp(min=1))[:, None, None]


def pinned_clock(
    x: Tensor, valid: Tensor, segments: Tensor, shares: Tensor, phi: Phi, eps: float
) -> tuple[Tensor, Tensor]:
    """A coarse clock over segments and fine clocks inside them: the reading at every segment's start is fixed.

    Segment j covers `shares[:, j]` of the clock's range. Its edges, including the one into the next segment, are
    normalized to that share, and its variance is a separate bridge, so neither drifts with the total length. A segment
    without an edge on this side is crossed in one jump. With one segment, this is the normalized clock.
    """
    steps = segments.masked_fill(~valid, 0)
    rates = edge_rates(masked_time_norm(x, valid, eps), valid, phi, eps).to(sum_dtype(x))
    place = steps[:, None, :-1, None].expand_as(rates)  # an edge belongs to the segment it leaves
    totals = rates.new_zeros(*rates.shape[:2], shares.shape[-1], rates.shape[-1]).scatter_add(2, place, rates)
    wanted = shares.to(totals.dtype)[:, None, :, None]
    clock = accumulate(rates * (wanted / torch.where(totals > 0, totals, 1.0)).gather(2, place))
    passed = wanted * (totals == 0)  # (B, H, segments, D)
    clock = clock + (passed.cumsum(2) - passed).gather(2, steps[:, None, :, None].expand_as(clock))
    counts = torch.zeros_like(shares).scatter_add(1, steps, valid.to(shares.dtype))
    before = (counts.cumsum(-1) - counts).gather(1, steps)
    inside, share = counts.gather(1, steps).clamp(min=1), shares.gather(1, steps)  # (B, L)
    pos = (valid.cumsum(-1) - before - 0.5).clamp(min=0.5) / inside
    variance = share.square() * pos * (1 - pos) / inside
    return clock.masked_fill(~valid[:, None, :, None], 0.0), variance[:, None].to(x.dtype)


def segment_shares(segments: tuple[Tensor, Tensor], key_valid: Tensor, dtype: torch.dtype) -> Tensor:
    """Share of the clock's range that each segment covers: its share of the source's steps.  (B, segments)"""
    count = int(max(segments[0].max(), segments[1].max())) + 1
    steps = torch.zeros(key_valid.shape[0], count, dtype=dtype, device=key_valid.device)
    steps = steps.scatter_add(1, segments[1].masked_fill(~key_valid, 0), key_valid.to(dtype))
    return steps / steps.sum(-1, keepdim=True).clamp(min=1)


def within_range(
    clock: Tensor, variance: Tensor, key_clock: Tensor, target_range: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The target's clock from `start` to `end` instead of from 0 to 1, for a target that is a part of the source.

    Each end is a reading (B, H or 1), or weights on the keys (B, H, T) whose mean reading is taken.
    """
    start, end = (
        (x.to(key_clock.dtype)[..., None, :] @ key_clock) if x.ndim == 3 else x.to(key_clock.dtype)[..., None, None]
        for x in target_range
    )  # (B, H or 1, 1, D or 1)
    stretch = (end - start).clamp(min=0.0)  # clocks do not run backwards
    return start + stretch * clock, stretch.mean(-1).square().to(variance.dtype) * variance


def clock_pair(
    query: Tensor,
    key: Tensor,
    query_valid: Tensor,
    key_valid: Tensor,
    options: ClockOptions,
    pace: float | Tensor | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    target_range: tuple[Tensor, Tensor] | None = None,
) -> ClockPair:
    """Both clocks and their variances from projected features, for any kind of clock."""
    phi, eps, variance = resolve_phi(options.phi), options.eps, str(options.variance)
    if options.clocks != "causal":
        make = normalized_clock if options.clocks == "normalized" else unnormalized_clock
        if segments is None:
            query_clock, query_variance = make(query, query_valid, phi, variance, eps)
            key_clock, key_variance = make(key, key_valid, phi, variance, eps)
        else:
            shares = segment_shares(segments, key_valid, query.dtype)
            query_clock, query_variance = pinned_clock(query, query_valid, segments[0], shares, phi, eps)
            key_clock, key_variance = pinned_clock(key, key_valid, segments[1], shares, phi, eps)
        if target_range is not None:
            query_clock, query_variance = within_range(query_clock, query_variance, key_clock, target_range)
        return ClockPair(query_clock, key_clock, query_variance, key_variance)
    key_clock, key_variance = source_clock(key, key_valid, phi, variance, eps)
    unit = pace_unit(1.0 if pace is None else pace, key_valid, query.dtype)
    query_clock, query_variance = causal_target_clock(
        query, query_valid, phi, options.causal_norm, unit, mean_rate(options.phi), eps
    )
    if variance == "local":
        query_variance = local_variance(key_valid, query.dtype).expand_as(query_variance)
    return ClockPair(query_clock, key_clock, query_variance, key_variance)
