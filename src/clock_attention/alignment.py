"""Alignment: from attention weights or clocks to a hard monotone path, durations and quality measures.

Rows are queries (target steps), columns keys (source tokens). All functions work on one (S, T) matrix at a time;
`attention_matrices` reduces batches, heads and padding to such matrices. Nothing is differentiable: the results are
NumPy arrays. `timestamps` turns durations into seconds and files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clock_attention.arrays import FloatArray, IntArray

HEADS = ("mean", "diagonal", "focused")
SMALLEST_WEIGHT = 1e-38  # stands in for weights that underflowed to 0, so that no path scores −∞
BACKWARD_TOLERANCE = 0.1  # tokens: an expected position that falls back by less is wobble, not a violation


def attention_matrices(
    weights: Tensor | ArrayLike,
    query_lengths: int | Tensor | ArrayLike | None = None,
    key_lengths: int | Tensor | ArrayLike | None = None,
    heads: str = "mean",
) -> list[FloatArray]:
    """Attention weights (S, T), (B, S, T) or (B, H, S, T) to align, as one (S, T) matrix per item without padding.

    Several heads become one matrix per item: their "mean", the most "diagonal" head (least diagonal deviation) or
    the most "focused" (largest focus rate). Concatenate layers along the head dimension to choose among all of them.
    """
    if heads not in HEADS:
        raise ValueError(f"heads: got {heads!r}, expected one of {', '.join(map(repr, HEADS))}")
    array = _floats(weights)
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(f"weights: got shape {array.shape}, expected (S, T), (B, S, T) or (B, H, S, T), none empty")
    array = array.reshape(1 if array.ndim == 2 else array.shape[0], -1, *array.shape[-2:])  # (B, H, S, T)
    batch, _, queries, keys = array.shape
    targets = _lengths("query_lengths", query_lengths, batch, queries)
    sources = _lengths("key_lengths", key_lengths, batch, keys)
    matrices = []
    for item, s, t in zip(array, targets, sources, strict=True):
        stack = item[:, :s, :t]
        for head in stack:
            _check_weights(head)
        if heads == "mean" or len(stack) == 1:
            matrices.append(stack.mean(0))
        elif heads == "focused":
            matrices.append(stack[int(np.argmax([focus_rate(head) for head in stack]))].copy())
        else:
            matrices.append(stack[int(np.argmin([diagonal_deviation(head) for head in stack]))].copy())
    return matrices


def path_from_weights(weights: Tensor | ArrayLike) -> IntArray:
    """Hard alignment: the monotone path that maximises Σ log weight of one (S, T) matrix.  (S,)"""
    return monotone_path(np.log(np.maximum(_check_weights(_floats(weights)), SMALLEST_WEIGHT)))


def path_from_clocks(query_clock: Tensor | ArrayLike, key_clock: Tensor | ArrayLike) -> IntArray:
    """Hard alignment from clocks (S, D) and (T, D), also with heads: the path that minimises Σ ‖λ_s − λ_t‖².  (S,)

    This is dynamic time warping of the clocks themselves. Remove padding first.
    """
    query, key = _floats(query_clock), _floats(key_clock)
    if (
        query.ndim not in (2, 3)
        or query.ndim != key.ndim
        or query.shape[:-2] + query.shape[-1:] != (key.shape[:-2] + key.shape[-1:])
    ):
        raise ValueError(
            f"query_clock, key_clock: got shapes {query.shape} and {key.shape}, expected (S, D) and (T, D), "
            "or (H, S, D) and (H, T, D)"
        )
    query, key = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
    # The Gram form is safe here: in fp64 its cancellation is far below any distance that can change the path.
    cross = np.einsum("hsd,htd->st", query, key, optimize=True)
    return monotone_path(2 * cross - np.square(query).sum((0, 2))[:, None] - np.square(key).sum((0, 2)))


def monotone_path(scores: Tensor | ArrayLike) -> IntArray:
    """Hard alignment: the path with the largest Σ_s scores[s, path[s]], never going back.  (S, T) → (S,)

    With S ≥ T the path starts on the first key, ends on the last, and each step stays or moves to the next, so every
    key is visited. With S < T that is impossible: each step then advances by one key or more, so S keys are
    visited once and T − S are skipped, wherever that scores best. In a tie, the path stays, or skips as few keys as
    possible.
    """
    array = _floats(scores)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"scores: got shape {array.shape}, expected one non-empty (S, T) matrix")
    if not np.isfinite(array).all():
        raise ValueError("scores: got NaN or infinite values, expected finite ones; cut the padding off first")
    array = np.ascontiguousarray(array)
    return _stay_or_advance(array) if array.shape[0] >= array.shape[1] else _always_advance(array)


# One vectorised row at a time: as fast as compiled loops at these sizes, and the first call needs no compiler.
def _stay_or_advance(scores: FloatArray) -> IntArray:
    """The best path of `monotone_path` where S ≥ T: each step stays or moves to the next key."""
    queries, keys = scores.shape
    advanced = np.zeros((queries, keys), np.bool_)
    best = np.full(keys, -np.inf)  # keys that cannot be reached yet stay at −∞
    best[0] = scores[0, 0]
    for s in range(1, queries):
        advanced[s, 1:] = best[:-1] > best[1:]
        best[1:] = np.maximum(best[:-1], best[1:])
        best += scores[s]
    path = np.empty(queries, np.int64)
    t = keys - 1
    for s in range(queries - 1, -1, -1):
        path[s] = t
        t -= int(advanced[s, t])
    return path


def _always_advance(scores: FloatArray) -> IntArray:
    """The best path of `monotone_path` where S < T: each step advances by one key or more."""
    queries, keys = scores.shape
    came_from = np.zeros((queries, keys), np.int32)
    best = scores[0].copy()
    for s in range(1, queries):
        highest = np.maximum.accumulate(best)
        last_highest = np.maximum.accumulate(np.where(best == highest, np.arange(keys), 0))
        came_from[s, 1:] = last_highest[:-1]
        best = np.append(-np.inf, highest[:-1] + scores[s, 1:])
    path = np.empty(queries, np.int64)
    t = queries - 1 + int(np.argmax(best[queries - 1 :]))
    for s in range(queries - 1, -1, -1):
        path[s] = t
        t = came_from[s, t]
    return path


def path_durations(path: ArrayLike, keys: int) -> IntArray:
    """Durations along a monotone path: the number of queries on each key, which sum to S.  (S,) → (T,)"""
    steps = np.asarray(path)
    if steps.ndim != 1 or not np.issubdtype(steps.dtype, np.integer) or ((steps < 0) | (steps >= keys)).any():
        raise ValueError(f"path: got {steps!r}, expected (S,) integers between 0 and {keys - 1}")
    return np.bincount(steps, minlength=keys).astype(np.int64)


def durations(
    weights: Tensor | ArrayLike,
    query_lengths: int | Tensor | ArrayLike | None = None,
    key_lengths: int | Tensor | ArrayLike | None = None,
    heads: str = "mean",
) -> list[IntArray]:
    """Durations along the best monotone path, in queries per key: one (T,) array per item of a batch."""
    matrices = attention_matrices(weights, query_lengths, key_lengths, heads)
    return [path_durations(path_from_weights(matrix), matrix.shape[1]) for matrix in matrices]


def crossing_times(weights: Tensor | ArrayLike) -> FloatArray:
    """Alignment finer than one query: the times, 0 … S, at which attention leaves each key of an (S, T) matrix.  (T,)

    Key t ends where the share of attention on later keys reaches one half, between the centres s + ½ of two queries.
    The share is not allowed to decrease over time, so the times never decrease either; the last one is S.
    """
    array = _check_weights(_floats(weights))
    attended, rows = _attending_rows(array)
    past = np.maximum.accumulate(1 - np.cumsum(rows, axis=1), axis=0)
    centres = np.concatenate([[0.0], np.flatnonzero(attended) + 0.5, [len(array)]])
    crossings = [np.interp(0.5, np.concatenate([[0.0], share, [1.0]]), centres) for share in past.T[:-1]]
    return np.array([*crossings, float(len(array))])


def whole_durations(ends: ArrayLike, steps: int) -> IntArray:
    """Durations in whole steps, from the times at which keys end; they sum to `steps`, each ≥ 1 if possible."""
    times = np.asarray(ends, dtype=np.float64)
    if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or (np.diff(times) < 0).any():
        raise ValueError(f"ends: got {times!r}, expected (T,) times that never decrease")
    if steps < 1:
        raise ValueError(f"steps: got {steps}, expected at least 1")
    fewest = np.arange(1, len(times) + 1) if steps >= len(times) else np.zeros(len(times), np.int64)
    whole = np.clip(np.rint(times), 0, steps).astype(np.int64)
    whole[-1] = steps
    whole = np.maximum.accumulate(np.maximum(whole, fewest) - fewest) + fewest
    whole = np.minimum(whole, steps - (fewest[-1] - fewest))  # leave room for the keys that follow
    return np.diff(whole, prepend=0)


@dataclass(frozen=True)
class Quality:
    """Alignment quality of one attention matrix, as returned by `measure_quality`, which defines each measure."""

    queries: int
    keys: int
    expected_violations: int
    argmax_violations: int
    skipped: int
    repeated: int
    coverage: float
    focus: float
    entropy: float
    normalized_entropy: float
    diagonal_deviation: float
    content_rank: float | None = None

    def as_dict(self) -> dict[str, int | float]:
        """The quality measures by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        content = "" if self.content_rank is None else f", content rank {self.content_rank:.1%} (50% is chance)"
        return (
            f"{self.queries} queries × {self.keys} keys: {self.skipped} skipped, {self.repeated} repeated, "
            f"{self.expected_violations} steps back ({self.argmax_violations} by argmax), "
            f"coverage {self.coverage:.1%}, focus {self.focus:.3f}, "
            f"entropy {self.entropy:.3f} nats ({self.normalized_entropy:.1%}), "
            f"off the diagonal {self.diagonal_deviation:.1%}{content}"
        )


