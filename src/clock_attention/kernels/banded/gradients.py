"""Gradients of the rows, compiled: from ∂/∂o and ∂/∂P to those of clocks, values, variances, contents and logit_scale.

The slopes ∂/∂logit = P (∂/∂P − δ), δ = Σ_k P ∂/∂P, of a row add up to 0, and whatever they multiply is often large and
almost the same for all keys: scores of clocks that hardly meet, 1/Σ² of short sequences. In fp32 the sum of slopes must
therefore be 0 to their own precision, not to that of ∂/∂P, and what they multiply is centred first. Two passes do this:
`weigh_tile` takes ∂/∂P relative to a first estimate of δ and sums the remainder, and averages by row; `pull_tile`
subtracts these means. A row with one key then has no gradient at all, instead of rounding errors over Σ².
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clock_attention.kernels.banded.clocks import ANCHOR, jit, jit_inline
from clock_attention.kernels.banded.rows import ensure_packed, prepare_block, prepare_tiles
from clock_attention.kernels.banded.simd import (
    LANES,
    add,
    exponential,
    fma,
    get,
    is_null,
    keep_first,
    keep_from,
    load,
    logarithm,
    put,
    shift,
    splat,
    store,
    subtract,
    total,
)
from clock_attention.kernels.banded.tiles import (
    ROWS,
    SQUARE,
    TILE,
    band_products,
    fetch_rows,
    pack_tile,
    scores_of,
    spread_to_keys,
    tile_distances,
    transpose_block,
    weighted_rows,
)

ABOVE, SCORE, INVERSE, STEEP = range(4)  # what is averaged over a row's keys with its weights
AVERAGES = 4


class BackRoom(NamedTuple):
    """A thread's scratch memory for gradients, in addition to that of the forward pass."""

    content_key_rows: Any  # (T, content width)
    value_columns: Any  # tiles of (value width, TILE)
    grad_rows: Any  # ∂/∂o (ROWS, value width)
    grad_columns: Any  # (value width, ROWS)
    pulls: Any  # dist², then 2 ∂/∂dist², tiles of (ROWS, TILE)
    slopes: Any  # content scores, then ∂/∂P − δ, then ∂/∂logit, tiles of (ROWS, TILE)
    inverses: Any  # ∂/∂o · v, then 1/(2√d Σ² + ε), tiles of (ROWS, TILE)
    averages: Any  # (AVERAGES, ROWS, LANES): sums by lane, then means in the first lane
    pull_rows: Any  # Σ pulls over keys, (ROWS, LANES)
    pull_keys: Any  # Σ pulls over queries (T)
    deltas: Any  # δ, rounded (ROWS)
    variance_rows: Any  # ∂/∂A_X (ROWS)


class Gradients(NamedTuple):
    """Inputs and results of the backward pass. `grad_weights` and `query_variance` are null where not wanted."""

    out: Any
    out_step: int
    weights: Any  # ∂/∂P (S, T)
    clock: Any  # ∂/∂λ_s (S, width)
    content: Any  # (S, content width), in place
    content_step: int
    query_variance: Any
    key_clock: Any  # −∂/∂λ_t (T, width), added up
    value: Any  # (T, value width), added up
    key_variance: Any  # (T), added up
    key_content: Any  # (T, content width), added up


@jit_inline
def take_gradients(first, count, queries, widths, room, back, results, gradients, like):
    """Load ∂/∂o of a block of queries as rows and columns, their softmax, and δ = Σ_k P ∂/∂P; absent ones get 0."""
    width = widths.value
    for r in range(ROWS):
        target = get(queries.index, first + min(r, count - 1))
        put(room.softmax, 2 * r, get(results.softmax, 2 * target))
        put(room.softmax, 2 * r + 1, get(results.softmax, 2 * target + 1))
        added = splat(0.0, like)
        for c in range(0, width, LANES):
            line = splat(0.0, like)
            if r < count:
                line = load(gradients.out, target * gradients.out_step + c)
                added = fma(line, load(results.out, target * results.out_step + c), added)
            store(back.grad_rows, r * width + c, line)
        delta = float(total(added))
        if r < count and not is_null(gradients.weights):
            for k in range(target * results.weights_step, (target + 1) * results.weights_step):
                delta += get(results.weights, k) * get(gradients.weights, k)
        put(back.deltas, r, delta)
    for c in range(0, width, LANES):
        transpose_block(back.grad_rows, c, width, back.grad_columns, ROWS * c, like)
    for i in range(0, AVERAGES * ROWS * LANES, LANES):
        store(back.averages, i, splat(0.0, like))
    for r in range(ROWS):
        store(back.pull_rows, LANES * r, splat(0.0, like))
        put(back.variance_rows, r, 0.0)


