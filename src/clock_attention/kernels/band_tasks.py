"""Heads as tasks: what one thread does, from features to output and back, given a table of addresses and sizes.

Compiled entry points take one pointer to a table of int64, filled by `banded.py`. Threads draw tasks from a shared
counter. With enough heads a task is a whole head, and its clocks never leave the core's cache; with fewer heads than
threads the clocks are made first and the queries are shared out in chunks, each with its own gradient for the keys,
which are then added in order: the result does not depend on which thread did what.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba, for fp32 and fp64 in turn.

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types

from clock_attention.kernels.clock_loops import (
    ANCHOR,
    GIVEN,
    jit,
    list_valid,
    read_clock,
    run_clock,
    run_clock_back,
    surrogate_variance,
    take_clock,
)
from clock_attention.kernels.lanes import (
    get,
    is_null,
    load,
    null_like,
    pointer,
    put,
    shift,
    splat,
    store,
    take_ticket,
)
from clock_attention.kernels.meeting_loops import backward_rows, forward_rows

logger = logging.getLogger("clock_attention")

CLOCKS, ROWS, CLOCKS_BACK = 1, 2, 4  # phases of a task

# The table: strided tensors take four places (address, batch, head and step stride), the others one.
FIELDS = (
    "tickets", "tasks", "phases", "split", "heads", "queries", "keys", "channels", "width", "value_width", "chunks",
    "chunk_rows", "query_kind", "key_kind", "phi", "log_term",
    "query", "query_b", "query_h", "query_s", "key", "key_b", "key_h", "key_s",
    "value", "value_b", "value_h", "value_s", "out", "out_b", "out_h", "out_s",
    "grad_out", "grad_out_b", "grad_out_h", "grad_out_s", "grad_query", "grad_query_b", "grad_query_h", "grad_query_s",
    "grad_key", "grad_key_b", "grad_key_h", "grad_key_s", "grad_value", "grad_value_b", "grad_value_h", "grad_value_s",
    "query_valid", "key_valid", "query_variance", "key_variance", "lse", "weights", "grad_weights",
    "grad_query_variance", "grad_key_variance", "grad_scale", "scale", "numbers",
    "wide", "wide_size", "work", "work_size", "steps", "steps_size",
    "row_wide", "row_work", "row_work_size", "row_steps", "row_steps_size", "key_work", "key_work_size",
)  # fmt: skip
PLACE = {name: place for place, name in enumerate(FIELDS)}
(
    TICKETS, TASKS, PHASES, SPLIT, HEADS, QUERIES, KEYS, CHANNELS, WIDTH, VALUE_WIDTH, CHUNKS,
    CHUNK_ROWS, QUERY_KIND, KEY_KIND, PHI, LOG_TERM,
    QUERY, _, _, QUERY_S, KEY, _, _, KEY_S,
    VALUE, _, _, VALUE_S, OUT, _, _, OUT_S,
    GRAD_OUT, _, _, GRAD_OUT_S, GRAD_QUERY, _, _, GRAD_QUERY_S,
    GRAD_KEY, _, _, GRAD_KEY_S, GRAD_VALUE, _, _, GRAD_VALUE_S,
    QUERY_VALID, KEY_VALID, QUERY_VARIANCE, KEY_VARIANCE, LSE, WEIGHTS, GRAD_WEIGHTS,
    GRAD_QUERY_VARIANCE, GRAD_KEY_VARIANCE, GRAD_SCALE, SCALE, NUMBERS,
    WIDE, WIDE_SIZE, WORK, WORK_SIZE, STEPS, STEPS_SIZE,
    ROW_WIDE, ROW_WORK, ROW_WORK_SIZE, ROW_STEPS, ROW_STEPS_SIZE, KEY_WORK, KEY_WORK_SIZE,
) = range(len(FIELDS))  # fmt: skip


@jit
def tiled(n):
    """n rounded up to whole tiles of eight."""
    return (n + 7) // 8 * 8


@jit
def wide_layout(queries, keys, width):
    """fp64 of a head: λ_t, its channel sums, anchors, factors of the query's and of the key's clock; size."""
    sums = tiled(keys) * width
    anchors = sums + tiled(keys)
    query_factors = anchors + (max(queries, keys) // ANCHOR + 1) * width
    return sums, anchors, query_factors, query_factors + width, query_factors + 2 * width


@jit
def work_layout(queries, keys, width, backward):
    """Working precision of a head: offsets, statistics of both sides, variances, ∂/∂λ_s; size."""
    statistics = (max(queries, keys) + 8) * width
    query_variance = statistics + 6 * width
    key_variance = query_variance + tiled(queries)
    grad_clock = key_variance + tiled(keys)
    return statistics, query_variance, key_variance, grad_clock, grad_clock + backward * tiled(queries) * width


@jit
def row_layout(keys, width, value_width, backward):
    """Working precision of a thread: tiles of keys, a block of queries, logits, and what only gradients need; size."""
    key_columns = tiled(keys) * width
    query_rows = 2 * key_columns
    query_columns = query_rows + 8 * width
    logits = query_columns + 8 * width
    peaks = logits + 8 * tiled(keys)
    result = peaks + 152
    value_columns = result + 8 * max(width, value_width)
    grad_rows = value_columns + backward * tiled(keys) * value_width
    grad_columns = grad_rows + backward * 8 * value_width
    pulls = grad_columns + backward * 8 * value_width
    pull_keys = pulls + backward * 8 * tiled(keys)
    size = pull_keys + backward * tiled(keys)
    return (
        key_columns, query_rows, query_columns, logits, peaks, result, value_columns, grad_rows, grad_columns, pulls,
        pull_keys, size,
    )  # fmt: skip


@jit
def key_layout(keys, width, value_width):
    """Gradients of the keys of one task: −∂/∂λ_t, ∂/∂v, ∂/∂A_Y; size."""
    grad_value = tiled(keys) * width
    grad_variance = grad_value + tiled(keys) * value_width
    return grad_value, grad_variance, grad_variance + tiled(keys)


@jit
def of_head(table, field, batch, head, like):
    """A strided tensor's first element for this item and head."""
    base = pointer(table, field, like)
    return shift(base, batch * get(table, field + 1) + head * get(table, field + 2))