def measure_quality(
    weights: Tensor | ArrayLike,
    required: Sequence[bool] | ArrayLike | None = None,
    content: Tensor | ArrayLike | None = None,
) -> Quality:
    """Alignment quality of one soft attention matrix (S, T); a hard path would hide every defect.

    Rows are normalised first; rows without any weight (a query with every key masked) are ignored.
    `required` (T,) marks the keys that must be attended, for sources with steps that may be skipped (punctuation).
    `content` (S, T) says how well each query fits each key, larger is better: log-probabilities, inner products, or
    negative distances such as `-torch.cdist(target, source)`. Without it, a confident wrong alignment looks perfect,
    since all other measures depend only on the shape of the attention.

    expected_violations   steps at which the expected position Σ_t t A[s, t] moves back by more than 0.1 key
    argmax_violations     steps at which the key with the largest weight lies before the previous one
    skipped               required keys that are never the key with the largest weight
    repeated              keys the argmax path returns to after it has left them
    coverage              share of required keys whose weights sum to ½ or more (½ S/T where S < T)
    focus                 mean over queries of the largest weight
    entropy               mean over queries of −Σ A log A, in nats; normalized: divided by log T
    diagonal_deviation    mean of |(s+½)/S − (t+½)/T| under A: 0.25 is typical of attention that knows nothing
    content_rank          mean under A of the share of other keys that fit the query worse: 1 where attention is on the
                          best fitting key, ½ where it is on arbitrary keys; None without content
    """
    array = _check_weights(_floats(weights))
    queries, keys = array.shape
    needed = np.ones(keys, bool) if required is None else np.asarray(required)
    if needed.shape != (keys,) or needed.dtype != bool:
        raise ValueError(f"required: got {needed.dtype} {needed.shape}, expected one bool for each of {keys} keys")
    _, rows = _attending_rows(array)
    expected = rows @ np.arange(keys)
    argmax = rows.argmax(1)
    arrivals = argmax[np.flatnonzero(np.diff(argmax, prepend=-1))]  # one entry for every run of equal keys
    enough = 0.5 * min(1.0, queries / keys)
    entropy = float(np.mean(-np.sum(rows * np.log(np.where(rows > 0, rows, 1.0)), axis=1)))
    return Quality(
        queries=queries,
        keys=keys,
        expected_violations=int(np.sum(np.diff(expected) < -BACKWARD_TOLERANCE)),
        argmax_violations=int(np.sum(np.diff(argmax) < 0)),
        skipped=int(np.sum(needed & (np.bincount(argmax, minlength=keys) == 0))),
        repeated=int(np.sum(np.bincount(arrivals, minlength=keys) > 1)),
        coverage=float(np.mean(rows.sum(0)[needed] >= enough)) if needed.any() else 1.0,
        focus=focus_rate(array),
        entropy=entropy,
        normalized_entropy=entropy / math.log(keys) if keys > 1 else 0.0,
        diagonal_deviation=diagonal_deviation(array),
        content_rank=None if content is None else content_rank(array, _floats(content)),
    )


