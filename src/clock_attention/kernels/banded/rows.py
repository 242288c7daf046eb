"""Rows of the attention, compiled: the band of every block of queries, its softmax and A·V.

Queries are taken a block at a time against tiles of keys. From the tile where the two clocks cross, the band grows in
both directions until no key beyond can come within `drop` of every row's largest logit (`tiles.bound_logit`). A weight
below e^(−drop) of its row's largest becomes 0 even inside the band, and sums run over keys in ascending order: a row's
result does not depend on how far its neighbours made the band reach. Each row's largest logit and denominator and each
block's range of keys with any weight are kept: the backward pass (`gradients`) visits only those.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clock_attention.kernels.banded.clocks import ANCHOR, Trace, jit, jit_inline
from clock_attention.kernels.banded.simd import (
    LANES,
    add,
    exponential,
    get,
    is_null,
    keep_first,
    keep_from,
    larger,
    largest,
    load,
    put,
    shift,
    smaller,
    splat,
    store,
    total,
)
from clock_attention.kernels.banded.tiles import (
    ROWS,
    SLACK,
    SQUARE,
    TILE,
    bound_logit,
    crossing,
    overshoot,
    pack_block,
    pack_keys,
    pack_queries,
    pack_tile,
    place_in_tiles,
    scores_of,
    set_centre,
    summed_reading,
    tile_distances,
    tile_products,
    weighted_rows,
)


class Scoring(NamedTuple):
    """How distances in the rows become logits, and when a logit is too small to matter."""

    scale: float
    spread: float  # 2√d
    eps: float
    drop: float  # nats below a row's largest logit
    log_term: bool


class Queries(NamedTuple):
    """Queries of the rows of one head: index of the valid steps, clock, variance, content. Padded to whole blocks."""

    index: Any
    trace: Trace
    variance: Any
    content: Any
    content_step: int


class Keys(NamedTuple):
    """Keys of the rows of one head."""

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
    """Channels of the rows' tensors, padded to whole vectors."""

    clock: int
    value: int
    content: int  # 0: no content


class Room(NamedTuple):
    """A thread's scratch memory for rows of the attention."""

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


class Results(NamedTuple):
    """What the forward pass over rows writes and the backward pass reads. `weights` may be null."""

    out: Any
    out_step: int
    softmax: Any  # (S, 2): largest logit and denominator
    bands: Any  # (blocks, 2): first and last + 1 key with any weight
    weights: Any  # (S, T)
    weights_step: int


@jit
def variance_range(variance, first, last):
    """Smallest and largest of variance[first:last], for the band of a block of rows."""
    low, high = get(variance, first), get(variance, first)
    for i in range(first + 1, last):
        low, high = min(low, get(variance, i)), max(high, get(variance, i))
    return low, high


