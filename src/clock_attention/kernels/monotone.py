"""Sums over monotone paths: compiled loops on the CPU, one scan over time on any other device.

A path gives every target step one source token, starts on the first, ends on the last, and at each step stays or
moves to the next. Tokens marked optional may be skipped. In the scan, the backward sums β are the forward sums α of
the reversed matrix, so both run side by side in one batch: S steps of a few tensor operations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from clock_attention.clocks import sum_dtype


class LogPathSum(torch.autograd.Function):
    """Autograd function: log Σ over monotone paths of exp Σ_s scores[s, path(s)], and its gradient, the posterior.

    The posterior is a result too, if there is a gradient to take: a second derivative would pass through it, and is
    refused there. `once_differentiable` would refuse it only where the gradient that comes in needs one itself.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, targets: Tensor, sources: Tensor, optional: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        total, posterior = path_sums(scores, targets, sources, optional, with_posterior=scores.requires_grad)
        ctx.set_materialize_grads(False)
        if posterior is not None:
            ctx.save_for_backward(posterior)
        return total.to(scores.dtype), posterior

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_posterior: Tensor | None
    ) -> tuple[Tensor | None, None, None, None]:
        if grad_posterior is not None:
            raise NotImplementedError("sums over monotone paths, as in forward_sum_loss, have no second derivatives")
        (posterior,) = ctx.saved_tensors
        return None if grad is None else posterior * grad[:, None, None], None, None, None


def path_sums(
    scores: Tensor, targets: Tensor, sources: Tensor, optional: Tensor | None, *, with_posterior: bool
) -> tuple[Tensor, Tensor | None]:
    """Log sum over monotone paths (B,), and, if requested, the share that passes through every cell (B, S, T)."""
    if scores.device.type == "cpu":
        return compiled_sums(scores, targets, sources, optional, with_posterior)
    if with_posterior:
        return path_posterior(scores, targets, sources, optional)
    return log_path_sum(scores, targets, sources, optional)[0], None


def compiled_sums(
    scores: Tensor, targets: Tensor, sources: Tensor, optional: Tensor | None, with_posterior: bool
) -> tuple[Tensor, Tensor | None]:
    """`path_sums` on the CPU, by the compiled loops of `monotone_loops`."""
    from clock_attention.kernels import monotone_loops  # Numba takes half a second to load

    binary = scores.detach().double() / math.log(2)
    exponents = binary.floor().clamp(min=-(2.0**36)).nan_to_num()
    mantissas = torch.exp2(binary - exponents)  # NaN stays NaN, and −∞ becomes 0
    skippable = torch.zeros(scores.shape[::2], dtype=torch.bool) if optional is None else optional
    sums, sum_exponents = torch.empty(len(scores), dtype=torch.float64), torch.empty(len(scores), dtype=torch.long)
    posterior = torch.zeros(scores.shape if with_posterior else (0, 0, 0), dtype=torch.float64)
    arguments = (mantissas, exponents.long(), skippable, targets, sources, sums, sum_exponents, posterior)
    monotone_loops.run(*(x.contiguous().numpy() for x in arguments))
    return sums.log() + sum_exponents.double() * math.log(2), posterior.to(scores.dtype) if with_posterior else None


