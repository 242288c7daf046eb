"""Gradients of the query side, one program for each tile of queries over its range of key tiles.

With ds = ∂/∂logit and w = scale · ds/(2√d Σ² + ε), a clock's gradient is −2 Σ_t w (λ_s − λ_t), taken as
Σ_t w · λ_s − Σ_t w λ_t with both readings relative to the tile's own anchor.

The products that add to a gradient are placed under conditions that always hold, which the compiler does not know: it
keeps their loads there, instead of filling the registers with them, and does not take the products for a chain, for
which it would let all warps compute the same pairs.
"""

# mypy: ignore-errors
# ruff: noqa: SIM102 (a constant for the compiler, then a condition for the program)

from __future__ import annotations

import triton
import triton.language as tl

from clock_attention.kernels.triton.readings import EVEN_PULL, FLOOR, PULL, VARIANCE
from clock_attention.kernels.triton.scores import (
    MEAN,
    PEAK,
    SHARE,
    SOFTMAX,
    clock_scores,
    clocks_of_head,
    known_weights,
    of_head,
    own_variance,
    precise_scores,
    program_place,
    row_products,
    store_rows,
    tile_distances,
    tile_products,
    tile_readings,
    tile_rows,
    variance_slope,
)

FAR = tl.constexpr(64.0)  # a mean score from which rounding to fp32 matters


