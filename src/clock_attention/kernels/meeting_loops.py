"""Rows of the meeting, compiled: the band of every block of queries, its softmax and A·V, and their gradients."""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

import numpy as np

from clock_attention.kernels.band_loops import (
    ROWS,
    SLACK,
    bound_logit,
    crossing,
    overshoot,
    pack_keys,
    pack_queries,
    scores_of,
    set_centre,
    spread_to_keys,
    summed_reading,
    tile_distances,
    tile_products,
    transpose_block,
    weighted_rows,
)
from clock_attention.kernels.clock_loops import ANCHOR, jit
from clock_attention.kernels.lanes import (
    exponential,
    fma,
    get,
    is_null,
    keep_first,
    keep_from,
    larger,
    largest,
    load,
    null_like,
    put,
    shift,
    smaller,
    splat,
    store,
    total,
)


@jit
def variance_range(variance, first, last):
    """Smallest and largest of variance[first:last]."""
    low, high = get(variance, first), get(variance, first)
    for i in range(first + 1, last):
        low, high = min(low, get(variance, i)), max(high, get(variance, i))
    return low, high


@jit
def score_tile(
    tile, block, nk, width, queries, key_rows, key_columns, packed, clock, centre, query_variance, first,
    key_variance, scale, spread, eps, log_term, logits, peaks, like,
):  # fmt: skip
    """Logits of 8 queries and one tile of keys. Raises `peaks` (8 queries × 8 lanes), and returns a number that every
    query's largest logit reaches: max over lanes of the least peak, never more than the least maximum."""
    if get(packed, tile) != block:
        put(packed, tile, block)
        pack_keys(tile, width, clock, centre, key_rows, key_columns, like)
    here = shift(logits, 64 * tile)
    tile_distances(queries, shift(key_columns, 8 * tile * width), width, here, like)
    variances = load(key_variance, 8 * tile)
    lowest = splat(np.inf, like)
    for r in range(ROWS):
        sigma2 = splat(get(query_variance, first + r), like) + variances
        line = splat(scale, like) * scores_of(load(here, 8 * r), sigma2, spread, eps, log_term, like)
        if 8 * tile + 8 > nk:
            line = keep_first(line, nk - 8 * tile, -np.inf)
        store(here, 8 * r, line)
        peak = larger(load(peaks, 8 * r), line)
        store(peaks, 8 * r, peak)
        lowest = smaller(lowest, peak)
    return float(largest(lowest))


@jit
def reaches(query, key, centre, width, sign, high_variance, low_variance, scale, spread, eps, log_term, floor, like):
    """Whether keys from this one on (to the right for sign = 1, left for −1) may still score above `floor`."""
    distance = overshoot(query, key, centre, width, sign, like)
    return not bound_logit(distance, high_variance, low_variance, scale, spread, eps, log_term) < floor - SLACK


