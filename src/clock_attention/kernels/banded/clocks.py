"""The clocks of one head, compiled: time norm → rate → running sum, and their gradients (Eq. 1 and Algorithm 1).

Everything runs over strips of LANES channels down the time axis. A clock is kept as an fp64 reading every ANCHOR
steps and a small offset from it in the working precision: two clocks meet where their difference is tiny compared
with their readings, so the readings themselves must not be rounded. Steps are listed by index, so padding is never
read and may be anywhere.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

from typing import Any, NamedTuple

import numba

from clock_attention.kernels.banded.simd import (
    LANES,
    absolute,
    cast,
    exponential,
    fma,
    get,
    is_null,
    keep_first,
    keep_from,
    larger,
    load,
    logarithm,
    prefetch,
    put,
    root,
    splat,
    store,
    total,
)

ANCHOR = 64  # steps that share an fp64 reading
TIME_NORM_NORMALIZED, TIME_NORM, GIVEN = range(3)
RATIONAL, SOFTPLUS, EXP = range(3)

# Not cached one by one: Numba would not notice a change in a function that these call. `tasks` caches the whole.
jit = numba.njit(error_model="numpy")
# For functions that take whole records of pointers: passing those on the stack would cost as much as a tile.
jit_inline = numba.njit(error_model="numpy", forceinline=True)


class Steps(NamedTuple):
    """Features (L, width) of one head that a compiled clock is made from, with stride `step`, and the valid steps."""

    x: Any
    step: int
    index: Any  # of the valid steps
    count: int  # how many there are


class Trace(NamedTuple):
    """A compiled clock: λ_i = factor · (anchor + offset)."""

    offsets: Any  # (count, width) in working precision
    anchors: Any  # (⌈count/ANCHOR⌉, width), fp64
    factors: Any  # (width), fp64: 1/total, or 1
    statistics: Any  # (3, width): mean, 1/√(var + ε), and what rounding the mean left over
    width: int  # channels, padded to whole vectors


class Upcoming(NamedTuple):
    """Data of the same steps that is read next, prefetched while the clock is made: content (L, width)."""

    x: Any
    step: int
    width: int  # 0: nothing


@jit
def rate(phi, x, like):
    """φ(x), compiled for the clocks."""
    one = splat(1.0, like)
    if phi == RATIONAL:
        magnitude = one + absolute(x)
        return splat(0.5, like) * (one + x * (x + magnitude) / magnitude)
    nothing = x - x  # but NaN for NaN and infinity, which the clamped exponential would hide
    if phi == SOFTPLUS:
        return nothing + larger(x, splat(0.0, like)) + logarithm(one + exponential(splat(0.0, like) - absolute(x)))
    return nothing + exponential(x)


@jit
def rate_slope(phi, x, like):
    """φ'(x), compiled for the clocks."""
    one = splat(1.0, like)
    if phi == RATIONAL:
        magnitude = one + absolute(x)
        ahead = larger(x, splat(0.0, like))
        return (splat(0.5, like) + ahead * (splat(2.0, like) + ahead)) / (magnitude * magnitude)
    if phi == SOFTPLUS:
        return one / (one + exponential(splat(0.0, like) - x))
    return exponential(x)


@jit
def list_valid(valid, length, index):
    """List the indices of a clock's valid steps; returns how many there are. A null mask means all."""
    count = 0
    for i in range(length):
        if is_null(valid) or get(valid, i) != 0:
            put(index, count, i)
            count += 1
    return count


