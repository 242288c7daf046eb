"""Blocks of queries against tiles of keys: packing, distances, products, weighted sums, and the bound of the band.

A block is ROWS queries, a tile TILE keys, a vector LANES numbers. All three have the same size: a block and a tile
make one square of logits, a row of it is one vector, and squares of features are transposed in registers.
`rows` puts these parts together; docs/theory/kernel.md derives the bound.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

import numpy as np

from clock_attention.kernels.banded.clocks import jit
from clock_attention.kernels.banded.simd import (
    LANES,
    cast,
    fma,
    get,
    larger,
    largest,
    load,
    logarithm,
    prefetch,
    shift,
    splat,
    store,
    total,
    transpose,
)

ROWS = LANES  # queries in a block, which share a band
TILE = LANES  # keys in a tile
SQUARE = ROWS * TILE  # numbers in a block's logits with one tile
TILE_BITS = TILE.bit_length() - 1
SLACK = 0.5  # the bound is rounded too; a key at the very edge must not depend on it


@jit
def transpose_block(source, place, stride, target, at, like):
    """Transpose while packing tiles: target[at + LANES c + r] = source[place + r·stride + c], LANES × LANES numbers."""
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
    store(target, at + LANES, columns[1])
    store(target, at + 2 * LANES, columns[2])
    store(target, at + 3 * LANES, columns[3])
    store(target, at + 4 * LANES, columns[4])
    store(target, at + 5 * LANES, columns[5])
    store(target, at + 6 * LANES, columns[6])
    store(target, at + 7 * LANES, columns[7])


@jit
def set_centre(block, width, anchors, factors, centre):
    """Set the centre to which packed tiles of queries and keys are relative: the block's first reading, in fp64."""
    for c in range(0, width, LANES):
        store(centre, c, load(anchors, block * width + c) * load(factors, c))


@jit
def pack_queries(first, width, offsets, factors, rows, columns, like):
    """Pack a block of queries relative to the centre, as rows (ROWS, width) and columns (width, ROWS)."""
    for c in range(0, width, LANES):
        factor = cast(load(factors, c), like)
        for r in range(ROWS):
            store(rows, r * width + c, load(offsets, (first + r) * width + c) * factor)
        transpose_block(rows, c, width, columns, ROWS * c, like)


@jit
def pack_keys(tile, width, clock, centre, rows, columns, like):
    """Pack a tile of keys relative to the centre, rounded only then, as rows (T, width) and columns (width, TILE)."""
    for c in range(0, width, LANES):
        origin = load(centre, c)
        for k in range(TILE):
            place = (TILE * tile + k) * width + c
            store(rows, place, cast(load(clock, place) - origin, like))
        transpose_block(rows, TILE * tile * width + c, width, columns, TILE * (tile * width + c), like)


@jit
def overshoot(query, key, centre, width, sign, like):
    """Overshoot for the bound of a tile: R(s, t) = Σ_c max(0, sign · (λ_t − λ_s))², with the key still in fp64."""
    added, toward = splat(0.0, like), splat(sign, like)
    for c in range(0, width, LANES):
        gap = larger(toward * (cast(load(key, c) - load(centre, c), like) - load(query, c)), splat(0.0, like))
        added = fma(gap, gap, added)
    return total(added)


@jit
def tile_distances(queries, keys, width, out, like):
    """Squared distances of a block (width, ROWS) and a tile (width, TILE) → (ROWS, TILE), all sums in registers.

    Four queries at a time, even and odd channels apart: eight sums hide the latency of an addition, and with the
    differences they just fit into sixteen registers.
    """
    for r in range(0, ROWS, 4):
        a0 = splat(0.0, like)
        a1, a2, a3, b0, b1, b2, b3 = a0, a0, a0, a0, a0, a0, a0
        for c in range(0, width, 2):
            at = ROWS * c + r
            key = load(keys, TILE * c)
            d0 = splat(get(queries, at), like) - key
            a0 = fma(d0, d0, a0)
            d1 = splat(get(queries, at + 1), like) - key
            a1 = fma(d1, d1, a1)
            d2 = splat(get(queries, at + 2), like) - key
            a2 = fma(d2, d2, a2)
            d3 = splat(get(queries, at + 3), like) - key
            a3 = fma(d3, d3, a3)
            at += ROWS
            key = load(keys, TILE * c + TILE)
            d0 = splat(get(queries, at), like) - key
            b0 = fma(d0, d0, b0)
            d1 = splat(get(queries, at + 1), like) - key
            b1 = fma(d1, d1, b1)
            d2 = splat(get(queries, at + 2), like) - key
            b2 = fma(d2, d2, b2)
            d3 = splat(get(queries, at + 3), like) - key
            b3 = fma(d3, d3, b3)
        store(out, TILE * r, a0 + b0)
        store(out, TILE * (r + 1), a1 + b1)
        store(out, TILE * (r + 2), a2 + b2)
        store(out, TILE * (r + 3), a3 + b3)


