"""Score → softmax → A·V over each query tile's range of key tiles, with a running maximum; weights on request."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from clock_attention.kernels.triton.readings import FLOOR, VARIANCE
from clock_attention.kernels.triton.scores import (
    LOG2E,
    MEAN,
    PEAK,
    SHARE,
    SOFTMAX,
    clock_scores,
    clocks_of_head,
    cut,
    known_weights,
    of_head,
    own_variance,
    program_place,
    tile_distances,
    tile_products,
    tile_rows,
)


@triton.jit
def attend_tile(
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances,
    value, value_b, value_h, value_s, content, content_b, content_h, content_s,
    key_content, key_content_b, key_content_h, key_content_s,
    scales, out, out_b, out_h, out_s, softmax,
    heads, queries, keys, tiles, key_tiles, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, VALUE: tl.constexpr, BLOCK_VALUE: tl.constexpr, CONTENT: tl.constexpr,
    CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr, FIELDS: tl.constexpr,
    BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Forward: output of one tile of queries and each row's softmax statistics. Both are 0 for rows without a key."""
    tile, item, batch, head = program_place(heads)
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
        item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
        WIDTH, FIELDS, BLOCK, KEY_BLOCK,
    )  # fmt: skip
    anchors += tile * WIDTH
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    inside = rows < queries
    value = of_head(value, batch, value_b, head, value_h)
    scale = tl.load(scales + head)
    variance, alive = own_variance(records + VARIANCE * length + rows)
    floor = tl.load(records + FLOOR * length + rows)
    if CONTENT > 0:
        content = of_head(content, batch, content_b, head, content_h)
        key_content = of_head(key_content, batch, key_content_b, head, key_content_h)

    peak = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    scores = tl.zeros((BLOCK,), dtype=tl.float32)
    result = tl.zeros((BLOCK, BLOCK_VALUE), dtype=tl.float32)
    first, last = tl.load(ranges + tile * 2), tl.load(ranges + tile * 2 + 1)
    for key_tile in tl.range(first, last, disable_licm=True):
        cols = key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)
        key_variance, key_alive = own_variance(key_variances + cols)
        distance = tile_distances(
            offsets, anchors, rows, length, key_offsets, key_anchors + key_tile * WIDTH, cols, key_length,
            width, True, BLOCK, KEY_BLOCK, CHANNELS,
        )  # fmt: skip
        sigma2 = variance[:, None] + key_variance[None, :]
        score, _, _ = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
        logits = score * scale
        if CONTENT > 0:
            logits += tile_products(
                tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32), content, content_s, rows, alive, key_content,
                key_content_s, cols, key_alive, content_width, content.dtype.element_ty, CHANNELS, PRECISION,
            )  # fmt: skip
        logits = cut(logits * LOG2E, floor[:, None], key_alive[None, :])
        higher = tl.maximum(peak, tl.max(logits, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)  # nothing seen yet: no −∞ − −∞
        weights = tl.exp2(logits - level[:, None])
        rescale = tl.exp2(peak - level)
        total = total * rescale + tl.sum(weights, 1)
        scores = scores * rescale + tl.sum(tl.where(weights == 0.0, 0.0, weights * score), 1)
        values = tile_rows(value, value_s, cols, key_alive, VALUE, BLOCK_VALUE)
        result = result * rescale[:, None]
        result += tl.dot(weights.to(values.dtype), values, input_precision=PRECISION)
        peak = higher
    some = alive & (total != 0)
    total = tl.where(some, total, 1.0)
    result = tl.where(some[:, None], result / total[:, None], 0.0)
    channels = tl.arange(0, BLOCK_VALUE)
    places = of_head(out, batch, out_b, head, out_h) + (rows[:, None] * out_s + channels[None, :])
    tl.store(places, result, mask=inside[:, None] & (channels < VALUE)[None, :])
    softmax += item * (SOFTMAX * queries) + rows
    tl.store(softmax + PEAK * queries, tl.where(some, peak, 0.0), mask=inside)
    tl.store(softmax + SHARE * queries, tl.where(some, 1.0 / total, 0.0), mask=inside)
    tl.store(softmax + MEAN * queries, tl.where(some, scores / total, 0.0), mask=inside)


@triton.jit
def write_weights(
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances,
    content, content_b, content_h, content_s, key_content, key_content_b, key_content_h, key_content_s,
    scales, softmax, out, heads, queries, keys, tiles, key_tiles, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, CONTENT: tl.constexpr, CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr,
    FIELDS: tl.constexpr, BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Forward, on request: one tile of the weights A (S, T), computed in the range of its queries, 0 outside."""
    place, item, batch, head = program_place(heads)
    tile, key_tile = place // key_tiles, place % key_tiles
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
        item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
        WIDTH, FIELDS, BLOCK, KEY_BLOCK,
    )  # fmt: skip
    rows, cols = tile * BLOCK + tl.arange(0, BLOCK), key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)
    inside = rows < queries
    first, last = tl.load(ranges + tile * 2), tl.load(ranges + tile * 2 + 1)
    weights = tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32)
    if (key_tile >= first) & (key_tile < last):
        variance, alive = own_variance(records + VARIANCE * length + rows)
        key_variance, key_alive = own_variance(key_variances + cols)
        distance = tile_distances(
            offsets, anchors + tile * WIDTH, rows, length, key_offsets, key_anchors + key_tile * WIDTH, cols,
            key_length, width, True, BLOCK, KEY_BLOCK, CHANNELS,
        )  # fmt: skip
        score, _, _ = clock_scores(distance, variance[:, None] + key_variance[None, :], spread, eps, LOG_TERM)
        logits = score * tl.load(scales + head)
        if CONTENT > 0:
            logits += tile_products(
                tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32),
                of_head(content, batch, content_b, head, content_h), content_s, rows, alive,
                of_head(key_content, batch, key_content_b, head, key_content_h), key_content_s, cols, key_alive,
                content_width, content.dtype.element_ty, CHANNELS, PRECISION,
            )  # fmt: skip
        floor = tl.load(records + FLOOR * length + rows)
        own = softmax + item * (SOFTMAX * queries) + rows
        peak = tl.load(own + PEAK * queries, mask=inside, other=0.0)
        share = tl.load(own + SHARE * queries, mask=inside, other=0.0)
        allowed = alive[:, None] & key_alive[None, :]
        weights = known_weights(logits, floor[:, None], peak[:, None], share[:, None], allowed)
    places = out + item * (queries * keys) + (rows[:, None] * keys + cols[None, :])
    tl.store(places, weights, mask=inside[:, None] & (cols < keys)[None, :])