@jit_inline
def take_weight_gradients(tile, first, count, queries, keys, results, gradients, weights, like):
    """Copy the given ∂/∂P of a block and a tile to where P will be."""
    for r in range(ROWS):
        for k in range(TILE):
            given = 0.0
            if r < count and TILE * tile + k < keys.count:
                place = get(queries.index, first + r) * results.weights_step + get(keys.index, TILE * tile + k)
                given = float(get(gradients.weights, place))
            put(weights, SQUARE * tile + TILE * r + k, given)


@jit_inline
def steepness(distances, inverse, sigma2, scoring, like):
    """Gradient ∂logit/∂Σ²."""
    steep = splat(scoring.scale * scoring.spread, like) * distances * inverse * inverse
    if scoring.log_term:
        steep = steep - splat(0.5 * scoring.scale, like) / sigma2
    return steep


@jit_inline
def average(back, what, r, weight, x):
    """Add weight · x to a row's running averages, for its gradients."""
    place = (what * ROWS + r) * LANES
    store(back.averages, place, fma(weight, x, load(back.averages, place)))


@jit_inline
def weigh_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like):
    """First pass over a block and a tile: e^(logit − max) into `logits`, ∂/∂P − δ into `slopes`, dist² into `pulls`,
    1/(2√d Σ² + ε) into `inverses`. On entry, `slopes` holds content scores, `inverses` ∂/∂o · v, and `logits` the
    given ∂/∂P, if any."""
    ensure_packed(tile, first // ANCHOR, keys, widths.clock, room, like)
    here, apart = shift(room.logits, SQUARE * tile), shift(back.pulls, SQUARE * tile)
    slopes, inverses = shift(back.slopes, SQUARE * tile), shift(back.inverses, SQUARE * tile)
    tile_distances(room.query_columns, shift(room.key_columns, TILE * tile * widths.clock), widths.clock, apart, like)
    variances = load(keys.variance, TILE * tile)
    for r in range(ROWS):
        distances = load(apart, TILE * r)
        sigma2 = splat(get(queries.variance, first + r), like) + variances
        scores = scores_of(distances, sigma2, scoring.spread, scoring.eps, scoring.log_term, like)
        line = splat(scoring.scale, like) * scores
        # Rounded as in the forward pass, which stored the logit: the two must not differ by a fused multiplication.
        if widths.content > 0:
            line = add(line, load(slopes, TILE * r))
        if TILE * tile + TILE > keys.count:
            line = keep_first(line, keys.count - TILE * tile, -np.inf)
        peak = get(room.softmax, 2 * r)
        weight = keep_from(line, splat(peak - scoring.drop, like), exponential(subtract(line, splat(peak, like))))
        above = load(inverses, TILE * r) - splat(get(back.deltas, r), like)
        if not is_null(gradients.weights):
            above = above + load(here, TILE * r)
        inverse = splat(1.0, like) / fma(splat(scoring.spread, like), sigma2, splat(scoring.eps, like))
        store(here, TILE * r, weight)
        store(slopes, TILE * r, above)
        store(inverses, TILE * r, inverse)
        average(back, ABOVE, r, weight, above)
        average(back, SCORE, r, weight, scores)
        average(back, INVERSE, r, weight, inverse)
        if not is_null(gradients.query_variance):
            average(back, STEEP, r, weight, steepness(distances, inverse, sigma2, scoring, like))


@jit_inline
def take_means(room, back):
    """Turn the gradients' sums by lane into means over each row's keys, in the first lane."""
    for what in range(AVERAGES):
        for r in range(ROWS):
            place = (what * ROWS + r) * LANES
            put(back.averages, place, total(load(back.averages, place)) / get(room.softmax, 2 * r + 1))


@jit_inline
def mean_of(back, what, r, like):
    """A row's mean over its keys, in every lane, for its gradients."""
    return splat(get(back.averages, (what * ROWS + r) * LANES), like)


@jit_inline
def pull_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like):
    """Second pass over a block and a tile: weights P, slopes ∂/∂logit, pulls 2 ∂/∂dist²; returns its ∂/∂logit_scale.

    Pulls are also summed over keys (lanes of pull_rows) and over queries (pull_keys).
    """
    here, force = shift(room.logits, SQUARE * tile), shift(back.pulls, SQUARE * tile)
    slopes, inverses = shift(back.slopes, SQUARE * tile), shift(back.inverses, SQUARE * tile)
    variances = load(keys.variance, TILE * tile)
    by_key, by_scale, double = splat(0.0, like), splat(0.0, like), splat(-2.0 * scoring.scale, like)
    for r in range(ROWS):
        weight = load(here, TILE * r) * splat(1.0 / get(room.softmax, 2 * r + 1), like)
        slope = weight * (load(slopes, TILE * r) - mean_of(back, ABOVE, r, like))
        distances, inverse = load(force, TILE * r), load(inverses, TILE * r)
        pull = double * slope * inverse
        store(here, TILE * r, weight)
        store(slopes, TILE * r, slope)
        store(force, TILE * r, pull)
        by_key = by_key + pull
        uneven = double * slope * (inverse - mean_of(back, INVERSE, r, like))
        store(back.pull_rows, LANES * r, load(back.pull_rows, LANES * r) + uneven)
        scores = splat(-1.0, like) * distances * inverse
        sigma2 = splat(get(queries.variance, first + r), like) + variances
        if scoring.log_term:
            scores = scores - splat(0.5, like) * logarithm(sigma2)
        by_scale = fma(slope, scores - mean_of(back, SCORE, r, like), by_scale)
        if not is_null(gradients.query_variance):
            steep = steepness(distances, inverse, sigma2, scoring, like)
            part = slope * (steep - mean_of(back, STEEP, r, like))
            put(back.variance_rows, r, get(back.variance_rows, r) + total(part))
            place = TILE * tile
            store(gradients.key_variance, place, fma(slope, steep, load(gradients.key_variance, place)))
    store(back.pull_keys, TILE * tile, by_key)
    return float(total(by_scale))


