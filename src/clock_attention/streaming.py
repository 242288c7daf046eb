"""Causal clocks one step at a time: an explicit state in, an explicit state out.

The source is known before decoding starts, so its clock is computed once; the target clock needs only its last
reading, its last feature and, for the cumulative norm, three running sums. A step costs O(T), however many steps
came before it, and a sequence of steps equals the one-shot pass with `clocks="causal"`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from clock_attention.clocks import (
    ClockPair,
    check_rates,
    local_variance,
    pace_unit,
    source_clock,
    standardise_running,
    step_norm,
    sum_dtype,
)
from clock_attention.kernels.portable import attend_rows
from clock_attention.options import ClockOptions, check_pace, has_values
from clock_attention.rates import mean_rate, resolve_phi

logger = logging.getLogger(__name__)

SAFETY = 4.0  # times the expected number of steps, after which a clock counts as stalled


@dataclass(frozen=True, eq=False)
class ClockState:
    """The complete state of streaming decoding. Tensors only, each with the batch first: save `vars(state)`.

    `copy.deepcopy` keeps the graph: gradients flow through the copy to the tensors that the state was made from.
    """

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
    content_key: Tensor | None = None  # features that the targets' content is compared with (B, H, T, C)

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
        """Items whose clock has passed the last token by the margin: their decoding is complete.  bool (B,)"""
        return self.reading.mean((-2, -1)) >= self.end

    @property
    def end(self) -> Tensor:
        """The reading at which a clock has run out.  (B,)"""
        return 1 + self.margin / self.key_valid.sum(-1).clamp(min=1)

    @property
    def stalled(self) -> Tensor:
        """Unfinished items that have taken many times the expected steps: their clocks have stalled.  bool (B,)"""
        # Not `steps > …`, which is always False where the pace is NaN.
        return ~self.finished & ~(self.steps <= SAFETY * self.unit.flatten() * self.end.clamp(min=1) + 1)

    def to(self, device: torch.device | str) -> ClockState:
        """The same state on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def map(self, function: Callable[[Tensor], Tensor]) -> ClockState:
        """A state with the function applied to every tensor."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        made: dict[str, Any] = {name: None if x is None else function(x) for name, x in tensors.items()}
        return ClockState(**made)

    def __deepcopy__(self, memo: dict[int, Any]) -> ClockState:
        return self.map(torch.clone)

    def index(self, items: Tensor | Sequence[int]) -> ClockState:
        """The state of the given batch items, in that order, with repetitions: for beam search or dropping items."""
        items = torch.as_tensor(items, device=self.steps.device)
        if items.shape == (0,):
            items = items.long()  # an empty list is made a tensor of floats
        if items.dim() != 1 or items.is_floating_point():
            raise ValueError(
                f"items: got {items.dtype} {tuple(items.shape)}, expected a list of batch items such as [0, 2], or a "
                f"bool mask ({len(self.steps)},)"
            )
        return self.map(lambda tensor: tensor[items])


def start_clocks(
    key: Tensor,
    value: Tensor,
    key_valid: Tensor,
    options: ClockOptions,
    *,
    pace: float | Tensor,
    margin: float | Tensor = 0.5,
    content_key: Tensor | None = None,
) -> ClockState:
    """The state before the first target step, from projected source features (B, H, T, D) and values (B, H, T, Dv)."""
    wide = torch.promote_types(key.dtype, torch.float32)
    batch, heads, _, channels = key.shape
    check_pace(pace, batch)
    tokens_beyond = torch.as_tensor(margin, dtype=wide, device=key.device)
    finite = not has_values(tokens_beyond) or bool(tokens_beyond.isfinite().all())
    if tokens_beyond.shape not in ((), (batch,)) or not finite:
        raise ValueError(f"margin: got {margin}, expected a finite number of tokens, or one for each of {batch} items")
    key_clock, key_variance = source_clock(
        key.to(wide), key_valid, resolve_phi(options.phi), str(options.variance), options.eps
    )
    still = torch.zeros(batch, heads, channels, dtype=wide, device=key.device)
    return ClockState(
        key_clock=key_clock,
        key_variance=key_variance,
        value=value.masked_fill(~key_valid[:, None, :, None], 0.0),
        key_valid=key_valid,
        unit=pace_unit(pace, key_valid, wide),
        margin=tokens_beyond.expand(batch),
        steps=torch.zeros(batch, dtype=torch.long, device=key.device),
        tick=torch.full((batch,), mean_rate(options.phi), dtype=wide, device=key.device),
        elapsed=still.to(key_clock.dtype),
        last=still,
        first=still,
        total=still.to(sum_dtype(still)),
        total_square=still.to(sum_dtype(still)),
        content_key=None if content_key is None else content_key.masked_fill(~key_valid[:, None, :, None], 0.0),
    )


def advance_clocks(state: ClockState, x: Tensor, options: ClockOptions) -> ClockState:
    """Let the target clock tick once for projected features x (B, H, D)."""
    x, norm, eps = x.to(state.last.dtype), options.causal_norm, options.eps
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
    rate = check_rates(resolve_phi(options.phi), 0.5 * (state.last + eta)) + eps
    elapsed = state.elapsed + torch.where(started, rate, 0.0).to(state.elapsed.dtype)
    return replace(state, elapsed=elapsed, last=eta, steps=state.steps + 1)


def attend_step(
    state: ClockState, options: ClockOptions, logit_scale: Tensor, content_query: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One streaming step of attention between the source and target clocks: output (B, H, Dv), weights (B, H, T)."""
    if options.variance == "local":
        query_variance = local_variance(state.key_valid, state.unit.dtype)
    else:
        query_variance = (state.steps[:, None, None] - 0.5) / state.unit.square()  # Ã(s) = (s + ½)/(rT)²
    pair = ClockPair(state.reading[:, :, None, :], state.key_clock, query_variance, state.key_variance)
    content = None
    if content_query is not None and state.content_key is not None:
        dtype = pair.query_variance.dtype
        content = content_query[:, :, None, :].to(dtype), state.content_key.to(dtype)
    if step_kernel_serves(state, options, logit_scale, content_query):
        from clock_attention.kernels.triton import step

        return step.attend(pair, state.value, state.key_valid, content, logit_scale, options)
    if options.impl == "banded":
        from clock_attention.kernels import banded

        output, weights = banded.attend_clocks(
            pair, state.value, (None, state.key_valid), content, logit_scale, options, return_weights=True
        )
    else:
        everyone = torch.ones_like(state.key_valid[:, :1])
        output, weights, _ = attend_rows(
            pair, state.value, everyone, state.key_valid, None, content, logit_scale, options
        )
    return output.squeeze(2), weights.squeeze(2)