@jit
def tile_products(queries, keys, width, out, like):
    """Inner products of a block (width, ROWS) and a tile (width, TILE) → (ROWS, TILE); the largest is returned."""
    a0 = splat(0.0, like)
    a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
    for c in range(width):
        key = load(keys, TILE * c)
        a0 = fma(splat(get(queries, ROWS * c), like), key, a0)
        a1 = fma(splat(get(queries, ROWS * c + 1), like), key, a1)
        a2 = fma(splat(get(queries, ROWS * c + 2), like), key, a2)
        a3 = fma(splat(get(queries, ROWS * c + 3), like), key, a3)
        a4 = fma(splat(get(queries, ROWS * c + 4), like), key, a4)
        a5 = fma(splat(get(queries, ROWS * c + 5), like), key, a5)
        a6 = fma(splat(get(queries, ROWS * c + 6), like), key, a6)
        a7 = fma(splat(get(queries, ROWS * c + 7), like), key, a7)
    store_four(out, 0, TILE, a0, a1, a2, a3)
    store_four(out, 4 * TILE, TILE, a4, a5, a6, a7)
    return float(largest(larger(larger(larger(a0, a1), larger(a2, a3)), larger(larger(a4, a5), larger(a6, a7)))))


@jit
def band_products(queries, keys, width, first, last, out, like):
    """`tile_products` of tiles first … last − 1, into their squares.

    Two tiles and four queries at a time: fewer loads for as many products.
    """
    for tile in range(first, last - 1, 2):
        one, two = shift(keys, TILE * tile * width), shift(keys, TILE * (tile + 1) * width)
        for r in range(0, ROWS, 4):
            a0 = splat(0.0, like)
            a1, a2, a3, b0, b1, b2, b3 = a0, a0, a0, a0, a0, a0, a0
            for c in range(width):
                at, left, right = ROWS * c + r, load(one, TILE * c), load(two, TILE * c)
                q0, q1 = splat(get(queries, at), like), splat(get(queries, at + 1), like)
                q2, q3 = splat(get(queries, at + 2), like), splat(get(queries, at + 3), like)
                a0, a1, a2, a3 = fma(q0, left, a0), fma(q1, left, a1), fma(q2, left, a2), fma(q3, left, a3)
                b0, b1, b2, b3 = fma(q0, right, b0), fma(q1, right, b1), fma(q2, right, b2), fma(q3, right, b3)
            store_four(out, SQUARE * tile + TILE * r, TILE, a0, a1, a2, a3)
            store_four(out, SQUARE * (tile + 1) + TILE * r, TILE, b0, b1, b2, b3)
    if (last - first) % 2 == 1:
        tile = last - 1
        tile_products(queries, shift(keys, TILE * tile * width), width, shift(out, SQUARE * tile), like)


@jit
def place_in_tiles(k):
    """Start of key k's column in a block's logits, which are stored in tiles of (ROWS, TILE)."""
    return (k >> TILE_BITS) * SQUARE + (k & (TILE - 1))


