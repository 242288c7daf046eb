"""Losses that teach attention to align: plain functions of logits, weights or clocks.

Rows are queries (target steps, S), columns keys (source tokens, T); there may be any number of dimensions between the
batch and these two, for example heads. Lengths (B,) exclude the padding, which may hold anything; None means that there
is none. Every mean is taken first over an item's own steps, then over items, so that a batch gives the same result as
its items alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clock_attention.clocks import sum_dtype
from clock_attention.kernels.monotone import LogPathSum, path_sums
from clock_attention.options import checkable

REDUCTIONS = ("mean", "sum", "none")


def forward_sum_loss(
    logits: Tensor,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
    *,
    optional: Tensor | None = None,
    normalize: bool = True,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Alignment loss: −log of the probability that attention follows some monotone path, summed over all paths.

    A path starts on the first key, ends on the last, and at each step stays or moves to the next, so it visits every
    key. Content scores learn an alignment from this loss alone (RAD-TTS). Clocks do not: a sharp diagonal satisfies it
    whatever the content; train them with `agreement_loss` instead.

    Args:
        logits: scores before the softmax (B, ..., S, T).
        query_lengths, key_lengths: integers (B,).
        optional: bool (B, T), True for keys that may get no query at all, such as silence between words.
        normalize: take the softmax over keys first. False: `logits` are log probabilities already, or joint scores.
        reduction: "mean" (per query, then over items), "sum", or "none": one value per item (B, ...), not divided.
        zero_infinity: an item with no path (fewer queries than keys that must be visited) counts as 0, not infinity.

    The gradient with respect to the normalised scores is minus the posterior of each cell, by one forward and one
    backward pass over the queries; it has no second derivative.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: got {reduction!r}, expected one of {', '.join(map(repr, REDUCTIONS))}")
    scores, targets, sources, skippable = path_problem(logits, query_lengths, key_lengths, optional, normalize)
    loss = -LogPathSum.apply(scores, targets, sources, skippable)[0]
    if zero_infinity:
        loss = torch.where(loss.isinf(), 0.0, loss)
    if reduction == "none":
        return loss.view(logits.shape[:-2])
    return loss.sum() if reduction == "sum" else (loss / targets).mean()


def monotone_posterior(
    logits: Tensor,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
    *,
    optional: Tensor | None = None,
    normalize: bool = True,
) -> Tensor:
    """Probability that each query is on each key, given a monotone path: a target of alignment losses; no gradient.

    The sharper, monotone version of a softmax over keys, used as the target of `agreement_loss` and `duration_loss`.
    Rows sum to 1; padding, and items with no path at all, are 0.
    """
    with torch.no_grad():
        problem = path_problem(logits, query_lengths, key_lengths, optional, normalize)
        _, posterior = path_sums(*problem, with_posterior=True)
    assert posterior is not None
    return posterior.view_as(logits)


def guided_attention_loss(
    weights: Tensor,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
    *,
    width: float = 0.2,
) -> Tensor:
    """Alignment loss: attention off the diagonal, mean over queries of Σ_t A[s, t] (1 − exp(−δ²/2 width²)).

    δ = (s+½)/S − (t+½)/T. 0 is on the diagonal, 1 far from it. For a warm-up only: real alignments are not diagonal.
    """
    if not width > 0:
        raise ValueError(f"width: got {width}, expected a positive share of the whole sequence")
    targets, sources = both_lengths("weights", weights, query_lengths, key_lengths)
    distance = off_diagonal(weights, targets, sources)
    penalty = -torch.expm1(-distance.square() / (2 * width**2))
    return mean_over_queries((weights * penalty).masked_fill(padded(weights, targets, sources), 0.0).sum(-1), targets)


def diagonal_log_prior(like: Tensor, query_lengths: Tensor | None, key_lengths: Tensor | None, width: float) -> Tensor:
    """Diagonal prior for alignment losses: log of a Gaussian, to add to logits (shape of one head of `like`).

    Args:
        like: logits or weights (B, ..., S, T), for their shape, type and device.
        width: standard deviation as a share of the whole sequence.
    """
    if not width > 0:
        raise ValueError(f"width: got {width}, expected a positive share of the whole sequence")
    targets, sources = both_lengths("like", like, query_lengths, key_lengths)
    return -off_diagonal(like, targets, sources).square() / (2 * width**2)


def agreement_loss(
    prior_logits: Tensor,
    posterior: Tensor,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
) -> Tensor:
    """Alignment loss: KL(posterior ‖ softmax(prior_logits)), mean over queries: 0 where the prior predicts it.

    The prior is what the clocks expect before the target is known, the posterior what the content showed. Give
    `posterior.detach()`, or one from `monotone_posterior`, so that the prior learns from the evidence and the evidence
    does not follow the prior.
    """
    if prior_logits.shape != posterior.shape:
        raise ValueError(
            f"posterior: got shape {tuple(posterior.shape)}, expected that of prior_logits {tuple(prior_logits.shape)}"
        )
    targets, sources = both_lengths("prior_logits", prior_logits, query_lengths, key_lengths)
    padding = padded(prior_logits, targets, sources)
    expected = masked_log_softmax(prior_logits, padding)
    found = posterior.masked_fill(padding, 0.0)
    # Where the posterior is 0, the term and its gradient must be 0: neither log 0 nor −∞ may be multiplied by it.
    silent = found == 0
    gain = found.masked_fill(silent, 1.0).log() - expected.masked_fill(silent, 0.0)
    return mean_over_queries((found * gain).sum(-1), targets)


def clock_agreement_loss(
    prior: Tensor, posterior: Tensor, lengths: Tensor | None = None, variance: Tensor | None = None
) -> Tensor:
    """Alignment loss: half the squared difference of two clocks of one sequence, mean over steps and channels.

    Divided by `variance`, if given, it is the KL divergence of two Gaussian readings with that variance, so that a
    clock is held tightly where it is certain (its ends) and loosely in the middle.

    Args:
        prior, posterior: readings (B, H, L, D), for example from the text alone and with the recording known. The
            posterior may be `expected_reading(weights, key_clock)`. Detach the one that serves as the target.
        lengths: integers (B,).
        variance: (B, H, L), (B, 1, L) or anything that broadcasts to it, positive.
    """
    if prior.shape != posterior.shape or prior.dim() < 3:
        raise ValueError(
            f"prior, posterior: got shapes {tuple(prior.shape)} and {tuple(posterior.shape)}, expected two clocks "
            "(B, H, L, D) of the same shape"
        )
    steps = checked_lengths("lengths", lengths, prior.shape[0], prior.shape[-2], prior.device)
    padding = beyond(steps, prior.shape[-2], prior.dim() - 1)  # (B, 1, L)
    difference = (prior - posterior).masked_fill(padding[..., None], 0.0)
    energy = 0.5 * difference.square().mean(-1)  # (B, H, L)
    if variance is not None:
        energy = energy / variance.masked_fill(padding, 1.0)
    return mean_over_queries(energy, steps)


def expected_reading(weights: Tensor, key_clock: Tensor) -> Tensor:
    """Expected reading Σ_t A[s, t] λ_t of the source clock (B, H, T, D) at each query, for a loss.  (B, H, S, D)"""
    return weights @ key_clock.to(weights.dtype)


def soft_durations(weights: Tensor, query_lengths: Tensor | None = None) -> Tensor:
    """Soft durations for losses: queries per key, Σ_s A[s, t]; differentiable.  (B, ..., S, T) → (B, ..., T)"""
    steps = checked_lengths("query_lengths", query_lengths, weights.shape[0], weights.shape[-2], weights.device)
    return weights.masked_fill(beyond(steps, weights.shape[-2], weights.dim() - 1)[..., None], 0.0).sum(-2)


def duration_loss(predicted: Tensor, durations: Tensor, key_lengths: Tensor | None = None) -> Tensor:
    """Alignment loss: mean over keys of |log(1 + predicted) − log(1 + durations)|: relative for long keys.

    Args:
        predicted: non-negative durations (B, ..., T), for example from `soft_durations`.
        durations: target durations, of the same shape or (B, T); zeros are allowed.
    """
    if predicted.dim() < 2 or durations.shape not in (predicted.shape, (predicted.shape[0], predicted.shape[-1])):
        raise ValueError(
            f"durations: got shape {tuple(durations.shape)}, expected that of predicted {tuple(predicted.shape)}, or "
            "one duration for each key, (B, T)"
        )
    sources = checked_lengths("key_lengths", key_lengths, predicted.shape[0], predicted.shape[-1], predicted.device)
    if durations.dim() < predicted.dim():
        durations = durations.view(durations.shape[0], *(1,) * (predicted.dim() - 2), -1)
    padding = beyond(sources, predicted.shape[-1], predicted.dim())
    error = (
        predicted.masked_fill(padding, 0.0).log1p() - durations.to(predicted.dtype).masked_fill(padding, 0.0).log1p()
    )
    return mean_over_queries(error.abs(), sources)


def path_problem(
    logits: Tensor,
    query_lengths: Tensor | None,
    key_lengths: Tensor | None,
    optional: Tensor | None,
    normalize: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Inputs of the forward-sum loss: scores (N, S, T), lengths (N,), optional keys (N, T); N is all but S and T."""
    targets, sources = both_lengths("logits", logits, query_lengths, key_lengths)
    padding = padded(logits, targets, sources)
    if optional is not None and (optional.dtype != torch.bool or optional.shape != (logits.shape[0], logits.shape[-1])):
        raise ValueError(
            f"optional: got {optional.dtype} {tuple(optional.shape)}, expected one bool for every key, "
            f"({logits.shape[0]}, {logits.shape[-1]})"
        )
    scores = masked_log_softmax(logits, padding) if normalize else logits.masked_fill(padding, -torch.inf)
    copies = scores[0, ..., 0, 0].numel()
    targets, sources = targets.repeat_interleave(copies), sources.repeat_interleave(copies)
    skippable = None if optional is None else optional.repeat_interleave(copies, 0)
    return scores.reshape(-1, *scores.shape[-2:]), targets, sources, skippable