def focus_rate(weights: FloatArray) -> float:
    """Focus, an alignment quality measure: mean over queries of the largest weight."""
    return float(_attending_rows(weights)[1].max(1).mean())


def diagonal_deviation(weights: FloatArray) -> float:
    """Diagonal deviation, an alignment quality measure: mean of |(s+½)/S − (t+½)/T| under the weights."""
    queries, keys = weights.shape
    attended, rows = _attending_rows(weights)
    target = (np.flatnonzero(attended) + 0.5) / queries
    source = (np.arange(keys) + 0.5) / keys
    return float(np.mean(np.sum(rows * np.abs(target[:, None] - source), axis=1)))


def content_rank(weights: FloatArray, content: FloatArray) -> float:
    """Content rank, a quality measure: mean under the weights of the share of other keys that fit worse; ties ½."""
    if content.shape != weights.shape or np.isnan(content).any():
        raise ValueError(
            f"content: got shape {content.shape}{' with NaN' if np.isnan(content).any() else ''}, expected a score for "
            f"every query and key, {weights.shape}"
        )
    attended, rows = _attending_rows(weights)
    if weights.shape[1] == 1:
        return 1.0  # no other key to attend to
    ranks = np.empty_like(rows)
    for rank, scores in zip(ranks, content[attended], strict=True):
        order = np.sort(scores)
        below, up_to = np.searchsorted(order, scores, "left"), np.searchsorted(order, scores, "right")
        rank[:] = (below + 0.5 * (up_to - below - 1)) / (len(scores) - 1)
    return float(np.mean(np.sum(rows * ranks, axis=1)))