@triton.jit
def row_slopes(
    rows, key_tile, offsets, anchors, records, key_offsets, key_anchors, key_variances, length, key_length,
    value, value_s, content, content_s, key_content, key_content_s, scale, grad_out, grad_out_s, softmax, grad_weights,
    queries, keys, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, CONTENT: tl.constexpr, CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr, WEIGHTS: tl.constexpr,
    BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Slopes ∂/∂logit of a tile of queries against a tile of keys, and its scores, for gradients of the query side."""
    cols = key_tile * KEY_BLOCK + tl.arange(0, KEY_BLOCK)
    key_variance, key_alive = own_variance(key_variances + cols)
    # A row's data is read again for every tile: registers are scarcer than cache bandwidth.
    variance, alive = own_variance(records + VARIANCE * length + rows)
    allowed = alive[:, None] & key_alive[None, :]
    # Products come before distances: their temporaries are gone when the many numbers of a pair are needed.
    slope = tile_products(
        tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32), grad_out, grad_out_s, rows, alive, value, value_s, cols,
        key_alive, value_width, value.dtype.element_ty, CHANNELS, PRECISION,
    )  # fmt: skip
    if CONTENT > 0:
        evidence = tile_products(
            tl.zeros((BLOCK, KEY_BLOCK), dtype=tl.float32), content, content_s, rows, alive, key_content,
            key_content_s, cols, key_alive, content_width, content.dtype.element_ty, CHANNELS, PRECISION,
        )  # fmt: skip
    distance = tile_distances(
        offsets, anchors, rows, length, key_offsets, key_anchors + key_tile * WIDTH, cols, key_length, width, True,
        BLOCK, KEY_BLOCK, CHANNELS,
    )  # fmt: skip
    sigma2 = variance[:, None] + key_variance[None, :]
    score, nearness, denominator = clock_scores(distance, sigma2, spread, eps, LOG_TERM)
    logits = score * scale
    if CONTENT > 0:
        logits += evidence
    floor = tl.load(records + FLOOR * length + rows)
    peak = tl.load(softmax + PEAK * queries + rows, mask=alive, other=0.0)
    share = tl.load(softmax + SHARE * queries + rows, mask=alive, other=0.0)
    weights = known_weights(logits, floor[:, None], peak[:, None], share[:, None], allowed)
    if WEIGHTS:
        slope += tl.load(grad_weights + (rows[:, None] * keys + cols[None, :]), mask=allowed, other=0.0)
    pull = tl.load(records + PULL * length + rows)
    by_logit = tl.where(weights == 0.0, 0.0, weights * (slope - pull[:, None]))
    return by_logit, weights, score, nearness, sigma2, denominator, cols, key_alive


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
    KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr, CLOCKS: tl.constexpr, CONTENTS: tl.constexpr,
):  # fmt: skip
    """One tile of queries: Σ_t p dp for the other kernels, ∂/∂λ_s, ∂/∂A_X(s) and its part of ∂/∂scale (CLOCKS), and
    ∂/∂content (CONTENTS)."""
    tile, item, batch, head = program_place(heads)
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
        item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
        WIDTH, FIELDS, BLOCK, KEY_BLOCK,
    )  # fmt: skip
    anchors += tile * WIDTH
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    inside = rows < queries
    value = of_head(value, batch, value_b, head, value_h)
    grad_out = of_head(grad_out, batch, grad_out_b, head, grad_out_h)
    softmax += item * (SOFTMAX * queries)
    scale = tl.load(scales + head)
    _, alive = own_variance(records + VARIANCE * length + rows)
    if WEIGHTS:
        grad_weights += item * (queries * keys)
    if CLOCKS:
        # Where one key has all the weight, this equals its slope to the last bit and nothing is left to be magnified.
        pull = row_products(
            grad_out, grad_out_s, of_head(out, batch, out_b, head, out_h), out_s, rows, alive, value_width,
            value.dtype.element_ty, BLOCK, CHANNELS, PRECISION,
        )  # fmt: skip
        if WEIGHTS:
            pull += tl.load(weights_pull + item * queries + rows, mask=alive, other=0.0)
        tl.store(records + PULL * length + rows, pull)
        tl.debug_barrier()  # read below by other threads of this program
    if CONTENT > 0:
        content = of_head(content, batch, content_b, head, content_h)
        key_content = of_head(key_content, batch, key_content_b, head, key_content_h)
    by_content = tl.zeros((BLOCK, BLOCK_CONTENT), dtype=tl.float32)
    by_clock = tl.zeros((BLOCK, BLOCK_WIDTH), dtype=tl.float32)
    mass = tl.zeros((BLOCK,), dtype=tl.float32)
    by_variance = tl.zeros((BLOCK,), dtype=tl.float32)
    mean_slope = tl.zeros((BLOCK,), dtype=tl.float32)
    slack = tl.zeros((BLOCK,), dtype=tl.float32)
    by_scale = tl.zeros((BLOCK,), dtype=tl.float32)
    first, last = tl.load(ranges + tile * 2), tl.load(ranges + tile * 2 + 1)
    for key_tile in tl.range(first, last, disable_licm=True):
        by_logit, weights, score, nearness, sigma2, denominator, cols, key_alive = row_slopes(
            rows, key_tile, offsets, anchors, records, key_offsets, key_anchors, key_variances, length, key_length,
            value, value_s, content, content_s, key_content, key_content_s, scale, grad_out, grad_out_s, softmax,
            grad_weights, queries, keys, width, value_width, content_width, spread, eps,
            WIDTH, CONTENT, CHANNELS, LOG_TERM, WEIGHTS, BLOCK, KEY_BLOCK, PRECISION,
        )  # fmt: skip
        if CLOCKS:
            by_score = by_logit * scale
            # A row's ∂/∂logit add to 0 except for rounding, which large scores would magnify: hence from their mean.
            beyond = score - tl.load(softmax + MEAN * queries + rows, mask=alive, other=0.0)[:, None]
            by_scale += tl.sum(tl.where(by_logit == 0.0, 0.0, by_logit * beyond), 1)
            slope = variance_slope(nearness, sigma2, denominator, spread, LOG_TERM)
            # So are the slopes, once their mean is known: in a row of large ones the rounding of `pull` would show.
            by_variance += tl.sum(by_logit * slope, 1)
            mean_slope += tl.sum(weights * slope, 1)
            slack += tl.sum(by_logit, 1)
            push = by_score / denominator
            mass += tl.sum(push, 1)
            if width > 0:
                readings = tile_readings(
                    key_offsets, key_anchors + key_tile * WIDTH, anchors, cols, key_length, WIDTH, BLOCK_WIDTH
                )
                by_clock += tl.dot(push, readings, input_precision=PRECISION)
        if CONTENTS:
            if content_width > 0:
                others = tile_rows(key_content, key_content_s, cols, key_alive, CONTENT, BLOCK_CONTENT)
                by_content += tl.dot(by_logit.to(others.dtype), others, input_precision=PRECISION)
    if CLOCKS:
        own = tile_readings(offsets, anchors, anchors, rows, length, WIDTH, BLOCK_WIDTH)
        by_clock = 2.0 * (by_clock - mass[:, None] * own)
        store_rows(grad_clock + item * (queries * WIDTH), rows, inside, alive, by_clock, WIDTH, BLOCK_WIDTH)
        by_variance = scale * (by_variance - slack * mean_slope)
        tl.store(grad_variance + item * queries + rows, tl.where(alive, by_variance, 0.0), mask=inside)
        tl.store(records + EVEN_PULL * length + rows, tl.load(records + PULL * length + rows) + slack)
        tl.store(grad_scale + item * tiles + tile, tl.sum(by_scale.to(tl.float64), 0))
    if CONTENTS:
        store_rows(grad_content + item * (queries * CONTENT), rows, inside, alive, by_content, CONTENT, BLOCK_CONTENT)


@triton.jit
def far_scales(
    offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances,
    value, value_b, value_h, value_s, content, content_b, content_h, content_s,
    key_content, key_content_b, key_content_h, key_content_s,
    scales, grad_out, grad_out_b, grad_out_h, grad_out_s, softmax, grad_weights, grad_scale,
    heads, queries, keys, tiles, key_tiles, width, value_width, content_width, spread, eps,
    WIDTH: tl.constexpr, CONTENT: tl.constexpr, CHANNELS: tl.constexpr, LOG_TERM: tl.constexpr, WEIGHTS: tl.constexpr,
    FIELDS: tl.constexpr, BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient ∂/∂scale of the query side again, with scores in fp64, for tiles whose clocks are far apart: a minority.

    Their scores are in the hundreds, and rounding them would show: a row's ∂/∂logit add to 0. A separate kernel,
    because `query_gradients` has no registers left for it.
    """
    tile, item, batch, head = program_place(heads)
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    softmax += item * (SOFTMAX * queries)
    mean = tl.load(softmax + MEAN * queries + rows, mask=rows < queries, other=0.0)
    if tl.max(tl.abs(mean), 0) > FAR:
        offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, length, key_length = clocks_of_head(
            item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
            WIDTH, FIELDS, BLOCK, KEY_BLOCK,
        )  # fmt: skip
        anchors += tile * WIDTH
        value = of_head(value, batch, value_b, head, value_h)
        grad_out = of_head(grad_out, batch, grad_out_b, head, grad_out_h)
        if CONTENT > 0:
            content = of_head(content, batch, content_b, head, content_h)
            key_content = of_head(key_content, batch, key_content_b, head, key_content_h)
        if WEIGHTS:
            grad_weights += item * (queries * keys)
        scale = tl.load(scales + head)
        by_scale = tl.zeros((BLOCK,), dtype=tl.float64)
        for key_tile in tl.range(tl.load(ranges + tile * 2), tl.load(ranges + tile * 2 + 1), disable_licm=True):
            by_logit, _, _, _, sigma2, _, cols, _alive = row_slopes(
                rows, key_tile, offsets, anchors, records, key_offsets, key_anchors, key_variances, length, key_length,
                value, value_s, content, content_s, key_content, key_content_s, scale, grad_out, grad_out_s, softmax,
                grad_weights, queries, keys, width, value_width, content_width, spread, eps,
                WIDTH, CONTENT, CHANNELS, LOG_TERM, WEIGHTS, BLOCK, KEY_BLOCK, PRECISION,
            )  # fmt: skip
            score = precise_scores(
                offsets, anchors, rows, length, key_offsets, key_anchors + key_tile * WIDTH, cols, key_length, width,
                sigma2, spread, eps, BLOCK, KEY_BLOCK, LOG_TERM,
            )  # fmt: skip
            beyond = by_logit * (score - mean[:, None])
            by_scale += tl.sum(tl.where(by_logit == 0.0, 0.0, beyond), 1)
        tl.store(grad_scale + item * tiles + tile, tl.sum(by_scale, 0))
