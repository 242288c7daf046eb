"""Causal clocks one step at a time: an explicit state in, an explicit state out.

The source is known before decoding starts, so its clock is computed once; the target clock needs only its last
reading, its last feature and, for the cumulative norm, three running sums. A step costs O(T), however many steps
came before it, and a sequence of steps equals the one-shot pass with `clocks="causal"`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from clock_attention.clocks import (
    Phi,
    local_variance,
    mean_rate,
    pace_unit,
    resolve_phi,
    source_clock,
    standardise_running,
    step_norm,
)
from clock_attention.kernels.portable import attend

SAFETY = 4.0  # times the expected number of steps, after which a clock is taken to stand still


@dataclass(frozen=True)
class ClockState:
    """All that decoding remembers. Tensors only, each with the batch first: `vars(state)` is what to save."""

    key_clock: Tensor  # λ_t (B, H, T, D)
    key_variance: Tensor  # A_Y(t) (B, H or 1, T)
    value: Tensor  # (B, H, T, Dv)
    key_valid: Tensor  # (B, T)
    unit: Tensor  # r·T, target steps expected (B, 1, 1)
    margin: Tensor  # tokens beyond the last one at which the clock has run out (B,)
    steps: Tensor  # target steps taken (B,)
    tick: Tensor  # μ, the mean rate, so that readings are in units of the source (B,)
    elapsed: Tensor  # λ̃_s, the sum of the rates so far (B, H, D)
    last: Tensor  # η of the step before (B, H, D)
    first: Tensor  # first raw feature, about which the sums are taken (B, H, D)
    total: Tensor  # Σ (x − first) (B, H, D)
    total_square: Tensor  # Σ (x − first)² (B, H, D)

    @property
    def reading(self) -> Tensor:
        """λ̄_s: the target clock on every channel, 1 when it has reached the last source token.  (B, H, D)"""
        return self.elapsed / (self.tick[:, None, None] * self.unit)

    @property
    def progress(self) -> Tensor:
        """How far through the source each item's clock is, 0 … 1.  (B,)"""
        return self.reading.mean((-2, -1)).clamp(0.0, 1.0)

    @property
    def finished(self) -> Tensor:
        """Items whose clock has passed the last token by the margin: nothing is left to say.  bool (B,)"""
        tokens = self.key_valid.sum(-1).clamp(min=1)
        return self.reading.mean((-2, -1)) >= 1 + self.margin / tokens

    @property
    def stalled(self) -> Tensor:
        """Unfinished items that have taken many times the steps expected: their clocks stand still.  bool (B,)"""
        return ~self.finished & (self.steps > SAFETY * self.unit.flatten() + 1)

    def to(self, device: torch.device | str) -> ClockState:
        """The same state on another device."""
        return ClockState(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})

    def index(self, items: Tensor) -> ClockState:
        """The state of some batch items, in the given order and with repetitions: beam search, or dropping items."""
        return ClockState(**{field.name: getattr(self, field.name)[items] for field in fields(self)})


def start_clocks(
    key: Tensor,
    value: Tensor,
    key_valid: Tensor,
    *,
    pace: float | Tensor,
    phi: str | Phi,
    variance: str,
    eps: float,
    margin: float | Tensor = 0.5,
) -> ClockState:
    """The state before the first target step, from projected source features (B, H, T, D) and values (B, H, T, Dv)."""
    wide = torch.promote_types(key.dtype, torch.float32)
    batch, heads, _, channels = key.shape
    key_clock, key_variance = source_clock(key.to(wide), key_valid, resolve_phi(phi), variance, eps)
    still = torch.zeros(batch, heads, channels, dtype=wide, device=key.device)
    return ClockState(
        key_clock=key_clock,
        key_variance=key_variance,
        value=value.masked_fill(~key_valid[:, None, :, None], 0.0),
        key_valid=key_valid,
        unit=pace_unit(pace, key_valid, wide),
        margin=torch.as_tensor(margin, dtype=wide, device=key.device).expand(batch),
        steps=torch.zeros(batch, dtype=torch.long, device=key.device),
        tick=torch.full((batch,), mean_rate(phi), dtype=wide, device=key.device),
        elapsed=still.to(key_clock.dtype),
        last=still,
        first=still,
        total=still,
        total_square=still,
    )


def advance_clocks(state: ClockState, x: Tensor, *, norm: str, phi: str | Phi, eps: float) -> ClockState:
    """Let the target clock tick once for projected features x (B, H, D)."""
    x = x.to(state.last.dtype)
    started = (state.steps > 0)[:, None, None]
    if norm == "cumulative":
        first = torch.where(started, state.first, x)
        y = x - first
        count = (state.steps + 1)[:, None, None]
        total, total_square = state.total + y, state.total_square + y.square()
        eta = standardise_running(y, count, total, total_square, eps)
        state = replace(state, first=first, total=total, total_square=total_square)
    else:
        eta = step_norm(x, norm, eps)
    rate = resolve_phi(phi)(0.5 * (state.last + eta)) + eps
    elapsed = state.elapsed + torch.where(started, rate, 0.0).to(state.elapsed.dtype)
    return replace(state, elapsed=elapsed, last=eta, steps=state.steps + 1)


def attend_step(
    state: ClockState, *, variance: str, log_variance_term: bool, logit_scale: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Where the source clock meets the target clock now: output (B, H, Dv) and weights (B, H, T)."""
    if variance == "local":
        query_variance = local_variance(state.key_valid, state.unit.dtype)
    else:
        query_variance = (state.steps[:, None, None] - 0.5) / state.unit.square()  # Ã(s) = (s + ½)/(rT)²
    output, weights = attend(
        state.reading[:, :, None, :],
        state.key_clock,
        query_variance,
        state.key_variance,
        state.value,
        torch.ones_like(state.key_valid[:, :1]),
        state.key_valid,
        None,
        log_variance_term,
        logit_scale,
        eps,
    )
    return output.squeeze(2), weights.squeeze(2)


def decoding_over(state: ClockState) -> bool:
    """True when every item's clock has run out, which is how decoding ends.

    A clock that stands still would never end: when all others are done, this says so and gives up, so that a broken
    model cannot hang its caller.
    """
    finished, stalled = state.finished, state.stalled
    if bool(finished.all()):
        return True
    if not bool((finished | stalled).all()):
        return False
    item = int(stalled.nonzero()[0])
    warnings.warn(
        f"decoding stopped by its safety net, not by its clock: item {item} is {state.progress[item].item():.0%} "
        f"through its source after {state.steps[item].item()} steps, where about {state.unit[item].item():.0f} were "
        "expected; its output is incomplete. Check the model's pace or train it longer.",
        RuntimeWarning,
        stacklevel=2,
    )
    return True