@jit
def of_rows(table, field, row, size, like):
    """Row `row` of a contiguous tensor, or null."""
    base = pointer(table, field, like)
    return base if is_null(base) else shift(base, row * size)


@jit
def make_clocks(table, item, home, like):
    """Phase 1: both clocks and variances of one head, left in its scratch."""
    queries, keys = get(table, QUERIES), get(table, KEYS)
    channels, width, phi = get(table, CHANNELS), get(table, WIDTH), get(table, PHI)
    batch, head = item // get(table, HEADS), item % get(table, HEADS)
    eps = get(pointer(table, NUMBERS, 0.0), 0)
    steps = shift(pointer(table, STEPS, 0), home * get(table, STEPS_SIZE))
    wide = shift(pointer(table, WIDE, 0.0), home * get(table, WIDE_SIZE))
    work = shift(pointer(table, WORK, like), home * get(table, WORK_SIZE))
    sums, anchors, query_factors, key_factors, _ = wide_layout(queries, keys, width)
    statistics, query_variance, key_variance, _, _ = work_layout(queries, keys, width, 0)

    query_index, key_index = shift(steps, 2), shift(steps, 2 + queries)
    nq = list_valid(of_rows(table, QUERY_VALID, batch, queries, np.uint8(0)), queries, query_index)
    nk = list_valid(of_rows(table, KEY_VALID, batch, keys, np.uint8(0)), keys, key_index)
    put(steps, 0, nq)
    put(steps, 1, nk)
    if nq == 0 or nk == 0:
        return
    kind = get(table, KEY_KIND)
    if kind == GIVEN:
        clock = of_head(table, KEY, batch, head, 0.0)
        take_clock(
            clock, get(table, KEY_S), key_index, nk, width, work, shift(wide, anchors), shift(wide, key_factors), like
        )
        take_variance(of_rows(table, KEY_VARIANCE, item, keys, like), key_index, nk, shift(work, key_variance))
    else:
        run_clock(
            kind, phi, of_head(table, KEY, batch, head, like), get(table, KEY_S), key_index, nk, channels, width, eps,
            shift(work, statistics + 3 * width), work, shift(wide, anchors), shift(wide, key_factors), like,
        )  # fmt: skip
        surrogate_variance(kind, nk, shift(work, key_variance))
    read_clock(nk, width, work, shift(wide, anchors), shift(wide, key_factors), wide, shift(wide, sums))
    for k in range(nk, tiled(nk)):  # padding to a whole tile: finite, and masked later
        put(work, key_variance + k, get(work, key_variance + nk - 1))
        for c in range(0, width, 8):
            store(wide, k * width + c, splat(0.0, 0.0))

    kind = get(table, QUERY_KIND)
    if kind == GIVEN:
        clock = of_head(table, QUERY, batch, head, 0.0)
        take_clock(
            clock,
            get(table, QUERY_S),
            query_index,
            nq,
            width,
            work,
            shift(wide, anchors),
            shift(wide, query_factors),
            like,
        )
        take_variance(of_rows(table, QUERY_VARIANCE, item, queries, like), query_index, nq, shift(work, query_variance))
    else:
        run_clock(
            kind, phi, of_head(table, QUERY, batch, head, like), get(table, QUERY_S), query_index, nq, channels, width,
            eps, shift(work, statistics), work, shift(wide, anchors), shift(wide, query_factors), like,
        )  # fmt: skip
        surrogate_variance(kind, nq, shift(work, query_variance))
    for i in range(nq, tiled(nq)):  # padding to a whole block: copies of the last query
        put(work, query_variance + i, get(work, query_variance + nq - 1))
        for c in range(0, width, 8):
            store(work, i * width + c, load(work, (nq - 1) * width + c))


