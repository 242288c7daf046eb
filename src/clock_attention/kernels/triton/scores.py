"""Device functions shared by forward, backward and the choice of tiles: distances, scores, the softmax's cut.

Clocks arrive as `readings.py` writes them: fp32 offsets (D, L) from an fp32 anchor per tile and channel. The difference
between two tiles' anchors is added once per channel, so that a difference of clocks is never taken between two large
numbers. Within a head everything is addressed in 32 bits: wide addresses of whole tiles would fill the registers.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)

# What the backward pass needs of a row's softmax. Its log-sum-exp in one number would be rounded by as much as
# large logits are, and every weight of the row with it; the peak is one of the logits themselves.
SOFTMAX = tl.constexpr(3)
PEAK = tl.constexpr(0)  # the largest logit, in base 2
SHARE = tl.constexpr(1)  # its weight: 1/Σ_t 2^(logit − peak)
MEAN = tl.constexpr(2)  # Σ_t p · score of the clocks


@triton.jit
def program_place(heads):
    """Device function: tile and (batch, head) of a grid with one program for each tile of each head.

    Three grid dimensions rather than one to be divided, and products of two 32-bit numbers: these, and all addresses
    derived from them, then take no registers in every thread.
    """
    head, batch = tl.program_id(1), tl.program_id(2)
    return tl.program_id(0), (batch * heads + head).to(tl.int64), batch.to(tl.int64), head.to(tl.int64)


@triton.jit
def of_head(x, batch, x_b, head, x_h):
    """Device function: where one head of a (B, H, …) tensor starts."""
    return x + batch * x_b + head * x_h


@triton.jit
def clocks_of_head(
    item, offsets, anchors, records, ranges, key_offsets, key_anchors, key_variances, tiles, key_tiles,
    WIDTH: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr,
):  # fmt: skip
    """Device function: where both sides of one head start in the output of `readings.py`, and their lengths."""
    length, key_length = tiles * BLOCK, key_tiles * KEY_BLOCK
    return (
        offsets + item * (WIDTH * length), anchors + item * (tiles * WIDTH), records + item * (FIELDS * length),
        ranges + item * (tiles * 2), key_offsets + item * (WIDTH * key_length),
        key_anchors + item * (key_tiles * WIDTH), key_variances + item * key_length, length, key_length,
    )  # fmt: skip


@triton.jit
def tile_distances(
    row_offsets, row_anchors, rows, row_length,
    col_offsets, col_anchors, cols, col_length, width,
    QUERY_ROWS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """‖λ_row − λ_col‖² as direct differences (ROWS, COLS); anchors point at the two tiles' own.

    Whichever side is in the rows, the queries' readings are moved to the keys' anchor: every kernel computes the same
    bits for a pair, so that a row's weights add to 1 in the backward pass as they did in the forward pass.
    `width` is not a constant on purpose: loops of known length are unrolled until pending loads fill the registers.
    """
    distance = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, width, CHANNELS):
        # A product of zeros puts the sums where the matrix units keep theirs, so that the pairs of a thread share
        # loads. It is inside a loop so that the compiler does not see it as chained to the products that follow:
        # it would give each warp whole rows, and warps beyond the first few the same ones.
        distance = tl.dot(tl.zeros((ROWS, 16), tl.bfloat16), tl.zeros((16, COLS), tl.bfloat16), acc=distance)
        for c in range(start, tl.minimum(start + CHANNELS, width)):
            apart = tl.load(row_anchors + c) - tl.load(col_anchors + c)
            row = tl.load(row_offsets + c * row_length + rows)  # (ROWS,)
            col = tl.load(col_offsets + c * col_length + cols)  # (COLS,)
            if QUERY_ROWS:
                row += apart
            else:
                col -= apart
            gap = row[:, None] - col[None, :]
            distance += gap * gap
    return distance


@triton.jit
def own_variance(places):
    """Device function: a tile's variances, and which steps are valid; padding is marked by a negative variance."""
    variance = tl.load(places)
    alive = ~(variance < 0.0)
    return tl.where(alive, variance, 1.0), alive


@triton.jit
def clock_scores(distance, sigma2, spread, eps, LOG_TERM: tl.constexpr):
    """−dist²/(2√d Σ² + ε) [− ½ log Σ²] (Eq. 3), its first term alone, and the denominator."""
    denominator = spread * sigma2 + eps
    nearness = -distance / denominator
    score = nearness
    if LOG_TERM:
        score -= 0.5 * tl.log(sigma2)
    return score, nearness, denominator