@jit_inline
def prepare_tiles(keys, widths, content_rows, rows_step, room, like):
    """Before the first block of rows: mark every tile of keys as not packed, and pack all of their content."""
    for tile in range((keys.count + TILE - 1) // TILE):
        put(room.packed, tile, -1)
        if widths.content > 0:
            pack_tile(
                tile, keys.count, keys.content, keys.content_step, keys.index, widths.content,
                shift(content_rows, TILE * tile * rows_step), room.content_key_columns, like,
            )  # fmt: skip


@jit_inline
def prepare_block(first, count, queries, widths, content_rows, room, like):
    """Prepare a block of rows: queries relative to their centre, and their content, whose largest norm is returned.

    Only the backward pass needs the content's rows.
    """
    if first % ANCHOR == 0:
        set_centre(first // ANCHOR, widths.clock, queries.trace.anchors, queries.trace.factors, room.centre)
    pack_queries(
        first, widths.clock, queries.trace.offsets, queries.trace.factors, room.query_rows, room.query_columns, like
    )
    if widths.content == 0:
        return 0.0
    square = pack_block(
        first, count, queries.content, queries.content_step, queries.index, widths.content, content_rows,
        room.content_query_columns, like,
    )  # fmt: skip
    return np.sqrt(square)


@jit_inline
def ensure_packed(tile, block, keys, width, room, like):
    """Pack a tile of keys for a block of rows, unless it is packed already."""
    if get(room.packed, tile) != block:
        put(room.packed, tile, block)
        pack_keys(tile, width, keys.clock, room.centre, room.key_rows, room.key_columns, like)


@jit_inline
def score_tile(tile, first, queries, keys, widths, scoring, room, like):
    """Logits of a block of queries and one tile of keys, its content scores in `products`. Raises `peaks`, and returns
    a number that every query's largest logit reaches: max over lanes of the least peak, never more than the least
    maximum."""
    ensure_packed(tile, first // ANCHOR, keys, widths.clock, room, like)
    here = shift(room.logits, SQUARE * tile)
    tile_distances(room.query_columns, shift(room.key_columns, TILE * tile * widths.clock), widths.clock, here, like)
    variances = load(keys.variance, TILE * tile)
    lowest = splat(np.inf, like)
    for r in range(ROWS):
        sigma2 = splat(get(queries.variance, first + r), like) + variances
        scores = scores_of(load(here, TILE * r), sigma2, scoring.spread, scoring.eps, scoring.log_term, like)
        line = splat(scoring.scale, like) * scores
        if widths.content > 0:
            line = add(line, load(room.products, TILE * r))
        if TILE * tile + TILE > keys.count:
            line = keep_first(line, keys.count - TILE * tile, -np.inf)
        store(here, TILE * r, line)
        peak = larger(load(room.peaks, LANES * r), line)
        store(room.peaks, LANES * r, peak)
        lowest = smaller(lowest, peak)
    return float(largest(lowest))


@jit_inline
def matters(tile, bound, floor, widths, room, like):
    """Whether any key of a tile may score above `floor`, for the band of a block of rows.

    Its content scores are left in `products`. The content's bound uses only norms and is usually far too high: a
    tile within the bound need not be within reach. If it is not, its logits are −∞.
    """
    if widths.content == 0:
        return True
    columns = shift(room.content_key_columns, TILE * tile * widths.content)
    most = tile_products(room.content_query_columns, columns, widths.content, room.products, like)
    if not bound + most < floor - SLACK:
        return True
    for r in range(ROWS):
        store(room.logits, SQUARE * tile + TILE * r, splat(-np.inf, like))
    return False


@jit_inline
def bound_beyond(query, key, sign, variances, widths, scoring, room, like):
    """Bound for the band of rows: the highest clock score of keys from this one on (right: sign = 1, left: −1)."""
    distance = overshoot(query, key, room.centre, widths.clock, sign, like)
    return bound_logit(
        distance, variances[1], variances[0], scoring.scale, scoring.spread, scoring.eps, scoring.log_term
    )


@jit_inline
def score_band(first, content_bound, key_variances, queries, keys, widths, scoring, room, like):
    """The band of a block of rows: logits of every tile that matters, and the first and last of these."""
    width, tiles = widths.clock, (keys.count + TILE - 1) // TILE
    for r in range(ROWS):
        store(room.peaks, LANES * r, splat(-np.inf, like))
    low_variance, high_variance = variance_range(queries.variance, first, first + ROWS)
    variances = (low_variance + key_variances[0], high_variance + key_variances[1])
    last_query = shift(room.query_rows, (ROWS - 1) * width)
    middle = summed_reading(shift(room.query_rows, ROWS // 2 * width), room.centre, width)
    start = crossing(keys.sums, keys.count, middle) // TILE
    low, high, floor = start, start, -np.inf
    for tile in range(start, tiles):
        bound = np.inf
        if tile > start:
            edge = shift(keys.clock, TILE * tile * width)
            bound = bound_beyond(last_query, edge, 1.0, variances, widths, scoring, room, like)
        if bound + content_bound < floor - SLACK:
            break
        if matters(tile, bound, floor, widths, room, like):
            high = tile
            floor = score_tile(tile, first, queries, keys, widths, scoring, room, like) - scoring.drop
    for tile in range(start - 1, -1, -1):
        edge = shift(keys.clock, (TILE * tile + TILE - 1) * width)
        bound = bound_beyond(room.query_rows, edge, -1.0, variances, widths, scoring, room, like)
        if bound + content_bound < floor - SLACK:
            break
        if matters(tile, bound, floor, widths, room, like):
            low = tile
            floor = score_tile(tile, first, queries, keys, widths, scoring, room, like) - scoring.drop
    return low, high


@jit_inline
def soften(low, high, drop, room, like):
    """Softmax of a block of rows: logits of tiles low … high → e^(logit − max), 0 below e^(−drop); max and sum kept."""
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
    """Softmax of a block of rows: the range of keys in [first, last) outside of which no row has any weight."""
    while first + 1 < last and not carries(weights, first):
        first += 1
    while first + 1 < last and not carries(weights, last - 1):
        last -= 1
    return first, last


@jit
def carries(weights, k):
    """Whether any row of a block gives weight to a key."""
    for r in range(ROWS):  # noqa: SIM110  (Numba compiles no generator here)
        if get(weights, place_in_tiles(k) + TILE * r) > 0.0:
            return True
    return False


@jit
def forward_rows(row_from, row_to, queries, keys, widths, scoring, room, results, like):
    """Rows of the attention, forward: output and softmax of valid queries row_from … row_to − 1 of one head."""
    key_variances = variance_range(keys.variance, 0, keys.count)
    prepare_tiles(keys, widths, room.result, 0, room, like)
    for first in range(row_from, row_to, ROWS):
        count = min(ROWS, row_to - first)
        content_bound = prepare_block(first, count, queries, widths, None, room, like) * keys.content_reach
        low, high = score_band(first, content_bound, key_variances, queries, keys, widths, scoring, room, like)
        soften(low, high, scoring.drop, room, like)
        first_key, last_key = weighty_keys(room.logits, TILE * low, min(TILE * high + TILE, keys.count))
        put(results.bands, 2 * (first // ROWS), first_key)
        put(results.bands, 2 * (first // ROWS) + 1, last_key)
        weighted_rows(
            room.logits, first_key, last_key, keys.value, keys.index, keys.value_step, None,
            widths.value, room.result, like,
        )  # fmt: skip
        for r in range(count):
            write_row(r, get(queries.index, first + r), first_key, last_key, keys, widths, room, results, like)


@jit_inline
def write_row(r, target, first_key, last_key, keys, widths, room, results, like):
    """Write one row of the attention: output, softmax and, if wanted, weights."""
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