@jit
def take_variance(given, index, n, variance):
    for i in range(n):
        put(variance, i, get(given, get(index, i)))


@jit
def broken(sums, nk):
    """Whether the keys' clock has met NaN or infinity. No band follows from it, and no row is a number."""
    return not np.isfinite(get(sums, nk - 1))


@jit
def meet(table, item, chunk, home, slot, like):
    """Phase 2: the rows of one chunk of one head."""
    queries, keys, heads = get(table, QUERIES), get(table, KEYS), get(table, HEADS)
    channels, width, value_width = get(table, CHANNELS), get(table, WIDTH), get(table, VALUE_WIDTH)
    batch, head = item // heads, item % heads
    steps = shift(pointer(table, STEPS, 0), home * get(table, STEPS_SIZE))
    wide = shift(pointer(table, WIDE, 0.0), home * get(table, WIDE_SIZE))
    work = shift(pointer(table, WORK, like), home * get(table, WORK_SIZE))
    row = shift(pointer(table, ROW_WORK, like), slot * get(table, ROW_WORK_SIZE))
    sums, anchors, query_factors, _, _ = wide_layout(queries, keys, width)
    _, query_variance, key_variance, _, _ = work_layout(queries, keys, width, 0)
    key_columns, query_rows, query_columns, logits, peaks, result, _, _, _, _, _, _ = row_layout(
        keys, width, value_width, 0
    )
    nq, nk = get(steps, 0), get(steps, 1)
    query_index, key_index = shift(steps, 2), shift(steps, 2 + queries)
    numbers = pointer(table, NUMBERS, 0.0)
    scale, eps, spread = get(pointer(table, SCALE, 0.0), head), get(numbers, 0), 2.0 * np.sqrt(float(channels))
    drop = get(numbers, 1) + np.log(float(max(nk, 1)))
    row_from = chunk * get(table, CHUNK_ROWS)
    row_to = min(row_from + get(table, CHUNK_ROWS), nq)
    value, out = of_head(table, VALUE, batch, head, like), of_head(table, OUT, batch, head, like)
    lse, weights = of_rows(table, LSE, item, queries, like), of_rows(table, WEIGHTS, item, queries * keys, like)
    packed = shift(pointer(table, ROW_STEPS, 0), slot * get(table, ROW_STEPS_SIZE))
    centre = shift(pointer(table, ROW_WIDE, 0.0), slot * width)
    if nk == 0 or broken(shift(wide, sums), nk):
        nothing = 0.0 if nk == 0 else np.nan
        for i in range(row_from, row_to):
            target = get(query_index, i)
            put(lse, target, nothing)
            for c in range(0, value_width, 8):
                store(out, target * get(table, OUT_S) + c, splat(nothing, like))
            for k in range(0 if is_null(weights) else nk):
                put(weights, target * keys + get(key_index, k), nothing)
        return
    forward_rows(
        row_from, row_to, nk, width, value_width,
        work, shift(wide, anchors), shift(wide, query_factors), shift(work, query_variance), query_index,
        wide, shift(wide, sums), shift(work, key_variance), key_index,
        scale, spread, eps, drop, get(table, LOG_TERM) != 0, value, get(table, VALUE_S), out, get(table, OUT_S),
        lse, weights, keys, packed, centre, row, shift(row, key_columns), shift(row, query_rows),
        shift(row, query_columns), shift(row, logits), shift(row, peaks), shift(row, result), like,
    )  # fmt: skip