@jit
def backward_rows(row_from, row_to, queries, keys, widths, scoring, room, back, results, gradients, like):
    """Gradients of a block of rows: ∂/∂λ_s, and what the block adds to every key; returns ∂/∂logit_scale."""
    grad_scale = 0.0
    prepare_tiles(keys, widths, back.content_key_rows, widths.content, room, like)
    for tile in range((keys.count + TILE - 1) // TILE):
        pack_tile(
            tile, keys.count, keys.value, keys.value_step, keys.index, widths.value, back.grad_rows,
            back.value_columns, like,
        )  # fmt: skip
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        prepare_block(first, count, queries, widths, room.content_query_rows, room, like)
        take_gradients(first, count, queries, widths, room, back, results, gradients, like)
        first_key, last_key = get(results.bands, 2 * (first // ROWS)), get(results.bands, 2 * (first // ROWS) + 1)
        first_tile, last_tile = first_key // TILE, (last_key + TILE - 1) // TILE
        if widths.content > 0:
            fetch_rows(gradients.content, gradients.content_step, queries.index, first, count, 0, widths.content)
            band_products(
                room.content_query_columns, room.content_key_columns, widths.content, first_tile, last_tile,
                back.slopes, like,
            )  # fmt: skip
        band_products(back.grad_columns, back.value_columns, widths.value, first_tile, last_tile, back.inverses, like)
        for tile in range(first_tile, last_tile):
            if not is_null(gradients.weights):
                take_weight_gradients(tile, first, count, queries, keys, results, gradients, room.logits, like)
            weigh_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like)
        take_means(room, back)
        for tile in range(first_tile, last_tile):
            grad_scale += pull_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like)
        give_block(first, count, first_key, last_key, queries, keys, widths, room, back, gradients, like)
    return grad_scale


@jit_inline
def give_block(first, count, first_key, last_key, queries, keys, widths, room, back, gradients, like):
    """Gradients of a block's queries, and of the keys it attends to, from its pulls, slopes and weights."""
    width = widths.clock
    # Σ_k pull (λ_s − λ_t), both relative to a key of the band: pulls nearly add up to 0.
    origin = shift(room.key_rows, (first_key + last_key) // 2 * width)
    weighted_rows(back.pulls, first_key, last_key, room.key_rows, None, width, origin, width, room.result, like)
    for r in range(count):
        if not is_null(gradients.query_variance):
            put(gradients.query_variance, first + r, get(back.variance_rows, r))
        pull = splat(total(load(back.pull_rows, LANES * r)), like)
        for c in range(0, width, LANES):
            place = r * width + c
            ahead = load(room.query_rows, place) - load(origin, c)
            store(gradients.clock, first * width + place, pull * ahead - load(room.result, place))
    spread_to_keys(
        back.pulls, first_key, last_key, room.query_rows, width, room.key_rows, back.pull_keys, gradients.key_clock,
        like,
    )  # fmt: skip
    spread_to_keys(
        room.logits, first_key, last_key, back.grad_rows, widths.value, None, back.pull_keys, gradients.value, like
    )
    if widths.content > 0:
        weighted_rows(
            back.slopes, first_key, last_key, back.content_key_rows, None, widths.content, None, widths.content,
            room.result, like,
        )  # fmt: skip
        for r in range(count):
            target = get(queries.index, first + r) * gradients.content_step
            for c in range(0, widths.content, LANES):
                store(gradients.content, target + c, load(room.result, r * widths.content + c))
        spread_to_keys(
            back.slopes, first_key, last_key, room.content_query_rows, widths.content, None, back.pull_keys,
            gradients.key_content, like,
        )  # fmt: skip
