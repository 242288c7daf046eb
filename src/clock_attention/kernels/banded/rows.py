"""Rows of the attention, compiled: the band of every block of queries, its softmax and A·V, and their gradients.

Queries are taken a block at a time against tiles of keys. From the tile where the two clocks cross, the band grows both
ways until no key beyond can come within `drop` of every row's largest logit (`tiles.bound_logit`). A weight below
e^(−drop) of its row's largest becomes 0 also inside the band, and sums run over keys in ascending order: a row's result
does not depend on how far its neighbours made the band reach. The forward pass keeps each row's largest logit and
denominator and each block's range of keys with any weight; the backward pass visits just those.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clock_attention.kernels.banded.clocks import ANCHOR, Trace, jit, jit_inline
from clock_attention.kernels.banded.simd import (
    LANES,
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
    subtract,
    total,
)
from clock_attention.kernels.banded.tiles import (
    ROWS,
    SLACK,
    SQUARE,
    TILE,
    bound_logit,
    crossing,
    largest_norm,
    overshoot,
    pack_block,
    pack_keys,
    pack_queries,
    pack_tile,
    place_in_tiles,
    scores_of,
    set_centre,
    spread_to_keys,
    summed_reading,
    tile_distances,
    tile_products,
    transpose_block,
    weighted_rows,
)


class Scoring(NamedTuple):
    """What turns distances into logits, and when a logit is too small to matter."""

    scale: float
    spread: float  # 2√d
    eps: float
    drop: float  # nats below a row's largest logit
    log_term: bool


class Queries(NamedTuple):
    """One head's queries: index of the valid steps, clock, variance and content. Padded to whole blocks."""

    index: Any
    trace: Trace
    variance: Any
    content: Any
    content_step: int


class Keys(NamedTuple):
    """One head's keys."""

    count: int  # of valid steps
    index: Any
    clock: Any  # λ_t (T, width), fp64
    sums: Any  # of λ_t over channels, fp64
    variance: Any
    value: Any
    value_step: int
    content: Any
    content_step: int
    content_reach: float  # the largest norm of a key's content


class Widths(NamedTuple):
    """Channels, padded to whole vectors."""

    clock: int
    value: int
    content: int  # 0: no content


class Room(NamedTuple):
    """A thread's scratch."""

    packed: Any  # (tiles): the centre for which a tile of keys was packed
    centre: Any  # (width), fp64
    key_rows: Any  # (T, width)
    key_columns: Any  # tiles of (width, TILE)
    query_rows: Any  # (ROWS, width)
    query_columns: Any  # (width, ROWS)
    content_key_columns: Any  # tiles of (content width, TILE)
    content_query_rows: Any  # (ROWS, content width)
    content_query_columns: Any  # (content width, ROWS)
    products: Any  # (ROWS, TILE)
    logits: Any  # tiles of (ROWS, TILE), then weights
    peaks: Any  # (ROWS, LANES): largest logits, lane by lane
    softmax: Any  # (ROWS, 2): largest logit and denominator
    result: Any  # (ROWS, widest)


class BackRoom(NamedTuple):
    """What a thread needs for gradients beside."""

    value_columns: Any  # tiles of (value width, TILE)
    grad_rows: Any  # ∂/∂o (ROWS, value width)
    grad_columns: Any  # (value width, ROWS)
    pulls: Any  # 2 ∂/∂dist², tiles of (ROWS, TILE)
    slopes: Any  # ∂/∂logit, tiles of (ROWS, TILE); content only
    pull_rows: Any  # Σ pulls over keys, (ROWS, LANES)
    pull_keys: Any  # Σ pulls over queries (T)
    deltas: Any  # Σ_k P ∂/∂P (ROWS)
    variance_rows: Any  # ∂/∂A_X (ROWS)