def step_kernel_serves(
    state: ClockState, options: ClockOptions, logit_scale: Tensor, content_query: Tensor | None
) -> bool:
    """Whether one kernel launch can compute a streaming step: on a GPU, in fp32 and without gradients."""
    tensors = (state.elapsed, state.key_clock, state.value, logit_scale, content_query)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
        return False
    if torch._C._are_functorch_transforms_active() or state.unit.dtype != torch.float32:
        return False
    if options.impl == "triton":
        return True
    device = state.value.device
    if options.impl != "auto" or device.type != "cuda":
        return False
    from clock_attention.kernels import selfcheck

    return selfcheck.trusted(device.type, device.index or 0)


def decoding_over(state: ClockState) -> bool:
    """Whether streaming decoding is over: True when every item's clock has run out.

    A stalled clock would never run out: when all others have, this logs a warning and gives up, so that a broken model
    cannot hang its caller.
    """
    finished, stalled = state.finished, state.stalled
    if bool(finished.all()):
        return True
    if not bool((finished | stalled).all()):
        return False
    for item in stalled.nonzero().flatten().tolist():
        # Logged, because Python shows a warning with the same location and text only once.
        logger.warning(
            "decoding stopped by its safety net, not by its clock: item %d is %.0f%% through its source after %d "
            "steps, where about %.0f were expected; its output is incomplete. Check the model's pace or train it "
            "longer.",
            *(item, 100 * state.progress[item].item(), state.steps[item].item(), state.unit[item].item()),
        )
    return True