def _attending_rows(weights: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Rows of attention that have any weight (as a mask), and those rows normalised, for alignment quality."""
    totals = weights.sum(1)
    attended = totals > 0
    if not attended.any():
        raise ValueError("weights: every one is 0, expected attention; check the lengths and masks")
    return attended, weights[attended] / totals[attended, None]


def _floats(values: Tensor | ArrayLike) -> FloatArray:
    """Attention weights or clocks as an fp64 array, for alignment."""
    if isinstance(values, Tensor):
        return values.detach().double().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _check_weights(weights: FloatArray) -> FloatArray:
    """Reject attention weights that cannot be aligned."""
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(
            f"weights: got shape {weights.shape}, expected one non-empty (S, T) matrix; "
            "attention_matrices cuts batches and heads into these"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(
            "weights: got NaN, infinite or negative values, expected attention after the softmax; pass query_lengths "
            "and key_lengths to attention_matrices to cut padding off, or give scores to monotone_path"
        )
    return weights


def _lengths(name: str, lengths: int | Tensor | ArrayLike | None, batch: int, longest: int) -> list[int]:
    """Checked lengths of the items of a batch, for alignment."""
    if lengths is None:
        return [longest] * batch
    array = np.atleast_1d(lengths.detach().cpu().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths))
    if array.shape != (batch,) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: got {array.dtype} {array.shape}, expected one integer for each of {batch} items")
    if (array < 1).any() or (array > longest).any():
        raise ValueError(f"{name}: got {array.tolist()}, expected lengths between 1 and {longest}")
    return [int(length) for length in array]