def masked_log_softmax(logits: Tensor, padding: Tensor) -> Tensor:
    """Log softmax of an alignment loss, over keys that are not padding, in fp32 or better; −∞ on padding."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # A row of nothing but padding would be NaN: it gets a softmax over zeros first.
    fill = torch.where(padding.all(-1, keepdim=True), 0.0, -torch.inf).to(wide.dtype)
    return torch.where(padding, fill, wide).log_softmax(-1).masked_fill(padding, -torch.inf)


def both_lengths(
    name: str, scores: Tensor, query_lengths: Tensor | None, key_lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Checked lengths of queries and keys of a batch, for an alignment loss."""
    if scores.dim() < 3 or not scores.is_floating_point():
        raise ValueError(
            f"{name}: got {scores.dtype} {tuple(scores.shape)}, expected a floating point type and (B, ..., S, T)"
        )
    batch, queries, keys = scores.shape[0], scores.shape[-2], scores.shape[-1]
    return (
        checked_lengths("query_lengths", query_lengths, batch, queries, scores.device),
        checked_lengths("key_lengths", key_lengths, batch, keys, scores.device),
    )


def checked_lengths(name: str, lengths: Tensor | None, batch: int, longest: int, device: torch.device) -> Tensor:
    """Checked lengths of one side, for an alignment loss; the full length where none are given."""
    if lengths is None:
        return torch.full((batch,), longest, device=device)
    lengths = torch.as_tensor(lengths)
    if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(
            f"{name}: got {lengths.dtype} {tuple(lengths.shape)}, expected one integer for each of {batch} items"
        )
    if checkable(lengths) and not bool(((lengths >= 1) & (lengths <= longest)).all()):
        raise ValueError(f"{name}: got {lengths.tolist()}, expected lengths between 1 and {longest}")
    return lengths.to(device, torch.long)