@jit
def forward_rows(
    row_from, row_to, nk, width, value_width,
    offsets, anchors, factors, query_variance, query_index, clock, sums, key_variance, key_index,
    scale, spread, eps, drop, log_term, value, value_stride, out, out_stride, lse, weights, weights_stride,
    packed, centre, key_rows, key_columns, query_rows, query_columns, logits, peaks, result, like,
):  # fmt: skip
    """o and the log of the softmax's denominator for valid queries row_from … row_to − 1 of one head.

    The arrays of queries are padded to whole blocks with copies of the last query.
    """
    tiles = (nk + 7) // 8
    key_low, key_high = variance_range(key_variance, 0, nk)
    for tile in range(tiles):
        put(packed, tile, -1)
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        block = first // ANCHOR
        if first % ANCHOR == 0:
            set_centre(block, width, anchors, factors, centre)
        pack_queries(first, width, offsets, factors, query_rows, query_columns, like)
        for r in range(ROWS):
            store(peaks, 8 * r, splat(-np.inf, like))
        low_variance, high_variance = variance_range(query_variance, first, first + ROWS)
        low_variance, high_variance = low_variance + key_low, high_variance + key_high
        last_query = shift(query_rows, (ROWS - 1) * width)
        low = crossing(sums, nk, summed_reading(shift(query_rows, ROWS // 2 * width), centre, width)) // 8
        high = low - 1
        floor = -np.inf
        while high + 1 < tiles and (
            high < low
            or reaches(
                last_query, shift(clock, 8 * (high + 1) * width), centre, width, 1.0,
                high_variance, low_variance, scale, spread, eps, log_term, floor, like,
            )
        ):  # fmt: skip
            high += 1
            floor = score_tile(
                high, block, nk, width, query_columns, key_rows, key_columns, packed, clock, centre,
                query_variance, first, key_variance, scale, spread, eps, log_term, logits, peaks, like,
            ) - drop  # fmt: skip
        while low > 0 and reaches(
            query_rows, shift(clock, (8 * low - 1) * width), centre, width, -1.0,
            high_variance, low_variance, scale, spread, eps, log_term, floor, like,
        ):  # fmt: skip
            low -= 1
            floor = score_tile(
                low, block, nk, width, query_columns, key_rows, key_columns, packed, clock, centre,
                query_variance, first, key_variance, scale, spread, eps, log_term, logits, peaks, like,
            ) - drop  # fmt: skip
        soften(low, high, logits, peaks, drop, like)
        first_key, last_key = weighty_keys(logits, 8 * low, min(8 * high + 8, nk))
        weighted_rows(logits, first_key, last_key, value, key_index, value_stride, value_width, result, like)
        for r in range(count):
            target = get(query_index, first + r)
            denominator = get(peaks, 8 * r + 1)
            lost = not denominator > 0.0  # the largest weight is 1, unless the query is NaN or infinite
            if lost:
                denominator = np.nan
            put(lse, target, get(peaks, 8 * r) + np.log(denominator))
            share = splat(1.0 / denominator, like)
            for c in range(0, value_width, 8):
                store(out, target * out_stride + c, load(result, r * value_width + c) * share)
            if not is_null(weights):
                for k in range(first_key, last_key):
                    weight = get(logits, (k >> 3) * 64 + 8 * r + (k & 7)) / denominator
                    put(weights, target * weights_stride + get(key_index, k), weight)
                for k in range(nk if lost else 0):
                    put(weights, target * weights_stride + get(key_index, k), denominator)


@jit
def soften(low, high, logits, peaks, drop, like):
    """Logits of tiles low … high → e^(logit − max), 0 where that is below e^(−drop).

    Leaves each row's max and sum in peaks[8 r] and peaks[8 r + 1].
    """
    for r in range(ROWS):
        peak = largest(load(peaks, 8 * r))
        top, cut = splat(peak, like), splat(peak - drop, like)
        added = splat(0.0, like)
        for tile in range(low, high + 1):
            place = 64 * tile + 8 * r
            line = load(logits, place)
            weight = keep_from(line, cut, exponential(line - top))
            store(logits, place, weight)
            added = added + weight
        put(peaks, 8 * r, peak)
        put(peaks, 8 * r + 1, total(added))


@jit
def weighty_keys(weights, first, last):
    """The range of keys within [first, last) outside of which no row of the block has any weight."""
    while first + 1 < last and not carries(weights, first):
        first += 1
    while first + 1 < last and not carries(weights, last - 1):
        last -= 1
    return first, last


@jit
def carries(weights, k):
    for r in range(ROWS):  # noqa: SIM110  (Numba compiles no generator here)
        if get(weights, (k >> 3) * 64 + 8 * r + (k & 7)) > 0.0:
            return True
    return False


@jit
def gradient_tile(
    tile, nk, columns, key_columns, grad_columns, value_columns, width, value_width, query_variance, first,
    key_variance, lse, deltas, grad_weights, scale, spread, eps, drop, log_term, weights, pulls, pull_rows, pull_keys,
    grad_query_variance, grad_key_variance, like,
):  # fmt: skip
    """Weights P and pulls G = ∂/∂dist² · 2 of 8 queries and one tile of keys; returns its share of ∂/∂logit_scale.

    `weights` comes in holding ∂/∂P given from outside where `grad_weights` is set. Pulls are also summed over keys
    (lanes of pull_rows) and over queries (pull_keys).
    """
    here, force = shift(weights, 64 * tile), shift(pulls, 64 * tile)
    tile_distances(columns, shift(key_columns, 8 * tile * width), width, force, like)
    products = shift(pull_rows, 64)
    tile_products(grad_columns, shift(value_columns, 8 * tile * value_width), value_width, products, like)
    variances = load(key_variance, 8 * tile)
    by_key, by_scale = splat(0.0, like), splat(0.0, like)
    for r in range(ROWS):
        distances = load(force, 8 * r)
        sigma2 = splat(get(query_variance, first + r), like) + variances
        scores = scores_of(distances, sigma2, spread, eps, log_term, like)
        logits = splat(scale, like) * scores - splat(get(lse, r), like)
        if 8 * tile + 8 > nk:
            logits = keep_first(logits, nk - 8 * tile, -np.inf)
        weight = keep_from(logits, splat(-drop, like), exponential(logits))
        above = load(products, 8 * r) - splat(get(deltas, r), like)
        if grad_weights:
            above = above + load(here, 8 * r)
        slope = weight * above  # ∂/∂logit
        denominator = fma(splat(spread, like), sigma2, splat(eps, like))
        pull = splat(-2.0 * scale, like) * slope / denominator
        store(here, 8 * r, weight)
        store(force, 8 * r, pull)
        store(pull_rows, 8 * r, load(pull_rows, 8 * r) + pull)
        by_key = by_key + pull
        by_scale = fma(slope, scores, by_scale)
        if not is_null(grad_query_variance):
            steep = splat(scale * spread, like) * distances / (denominator * denominator)
            if log_term:
                steep = steep - splat(0.5 * scale, like) / sigma2
            share = slope * steep
            put(grad_query_variance, r, get(grad_query_variance, r) + total(share))
            store(grad_key_variance, 8 * tile, load(grad_key_variance, 8 * tile) + share)
    store(pull_keys, 8 * tile, by_key)
    return float(total(by_scale))


@jit
def pack_values(tile, nk, value, value_stride, key_index, value_width, rows, columns, like):
    """Eight values as columns (value_width, 8); keys beyond the last read as 0."""
    for k in range(8):
        for c in range(0, value_width, 8):
            if 8 * tile + k < nk:
                line = load(value, get(key_index, 8 * tile + k) * value_stride + c)
            else:
                line = splat(0.0, like)
            store(rows, k * value_width + c, line)
    for c in range(0, value_width, 8):
        transpose_block(rows, c, value_width, columns, 8 * (tile * value_width + c), like)


@jit
def take_gradients(
    first, count, query_index, out, out_stride, grad_out, grad_stride, weights, grad_weights, weights_stride, sources,
    value_width, lse, rows, columns, block_lse, deltas, like,
):  # fmt: skip
    """∂/∂o of 8 queries as rows and columns, their lse, and δ = Σ_k P ∂/∂P; absent queries get no gradient."""
    for r in range(ROWS):
        target = get(query_index, first + min(r, count - 1))
        put(block_lse, r, get(lse, target))
        added = splat(0.0, like)
        for c in range(0, value_width, 8):
            line = splat(0.0, like)
            if r < count:
                line = load(grad_out, target * grad_stride + c)
                added = fma(line, load(out, target * out_stride + c), added)
            store(rows, r * value_width + c, line)
        delta = float(total(added))
        if r < count and not is_null(grad_weights):
            for k in range(sources):
                delta += get(weights, target * weights_stride + k) * get(grad_weights, target * weights_stride + k)
        put(deltas, r, delta)
    for c in range(0, value_width, 8):
        transpose_block(rows, c, value_width, columns, 8 * c, like)


@jit
def take_weight_gradients(tile, first, count, nk, query_index, key_index, grad_weights, weights_stride, weights, like):
    """∂/∂P of 8 queries and a tile of keys, as it came from outside."""
    for r in range(ROWS):
        for k in range(8):
            given = 0.0
            if r < count and 8 * tile + k < nk:
                place = get(query_index, first + r) * weights_stride + get(key_index, 8 * tile + k)
                given = float(get(grad_weights, place))
            put(weights, 64 * tile + 8 * r + k, given)


@jit
def backward_rows(
    row_from, row_to, nk, width, value_width,
    offsets, anchors, factors, query_variance, query_index, clock, sums, key_variance, key_index,
    scale, spread, eps, drop, log_term, value, value_stride, out, out_stride, lse, weights, grad_weights,
    weights_stride, grad_out, grad_stride, packed, centre, key_rows, key_columns, query_rows, query_columns, logits,
    peaks, result, value_columns, grad_rows, grad_columns, pulls, pull_keys,
    grad_clock, grad_key_clock, grad_value, grad_query_variance, grad_key_variance, like,
):  # fmt: skip
    """∂/∂λ_s (rows of grad_clock), −∂/∂λ_t, ∂/∂v and the variances' gradients, added up; returns ∂/∂logit_scale."""
    tiles = (nk + 7) // 8
    key_low, key_high = variance_range(key_variance, 0, nk)
    block_lse, deltas, unset = shift(peaks, 128), shift(peaks, 136), shift(peaks, 144)
    grad_scale = 0.0
    for tile in range(tiles):
        put(packed, tile, -1)
        pack_values(tile, nk, value, value_stride, key_index, value_width, grad_rows, value_columns, like)
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        block = first // ANCHOR
        if first % ANCHOR == 0:
            set_centre(block, width, anchors, factors, centre)
        pack_queries(first, width, offsets, factors, query_rows, query_columns, like)
        take_gradients(
            first, count, query_index, out, out_stride, grad_out, grad_stride, weights, grad_weights, weights_stride,
            weights_stride, value_width, lse, grad_rows, grad_columns, block_lse, deltas, like,
        )  # fmt: skip
        for r in range(ROWS):
            store(peaks, 8 * r, splat(0.0, like))
            put(unset, r, 0.0)
        low_variance, high_variance = variance_range(query_variance, first, first + ROWS)
        low_variance, high_variance = low_variance + key_low, high_variance + key_high
        last_query = shift(query_rows, (ROWS - 1) * width)
        floor, _ = variance_range(block_lse, 0, ROWS)
        floor -= drop
        low = crossing(sums, nk, summed_reading(shift(query_rows, ROWS // 2 * width), centre, width)) // 8
        high = low
        while high + 1 < tiles and reaches(
            last_query, shift(clock, 8 * (high + 1) * width), centre, width, 1.0,
            high_variance, low_variance, scale, spread, eps, log_term, floor, like,
        ):  # fmt: skip
            high += 1
        while low > 0 and reaches(
            query_rows, shift(clock, (8 * low - 1) * width), centre, width, -1.0,
            high_variance, low_variance, scale, spread, eps, log_term, floor, like,
        ):  # fmt: skip
            low -= 1
        for tile in range(low, high + 1):
            if get(packed, tile) != block:
                put(packed, tile, block)
                pack_keys(tile, width, clock, centre, key_rows, key_columns, like)
            if not is_null(grad_weights):
                take_weight_gradients(
                    tile, first, count, nk, query_index, key_index, grad_weights, weights_stride, logits, like
                )
            grad_scale += gradient_tile(
                tile, nk, query_columns, key_columns, grad_columns, value_columns, width, value_width,
                query_variance, first, key_variance, block_lse, deltas, not is_null(grad_weights), scale, spread, eps,
                drop, log_term, logits, pulls, peaks, pull_keys,
                unset if not is_null(grad_query_variance) else grad_query_variance, grad_key_variance, like,
            )  # fmt: skip
        first_key, last_key = weighty_keys(logits, 8 * low, min(8 * high + 8, nk))
        weighted_rows(pulls, first_key, last_key, key_rows, null_like(key_index), width, width, result, like)
        for r in range(count):
            if not is_null(grad_query_variance):
                put(grad_query_variance, first + r, get(unset, r))
            pull = splat(total(load(peaks, 8 * r)), like)
            for c in range(0, width, 8):
                place = r * width + c
                store(grad_clock, first * width + place, pull * load(query_rows, place) - load(result, place))
        none = null_like(key_rows)
        spread_to_keys(pulls, first_key, last_key, query_rows, width, key_rows, pull_keys, grad_key_clock, like)
        spread_to_keys(logits, first_key, last_key, grad_rows, value_width, none, pull_keys, grad_value, like)
    return grad_scale