@triton.jit
def precise_scores(
    row_offsets, row_anchors, rows, row_length, col_offsets, col_anchors, cols, col_length, width,
    sigma2, spread, eps, ROWS: tl.constexpr, COLS: tl.constexpr, LOG_TERM: tl.constexpr,
):  # fmt: skip
    """Device function: scores in fp64, for clocks that are far apart."""
    distance = tl.zeros((ROWS, COLS), dtype=tl.float64)
    for c in range(width):
        apart = tl.load(row_anchors + c).to(tl.float64) - tl.load(col_anchors + c)
        row = tl.load(row_offsets + c * row_length + rows) + apart
        gap = row[:, None] - tl.load(col_offsets + c * col_length + cols)[None, :]
        distance += gap * gap
    score = -distance / (sigma2.to(tl.float64) * spread + eps)
    if LOG_TERM:
        score -= 0.5 * tl.log(sigma2)
    return score


@triton.jit
def variance_slope(nearness, sigma2, denominator, spread, LOG_TERM: tl.constexpr):
    """Device function: ∂score/∂Σ²."""
    slope = -spread * nearness / denominator
    if LOG_TERM:
        slope -= 0.5 / sigma2
    return slope


@triton.jit
def cut(logits2, floor, allowed):
    """Device function: scores of −∞ for padding and for whatever lies below the row's floor.

    Without the floor, a row's last bits would depend on how far its neighbours, even later ones, made the band reach.
    Written so that NaN propagates.
    """
    return tl.where(allowed & ~(logits2 < floor), logits2, float("-inf"))


@triton.jit
def known_weights(logits, floor, peak, share, allowed):
    """Device function: the softmax of rows whose largest logit (base 2) and share the forward pass found."""
    return tl.exp2(cut(logits * LOG2E, floor, allowed) - peak) * share


@triton.jit
def tile_readings(offsets, anchors, origin, steps, length, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """λ of a tile's steps (L, BLOCK_WIDTH), relative to another tile's anchor `origin`; 0 beyond WIDTH."""
    channels = tl.arange(0, BLOCK_WIDTH)
    inside = channels < WIDTH
    apart = tl.load(anchors + channels, mask=inside, other=0.0) - tl.load(origin + channels, mask=inside, other=0.0)
    places = offsets + channels[None, :] * length + steps[:, None]
    return tl.load(places, mask=inside[None, :], other=0.0) + apart[None, :]


@triton.jit
def row_products(
    left, left_s, right, right_s, steps, live, width,
    ELEMENT: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Σ_c L R of every row of two (steps, width) tensors, rounded as `tile_products` rounds them if ELEMENT is fp32."""
    if ELEMENT == tl.float32:  # noqa: SIM300
        products = tile_products(
            tl.zeros((ROWS, ROWS), dtype=tl.float32), left, left_s, steps, live, right, right_s, steps, live, width,
            ELEMENT, CHANNELS, PRECISION,
        )  # fmt: skip
        found = tl.sum(tl.where(steps[:, None] == steps[None, :], products, 0.0), 1)
    else:
        found = tl.zeros((ROWS,), dtype=tl.float32)
        for start in range(0, width, CHANNELS):
            channels = start + tl.arange(0, CHANNELS)
            there = live[:, None] & (channels < width)[None, :]
            one = tl.load(left + steps[:, None] * left_s + channels[None, :], mask=there, other=0.0)
            other = tl.load(right + steps[:, None] * right_s + channels[None, :], mask=there, other=0.0)
            found += tl.sum(one.to(ELEMENT).to(tl.float32) * other, 1)
    return found


@triton.jit
def tile_products(
    products, left, left_s, left_steps, left_live, right, right_s, right_steps, right_live, width,
    ELEMENT: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """products + L Rᵀ of two (steps, width) tensors, CHANNELS at a time: whole rows would fill the registers."""
    for start in range(0, width, CHANNELS):
        channels = start + tl.arange(0, CHANNELS)
        inside = channels < width
        places = left + left_steps[:, None] * left_s + channels[None, :]
        rows = tl.load(places, mask=left_live[:, None] & inside[None, :], other=0.0)
        places = right + right_steps[None, :] * right_s + channels[:, None]
        cols = tl.load(places, mask=right_live[None, :] & inside[:, None], other=0.0)
        products = tl.dot(rows.to(ELEMENT), cols.to(ELEMENT), acc=products, input_precision=PRECISION)
    return products


@triton.jit
def tile_rows(base, step_stride, steps, live, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """Device function: rows (L, BLOCK_WIDTH) of a (L, WIDTH) tensor; padding, which may hold NaN, reads as 0."""
    channels = tl.arange(0, BLOCK_WIDTH)
    places = base + steps[:, None] * step_stride + channels[None, :]
    return tl.load(places, mask=live[:, None] & (channels < WIDTH)[None, :], other=0.0)


@triton.jit
def store_rows(base, steps, inside, live, x, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """Device function: write rows (L, BLOCK_WIDTH) to a (L, WIDTH) tensor; padding gets 0 even for NaN."""
    channels = tl.arange(0, BLOCK_WIDTH)
    x = tl.where(live[:, None], x, 0.0).to(base.dtype.element_ty)
    tl.store(base + (steps[:, None] * WIDTH + channels[None, :]), x, mask=inside[:, None] & (channels < WIDTH)[None, :])