def path_posterior(scores: Tensor, targets: Tensor, sources: Tensor, optional: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log sum over monotone paths (B,) and the share that passes through every cell (B, S, T); 0 without a path."""
    batch, steps, tokens = scores.shape
    back_s = reversal(targets, steps)  # (B, S)
    back_t = reversal(sources, tokens)  # (B, T)
    reverse = (torch.arange(batch, device=scores.device)[:, None, None], back_s[:, :, None], back_t[:, None, :])
    both = torch.cat([scores, scores[reverse]])
    both_optional = None if optional is None else torch.cat([optional, optional.gather(1, back_t)])
    totals, alpha = log_path_sum(both, targets.repeat(2), sources.repeat(2), both_optional)
    total = totals[:batch]
    # Both α and β hold the cell's own score, so it is taken out once.
    shares = alpha[:batch] + alpha[batch:][reverse] - scores - total[:, None, None]
    inside = (torch.arange(steps, device=scores.device) < targets[:, None])[:, :, None]
    inside = inside & (torch.arange(tokens, device=scores.device) < sources[:, None])[:, None, :]
    reached = inside & (alpha[:batch] > -torch.inf) & total.isfinite()[:, None, None]
    return total, torch.where(reached, shares, -torch.inf).exp().to(scores.dtype)


def reversal(lengths: Tensor, longest: int) -> Tensor:
    """Indices that reverse the first `length` positions and leave the padding, for monotone path sums.  (B, L)"""
    index = torch.arange(longest, device=lengths.device)
    return torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)


def log_path_sum(scores: Tensor, targets: Tensor, sources: Tensor, optional: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log sum over all monotone paths (B,), and over those that end in each cell, α (B, S, T).

    In fp64 where the device has it: the sums reach thousands, and posteriors are differences of them.
    """
    batch, steps, tokens = scores.shape
    jumps = longest_run(optional)
    first = 1 + jumps  # columns before the first token: the start, and room to look back over optional tokens
    x = scores.to(sum_dtype(scores)).transpose(0, 1).contiguous()  # (S, B, T)
    alpha = torch.full((steps + 1, batch, first + tokens), -torch.inf, dtype=x.dtype, device=x.device)
    alpha[0, :, first - 1] = 0.0  # before the first step every path waits in front of the first token
    gates = [jump_gate(optional, jump, x.dtype) for jump in range(1, jumps + 1)]  # type: ignore[arg-type]
    for s in range(steps):
        before, now = alpha[s], alpha[s + 1, :, first:]
        torch.logaddexp(before[:, first:], before[:, first - 1 : -1], out=now)
        for jump, gate in enumerate(gates, start=1):
            torch.logaddexp(now, before[:, first - 1 - jump : -1 - jump] + gate, out=now)
        now.add_(x[s])
    alpha = alpha[1:, :, first:].transpose(0, 1)  # (B, S, T)
    ends = alpha.gather(1, (targets - 1)[:, None, None].expand(-1, 1, tokens)).squeeze(1)
    return ends.masked_fill(~may_end(sources, optional, tokens), -torch.inf).logsumexp(-1), alpha


def longest_run(optional: Tensor | None) -> int:
    """Length of the longest run of optional tokens, for sums over monotone paths."""
    if optional is None or not bool(optional.any()):
        return 0
    count = torch.zeros_like(optional[:, 0], dtype=torch.long)
    longest = count
    for column in optional.unbind(1):
        count = torch.where(column, count + 1, 0)
        longest = torch.maximum(longest, count)
    return int(longest.max())


def jump_gate(optional: Tensor, jump: int, dtype: torch.dtype) -> Tensor:
    """Gate for jumps in monotone paths: 0 for tokens that may follow `jump` skipped tokens, −∞ for others.  (B, T)"""
    free = torch.zeros_like(optional)
    if jump < optional.shape[1]:
        free[:, jump:] = optional.unfold(1, jump, 1)[:, :-1].all(-1)
    return torch.zeros(free.shape, dtype=dtype, device=free.device).masked_fill(~free, -torch.inf)


def may_end(sources: Tensor, optional: Tensor | None, tokens: int) -> Tensor:
    """Tokens on which a monotone path may end.  bool (B, T)"""
    index = torch.arange(tokens, device=sources.device)
    inside = index < sources[:, None]
    if optional is None:
        return index == sources[:, None] - 1
    required = inside & ~optional
    last_required = torch.where(required.any(-1), tokens - 1 - required.flip(-1).int().argmax(-1), 0)
    return inside & (index >= last_required[:, None])