def beyond(lengths: Tensor, longest: int, dimensions: int) -> Tensor:
    """Padding mask of an alignment loss: True past each item's length, broadcastable.  (B, 1, ..., L)"""
    past = torch.arange(longest, device=lengths.device) >= lengths[:, None]
    return past.view(past.shape[0], *(1,) * (dimensions - 2), -1)


def padded(scores: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """Padding mask of an alignment loss: True where a cell's query or key is padding.  (B, 1, ..., S, T)"""
    queries = beyond(targets, scores.shape[-2], scores.dim() - 1)[..., None]
    return queries | beyond(sources, scores.shape[-1], scores.dim())


def off_diagonal(scores: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """Distance (s+½)/S − (t+½)/T from the diagonal, by each item's own lengths, for a loss.  (B, 1, ..., S, T)"""
    wide = torch.promote_types(scores.dtype, torch.float32)
    between = (1,) * (scores.dim() - 3)
    s = (torch.arange(scores.shape[-2], device=scores.device, dtype=wide) + 0.5) / targets[:, None]
    t = (torch.arange(scores.shape[-1], device=scores.device, dtype=wide) + 0.5) / sources[:, None]
    return s.view(-1, *between, s.shape[-1], 1) - t.view(-1, *between, 1, t.shape[-1])


def mean_over_queries(values: Tensor, lengths: Tensor) -> Tensor:
    """Mean of an alignment loss over each item's own steps (padding 0), then over items and heads."""
    wide = values.to(sum_dtype(values)).sum(-1)
    return (wide / lengths.view(-1, *(1,) * (wide.dim() - 1))).mean().to(values.dtype)
