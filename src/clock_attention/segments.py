"""Segments found by comparing two sequences, for two-scale clocks: `segments=find_segments(content)`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from clock_attention.kernels.interface import Content
from clock_attention.losses import monotone_posterior
from clock_attention.options import checkable


def find_segments(
    content: Content,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    *,
    every: int = 8,
    certain: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Cut both sequences where their content shows with certainty that they meet: int64 (B, S) and (B, T).

    The content's scores are summed along monotone paths (`monotone_posterior`; a path may skip keys), which locates
    positions that no single step could. In each run of `every` keys, the key whose position among the queries is known
    best starts a segment, if it is known to within `certain` keys and twice as well as without content. Where the
    content says nothing there is no cut, and the clocks have one scale.

    Args:
        content: as for `clock_attention`: features of both sides (B, H, S, C) and (B, H, T, C), or scores (B, H, S, T),
            in nats. All heads share the segments, so their scores are averaged.
        query_padding_mask: bool (B, S), True = padding, which must be at the end.
        key_padding_mask: bool (B, T), likewise.
        every: at most one segment starts within this many keys.
        certain: the largest standard deviation of a query's position, in keys, at which a segment may start.

    Costs O(S · T) and has no gradient.
    """
    if every < 1 or not certain > 0:
        raise ValueError(
            f"every, certain: got {every} and {certain}, expected at least 1 and a positive number of keys"
        )
    with torch.no_grad():
        scores = pair_scores(content).mean(1)  # (B, S, T)
        batch, queries, keys = scores.shape
        targets = valid_lengths("query_padding_mask", query_padding_mask, batch, queries).to(scores.device)
        sources = valid_lengths("key_padding_mask", key_padding_mask, batch, keys).to(scores.device)
        skippable = torch.ones(batch, keys, dtype=torch.bool, device=scores.device)
        posterior = monotone_posterior(scores, targets, sources, optional=skippable)
        return cuts(posterior, targets, sources, every, certain)


def pair_scores(content: Content) -> Tensor:
    """Content scores of every query and key (B, H, S, T), in fp32 or better."""
    parts = (content,) if isinstance(content, Tensor) else content
    if len(parts) > 2 or any(part.dim() != 4 for part in parts):
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"content: got {shapes}, expected features (B, H, S, C) and (B, H, T, C), or scores (B, H, S, T)"
        )
    wide = [part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts]
    return wide[0] if len(wide) == 1 else wide[0] @ wide[1].mT


def cuts(posterior: Tensor, targets: Tensor, sources: Tensor, every: int, certain: float) -> tuple[Tensor, Tensor]:
    """Segment numbers (B, S) and (B, T) from the posterior of each query's position (B, S, T)."""
    batch, queries, keys = posterior.shape
    place = torch.arange(keys, dtype=posterior.dtype, device=posterior.device)
    mean = posterior @ place
    spread = (posterior @ place.square() - mean.square()).clamp(min=0.0).sqrt()  # (B, S)
    step = torch.arange(queries, device=posterior.device)
    mean = mean.masked_fill(step >= targets[:, None], torch.inf).cummax(-1).values
    # The query that reaches each key, and how well it is known to be there.
    query = torch.searchsorted(mean, place.expand(batch, keys).contiguous())  # (B, T)
    usable = (query > 0) & (query < targets[:, None]) & (place > 0) & (place < sources[:, None])
    query = query.clamp(max=queries - 1)
    doubt = spread.gather(1, query)
    usable &= doubt <= (0.5 * spread_without_content(step, targets, sources)).clamp(max=certain).gather(1, query)
    cost = doubt + mean.gather(1, query) - place
    cost = cost.masked_fill(~usable, torch.inf)
    runs = F.pad(cost, (0, -keys % every), value=torch.inf).unflatten(1, (-1, every))
    found = runs.amin(-1).isfinite()  # (B, runs)
    best = (runs.argmin(-1) + every * torch.arange(runs.shape[1], device=runs.device)).clamp(max=keys - 1)
    reached = query.gather(1, best)
    # Two keys reached by one query are one cut: every segment has a step on both sides.
    found &= reached > F.pad(reached.masked_fill(~found, 0).cummax(-1).values[:, :-1], (1, 0))
    starts = found.long()
    query_starts = torch.zeros(batch, queries, dtype=torch.long, device=runs.device).scatter_add(1, reached, starts)
    key_starts = torch.zeros(batch, keys, dtype=torch.long, device=runs.device).scatter_add(1, best, starts)
    return query_starts.cumsum(-1), key_starts.cumsum(-1)


def spread_without_content(step: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """Standard deviation, in keys, of where each query is if all monotone paths are equally probable.  (B, S)

    A path is a sorted choice of S out of S + T − 1 positions: the (s + 1)-th of them, minus s, is the key of query s.
    """
    queries, places = targets[:, None].double(), (targets + sources - 1)[:, None].double()
    rank = (step + 1).clamp(max=targets[:, None])
    variance = rank * (queries + 1 - rank) * (places + 1) * (places - queries) / ((queries + 1) ** 2 * (queries + 2))
    return variance.sqrt()


def valid_lengths(name: str, mask: Tensor | None, batch: int, longest: int) -> Tensor:
    """The number of valid steps of each item (B,)."""
    if mask is None:
        return torch.full((batch,), longest)
    if mask.dtype != torch.bool or tuple(mask.shape) != (batch, longest):
        raise ValueError(f"{name}: got {mask.dtype} {tuple(mask.shape)}, expected bool {(batch, longest)}")
    if checkable(mask) and bool((mask[:, :-1] & ~mask[:, 1:]).any() | mask.all(-1).any()):
        raise ValueError(f"{name}: got padding before or between valid steps, or nothing else; expected it at the end")
    return (~mask).sum(-1)
