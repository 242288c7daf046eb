"""Readings of fp64 clocks for the Triton tiles, and the choice of tiles that have to be read at all.

`read_clock` writes a clock as fp32 offsets from one fp32 anchor per tile and channel: the anchor is the first reading,
rounded, and the offsets absorb its rounding error, so a difference of anchors plus a difference of offsets is
accurate to fp32 relative to itself. Padding takes the reading of the valid step before it: the clock stays monotone,
and a tile's extremes are its first and last row.

`choose_tiles` finds, for each tile of queries, the contiguous range of key tiles that matter. A row's best logit is at
least that of the key where the two clocks cross. With R = Σ_c max(0, gap between the tiles)_c², no pair of two tiles
scores above −R/(2√d max Σ² + ε); whatever lies `drop` below the row's best is left out, T·e^(−drop) of a row in total.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from clock_attention.kernels.triton.scores import LOG2E, clocks_of_head, of_head, own_variance, program_place

STATISTICS = tl.constexpr(4)  # per tile: largest and smallest variance, largest ‖content‖, whether any step is valid
SLACK = tl.constexpr(0.5)  # nats

# Numbers stored for every step of a query's clock; a key's clock stores only the first of them.
VARIANCE = tl.constexpr(0)  # −1 where there is padding
FLOOR = tl.constexpr(1)  # the logit, in base 2, below which a key weighs nothing
PULL = tl.constexpr(2)  # Σ_t p · ∂/∂p, which the gradient of the softmax subtracts
EVEN_PULL = tl.constexpr(3)  # the same, chosen such that the rounded ∂/∂logit add to 0: for the keys


@triton.jit
def read_clock(
    clock, clock_b, clock_h, clock_s, variance, variance_b, variance_h, variance_s,
    content, content_b, content_h, content_s, fill, live,
    offsets, anchors, records, sums, statistics, content_norms,
    heads, steps, tiles, width, content_width,
    WIDTH: tl.constexpr, CONTENT: tl.constexpr, MASKED: tl.constexpr, FIELDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Readings of one tile of a head's clock (L, D), fp64, as offsets (D, padded L), anchors, records and bounds."""
    tile, item, batch, head = program_place(heads)
    length = tiles * BLOCK
    places = tile * BLOCK + tl.arange(0, BLOCK)
    here = tl.minimum(places, steps - 1)
    first = tl.minimum(tile * BLOCK, steps - 1)
    alive = places < steps
    if MASKED:
        alive = alive & (tl.load(live + batch * steps + here) != 0)
        here = tl.load(fill + batch * steps + here)
        first = tl.load(fill + batch * steps + first)
    base = of_head(clock, batch, clock_b, head, clock_h)
    rows = base + here.to(tl.int64) * clock_s
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for c in range(width):
        anchor = tl.load(base + first.to(tl.int64) * clock_s + c).to(tl.float32)
        reading = tl.load(rows + c).to(tl.float64)
        total += reading
        tl.store(offsets + (item * WIDTH + c) * length + places, (reading - anchor.to(tl.float64)).to(tl.float32))
        tl.store(anchors + (item * tiles + tile) * WIDTH + c, anchor)
    tl.store(sums + item * length + places, total.to(tl.float32))
    spread = tl.load(of_head(variance, batch, variance_b, head, variance_h) + here.to(tl.int64) * variance_s)
    spread = spread.to(tl.float32)
    tl.store(records + item * (FIELDS * length) + places, tl.where(alive, spread, -1.0))
    own = statistics + (item * tiles + tile) * STATISTICS
    tl.store(own, tl.max(tl.where(alive, spread, 0.0), 0))
    tl.store(own + 1, tl.min(tl.where(alive, spread, float("inf")), 0))
    tl.store(own + 3, tl.max(alive.to(tl.float32), 0))
    if CONTENT > 0:
        square = tl.zeros((BLOCK,), dtype=tl.float32)
        rows = of_head(content, batch, content_b, head, content_h) + here.to(tl.int64) * content_s
        for c in range(content_width):
            x = tl.load(rows + c, mask=alive, other=0.0).to(tl.float32)
            square += x * x
        norm = tl.sqrt(square) * 1.000001
        tl.store(content_norms + item * length + places, norm)
        tl.store(own + 2, tl.max(norm, 0))
    else:
        tl.store(own + 2, 0.0)