@jit
def meet_back(table, item, chunk, home, slot, key_home, like):
    """Phase 2: the rows of one chunk of one head, backwards."""
    queries, keys, heads = get(table, QUERIES), get(table, KEYS), get(table, HEADS)
    channels, width, value_width = get(table, CHANNELS), get(table, WIDTH), get(table, VALUE_WIDTH)
    batch, head = item // heads, item % heads
    steps = shift(pointer(table, STEPS, 0), home * get(table, STEPS_SIZE))
    wide = shift(pointer(table, WIDE, 0.0), home * get(table, WIDE_SIZE))
    work = shift(pointer(table, WORK, like), home * get(table, WORK_SIZE))
    row = shift(pointer(table, ROW_WORK, like), slot * get(table, ROW_WORK_SIZE))
    sums, anchors, query_factors, _, _ = wide_layout(queries, keys, width)
    _, query_variance, key_variance, grad_clock, _ = work_layout(queries, keys, width, 1)
    (
        key_columns, query_rows, query_columns, logits, peaks, result, value_columns, grad_rows, grad_columns, pulls,
        pull_keys, _,
    ) = row_layout(keys, width, value_width, 1)  # fmt: skip
    nq, nk = get(steps, 0), get(steps, 1)
    query_index, key_index = shift(steps, 2), shift(steps, 2 + queries)
    numbers = pointer(table, NUMBERS, 0.0)
    scale, eps, spread = get(pointer(table, SCALE, 0.0), head), get(numbers, 0), 2.0 * np.sqrt(float(channels))
    drop = get(numbers, 1) + np.log(float(max(nk, 1)))
    row_from = chunk * get(table, CHUNK_ROWS)
    row_to = min(row_from + get(table, CHUNK_ROWS), nq)
    value, out = of_head(table, VALUE, batch, head, like), of_head(table, OUT, batch, head, like)
    lse, weights = of_rows(table, LSE, item, queries, like), of_rows(table, WEIGHTS, item, queries * keys, like)
    packed = shift(pointer(table, ROW_STEPS, 0), slot * get(table, ROW_STEPS_SIZE))
    centre = shift(pointer(table, ROW_WIDE, 0.0), slot * width)
    key_grads = shift(pointer(table, KEY_WORK, like), key_home * get(table, KEY_WORK_SIZE))
    grad_value, grad_variance, size = key_layout(keys, width, value_width)
    for i in range(size):
        put(key_grads, i, 0.0)
    if nk == 0 or row_to <= row_from:
        return
    if broken(shift(wide, sums), nk):
        for i in range(size):
            put(key_grads, i, np.nan)
        for i in range(row_from, row_to):
            put(work, query_variance + i, np.nan)
            for c in range(0, width, 8):
                store(work, grad_clock + i * width + c, splat(np.nan, like))
        put(pointer(table, GRAD_SCALE, 0.0), item * get(table, CHUNKS) + chunk, np.nan)
        return
    has_variance = not is_null(pointer(table, GRAD_QUERY_VARIANCE, like))
    # ∂/∂A_X lands behind the query index order; it is scattered to steps in the last phase.
    by_query_variance = shift(work, query_variance) if has_variance else null_like(work)
    grad_scale = backward_rows(
        row_from, row_to, nk, width, value_width,
        work, shift(wide, anchors), shift(wide, query_factors), shift(work, query_variance), query_index,
        wide, shift(wide, sums), shift(work, key_variance), key_index,
        scale, spread, eps, drop, get(table, LOG_TERM) != 0, value, get(table, VALUE_S), out, get(table, OUT_S),
        lse, weights, of_rows(table, GRAD_WEIGHTS, item, queries * keys, like), keys,
        of_head(table, GRAD_OUT, batch, head, like), get(table, GRAD_OUT_S), packed, centre,
        row, shift(row, key_columns), shift(row, query_rows), shift(row, query_columns), shift(row, logits),
        shift(row, peaks), shift(row, result), shift(row, value_columns), shift(row, grad_rows),
        shift(row, grad_columns), shift(row, pulls), shift(row, pull_keys),
        shift(work, grad_clock), key_grads, shift(key_grads, grad_value), by_query_variance,
        shift(key_grads, grad_variance), like,
    )  # fmt: skip
    put(pointer(table, GRAD_SCALE, 0.0), item * get(table, CHUNKS) + chunk, grad_scale)