@jit
def time_statistics(steps, c, eps, trace, like):
    """Time norm of a clock: statistics of 2 LANES channels, a whole cache line, at a time."""
    x, n = steps.x, steps.count
    count = splat(float(n), 0.0)
    wide_a, wide_b = splat(0.0, 0.0), splat(0.0, 0.0)
    for start in range(0, n, ANCHOR):
        a, b = splat(0.0, like), splat(0.0, like)
        for i in range(start, min(start + ANCHOR, n)):
            place = get(steps.index, i) * steps.step + c
            a, b = a + load(x, place), b + load(x, place + LANES)
        wide_a, wide_b = wide_a + cast(a, 0.0), wide_b + cast(b, 0.0)
    exact_a, exact_b = wide_a / count, wide_b / count
    mean_a, mean_b = cast(exact_a, like), cast(exact_b, like)
    wide_a, wide_b = splat(0.0, 0.0), splat(0.0, 0.0)
    for start in range(0, n, ANCHOR):
        a, b = splat(0.0, like), splat(0.0, like)
        for i in range(start, min(start + ANCHOR, n)):
            place = get(steps.index, i) * steps.step + c
            centred_a, centred_b = load(x, place) - mean_a, load(x, place + LANES) - mean_b
            a, b = fma(centred_a, centred_a, a), fma(centred_b, centred_b, b)
        wide_a, wide_b = wide_a + cast(a, 0.0), wide_b + cast(b, 0.0)
    keep_statistics(trace, c, exact_a, mean_a, wide_a / count, eps, like)
    keep_statistics(trace, c + LANES, exact_b, mean_b, wide_b / count, eps, like)


@jit
def keep_statistics(trace, c, exact, mean, spread, eps, like):
    """Time norm of a clock: keep mean and inverse deviation of LANES channels in its trace."""
    sharp = splat(1.0, 0.0) / root(spread + splat(eps, 0.0))
    store(trace.statistics, c, mean)
    store(trace.statistics, trace.width + c, cast(sharp, like))
    store(trace.statistics, 2 * trace.width + c, cast((exact - cast(mean, 0.0)) * sharp, like))


@jit
def feature(x, place, mean, sharp, rest):
    """η, the normalized feature of one step of a clock, LANES channels."""
    return (load(x, place) - mean) * sharp - rest


