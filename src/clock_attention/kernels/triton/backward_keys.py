"""Gradients of the key side, one program for each tile of keys over the query tiles that read it.

The key side has its own pass over the same tiles: no two programs add to the same value, so there are no atomics and
the result does not depend on their order. See `backward_queries.py` for how gradients are taken.
"""

# mypy: ignore-errors
# ruff: noqa: SIM102 (a constant for the compiler, then a condition for the program)

from __future__ import annotations

import triton
import triton.language as tl

from clock_attention.kernels.triton.readings import EVEN_PULL, FLOOR, VARIANCE
from clock_attention.kernels.triton.scores import (
    PEAK,
    SHARE,
    SOFTMAX,
    clock_scores,
    clocks_of_head,
    known_weights,
    of_head,
    own_variance,
    program_place,
    store_rows,
    tile_distances,
    tile_products,
    tile_readings,
    tile_rows,
    variance_slope,
)


@triton.jit
def transposed_range(ranges, tiles, key_tile, CHUNK: tl.constexpr):
    """First and last query tile whose range holds this key tile, for gradients of the key side."""
    low, high = tiles, 0
    for start in range(0, tiles, CHUNK):
        ahead = start + tl.arange(0, CHUNK)
        there = ahead < tiles
        first = tl.load(ranges + ahead * 2, mask=there, other=0)
        last = tl.load(ranges + ahead * 2 + 1, mask=there, other=0)
        holds = there & (first <= key_tile) & (key_tile < last)
        low = tl.minimum(low, tl.min(tl.where(holds, ahead, tiles), 0))
        high = tl.maximum(high, tl.max(tl.where(holds, ahead + 1, 0), 0))
    return low, high