class Results(NamedTuple):
    """What the forward pass writes, and the backward pass reads. `weights` may be null."""

    out: Any
    out_step: int
    softmax: Any  # (S, 2): largest logit and denominator
    bands: Any  # (blocks, 2): first and last + 1 key with any weight
    weights: Any  # (S, T)
    weights_step: int


class Gradients(NamedTuple):
    """What the backward pass is given and what it makes. Null: `grad_weights`, `query_variance` where not wanted."""

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


@jit
def variance_range(variance, first, last):
    """Smallest and largest of variance[first:last]."""
    low, high = get(variance, first), get(variance, first)
    for i in range(first + 1, last):
        low, high = min(low, get(variance, i)), max(high, get(variance, i))
    return low, high


@jit_inline
def prepare_tiles(keys, widths, room, like):
    """Before the first block: no tile of keys is packed, and all of their content is."""
    for tile in range((keys.count + TILE - 1) // TILE):
        put(room.packed, tile, -1)
        if widths.content > 0:
            pack_tile(
                tile, keys.count, keys.content, keys.content_step, keys.index, widths.content, room.result,
                room.content_key_columns, like,
            )  # fmt: skip


@jit_inline
def prepare_block(first, count, queries, widths, room, like):
    """A block of queries relative to its centre; the most its content can add to a logit of unit key content."""
    if first % ANCHOR == 0:
        set_centre(first // ANCHOR, widths.clock, queries.trace.anchors, queries.trace.factors, room.centre)
    pack_queries(
        first, widths.clock, queries.trace.offsets, queries.trace.factors, room.query_rows, room.query_columns, like
    )
    if widths.content == 0:
        return 0.0
    pack_block(
        first, count, queries.content, queries.content_step, queries.index, widths.content, room.content_query_rows,
        room.content_query_columns, like,
    )  # fmt: skip
    in_order = null_like(queries.index)
    norm, _ = largest_norm(room.content_query_rows, ROWS, widths.content, in_order, widths.content)
    return norm


@jit_inline
def ensure_packed(tile, block, keys, width, room, like):
    if get(room.packed, tile) != block:
        put(room.packed, tile, block)
        pack_keys(tile, width, keys.clock, room.centre, room.key_rows, room.key_columns, like)


@jit_inline
def content_products(tile, width, room, like):
    """Content scores of a block and a tile, (ROWS, TILE)."""
    tile_products(
        room.content_query_columns, shift(room.content_key_columns, TILE * tile * width), width, room.products, like
    )


@jit_inline
def score_tile(tile, first, queries, keys, widths, scoring, room, like):
    """Logits of a block of queries and one tile of keys. Raises `peaks`, and returns a number that every query's
    largest logit reaches: max over lanes of the least peak, never more than the least maximum."""
    ensure_packed(tile, first // ANCHOR, keys, widths.clock, room, like)
    here = shift(room.logits, SQUARE * tile)
    tile_distances(room.query_columns, shift(room.key_columns, TILE * tile * widths.clock), widths.clock, here, like)
    if widths.content > 0:
        content_products(tile, widths.content, room, like)
    variances = load(keys.variance, TILE * tile)
    lowest = splat(np.inf, like)
    for r in range(ROWS):
        sigma2 = splat(get(queries.variance, first + r), like) + variances
        scores = scores_of(load(here, TILE * r), sigma2, scoring.spread, scoring.eps, scoring.log_term, like)
        line = splat(scoring.scale, like) * scores
        if widths.content > 0:
            line = line + load(room.products, TILE * r)
        if TILE * tile + TILE > keys.count:
            line = keep_first(line, keys.count - TILE * tile, -np.inf)
        store(here, TILE * r, line)
        peak = larger(load(room.peaks, LANES * r), line)
        store(room.peaks, LANES * r, peak)
        lowest = smaller(lowest, peak)
    return float(largest(lowest))


@jit_inline
def reaches(query, key, sign, variances, content_bound, floor, widths, scoring, room, like):
    """Whether keys from this one on (to the right for sign = 1, left for −1) may still score above `floor`."""
    distance = overshoot(query, key, room.centre, widths.clock, sign, like)
    bound = bound_logit(
        distance, variances[1], variances[0], scoring.scale, scoring.spread, scoring.eps, scoring.log_term
    )
    return not bound + content_bound < floor - SLACK


@jit_inline
def score_band(first, content_bound, key_variances, queries, keys, widths, scoring, room, like):
    """Logits of a block of queries and every tile that matters: the first and the last of them."""
    width, tiles = widths.clock, (keys.count + TILE - 1) // TILE
    for r in range(ROWS):
        store(room.peaks, LANES * r, splat(-np.inf, like))
    low_variance, high_variance = variance_range(queries.variance, first, first + ROWS)
    variances = (low_variance + key_variances[0], high_variance + key_variances[1])
    last_query = shift(room.query_rows, (ROWS - 1) * width)
    middle = summed_reading(shift(room.query_rows, ROWS // 2 * width), room.centre, width)
    low = crossing(keys.sums, keys.count, middle) // TILE
    high, floor = low - 1, -np.inf
    while high + 1 < tiles and (
        high < low
        or reaches(
            last_query, shift(keys.clock, TILE * (high + 1) * width), 1.0, variances, content_bound, floor, widths,
            scoring, room, like,
        )
    ):  # fmt: skip
        high += 1
        floor = score_tile(high, first, queries, keys, widths, scoring, room, like) - scoring.drop
    while low > 0 and reaches(
        room.query_rows, shift(keys.clock, (TILE * low - 1) * width), -1.0, variances, content_bound, floor, widths,
        scoring, room, like,
    ):  # fmt: skip
        low -= 1
        floor = score_tile(low, first, queries, keys, widths, scoring, room, like) - scoring.drop
    return low, high


@jit_inline
def soften(low, high, drop, room, like):
    """Logits of tiles low … high → e^(logit − max), 0 where that is below e^(−drop); max and sum in `softmax`."""
    for r in range(ROWS):
        peak = largest(load(room.peaks, LANES * r))
        top, cut = splat(peak, like), splat(peak - drop, like)
        added = splat(0.0, like)
        for tile in range(low, high + 1):
            place = SQUARE * tile + TILE * r
            line = load(room.logits, place)
            weight = keep_from(line, cut, exponential(line - top))
            store(room.logits, place, weight)
            added = added + weight
        put(room.softmax, 2 * r, peak)
        put(room.softmax, 2 * r + 1, total(added))


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
        if get(weights, place_in_tiles(k) + TILE * r) > 0.0:
            return True
    return False


@jit
def forward_rows(row_from, row_to, queries, keys, widths, scoring, room, results, like):
    """Output and softmax of valid queries row_from … row_to − 1 of one head."""
    key_variances = variance_range(keys.variance, 0, keys.count)
    prepare_tiles(keys, widths, room, like)
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        content_bound = prepare_block(first, count, queries, widths, room, like) * keys.content_reach
        low, high = score_band(first, content_bound, key_variances, queries, keys, widths, scoring, room, like)
        soften(low, high, scoring.drop, room, like)
        first_key, last_key = weighty_keys(room.logits, TILE * low, min(TILE * high + TILE, keys.count))
        put(results.bands, 2 * (first // ROWS), first_key)
        put(results.bands, 2 * (first // ROWS) + 1, last_key)
        weighted_rows(
            room.logits, first_key, last_key, keys.value, keys.index, keys.value_step, widths.value, room.result, like
        )
        for r in range(count):
            write_row(r, get(queries.index, first + r), first_key, last_key, keys, widths, room, results, like)


@jit_inline
def write_row(r, target, first_key, last_key, keys, widths, room, results, like):
    """One query's output, softmax and, if wanted, weights."""
    denominator = get(room.softmax, 2 * r + 1)
    lost = not denominator > 0.0  # the largest weight is 1, unless the query is NaN or infinite
    if lost:
        denominator = np.nan
    put(results.softmax, 2 * target, get(room.softmax, 2 * r))
    put(results.softmax, 2 * target + 1, denominator)
    share = splat(1.0 / denominator, like)
    for c in range(0, widths.value, LANES):
        store(results.out, target * results.out_step + c, load(room.result, r * widths.value + c) * share)
    if not is_null(results.weights):
        row = shift(results.weights, target * results.weights_step)
        for k in range(first_key, last_key):
            put(row, get(keys.index, k), get(room.logits, place_in_tiles(k) + TILE * r) / denominator)
        for k in range(keys.count if lost else 0):
            put(row, get(keys.index, k), denominator)


@jit_inline
def take_gradients(first, count, queries, widths, room, back, results, gradients, like):
    """∂/∂o of a block of queries as rows and columns, their softmax, and δ = Σ_k P ∂/∂P; absent ones get none."""
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


@jit_inline
def take_weight_gradients(tile, first, count, queries, keys, results, gradients, weights, like):
    """∂/∂P of a block and a tile, as it came from outside, into where P will be."""
    for r in range(ROWS):
        for k in range(TILE):
            given = 0.0
            if r < count and TILE * tile + k < keys.count:
                place = get(queries.index, first + r) * results.weights_step + get(keys.index, TILE * tile + k)
                given = float(get(gradients.weights, place))
            put(weights, SQUARE * tile + TILE * r + k, given)


@jit_inline
def gradient_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like):
    """Weights P, slopes ∂/∂logit and pulls 2 ∂/∂dist² of a block and a tile; its share of ∂/∂logit_scale is returned.

    Where ∂/∂P is given from outside, it comes in where P will be. Pulls are also summed over keys (lanes of pull_rows)
    and over queries (pull_keys).
    """
    scale = scoring.scale
    ensure_packed(tile, first // ANCHOR, keys, widths.clock, room, like)
    here, force = shift(room.logits, SQUARE * tile), shift(back.pulls, SQUARE * tile)
    tile_distances(room.query_columns, shift(room.key_columns, TILE * tile * widths.clock), widths.clock, force, like)
    if widths.content > 0:
        content_products(tile, widths.content, room, like)
        for r in range(ROWS):  # kept where the slopes will be: the products of values come next
            store(back.slopes, SQUARE * tile + TILE * r, load(room.products, TILE * r))
    values = shift(back.value_columns, TILE * tile * widths.value)
    tile_products(back.grad_columns, values, widths.value, room.products, like)
    variances = load(keys.variance, TILE * tile)
    by_key, by_scale = splat(0.0, like), splat(0.0, like)
    for r in range(ROWS):
        distances = load(force, TILE * r)
        sigma2 = splat(get(queries.variance, first + r), like) + variances
        scores = scores_of(distances, sigma2, scoring.spread, scoring.eps, scoring.log_term, like)
        line = splat(scale, like) * scores
        if widths.content > 0:
            line = line + load(back.slopes, SQUARE * tile + TILE * r)
        if TILE * tile + TILE > keys.count:
            line = keep_first(line, keys.count - TILE * tile, -np.inf)
        # As in the forward pass, which stored the logit: rounded before the largest is taken off.
        peak = get(room.softmax, 2 * r)
        share = splat(1.0 / get(room.softmax, 2 * r + 1), like)
        kept = keep_from(line, splat(peak - scoring.drop, like), exponential(subtract(line, splat(peak, like))))
        weight = kept * share
        above = load(room.products, TILE * r) - splat(get(back.deltas, r), like)
        if not is_null(gradients.weights):
            above = above + load(here, TILE * r)
        slope = weight * above
        denominator = fma(splat(scoring.spread, like), sigma2, splat(scoring.eps, like))
        pull = splat(-2.0 * scale, like) * slope / denominator
        store(here, TILE * r, weight)
        store(force, TILE * r, pull)
        if widths.content > 0:
            store(back.slopes, SQUARE * tile + TILE * r, slope)
        store(back.pull_rows, LANES * r, load(back.pull_rows, LANES * r) + pull)
        by_key = by_key + pull
        by_scale = fma(slope, scores, by_scale)
        if not is_null(gradients.query_variance):
            steep = splat(scale * scoring.spread, like) * distances / (denominator * denominator)
            if scoring.log_term:
                steep = steep - splat(0.5 * scale, like) / sigma2
            part = slope * steep
            put(back.variance_rows, r, get(back.variance_rows, r) + total(part))
            store(gradients.key_variance, TILE * tile, load(gradients.key_variance, TILE * tile) + part)
    store(back.pull_keys, TILE * tile, by_key)
    return float(total(by_scale))


@jit
def backward_rows(row_from, row_to, queries, keys, widths, scoring, room, back, results, gradients, like):
    """∂/∂λ_s (rows of gradients.clock), and what the block adds to every key; returns ∂/∂logit_scale."""
    grad_scale = 0.0
    prepare_tiles(keys, widths, room, like)
    for tile in range((keys.count + TILE - 1) // TILE):
        pack_tile(
            tile, keys.count, keys.value, keys.value_step, keys.index, widths.value, back.grad_rows,
            back.value_columns, like,
        )  # fmt: skip
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        prepare_block(first, count, queries, widths, room, like)
        take_gradients(first, count, queries, widths, room, back, results, gradients, like)
        for r in range(ROWS):
            store(back.pull_rows, LANES * r, splat(0.0, like))
            put(back.variance_rows, r, 0.0)
        first_key, last_key = get(results.bands, 2 * (first // ROWS)), get(results.bands, 2 * (first // ROWS) + 1)
        for tile in range(first_key // TILE, (last_key + TILE - 1) // TILE):
            if not is_null(gradients.weights):
                take_weight_gradients(tile, first, count, queries, keys, results, gradients, room.logits, like)
            grad_scale += gradient_tile(tile, first, queries, keys, widths, scoring, room, back, gradients, like)
        give_block(first, count, first_key, last_key, queries, keys, widths, room, back, gradients, like)
    return grad_scale


@jit_inline
def give_block(first, count, first_key, last_key, queries, keys, widths, room, back, gradients, like):
    """From pulls, slopes and weights of a block to the gradients of its queries and of the keys it attends to."""
    width, in_order = widths.clock, null_like(queries.index)
    weighted_rows(back.pulls, first_key, last_key, room.key_rows, in_order, width, width, room.result, like)
    for r in range(count):
        if not is_null(gradients.query_variance):
            put(gradients.query_variance, first + r, get(back.variance_rows, r))
        pull = splat(total(load(back.pull_rows, LANES * r)), like)
        for c in range(0, width, LANES):
            place = r * width + c
            by_clock = pull * load(room.query_rows, place) - load(room.result, place)
            store(gradients.clock, first * width + place, by_clock)
    nothing = null_like(room.key_rows)
    spread_to_keys(
        back.pulls, first_key, last_key, room.query_rows, width, room.key_rows, back.pull_keys, gradients.key_clock,
        like,
    )  # fmt: skip
    spread_to_keys(
        room.logits, first_key, last_key, back.grad_rows, widths.value, nothing, back.pull_keys, gradients.value, like
    )
    if widths.content > 0:
        weighted_rows(
            back.slopes, first_key, last_key, keys.content, keys.index, keys.content_step, widths.content, room.result,
            like,
        )  # fmt: skip
        for r in range(count):
            target = get(queries.index, first + r) * gradients.content_step
            for c in range(0, widths.content, LANES):
                store(gradients.content, target + c, load(room.result, r * widths.content + c))
        spread_to_keys(
            back.slopes, first_key, last_key, room.content_query_rows, widths.content, nothing, back.pull_keys,
            gradients.key_content, like,
        )  # fmt: skip
