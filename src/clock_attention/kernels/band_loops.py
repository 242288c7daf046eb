"""Where two clocks meet, compiled: score → softmax → A·V over the band of keys that matter, and its gradient.

Queries are taken ROWS at a time against tiles of eight keys. Both clocks are non-decreasing, so with
R(s, t) = Σ_c max(0, λ_{t,c} − λ_{s,c})² every key t' ≥ t scores at most −R(s, t)/(2√d max Σ² + ε), and likewise to the
left: from the tile where the clocks cross, the band grows both ways until that bound falls `drop` below every row's
maximum. What is left out weighs at most T·e^(−drop) of a row in all.

A weight below e^(−drop) of its row's largest becomes 0 also inside the band, and sums run over keys in ascending
order: a row's result does not depend on how far its neighbours made the band reach.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

import numpy as np

from clock_attention.kernels.clock_loops import jit
from clock_attention.kernels.lanes import (
    cast,
    fma,
    get,
    is_null,
    larger,
    load,
    logarithm,
    splat,
    store,
    total,
    transpose,
)

ROWS = 8  # queries that share a band
SLACK = 0.5  # the bound is rounded too; a key at the very edge must not depend on it


@jit
def transpose_block(source, place, stride, target, at, like):
    """target[at + 8 c + r] = source[place + r·stride + c] for 8 × 8 numbers."""
    columns = transpose(
        load(source, place),
        load(source, place + stride),
        load(source, place + 2 * stride),
        load(source, place + 3 * stride),
        load(source, place + 4 * stride),
        load(source, place + 5 * stride),
        load(source, place + 6 * stride),
        load(source, place + 7 * stride),
    )
    store(target, at, columns[0])
    store(target, at + 8, columns[1])
    store(target, at + 16, columns[2])
    store(target, at + 24, columns[3])
    store(target, at + 32, columns[4])
    store(target, at + 40, columns[5])
    store(target, at + 48, columns[6])
    store(target, at + 56, columns[7])


@jit
def set_centre(block, width, anchors, factors, centre):
    """The fp64 reading from which a block of queries and its keys are measured: that of the block's first step."""
    for c in range(0, width, 8):
        store(centre, c, load(anchors, block * width + c) * load(factors, c))


@jit
def pack_queries(first, width, offsets, factors, rows, columns, like):
    """Eight queries relative to the centre: as rows (8, width) and as columns (width, 8)."""
    for c in range(0, width, 8):
        factor = cast(load(factors, c), like)
        for r in range(ROWS):
            store(rows, r * width + c, load(offsets, (first + r) * width + c) * factor)
        transpose_block(rows, c, width, columns, 8 * c, like)


@jit
def pack_keys(tile, width, clock, centre, rows, columns, like):
    """Eight keys relative to the centre, rounded only then: rows (T, width) and, tile by tile, columns (width, 8)."""
    for c in range(0, width, 8):
        origin = load(centre, c)
        for k in range(8):
            place = (8 * tile + k) * width + c
            store(rows, place, cast(load(clock, place) - origin, like))
        transpose_block(rows, 8 * tile * width + c, width, columns, 8 * (tile * width + c), like)


@jit
def overshoot(query, key, centre, width, sign, like):
    """R(s, t) of the bound: Σ_c max(0, sign · (λ_t − λ_s))², with the key still in fp64."""
    added, toward = splat(0.0, like), splat(sign, like)
    for c in range(0, width, 8):
        gap = larger(toward * (cast(load(key, c) - load(centre, c), like) - load(query, c)), splat(0.0, like))
        added = fma(gap, gap, added)
    return total(added)


@jit
def tile_distances(queries, keys, width, out, like):
    """Squared distances of 8 queries (width, 8) and 8 keys (width, 8) → (8, 8), all sums in registers.

    Four queries at a time, even and odd channels apart: eight sums hide the latency of an addition, and with the
    differences they just fit into sixteen registers.
    """
    for r in range(0, ROWS, 4):
        a0 = splat(0.0, like)
        a1, a2, a3, b0, b1, b2, b3 = a0, a0, a0, a0, a0, a0, a0
        for c in range(0, width, 2):
            at = 8 * c + r
            key = load(keys, 8 * c)
            d0 = splat(get(queries, at), like) - key
            a0 = fma(d0, d0, a0)
            d1 = splat(get(queries, at + 1), like) - key
            a1 = fma(d1, d1, a1)
            d2 = splat(get(queries, at + 2), like) - key
            a2 = fma(d2, d2, a2)
            d3 = splat(get(queries, at + 3), like) - key
            a3 = fma(d3, d3, a3)
            key = load(keys, 8 * c + 8)
            d0 = splat(get(queries, at + 8), like) - key
            b0 = fma(d0, d0, b0)
            d1 = splat(get(queries, at + 9), like) - key
            b1 = fma(d1, d1, b1)
            d2 = splat(get(queries, at + 10), like) - key
            b2 = fma(d2, d2, b2)
            d3 = splat(get(queries, at + 11), like) - key
            b3 = fma(d3, d3, b3)
        store(out, 8 * r, a0 + b0)
        store(out, 8 * r + 8, a1 + b1)
        store(out, 8 * r + 16, a2 + b2)
        store(out, 8 * r + 24, a3 + b3)