@jit
def run_clock(kind, phi, steps, channels, eps, trace, upcoming, like):
    """The clock of one head: λ of all steps and channels, left in `trace`.

    Channels beyond `channels` get factor 0: they are padding to a whole vector.
    """
    x, n, width, statistics = steps.x, steps.count, trace.width, trace.statistics
    for c in range(0, width, LANES):
        if c % (2 * LANES) == 0:
            time_statistics(steps, c, eps, trace, like)
        mean, sharp, rest = load(statistics, c), load(statistics, width + c), load(statistics, 2 * width + c)
        anchor, offset = splat(0.0, 0.0), splat(0.0, 0.0)  # fp64: channels that tick alike would round alike
        here = get(steps.index, 0)
        current = feature(x, here * steps.step + c, mean, sharp, rest)
        for start in range(0, n, ANCHOR):
            anchor = anchor + offset
            offset = splat(0.0, 0.0)
            store(trace.anchors, start // ANCHOR * width + c, anchor)
            for i in range(start, min(start + ANCHOR, n)):
                store(trace.offsets, i * width + c, cast(offset, like))
                if i + 1 < n:
                    there = get(steps.index, i + 1)
                    if c < upcoming.width:
                        prefetch(upcoming.x, there * upcoming.step + c)
                    ahead = feature(x, there * steps.step + c, mean, sharp, rest)
                    if there == here + 1:  # an edge exists only between neighbours
                        middle = splat(0.5, like) * (current + ahead)
                        offset = offset + cast(rate(phi, middle, like) + splat(eps, like), 0.0)
                    current, here = ahead, there
        factor = splat(1.0, 0.0)
        if kind == TIME_NORM_NORMALIZED:
            reading = anchor + offset
            floor = splat(1e-300, 0.0)  # a clock without an edge has total 0 and stays at λ = 0
            factor = keep_from(reading, floor, splat(1.0, 0.0) / larger(reading, floor))
        store(trace.factors, c, keep_first(factor, channels - c, 0.0))


@jit
def take_clock(steps, trace, upcoming, like):
    """Convert a clock given in fp64 instead of features to the form that `run_clock` produces."""
    width = trace.width
    for c in range(0, width, LANES):
        store(trace.factors, c, splat(1.0, 0.0))
        for i in range(steps.count):
            reading = load(steps.x, get(steps.index, i) * steps.step + c)
            if c < upcoming.width:
                prefetch(upcoming.x, get(steps.index, i) * upcoming.step + c)
            if i % ANCHOR == 0:
                store(trace.anchors, i // ANCHOR * width + c, reading)
            offset = reading - load(trace.anchors, i // ANCHOR * width + c)
            store(trace.offsets, i * width + c, cast(offset, like))


@jit
def reading_of(trace, i, c):
    """The clock's reading λ at one step, LANES channels, fp64."""
    anchor = load(trace.anchors, i // ANCHOR * trace.width + c)
    return (anchor + cast(load(trace.offsets, i * trace.width + c), 0.0)) * load(trace.factors, c)


@jit
def read_clock(n, trace, clock, sums):
    """The clock's readings λ in fp64 (n, width), and their sums over channels."""
    for i in range(n):
        added = splat(0.0, 0.0)
        for c in range(0, trace.width, LANES):
            reading = reading_of(trace, i, c)
            store(clock, i * trace.width + c, reading)
            added = added + reading
        put(sums, i, total(added))


@jit
def surrogate_variance(kind, n, variance):
    """Variance that a clock's steps contribute to Σ²: bridge (Eq. 4) or diffusive as printed (Eq. 5)."""
    for i in range(n):
        position = i + 0.5
        if kind == TIME_NORM_NORMALIZED:
            put(variance, i, position / n * (1.0 - position / n) / n)
        else:
            put(variance, i, position / n)


@jit
def run_clock_back(kind, phi, steps, trace, clock, grad, grad_x, grad_step, like):
    """Gradient of a clock: from ∂/∂λ in `grad` (n, width), which is overwritten, to ∂/∂x at the valid steps.

    The clock is read from `clock` (fp64) if given, else from the trace.
    """
    x, n, width, statistics = steps.x, steps.count, trace.width, trace.statistics
    half = splat(0.5, like)
    for c in range(0, width, LANES):
        factor = load(trace.factors, c)
        mean, sharp, rest = load(statistics, c), load(statistics, width + c), load(statistics, 2 * width + c)
        # Everything that raises the total lowers every normalized reading: ∂λ_i/∂total = −λ_i/total.
        suffix = splat(0.0, 0.0)
        if kind == TIME_NORM_NORMALIZED:
            for i in range(n):
                reading = reading_of(trace, i, c) if is_null(clock) else load(clock, i * width + c)
                suffix = suffix - reading * cast(load(grad, i * width + c), 0.0)
        sum_grad, sum_product = splat(0.0, 0.0), splat(0.0, 0.0)
        later = splat(0.0, like)  # ∂/∂(mid-edge feature) of the edge after step i
        here = get(steps.index, n - 1)
        current = feature(x, here * steps.step + c, mean, sharp, rest)
        for k in range(n):
            i = n - 1 - k
            suffix = suffix + cast(load(grad, i * width + c), 0.0)
            earlier, below, there = splat(0.0, like), current, here
            if i > 0:
                there = get(steps.index, i - 1)
                below = feature(x, there * steps.step + c, mean, sharp, rest)
                if there == here - 1:
                    slope = rate_slope(phi, half * (current + below), like)
                    earlier = cast(suffix * factor, like) * slope
            gradient = half * (earlier + later)
            store(grad, i * width + c, gradient)
            sum_grad = sum_grad + cast(gradient, 0.0)
            sum_product = sum_product + cast(gradient * current, 0.0)
            current, here, later = below, there, earlier
        mean_grad = cast(sum_grad / splat(float(n), 0.0), like)
        mean_product = cast(sum_product / splat(float(n), 0.0), like)
        for i in range(n):
            place = get(steps.index, i)
            eta = feature(x, place * steps.step + c, mean, sharp, rest)
            value = sharp * (load(grad, i * width + c) - mean_grad - eta * mean_product)
            store(grad_x, place * grad_step + c, value)
