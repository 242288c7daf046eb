"""Gradients, twice over the same tiles: by queries for the query side, by keys for the key side. Nothing is added to
by two programs, so there are no atomics and the result does not depend on their order.

With ds = ∂/∂logit and w = scale · ds/(2√d Σ² + ε), a clock's gradient is −2 Σ_t w (λ_s − λ_t), taken as
Σ_t w · λ_s − Σ_t w λ_t with both readings relative to the tile's own anchor.

The products that add to a gradient stand under conditions that always hold, but not for the compiler: it keeps their
loads there, instead of filling the registers with them, and does not take the products for a chain, for which it would
let all warps compute the same pairs.
"""

# mypy: ignore-errors
# ruff: noqa: SIM102 (a constant for the compiler, then a condition for the program)

from __future__ import annotations

import triton
import triton.language as tl

from clock_attention.kernels.triton.readings import FLOOR, PULL, VARIANCE
from clock_attention.kernels.triton.scores import (
    LOG2E,
    MEAN,
    PEAK,
    SHARE,
    SOFTMAX,
    clock_scores,
    cut,
    own_variance,
    row_products,
    score_slope,
    tile_distances,
    tile_products,
    tile_readings,
    tile_rows,
)


@triton.jit
def query_gradients(
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances,
    value, value_b, value_h, value_s, content, content_b, content_h, content_s,
    key_content, key_content_b, key_content_h, key_content_s,
    scales, out, out_b, out_h, out_s, grad_out, grad_out_b, grad_out_h, grad_out_s, softmax, weights_pull, grad_weights,
    grad_clock, grad_variance, grad_content, grad_scale,
    heads, queries, keys, tiles, key_tiles, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr, VALUE: tl.constexpr, BLOCK_VALUE: tl.constexpr,
    CONTENT: tl.constexpr, BLOCK_CONTENT: tl.constexpr, CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr,
    WEIGHTS: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr,
    KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of queries: ∂/∂λ_s, ∂/∂A_X(s), ∂/∂content, its part of ∂/∂scale, and Σ_t p dp for the other kernel."""
    tile, item = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    batch, head = item // heads, item % heads
    length, key_length = tiles * BLOCK, key_tiles * KEY_BLOCK
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    inside = rows < queries
    offsets += item * WIDTH * length
    records += item * FIELDS * length
    key_variances += item * key_length
    anchors += (item * tiles + tile) * WIDTH
    key_offsets += item * WIDTH * key_length
    key_anchors += item * key_tiles * WIDTH
    value += batch * value_b + head * value_h
    scale = tl.load(scales + head)
    _, alive = own_variance(records + VARIANCE * length + rows)
    softmax += item * SOFTMAX * queries + rows
    grad_out += batch * grad_out_b + head * grad_out_h
    out += batch * out_b + head * out_h
    # Where one key has all the weight, this equals its slope to the last bit and nothing is left to be magnified.
    pull = row_products(
        grad_out, grad_out_s, out, out_s, rows, alive, value_width, value.dtype.element_ty, BLOCK, CHANNELS, PRECISION
    )
    if WEIGHTS:
        pull += tl.load(weights_pull + item * queries + rows, mask=alive, other=0.0)
    tl.store(records + PULL * length + rows, pull)
    tl.debug_barrier()  # read below by other threads of this program
    if CONTENT > 0:
        content += batch * content_b + head * content_h
        key_content += batch * key_content_b + head * key_content_h
        by_content = tl.zeros((BLOCK, BLOCK_CONTENT), dtype=tl.float32)
    by_clock = tl.zeros((BLOCK, BLOCK_WIDTH), dtype=tl.float32)
    mass = tl.zeros((BLOCK,), dtype=tl.float32)
    by_variance = tl.zeros((BLOCK,), dtype=tl.float32)
    by_scale = tl.zeros((BLOCK,), dtype=tl.float32)
    first, last = tl.load(ranges + (item * tiles + tile) * 2), tl.load(ranges + (item * tiles + tile) * 2 + 1)
    for key_tile in tl.range(first, last, disable_licm=True):
        cols = key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)
        key_variance, key_alive = own_variance(key_variances + cols)
        # What is known of a row is read anew for every tile: registers are scarcer than what the cache can deliver.
        variance, alive = own_variance(records + VARIANCE * length + rows)
        allowed = alive[:, None] & key_alive[None, :]
        # Products come before distances: what they take to compute is gone when the many numbers of a pair are needed.
        slope = tile_products(
            tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32), grad_out, grad_out_s, rows, alive, value, value_s, cols,
            key_alive, value_width, value.dtype.element_ty, CHANNELS, PRECISION,
        )  # fmt: skip
        if CONTENT > 0:
            evidence = tile_products(
                tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32), content, content_s, rows, alive, key_content,
                key_content_s, cols, key_alive, content_width, content.dtype.element_ty, CHANNELS, PRECISION,
            )  # fmt: skip
        tile_anchor = key_anchors + key_tile * WIDTH
        distance = tile_distances(
            offsets, anchors, rows, length, key_offsets, tile_anchor, cols, key_length, width, True,
            BLOCK, KEY_BLOCK, CHANNELS,
        )  # fmt: skip
        sigma2 = variance[:, None] + key_variance[None, :]
        score, denominator = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
        logits = score * scale
        if CONTENT > 0:
            logits += evidence
        floor = tl.load(records + FLOOR * length + rows)
        peak = tl.load(softmax + PEAK * queries, mask=alive, other=0.0)
        share = tl.load(softmax + SHARE * queries, mask=alive, other=0.0)
        weights = tl.exp2(cut(logits * LOG2E, floor[:, None], allowed) - peak[:, None]) * share[:, None]
        if WEIGHTS:
            places = grad_weights + item * queries * keys + (rows[:, None] * keys + cols[None, :])
            slope += tl.load(places, mask=allowed, other=0.0)
        pull = tl.load(records + PULL * length + rows)
        by_logit = tl.where(weights == 0.0, 0.0, weights * (slope - pull[:, None]))
        by_score = by_logit * scale
        # A row's ∂/∂logit add to 0 but for rounding, which large scores would magnify: they are taken from their mean.
        beyond = score - tl.load(softmax + MEAN * queries, mask=alive, other=0.0)[:, None]
        by_scale += tl.sum(tl.where(weights == 0.0, 0.0, by_logit * beyond), 1)
        by_variance += tl.sum(by_score * score_slope(distance, sigma2, denominator, spread, LOG_TERM), 1)
        push = by_score / denominator
        mass += tl.sum(push, 1)
        if width > 0:
            readings = tile_readings(key_offsets, tile_anchor, anchors, cols, key_length, WIDTH, BLOCK_WIDTH)
            by_clock += tl.dot(push, readings, input_precision=PRECISION)
        if CONTENT > 0:
            if content_width > 0:
                others = tile_rows(key_content, key_content_s, cols, key_alive, CONTENT, BLOCK_CONTENT)
                by_content += tl.dot(by_logit.to(others.dtype), others, input_precision=PRECISION)
    own = tile_readings(offsets, anchors, anchors, rows, length, WIDTH, BLOCK_WIDTH)
    channels = tl.arange(0, BLOCK_WIDTH)
    places = grad_clock + item * queries * WIDTH + (rows[:, None] * WIDTH + channels[None, :])
    by_clock = tl.where(alive[:, None], 2.0 * (by_clock - mass[:, None] * own), 0.0)
    tl.store(places, by_clock.to(grad_clock.dtype.element_ty), mask=inside[:, None] & (channels < WIDTH)[None, :])
    tl.store(grad_variance + item * queries + rows, tl.where(alive, by_variance, 0.0), mask=inside)
    tl.store(grad_scale + item * tiles + tile, tl.sum(by_scale, 0))
    if CONTENT > 0:
        channels = tl.arange(0, BLOCK_CONTENT)
        places = grad_content + item * queries * CONTENT + (rows[:, None] * CONTENT + channels[None, :])
        by_content = tl.where(alive[:, None], by_content, 0.0).to(grad_content.dtype.element_ty)
        tl.store(places, by_content, mask=inside[:, None] & (channels < CONTENT)[None, :])


@triton.jit
def transposed_range(ranges, tiles, key_tile, CHUNK: tl.constexpr):
    """First and last query tile whose range holds this key tile."""
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
    VALUES: tl.constexpr, CLOCKS: tl.constexpr,
):  # fmt: skip
    """One tile of keys against the query tiles that read it: ∂/∂v (VALUES) and ∂/∂λ_t, ∂/∂A_Y(t), ∂/∂content (CLOCKS).

    Tiles lie (T, S).
    """
    key_tile, item = tl.program_id(0) % key_tiles, (tl.program_id(0) // key_tiles).to(tl.int64)
    batch, head = item // heads, item % heads
    length, key_length = tiles * BLOCK, key_tiles * KEY_BLOCK
    rows = key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)  # keys
    inside = rows < keys
    offsets += item * WIDTH * length
    records += item * FIELDS * length
    anchors += item * tiles * WIDTH
    key_offsets += item * WIDTH * key_length
    key_anchors += (item * key_tiles + key_tile) * WIDTH
    grad_out += batch * grad_out_b + head * grad_out_h
    scale = tl.load(scales + head)
    key_variances += item * key_length
    _, key_alive = own_variance(key_variances + rows)
    value += batch * value_b + head * value_h
    softmax += item * SOFTMAX * queries
    if CONTENT > 0:
        key_content += batch * key_content_b + head * key_content_h
        content += batch * content_b + head * content_h
        by_content = tl.zeros((KEY_BLOCK, BLOCK_CONTENT), dtype=tl.float32)
    by_value = tl.zeros((KEY_BLOCK, BLOCK_VALUE), dtype=tl.float32)
    by_clock = tl.zeros((KEY_BLOCK, BLOCK_WIDTH), dtype=tl.float32)
    mass = tl.zeros((KEY_BLOCK,), dtype=tl.float32)
    by_variance = tl.zeros((KEY_BLOCK,), dtype=tl.float32)
    first, last = transposed_range(ranges + item * tiles * 2, tiles, key_tile, CHUNK)
    for tile in tl.range(first, last, disable_licm=True):
        cols = tile * BLOCK + tl.arange(0, BLOCK)  # queries
        query_variance, alive = own_variance(records + VARIANCE * length + cols)
        variance, key_alive = own_variance(key_variances + rows)
        allowed = key_alive[:, None] & alive[None, :]
        if CLOCKS:
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
        score, denominator = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
        logits = score * scale
        if CONTENT > 0:
            logits += evidence
        floor = tl.load(records + FLOOR * length + cols)
        peak = tl.load(softmax + PEAK * queries + cols, mask=alive, other=0.0)
        share = tl.load(softmax + SHARE * queries + cols, mask=alive, other=0.0)
        weights = tl.exp2(cut(logits * LOG2E, floor[None, :], allowed) - peak[None, :]) * share[None, :]
        if CLOCKS:
            if WEIGHTS:
                places = grad_weights + item * queries * keys + (cols[None, :] * keys + rows[:, None])
                slope += tl.load(places, mask=allowed, other=0.0)
            pull = tl.load(records + PULL * length + cols, mask=alive, other=0.0)
            by_logit = tl.where(weights == 0.0, 0.0, weights * (slope - pull[None, :]))
            by_score = by_logit * scale
            by_variance += tl.sum(by_score * score_slope(distance, sigma2, denominator, spread, LOG_TERM), 1)
            push = by_score / denominator
            mass += tl.sum(push, 1)
            if width > 0:
                readings = tile_readings(offsets, tile_anchor, key_anchors, cols, length, WIDTH, BLOCK_WIDTH)
                by_clock += tl.dot(push, readings, input_precision=PRECISION)
            if CONTENT > 0:
                if content_width > 0:
                    others = tile_rows(content, content_s, cols, alive, CONTENT, BLOCK_CONTENT)
                    by_content += tl.dot(by_logit.to(others.dtype), others, input_precision=PRECISION)
        if VALUES:
            if value_width > 0:
                upstream = tile_rows(grad_out, grad_out_s, cols, alive, VALUE, BLOCK_VALUE)
                upstream = upstream.to(value.dtype.element_ty)
                by_value += tl.dot(weights.to(value.dtype.element_ty), upstream, input_precision=PRECISION)
    if VALUES:
        channels = tl.arange(0, BLOCK_VALUE)
        places = grad_value + item * keys * VALUE + (rows[:, None] * VALUE + channels[None, :])
        by_value = tl.where(key_alive[:, None], by_value, 0.0).to(grad_value.dtype.element_ty)
        tl.store(places, by_value, mask=inside[:, None] & (channels < VALUE)[None, :])
    if CLOCKS:
        own = tile_readings(key_offsets, key_anchors, key_anchors, rows, key_length, WIDTH, BLOCK_WIDTH)
        channels = tl.arange(0, BLOCK_WIDTH)
        places = grad_clock + item * keys * WIDTH + (rows[:, None] * WIDTH + channels[None, :])
        # Padding gets 0 even where a row is NaN.
        by_clock = tl.where(key_alive[:, None], 2.0 * (by_clock - mass[:, None] * own), 0.0)
        tl.store(places, by_clock.to(grad_clock.dtype.element_ty), mask=inside[:, None] & (channels < WIDTH)[None, :])
        tl.store(grad_variance + item * keys + rows, tl.where(key_alive, by_variance, 0.0), mask=inside)
        if CONTENT > 0:
            channels = tl.arange(0, BLOCK_CONTENT)
            places = grad_content + item * keys * CONTENT + (rows[:, None] * CONTENT + channels[None, :])
            by_content = tl.where(key_alive[:, None], by_content, 0.0).to(grad_content.dtype.element_ty)
            tl.store(places, by_content, mask=inside[:, None] & (channels < CONTENT)[None, :])