@jit
def weighted_rows(weights, first, last, source, index, step, origin, width, out, like):
    """Weighted sum over tiles: out (ROWS, width) = Σ_k weights[:, k] · (source[index[k]·step] − origin), in order.

    Without an index: k itself; without an origin: 0. Four rows by 2 LANES channels of sums stay in registers.
    """
    for r in range(0, ROWS, 4):
        for c in range(0, width, 2 * LANES):
            a0 = splat(0.0, like)
            a1, a2, a3, b0, b1, b2, b3 = a0, a0, a0, a0, a0, a0, a0
            for k in range(first, last):
                place = (k if index is None else get(index, k)) * step + c
                left, right = load(source, place), load(source, place + LANES)
                if origin is not None:
                    left, right = left - load(origin, c), right - load(origin, c + LANES)
                at = place_in_tiles(k) + r * TILE
                w0, w1 = splat(get(weights, at), like), splat(get(weights, at + TILE), like)
                w2, w3 = splat(get(weights, at + 2 * TILE), like), splat(get(weights, at + 3 * TILE), like)
                a0, a1, a2, a3 = fma(w0, left, a0), fma(w1, left, a1), fma(w2, left, a2), fma(w3, left, a3)
                b0, b1, b2, b3 = fma(w0, right, b0), fma(w1, right, b1), fma(w2, right, b2), fma(w3, right, b3)
            store_four(out, r * width + c, width, a0, a1, a2, a3)
            store_four(out, r * width + c + LANES, width, b0, b1, b2, b3)


@jit
def store_four(out, at, width, a0, a1, a2, a3):
    """Store four neighbouring rows of a tile."""
    store(out, at, a0)
    store(out, at + width, a1)
    store(out, at + 2 * width, a2)
    store(out, at + 3 * width, a3)


@jit
def spread_to_keys(weights, first, last, source, width, own, own_weights, target, like):
    """Add from a block to a tile's keys: target[k] += Σ_r weights[r, k] · source[r] (− own_weights[k] · own[k])."""
    for k in range(first & -4, last, 4):
        column = place_in_tiles(k)
        for c in range(0, width, 2 * LANES):
            place = k * width + c
            a0, b0 = load(target, place), load(target, place + LANES)
            a1, b1 = load(target, place + width), load(target, place + width + LANES)
            a2, b2 = load(target, place + 2 * width), load(target, place + 2 * width + LANES)
            a3, b3 = load(target, place + 3 * width), load(target, place + 3 * width + LANES)
            if own is not None:
                w0, w1 = splat(-get(own_weights, k), like), splat(-get(own_weights, k + 1), like)
                w2, w3 = splat(-get(own_weights, k + 2), like), splat(-get(own_weights, k + 3), like)
                a0, b0 = fma(w0, load(own, place), a0), fma(w0, load(own, place + LANES), b0)
                a1, b1 = fma(w1, load(own, place + width), a1), fma(w1, load(own, place + width + LANES), b1)
                a2, b2 = fma(w2, load(own, place + 2 * width), a2), fma(w2, load(own, place + 2 * width + LANES), b2)
                a3, b3 = fma(w3, load(own, place + 3 * width), a3), fma(w3, load(own, place + 3 * width + LANES), b3)
            for r in range(ROWS):
                at = column + r * TILE
                left, right = load(source, r * width + c), load(source, r * width + c + LANES)
                w0, w1 = splat(get(weights, at), like), splat(get(weights, at + 1), like)
                w2, w3 = splat(get(weights, at + 2), like), splat(get(weights, at + 3), like)
                a0, a1, a2, a3 = fma(w0, left, a0), fma(w1, left, a1), fma(w2, left, a2), fma(w3, left, a3)
                b0, b1, b2, b3 = fma(w0, right, b0), fma(w1, right, b1), fma(w2, right, b2), fma(w3, right, b3)
            store_four(target, place, width, a0, a1, a2, a3)
            store_four(target, place + LANES, width, b0, b1, b2, b3)


@jit
def pack_tile(tile, count, source, step, index, width, room, columns, like):
    """Pack the rows of a tile of keys, found by index, as columns (width, TILE); keys beyond the last read as 0."""
    for k in range(TILE):
        for c in range(0, width, LANES):
            line = splat(0.0, like)
            if TILE * tile + k < count:
                line = load(source, get(index, TILE * tile + k) * step + c)
            store(room, k * width + c, line)
    for c in range(0, width, LANES):
        transpose_block(room, c, width, columns, TILE * (tile * width + c), like)