@triton.jit
def crossing(sums, reading, keys, halvings):
    """The first key whose summed clock has reached a query's, which is nearly the best, for the choice of tiles."""
    low = tl.zeros_like(reading).to(tl.int32)
    high = low + (keys - 1)
    for _ in range(halvings):
        middle = (low + high) // 2
        behind = tl.load(sums + middle) < reading
        low = tl.where(behind & (low < high), middle + 1, low)
        high = tl.where(behind, high, middle)
    return low


@triton.jit
def logit_at(
    key, offsets, anchors, rows, length, key_offsets, key_anchors, key_length, variance, key_variances,
    content_rows, key_content, key_content_s, width, content_width, scale, spread, eps,
    WIDTH: tl.constexpr, CONTENT: tl.constexpr, KEY_BLOCK: tl.constexpr, LOG_TERM: tl.constexpr,
):  # fmt: skip
    """The logit of one key per row, for the choice of tiles."""
    tile = key // KEY_BLOCK
    distance = tl.zeros_like(variance)
    for c in range(width):
        apart = tl.load(anchors + c) - tl.load(key_anchors + tile * WIDTH + c)
        gap = tl.load(offsets + c * length + rows) + apart - tl.load(key_offsets + c * key_length + key)
        distance += gap * gap
    sigma2 = variance + tl.load(key_variances + key)
    score = -distance / (spread * sigma2 + eps)
    if LOG_TERM:
        score -= 0.5 * tl.log(sigma2)
    logit = score * scale
    if CONTENT > 0:
        key_rows = key_content + key.to(tl.int64) * key_content_s
        for c in range(content_width):
            logit += tl.load(content_rows + c).to(tl.float32) * tl.load(key_rows + c).to(tl.float32)
    return logit