@jit
def clocks_back(table, item, home, key_home, like):
    """Phase 3: add up the chunks' gradients of the keys, and take both clocks back to their features."""
    queries, keys, heads, chunks = get(table, QUERIES), get(table, KEYS), get(table, HEADS), get(table, CHUNKS)
    width, value_width = get(table, WIDTH), get(table, VALUE_WIDTH)
    batch, head = item // heads, item % heads
    steps = shift(pointer(table, STEPS, 0), home * get(table, STEPS_SIZE))
    wide = shift(pointer(table, WIDE, 0.0), home * get(table, WIDE_SIZE))
    work = shift(pointer(table, WORK, like), home * get(table, WORK_SIZE))
    _, anchors, query_factors, key_factors, _ = wide_layout(queries, keys, width)
    statistics, query_variance, _, grad_clock, _ = work_layout(queries, keys, width, 1)
    nq, nk = get(steps, 0), get(steps, 1)
    query_index, key_index = shift(steps, 2), shift(steps, 2 + queries)
    key_grads = shift(pointer(table, KEY_WORK, like), key_home * get(table, KEY_WORK_SIZE))
    grad_value, grad_variance, size = key_layout(keys, width, value_width)
    if nq == 0 or nk == 0:
        return
    for chunk in range(1, chunks):
        more = shift(key_grads, chunk * get(table, KEY_WORK_SIZE))
        for i in range(0, size, 8):
            store(key_grads, i, load(key_grads, i) + load(more, i))
    target, stride = of_head(table, GRAD_VALUE, batch, head, like), get(table, GRAD_VALUE_S)
    for k in range(nk):
        for c in range(0, value_width, 8):
            store(target, get(key_index, k) * stride + c, load(key_grads, grad_value + k * value_width + c))
    for i in range(0, nk * width, 8):
        store(key_grads, i, splat(0.0, like) - load(key_grads, i))

    if get(table, KEY_KIND) == GIVEN:
        give_clock(key_grads, key_index, nk, width, of_head(table, GRAD_KEY, batch, head, 0.0), get(table, GRAD_KEY_S))
        give_clock(
            shift(work, grad_clock),
            query_index,
            nq,
            width,
            of_head(table, GRAD_QUERY, batch, head, 0.0),
            get(table, GRAD_QUERY_S),
        )
        by_query = of_rows(table, GRAD_QUERY_VARIANCE, item, queries, like)
        by_key = of_rows(table, GRAD_KEY_VARIANCE, item, keys, like)
        for i in range(nq):
            put(by_query, get(query_index, i), get(work, query_variance + i))
        for k in range(nk):
            put(by_key, get(key_index, k), get(key_grads, grad_variance + k))
        return
    run_clock_back(
        get(table, KEY_KIND), get(table, PHI), of_head(table, KEY, batch, head, like), get(table, KEY_S), key_index,
        nk, width, shift(work, statistics + 3 * width), work, shift(wide, anchors), shift(wide, key_factors), wide,
        key_grads, of_head(table, GRAD_KEY, batch, head, like), get(table, GRAD_KEY_S), like,
    )  # fmt: skip
    run_clock_back(
        get(table, QUERY_KIND), get(table, PHI), of_head(table, QUERY, batch, head, like), get(table, QUERY_S),
        query_index, nq, width, shift(work, statistics), work, shift(wide, anchors), shift(wide, query_factors),
        null_like(wide), shift(work, grad_clock), of_head(table, GRAD_QUERY, batch, head, like),
        get(table, GRAD_QUERY_S), like,
    )  # fmt: skip


