"""Device functions that forward, backward and the choice of tiles share: distances, scores, the softmax's cut.

Clocks arrive as `readings.py` leaves them: fp32 offsets (D, L) from an fp32 anchor per tile and channel. What two
tiles' anchors differ by is added once per channel, so that a difference of clocks is never taken between two large
numbers. Within a head everything is addressed in 32 bits: wide addresses of whole tiles would fill the registers.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def tile_distances(
    row_offsets, row_anchors, rows, row_length,
    col_offsets, col_anchors, cols, col_length, width,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """‖λ_row − λ_col‖² as direct differences (ROWS, COLS); anchors point at the two tiles' own.

    `width` is not a constant on purpose: known loops are unrolled until the registers are full of loads to come.
    """
    # A product of zeros puts the sums where the matrix units keep theirs: 2 × 8 pairs of a thread share their loads,
    # and the weights become an operand without leaving the registers. Begun as zeros they would lie 16 × 1.
    distance = tl.dot(tl.zeros((ROWS, 16), tl.bfloat16), tl.zeros((16, COLS), tl.bfloat16))
    for c in range(width):
        apart = tl.load(row_anchors + c) - tl.load(col_anchors + c)
        row = tl.load(row_offsets + c * row_length + rows) + apart  # (ROWS,)
        col = tl.load(col_offsets + c * col_length + cols)  # (COLS,)
        gap = row[:, None] - col[None, :]
        distance += gap * gap
    return distance


@triton.jit
def own_variance(places):
    """A tile's variances, and which of its steps there are: padding is marked by a negative one. NaN is a step."""
    variance = tl.load(places)
    alive = ~(variance < 0.0)
    return tl.where(alive, variance, 1.0), alive


@triton.jit
def clock_scores(distance, sigma2, spread, eps, LOG_TERM: tl.constexpr):
    """−dist²/(2√d Σ² + ε) [− ½ log Σ²], and the denominator (Eq. 3)."""
    denominator = spread * sigma2 + eps
    score = -distance / denominator
    if LOG_TERM:
        score -= 0.5 * tl.log(sigma2)
    return score, denominator


@triton.jit
def score_slope(distance, sigma2, denominator, spread, LOG_TERM: tl.constexpr):
    """∂score/∂Σ²."""
    slope = spread * distance / (denominator * denominator)
    if LOG_TERM:
        slope -= 0.5 / sigma2
    return slope


@triton.jit
def cut(logits2, floor, allowed):
    """−∞ for padding and for whatever weighs nothing: below the row's floor, however far the tiles reach.

    Without the floor a row's last bits would depend on how far its neighbours, later ones too, made the band reach.
    Written so that NaN stays and is seen.
    """
    return tl.where(allowed & ~(logits2 < floor), logits2, float("-inf"))


@triton.jit
def tile_readings(offsets, anchors, origin, steps, length, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """λ of a tile's steps (L, BLOCK_WIDTH), relative to another tile's anchor `origin`; 0 beyond WIDTH."""
    channels = tl.arange(0, BLOCK_WIDTH)
    inside = channels < WIDTH
    apart = tl.load(anchors + channels, mask=inside, other=0.0) - tl.load(origin + channels, mask=inside, other=0.0)
    places = offsets + channels[None, :] * length + steps[:, None]
    return tl.load(places, mask=inside[None, :], other=0.0) + apart[None, :]


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
    """Rows (L, BLOCK_WIDTH) of a (L, WIDTH) tensor; padding, which may hold NaN, reads as 0."""
    channels = tl.arange(0, BLOCK_WIDTH)
    places = base + steps[:, None] * step_stride + channels[None, :]
    return tl.load(places, mask=live[:, None] & (channels < WIDTH)[None, :], other=0.0)