@triton.jit
def key_gradients(
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances,
    value, value_b, value_h, value_s, content, content_b, content_h, content_s,
    key_content, key_content_b, key_content_h, key_content_s,
    scales, grad_out, grad_out_b, grad_out_h, grad_out_s, softmax, grad_weights,
    grad_clock, grad_variance, grad_value, grad_content,
    heads, queries, keys, tiles, key_tiles, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr, VALUE: tl.constexpr, BLOCK_VALUE: tl.constexpr,
    CONTENT: tl.constexpr, BLOCK_CONTENT: tl.constexpr, CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr,
    WEIGHTS: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr,
    KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr, CHUNK: tl.constexpr,
    VALUES: tl.constexpr, CLOCKS: tl.constexpr, CONTENTS: tl.constexpr,
):  # fmt: skip
    """One tile of keys against the query tiles that read it: ∂/∂v (VALUES), ∂/∂λ_t and ∂/∂A_Y(t) (CLOCKS), ∂/∂content
    (CONTENTS). Tiles lie (T, S)."""
    key_tile, item, batch, head = program_place(heads)
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
        item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
        WIDTH, FIELDS, BLOCK, KEY_BLOCK,
    )  # fmt: skip
    key_anchors += key_tile * WIDTH
    rows = key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)  # keys
    inside = rows < keys
    value = of_head(value, batch, value_b, head, value_h)
    grad_out = of_head(grad_out, batch, grad_out_b, head, grad_out_h)
    softmax += item * (SOFTMAX * queries)
    scale = tl.load(scales + head)
    _, key_alive = own_variance(key_variances + rows)
    if CONTENT > 0:
        content = of_head(content, batch, content_b, head, content_h)
        key_content = of_head(key_content, batch, key_content_b, head, key_content_h)
    by_content = tl.zeros((KEY_BLOCK, BLOCK_CONTENT), dtype=tl.float32)
    by_value = tl.zeros((KEY_BLOCK, BLOCK_VALUE), dtype=tl.float32)
    by_clock = tl.zeros((KEY_BLOCK, BLOCK_WIDTH), dtype=tl.float32)
    mass = tl.zeros((KEY_BLOCK,), dtype=tl.float32)
    by_variance = tl.zeros((KEY_BLOCK,), dtype=tl.float32)
    first, last = transposed_range(ranges, tiles, key_tile, CHUNK)
    for tile in tl.range(first, last, disable_licm=True):
        cols = tile * BLOCK + tl.arange(0, BLOCK)  # queries
        query_variance, alive = own_variance(records + VARIANCE * length + cols)
        variance, key_alive = own_variance(key_variances + rows)
        allowed = key_alive[:, None] & alive[None, :]
        if CLOCKS or CONTENTS:
            slope = tile_products(
                tl.zeros((KEY_BLOCK, BLOCK), dtype=tl.float32), value, value_s, rows, key_alive, grad_out, grad_out_s,
                cols, alive, value_width, value.dtype.element_ty, CHANNELS, PRECISION,
            )  # fmt: skip
        if CONTENT > 0:
            evidence = tile_products(
                tl.zeros((KEY_BLOCK, BLOCK), dtype=tl.float32), key_content, key_content_s, rows, key_alive, content,
                content_s, cols, alive, content_width, content.dtype.element_ty, CHANNELS, PRECISION,
            )  # fmt: skip
        tile_anchor = anchors + tile * WIDTH
        distance = tile_distances(
            key_offsets, key_anchors, rows, key_length, offsets, tile_anchor, cols, length, width, False,
            KEY_BLOCK, BLOCK, CHANNELS,
        )  # fmt: skip
        sigma2 = variance[:, None] + query_variance[None, :]
        score, nearness, denominator = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
        logits = score * scale
        if CONTENT > 0:
            logits += evidence
        floor = tl.load(records + FLOOR * length + cols)
        peak = tl.load(softmax + PEAK * queries + cols, mask=alive, other=0.0)
        share = tl.load(softmax + SHARE * queries + cols, mask=alive, other=0.0)
        weights = known_weights(logits, floor[None, :], peak[None, :], share[None, :], allowed)
        if CLOCKS or CONTENTS:
            if WEIGHTS:
                places = grad_weights + item * (queries * keys) + (cols[None, :] * keys + rows[:, None])
                slope += tl.load(places, mask=allowed, other=0.0)
            pull = tl.load(records + EVEN_PULL * length + cols, mask=alive, other=0.0)
            by_logit = tl.where(weights == 0.0, 0.0, weights * (slope - pull[None, :]))
            if CLOCKS:
                by_score = by_logit * scale
                by_variance += tl.sum(by_score * variance_slope(nearness, sigma2, denominator, spread, LOG_TERM), 1)
                push = by_score / denominator
                mass += tl.sum(push, 1)
                if width > 0:
                    readings = tile_readings(offsets, tile_anchor, key_anchors, cols, length, WIDTH, BLOCK_WIDTH)
                    by_clock += tl.dot(push, readings, input_precision=PRECISION)
            if CONTENTS:
                if content_width > 0:
                    others = tile_rows(content, content_s, cols, alive, CONTENT, BLOCK_CONTENT)
                    by_content += tl.dot(by_logit.to(others.dtype), others, input_precision=PRECISION)
        if VALUES:
            if value_width > 0:
                upstream = tile_rows(grad_out, grad_out_s, cols, alive, VALUE, BLOCK_VALUE)
                upstream = upstream.to(value.dtype.element_ty)
                by_value += tl.dot(weights.to(value.dtype.element_ty), upstream, input_precision=PRECISION)
    if VALUES:
        store_rows(grad_value + item * (keys * VALUE), rows, inside, key_alive, by_value, VALUE, BLOCK_VALUE)
    if CLOCKS:
        own = tile_readings(key_offsets, key_anchors, key_anchors, rows, key_length, WIDTH, BLOCK_WIDTH)
        by_clock = 2.0 * (by_clock - mass[:, None] * own)
        store_rows(grad_clock + item * (keys * WIDTH), rows, inside, key_alive, by_clock, WIDTH, BLOCK_WIDTH)
        tl.store(grad_variance + item * keys + rows, tl.where(key_alive, by_variance, 0.0), mask=inside)
    if CONTENTS:
        store_rows(grad_content + item * (keys * CONTENT), rows, inside, key_alive, by_content, CONTENT, BLOCK_CONTENT)