@jit
def tile_products(queries, keys, width, out, like):
    """Inner products of 8 columns (width, 8) and 8 columns (width, 8) → (8, 8)."""
    a0 = splat(0.0, like)
    a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
    for c in range(width):
        key = load(keys, 8 * c)
        a0 = fma(splat(get(queries, 8 * c), like), key, a0)
        a1 = fma(splat(get(queries, 8 * c + 1), like), key, a1)
        a2 = fma(splat(get(queries, 8 * c + 2), like), key, a2)
        a3 = fma(splat(get(queries, 8 * c + 3), like), key, a3)
        a4 = fma(splat(get(queries, 8 * c + 4), like), key, a4)
        a5 = fma(splat(get(queries, 8 * c + 5), like), key, a5)
        a6 = fma(splat(get(queries, 8 * c + 6), like), key, a6)
        a7 = fma(splat(get(queries, 8 * c + 7), like), key, a7)
    store(out, 0, a0)
    store(out, 8, a1)
    store(out, 16, a2)
    store(out, 24, a3)
    store(out, 32, a4)
    store(out, 40, a5)
    store(out, 48, a6)
    store(out, 56, a7)


@jit
def weighted_rows(weights, first, last, source, index, stride, width, out, like):
    """out (8, width) = Σ_k weights[:, k] · source[index[k]·stride], keys in ascending order. `width` is even in 8s.

    Weights lie in tiles of (8 queries, 8 keys). Four rows by sixteen channels of sums stay in registers.
    """
    for r in range(0, ROWS, 4):
        for c in range(0, width, 16):
            a0 = splat(0.0, like)
            a1, a2, a3, b0, b1, b2, b3 = a0, a0, a0, a0, a0, a0, a0
            for k in range(first, last):
                place = k if is_null(index) else get(index, k)
                left, right = load(source, place * stride + c), load(source, place * stride + c + 8)
                at = (k >> 3) * 64 + r * 8 + (k & 7)
                w0, w1 = splat(get(weights, at), like), splat(get(weights, at + 8), like)
                w2, w3 = splat(get(weights, at + 16), like), splat(get(weights, at + 24), like)
                a0, a1, a2, a3 = fma(w0, left, a0), fma(w1, left, a1), fma(w2, left, a2), fma(w3, left, a3)
                b0, b1, b2, b3 = fma(w0, right, b0), fma(w1, right, b1), fma(w2, right, b2), fma(w3, right, b3)
            at = r * width + c
            store(out, at, a0)
            store(out, at + width, a1)
            store(out, at + 2 * width, a2)
            store(out, at + 3 * width, a3)
            store(out, at + 8, b0)
            store(out, at + width + 8, b1)
            store(out, at + 2 * width + 8, b2)
            store(out, at + 3 * width + 8, b3)


@jit
def spread_to_keys(weights, first, last, source, width, own, own_weights, target, like):
    """target[k] += Σ_r weights[r, k] · source[r] (− own_weights[k] · own[k]), by groups of four keys."""
    for k in range(first & -4, last, 4):
        at = (k >> 3) * 64 + (k & 7)
        for c in range(0, width, 16):
            place = k * width + c
            a0, b0 = load(target, place), load(target, place + 8)
            a1, b1 = load(target, place + width), load(target, place + width + 8)
            a2, b2 = load(target, place + 2 * width), load(target, place + 2 * width + 8)
            a3, b3 = load(target, place + 3 * width), load(target, place + 3 * width + 8)
            if not is_null(own):
                w0, w1 = splat(-get(own_weights, k), like), splat(-get(own_weights, k + 1), like)
                w2, w3 = splat(-get(own_weights, k + 2), like), splat(-get(own_weights, k + 3), like)
                a0, b0 = fma(w0, load(own, place), a0), fma(w0, load(own, place + 8), b0)
                a1, b1 = fma(w1, load(own, place + width), a1), fma(w1, load(own, place + width + 8), b1)
                a2, b2 = fma(w2, load(own, place + 2 * width), a2), fma(w2, load(own, place + 2 * width + 8), b2)
                a3, b3 = fma(w3, load(own, place + 3 * width), a3), fma(w3, load(own, place + 3 * width + 8), b3)
            for r in range(ROWS):
                left, right = load(source, r * width + c), load(source, r * width + c + 8)
                w0, w1 = splat(get(weights, at + 8 * r), like), splat(get(weights, at + 8 * r + 1), like)
                w2, w3 = splat(get(weights, at + 8 * r + 2), like), splat(get(weights, at + 8 * r + 3), like)
                a0, a1, a2, a3 = fma(w0, left, a0), fma(w1, left, a1), fma(w2, left, a2), fma(w3, left, a3)
                b0, b1, b2, b3 = fma(w0, right, b0), fma(w1, right, b1), fma(w2, right, b2), fma(w3, right, b3)
            store(target, place, a0)
            store(target, place + 8, b0)
            store(target, place + width, a1)
            store(target, place + width + 8, b1)
            store(target, place + 2 * width, a2)
            store(target, place + 2 * width + 8, b2)
            store(target, place + 3 * width, a3)
            store(target, place + 3 * width + 8, b3)


@jit
def crossing(sums, n, reading):
    """The first key whose summed clock has reached a query's: where the band starts to grow."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if get(sums, middle) < reading:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def summed_reading(query, centre, width):
    added = splat(0.0, 0.0)
    for c in range(0, width, 8):
        added = added + cast(load(query, c), 0.0) + load(centre, c)
    return total(added)


@jit
def scores_of(distances, sigma2, spread, eps, log_term, like):
    """−dist²/(2√d Σ² + ε) [− ½ log Σ²] for one query and eight keys (Eq. 3)."""
    scores = splat(-1.0, like) * distances / fma(splat(spread, like), sigma2, splat(eps, like))
    if log_term:
        scores = scores - splat(0.5, like) * logarithm(sigma2)
    return scores


@jit
def bound_logit(distance, variance, floor_variance, scale, spread, eps, log_term):
    """The most any key beyond `distance` can score; nothing is known if scale is not positive."""
    if not scale > 0.0:
        return np.inf
    bound = -scale * distance / (spread * variance + eps)
    if log_term:
        bound -= 0.5 * scale * np.log(floor_variance)
    return bound