@triton.jit
def choose_tiles(
    offsets, anchors, records, sums, statistics, content_norms,
    key_offsets, key_anchors, key_variances, key_sums, key_statistics, key_fill, key_counts,
    content, content_b, content_h, content_s, key_content, key_content_b, key_content_h, key_content_s,
    scales, ranges, heads, queries, keys, tiles, key_tiles, width, content_width, halvings, spread, eps, tolerance,
    WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr, CONTENT: tl.constexpr, LOG_TERM: tl.constexpr,
    KEY_MASKED: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The choice of tiles: every row's floor (base 2) and the range [first, last) of key tiles that matter."""
    tile, item, batch, head = program_place(heads)
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
        item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
        WIDTH, FIELDS, BLOCK, KEY_BLOCK,
    )  # fmt: skip
    anchors += tile * WIDTH
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    here = tl.minimum(rows, queries - 1)
    key_statistics += item * (key_tiles * STATISTICS)
    scale = tl.load(scales + head)
    variance, alive = own_variance(records + VARIANCE * length + rows)

    # What every row reaches at least: the logit where the clocks cross, or one key before.
    key = crossing(key_sums + item * key_length, tl.load(sums + item * length + rows), keys, halvings)
    before = tl.maximum(key - 1, 0)
    count = keys
    if KEY_MASKED:
        key, before = tl.load(key_fill + batch * keys + key), tl.load(key_fill + batch * keys + before)
        count = tl.load(key_counts + batch)
    content_rows = content
    if CONTENT > 0:
        content_rows = of_head(content, batch, content_b, head, content_h) + here.to(tl.int64) * content_s
        key_content = of_head(key_content, batch, key_content_b, head, key_content_h)
    best = logit_at(
        key, offsets, anchors, rows, length, key_offsets, key_anchors, key_length, variance,
        key_variances, content_rows, key_content, key_content_s, width, content_width, scale,
        spread, eps, WIDTH, CONTENT, KEY_BLOCK, LOG_TERM,
    )  # fmt: skip
    logit = logit_at(
        before, offsets, anchors, rows, length, key_offsets, key_anchors, key_length, variance,
        key_variances, content_rows, key_content, key_content_s, width, content_width, scale,
        spread, eps, WIDTH, CONTENT, KEY_BLOCK, LOG_TERM,
    )  # fmt: skip
    best = tl.where(logit > best, logit, best)  # NaN stays, which `maximum` would hide
    drop = tolerance + tl.log(tl.maximum(count, 1).to(tl.float32))
    # With a scale that is not positive distances attract, and nothing bounds them.
    floor = tl.where(scale > 0, best - drop, float("-inf"))
    tl.store(records + FLOOR * length + rows, floor * LOG2E)
    floor -= SLACK + 1e-5 * tl.abs(floor)  # bounds are rounded too, and no key above the floor may be missed

    # Tile against tile: a few operations for each, which is enough to leave most of them out.
    channels = tl.arange(0, BLOCK_WIDTH)
    inside = channels < WIDTH
    anchor = tl.load(anchors + channels, mask=inside, other=0.0)
    first = tl.load(offsets + channels * length + tile * BLOCK, mask=inside, other=0.0)
    last = tl.load(offsets + channels * length + (tile + 1) * BLOCK - 1, mask=inside, other=0.0)
    own = statistics + (item * tiles + tile) * STATISTICS
    most, least, norm = tl.load(own), tl.load(own + 1), tl.load(own + 2)
    lowest = tl.min(tl.where(alive, floor, float("inf")), 0)
    broken = tl.max((alive & (floor != floor)).to(tl.int32), 0) > 0  # NaN: everything is visited, and is NaN
    low, high = key_tiles, 0
    for start in range(0, key_tiles, CHUNK):
        ahead = start + tl.arange(0, CHUNK)
        there = ahead < key_tiles
        reach = key_statistics + ahead * STATISTICS
        sigma2 = most + tl.load(reach, mask=there, other=0.0)
        pairs = there[:, None] & inside[None, :]
        places = key_offsets + channels[None, :] * key_length + ahead[:, None] * KEY_BLOCK
        apart = (
            tl.load(key_anchors + ahead[:, None] * WIDTH + channels[None, :], mask=pairs, other=0.0) - anchor[None, :]
        )
        left = apart + tl.load(places, mask=pairs, other=0.0)  # first key of the tile, relative to our anchor
        right = apart + tl.load(places + KEY_BLOCK - 1, mask=pairs, other=0.0)
        gap = tl.maximum(tl.maximum(left - last[None, :], first[None, :] - right), 0.0)
        bound = -scale * tl.sum(gap * gap, 1) / (spread * sigma2 + eps)
        if LOG_TERM:
            bound -= 0.5 * scale * tl.log(least + tl.load(reach + 1, mask=there, other=1.0))
        if CONTENT > 0:
            bound += norm * tl.load(reach + 2, mask=there, other=0.0)
        useful = there & (tl.load(reach + 3, mask=there, other=0.0) > 0) & (broken | ~(bound < lowest))
        low = tl.minimum(low, tl.min(tl.where(useful, ahead, key_tiles), 0))
        high = tl.maximum(high, tl.max(tl.where(useful, ahead + 1, 0), 0))

    # Row against tile within that range: rows of small variance no longer decide for their neighbours.
    from_tile, to_tile = key_tiles, 0
    norms = tl.zeros_like(variance)
    if CONTENT > 0:
        norms = tl.load(content_norms + item * length + rows)
    for start in range(low, high, CHUNK):
        ahead = start + tl.arange(0, CHUNK)
        there = ahead < high
        reach = key_statistics + ahead * STATISTICS
        beyond = tl.zeros((BLOCK, CHUNK), dtype=tl.float32)
        for c in range(width):
            apart = tl.load(anchors + c) - tl.load(key_anchors + ahead * WIDTH + c, mask=there, other=0.0)
            row_gap = apart[None, :] + tl.load(offsets + c * length + rows)[:, None]
            places = key_offsets + c * key_length + ahead * KEY_BLOCK
            left = tl.load(places, mask=there, other=0.0)
            right = tl.load(places + KEY_BLOCK - 1, mask=there, other=0.0)
            gap = tl.maximum(tl.maximum(left[None, :] - row_gap, row_gap - right[None, :]), 0.0)
            beyond += gap * gap
        sigma2 = variance[:, None] + tl.load(reach, mask=there, other=0.0)[None, :]
        bound = -scale * beyond / (spread * sigma2 + eps)
        if LOG_TERM:
            smallest = tl.load(reach + 1, mask=there, other=1.0)
            bound -= 0.5 * scale * tl.log(variance[:, None] + smallest[None, :])
        if CONTENT > 0:
            bound += norms[:, None] * tl.load(reach + 2, mask=there, other=0.0)[None, :]
        useful = (alive[:, None] & ~(bound < floor[:, None])).to(tl.int32)
        useful = there & (tl.max(useful, 0) > 0)
        from_tile = tl.minimum(from_tile, tl.min(tl.where(useful, ahead, key_tiles), 0))
        to_tile = tl.maximum(to_tile, tl.max(tl.where(useful, ahead + 1, 0), 0))
    tl.store(ranges + tile * 2, from_tile)
    tl.store(ranges + tile * 2 + 1, tl.maximum(to_tile, from_tile))