@jit
def give_clock(grad, index, n, width, target, stride):
    """∂/∂λ in working precision to the fp64 tensor it belongs to."""
    for i in range(n):
        for c in range(width):
            put(target, get(index, i) * stride + c, get(grad, i * width + c))


@jit
def draw(table):
    """The next task: (item, chunk, home of its clocks, home of its key gradients), item −1 when there are none left."""
    task, chunks = take_ticket(pointer(table, TICKETS, 0)), get(table, CHUNKS)
    if task >= get(table, TASKS):
        return -1, 0
    if get(table, SPLIT) != 0 and get(table, PHASES) == ROWS:
        return task // chunks, task % chunks
    return task, 0


@jit
def run_forward(table, like):
    """What every thread runs: draw tasks until there are none left."""
    slot = take_ticket(shift(pointer(table, TICKETS, 0), 1))
    phases, split = get(table, PHASES), get(table, SPLIT) != 0
    item, chunk = draw(table)
    while item >= 0:
        home = item if split else slot
        if phases & CLOCKS:
            make_clocks(table, item, home, like)
        if phases & ROWS:
            meet(table, item, chunk, home, slot, like)
        item, chunk = draw(table)


@jit
def run_backward(table, like):
    """The same for gradients."""
    slot = take_ticket(shift(pointer(table, TICKETS, 0), 1))
    phases, split, chunks = get(table, PHASES), get(table, SPLIT) != 0, get(table, CHUNKS)
    item, chunk = draw(table)
    while item >= 0:
        home = item if split else slot
        key_home = item * chunks + chunk if split else slot
        if phases & CLOCKS:
            make_clocks(table, item, home, like)
        if phases & ROWS:
            meet_back(table, item, chunk, home, slot, key_home, like)
        if phases & CLOCKS_BACK:
            clocks_back(table, item, home, key_home, like)
        item, chunk = draw(table)


def source_digest() -> str:
    """Of all compiled code: Numba's cache watches one file only."""
    folder = Path(__file__).parent
    names = ("lanes.py", "clock_loops.py", "band_loops.py", "meeting_loops.py", "band_tasks.py")
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def compile_entry(backward: bool, double: bool) -> Any:
    """An entry point, compiled or read from Numba's cache on disk; what it captures is part of the cache's key."""
    digest, like = source_digest(), np.float64(0) if double else np.float32(0)

    def forward_entry(table):
        digest  # noqa: B018
        run_forward(table, like)

    def backward_entry(table):
        digest  # noqa: B018
        run_backward(table, like)

    signature, function = types.void(types.CPointer(types.int64)), backward_entry if backward else forward_entry
    try:
        return numba.cfunc(signature, cache=True, error_model="numpy")(function)
    except RuntimeError as error:  # no folder to keep it in
        logger.warning("the banded kernel will be compiled anew in every process: %s; set NUMBA_CACHE_DIR", error)
        return numba.cfunc(signature, error_model="numpy")(function)