@jit
def fetch_rows(source, step, index, first, count, ahead, width):
    """Prefetch the rows `ahead` steps after those of a block, while packing tiles."""
    for r in range(count):
        place = (get(index, first + r) + ahead) * step
        for c in range(0, width, 2 * LANES):
            prefetch(source, place + c)


@jit
def pack_block(first, count, source, step, index, width, rows, columns, like):
    """Pack the rows of a block of queries, found by index, as columns (width, ROWS) and, if wanted, rows (ROWS, width).

    Absent rows repeat the last one. Returns the largest ‖row‖².
    """
    if count == ROWS:  # the next block's rows are prefetched while this one is processed
        fetch_rows(source, step, index, first, count, ROWS, width)
    last = first + count - 1
    p0, p1 = get(index, first) * step, get(index, min(first + 1, last)) * step
    p2, p3 = get(index, min(first + 2, last)) * step, get(index, min(first + 3, last)) * step
    p4, p5 = get(index, min(first + 4, last)) * step, get(index, min(first + 5, last)) * step
    p6, p7 = get(index, min(first + 6, last)) * step, get(index, min(first + 7, last)) * step
    a = splat(0.0, like)
    b = a
    for c in range(0, width, LANES):
        r0, r1, r2, r3 = load(source, p0 + c), load(source, p1 + c), load(source, p2 + c), load(source, p3 + c)
        r4, r5, r6, r7 = load(source, p4 + c), load(source, p5 + c), load(source, p6 + c), load(source, p7 + c)
        if rows is not None:
            store_four(rows, c, width, r0, r1, r2, r3)
            store_four(rows, 4 * width + c, width, r4, r5, r6, r7)
        c0, c1, c2, c3, c4, c5, c6, c7 = transpose(r0, r1, r2, r3, r4, r5, r6, r7)
        store_four(columns, ROWS * c, ROWS, c0, c1, c2, c3)
        store_four(columns, ROWS * (c + 4), ROWS, c4, c5, c6, c7)
        a, b = fma(c2, c2, fma(c0, c0, a)), fma(c3, c3, fma(c1, c1, b))
        a, b = fma(c6, c6, fma(c4, c4, a)), fma(c7, c7, fma(c5, c5, b))
    return float(largest(a + b))


@jit
def largest_norm(rows, count, step, index, width):
    """Norms for the bound of a tile: the largest ‖row‖, and the sum of all ‖row‖², not finite if any number is not."""
    largest_square, added = 0.0, 0.0
    for i in range(count):
        square = splat(0.0, 0.0)
        for c in range(0, width, LANES):
            line = cast(load(rows, get(index, i) * step + c), 0.0)
            square = fma(line, line, square)
        norm = total(square)
        largest_square, added = max(largest_square, norm), added + norm
    return np.sqrt(largest_square), added


@jit
def crossing(sums, n, reading):
    """The first key whose summed clock has reached a query's, where the band of tiles starts to grow."""
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
    """A query's clock summed over its channels, for the bound of a tile."""
    added = splat(0.0, 0.0)
    for c in range(0, width, LANES):
        added = added + cast(load(query, c), 0.0) + load(centre, c)
    return total(added)


@jit
def scores_of(distances, sigma2, spread, eps, log_term, like):
    """Scores of one query and a tile of keys (Eq. 3): −dist²/(2√d Σ² + ε) [− ½ log Σ²]."""
    scores = splat(-1.0, like) * distances / fma(splat(spread, like), sigma2, splat(eps, like))
    if log_term:
        scores = scores - splat(0.5, like) * logarithm(sigma2)
    return scores


@jit
def bound_logit(distance, variance, floor_variance, scale, spread, eps, log_term):
    """Bound of a tile: the highest score of any key beyond `distance`; no bound if scale is not positive."""
    if not scale > 0.0:
        return np.inf
    bound = -scale * distance / (spread * variance + eps)
    if log_term:
        bound -= 0.5 * scale * np.log(floor_variance)
    return bound
