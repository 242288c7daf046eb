"""Heads as tasks: what one thread does, from features to output and back, given the table of a call.

Threads draw tasks from a shared counter. With enough heads a task is a whole head, and its clocks never leave the
core's cache; with fewer heads than threads the clocks are made first and the queries are shared out in chunks, each
with its own gradient for the keys, which are then added in order: the result does not depend on which thread did what.
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

from clock_attention.kernels.banded.clocks import (
    GIVEN,
    Steps,
    Trace,
    Upcoming,
    jit,
    list_valid,
    read_clock,
    run_clock,
    run_clock_back,
    surrogate_variance,
    take_clock,
)
from clock_attention.kernels.banded.gradients import BackRoom, Gradients, backward_rows
from clock_attention.kernels.banded.rows import (
    Keys,
    Queries,
    Results,
    Room,
    Scoring,
    Widths,
    forward_rows,
)
from clock_attention.kernels.banded.simd import (
    LANES,
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
from clock_attention.kernels.banded.table import CALL
from clock_attention.kernels.banded.tiles import ROWS, TILE, largest_norm

logger = logging.getLogger("clock_attention")

CLOCKS, MEET, CLOCKS_BACK = 1, 2, 4  # phases of a task


@jit
def of_head(tensor, batch, head, like):
    """Pointer to a strided tensor's first element for a task's item and head."""
    return shift(pointer(tensor.address, like), batch * tensor.batch + head * tensor.head)


@jit
def of_rows(address, row, size, like):
    """Pointer to row `row` of a task's contiguous tensor, or null."""
    base = pointer(address, like)
    return base if is_null(base) else shift(base, row * size)


@jit
def scratch_of(block, owner, like):
    """A task's block of scratch memory, of one head, thread or chunk."""
    return shift(pointer(block.address, like), owner * block.numbers)


@jit
def steps_of(call, tensor, owner, batch, head, is_query, like):
    """One side's features or given clock, and its valid steps, for a task."""
    counts = scratch_of(call.counts, owner, 0)
    index = scratch_of(call.query_index if is_query else call.key_index, owner, 0)
    return Steps(of_head(tensor, batch, head, like), tensor.step, index, get(counts, 0 if is_query else 1))


@jit
def trace_of(call, owner, is_query, like):
    """One side's clock, for a task. Offsets and anchors are shared: the keys' clock is read before the queries'."""
    return Trace(
        scratch_of(call.offsets, owner, like),
        scratch_of(call.anchors, owner, 0.0),
        scratch_of(call.query_factors if is_query else call.key_factors, owner, 0.0),
        scratch_of(call.query_statistics if is_query else call.key_statistics, owner, like),
        call.width,
    )


@jit
def make_clocks(call, item, owner, like):
    """Phase 1 of a task: both clocks and variances of one head, left in its scratch memory."""
    batch, head = item // call.heads, item % call.heads
    query_index, key_index = scratch_of(call.query_index, owner, 0), scratch_of(call.key_index, owner, 0)
    nq = list_valid(of_rows(call.query_valid, batch, call.queries, np.uint8(0)), call.queries, query_index)
    nk = list_valid(of_rows(call.key_valid, batch, call.keys, np.uint8(0)), call.keys, key_index)
    counts = scratch_of(call.counts, owner, 0)
    put(counts, 0, nq)
    put(counts, 1, nk)
    if nq == 0 or nk == 0:
        return
    trace, variance = trace_of(call, owner, False, like), scratch_of(call.key_variance, owner, like)
    upcoming = Upcoming(of_head(call.content_key, batch, head, like), call.content_key.step, call.content_width)
    if call.key_kind == GIVEN:
        take_clock(steps_of(call, call.key, owner, batch, head, False, 0.0), trace, upcoming, like)
        take_variance(of_rows(call.given_key_variance, item, call.keys, like), key_index, nk, variance)
    else:
        steps = steps_of(call, call.key, owner, batch, head, False, like)
        run_clock(call.key_kind, call.phi, steps, call.channels, call.eps, trace, upcoming, like)
        surrogate_variance(call.key_kind, nk, variance)
    clock = scratch_of(call.clock, owner, 0.0)
    read_clock(nk, trace, clock, scratch_of(call.sums, owner, 0.0))
    for k in range(nk, (nk + TILE - 1) // TILE * TILE):  # padding to a whole tile: finite, and masked later
        put(variance, k, get(variance, nk - 1))
        for c in range(0, call.width, LANES):
            store(clock, k * call.width + c, splat(0.0, 0.0))
    if call.content_width > 0:
        content, reach = of_head(call.content_key, batch, head, like), scratch_of(call.content_reach, owner, 0.0)
        norm, squares = largest_norm(content, nk, call.content_key.step, key_index, call.content_width)
        put(reach, 0, norm)
        put(reach, 1, squares)

    trace, variance = trace_of(call, owner, True, like), scratch_of(call.query_variance, owner, like)
    upcoming = Upcoming(of_head(call.content_query, batch, head, like), call.content_query.step, call.content_width)
    if call.query_kind == GIVEN:
        take_clock(steps_of(call, call.query, owner, batch, head, True, 0.0), trace, upcoming, like)
        take_variance(of_rows(call.given_query_variance, item, call.queries, like), query_index, nq, variance)
    else:
        steps = steps_of(call, call.query, owner, batch, head, True, like)
        run_clock(call.query_kind, call.phi, steps, call.channels, call.eps, trace, upcoming, like)
        surrogate_variance(call.query_kind, nq, variance)
    for i in range(nq, (nq + ROWS - 1) // ROWS * ROWS):  # padding to a whole block: copies of the last query
        put(variance, i, get(variance, nq - 1))
        for c in range(0, call.width, LANES):
            store(trace.offsets, i * call.width + c, load(trace.offsets, (nq - 1) * call.width + c))


@jit
def take_variance(given, index, n, variance):
    """Take given variances for a task, in the order of the valid steps."""
    for i in range(n):
        put(variance, i, get(given, get(index, i)))


@jit
def broken(call, owner, nk):
    """Whether the keys' clock or content of a task contains NaN or infinity. Then every row is NaN."""
    if not np.isfinite(get(scratch_of(call.sums, owner, 0.0), nk - 1)):
        return True
    return call.content_width > 0 and not np.isfinite(get(scratch_of(call.content_reach, owner, 0.0), 1))


@jit
def queries_of(call, owner, batch, head, like):
    """One head's queries for a task, from the table of the call."""
    return Queries(
        scratch_of(call.query_index, owner, 0),
        trace_of(call, owner, True, like),
        scratch_of(call.query_variance, owner, like),
        of_head(call.content_query, batch, head, like),
        call.content_query.step,
    )


@jit
def keys_of(call, owner, batch, head, like):
    """One head's keys for a task, from the table of the call."""
    # The norm is rounded, and so are the products it bounds.
    reach = 1.0001 * get(scratch_of(call.content_reach, owner, 0.0), 0) if call.content_width > 0 else 0.0
    return Keys(
        get(scratch_of(call.counts, owner, 0), 1),
        scratch_of(call.key_index, owner, 0),
        scratch_of(call.clock, owner, 0.0),
        scratch_of(call.sums, owner, 0.0),
        scratch_of(call.key_variance, owner, like),
        of_head(call.value, batch, head, like),
        call.value.step,
        of_head(call.content_key, batch, head, like),
        call.content_key.step,
        reach,
    )


@jit
def room_of(call, slot, like):
    """The thread's scratch memory for a task, from the table of the call."""
    return Room(
        scratch_of(call.packed, slot, 0),
        scratch_of(call.centre, slot, 0.0),
        scratch_of(call.key_rows, slot, like),
        scratch_of(call.key_columns, slot, like),
        scratch_of(call.query_rows, slot, like),
        scratch_of(call.query_columns, slot, like),
        scratch_of(call.content_key_columns, slot, like),
        scratch_of(call.content_query_rows, slot, like),
        scratch_of(call.content_query_columns, slot, like),
        scratch_of(call.products, slot, like),
        scratch_of(call.logits, slot, like),
        scratch_of(call.peaks, slot, like),
        scratch_of(call.softmax_rows, slot, like),
        scratch_of(call.result, slot, like),
    )


@jit
def back_room_of(call, slot, like):
    """The thread's scratch memory for gradients in a task, from the table of the call."""
    return BackRoom(
        scratch_of(call.content_key_rows, slot, like),
        scratch_of(call.value_columns, slot, like),
        scratch_of(call.grad_rows, slot, like),
        scratch_of(call.grad_columns, slot, like),
        scratch_of(call.pulls, slot, like),
        scratch_of(call.slopes, slot, like),
        scratch_of(call.inverses, slot, like),
        scratch_of(call.averages, slot, like),
        scratch_of(call.pull_rows, slot, like),
        scratch_of(call.pull_keys, slot, like),
        scratch_of(call.deltas, slot, like),
        scratch_of(call.variance_rows, slot, like),
    )


@jit
def results_of(call, item, batch, head, like):
    """Where a task writes one head's results, from the table of the call."""
    return Results(
        of_head(call.out, batch, head, like),
        call.out.step,
        of_rows(call.softmax, item, 2 * call.queries, like),
        of_rows(call.bands, item, 2 * ((call.queries + ROWS - 1) // ROWS), 0),
        of_rows(call.weights, item, call.queries * call.keys, like),
        call.keys,
    )


@jit
def gradients_of(call, item, owner, key_owner, batch, head, like):
    """Where a task reads and writes one head's gradients, from the table of the call."""
    # ∂/∂A_X lands in the order of the valid steps; it is scattered to all steps in the last phase.
    by_variance = scratch_of(call.query_variance, owner, like)
    wanted = call.grad_query_variance != 0
    return Gradients(
        of_head(call.grad_out, batch, head, like),
        call.grad_out.step,
        of_rows(call.grad_weights, item, call.queries * call.keys, like),
        scratch_of(call.grad_clock, owner, like),
        of_head(call.grad_content_query, batch, head, like),
        call.grad_content_query.step,
        by_variance if wanted else null_like(by_variance),
        scratch_of(call.chunk_grad_clock, key_owner, like),
        scratch_of(call.chunk_grad_value, key_owner, like),
        scratch_of(call.chunk_grad_variance, key_owner, like),
        scratch_of(call.chunk_grad_content, key_owner, like),
    )


@jit
def scoring_of(call, head, nk):
    """How one head's distances become logits in a task, from the table of the call."""
    drop = call.drop + np.log(float(max(nk, 1)))
    return Scoring(get(pointer(call.scale, 0.0), head), call.spread, call.eps, drop, call.log_term != 0)


@jit
def rows_of_chunk(call, chunk, nq):
    """First and last row of a task's chunk of queries."""
    first = chunk * call.chunk_rows
    return first, min(first + call.chunk_rows, nq)


@jit
def meet(call, item, chunk, owner, slot, like):
    """Phase 2 of a task: the rows of one chunk of one head."""
    batch, head = item // call.heads, item % call.heads
    nq, nk = get(scratch_of(call.counts, owner, 0), 0), get(scratch_of(call.counts, owner, 0), 1)
    row_from, row_to = rows_of_chunk(call, chunk, nq)
    queries, keys = queries_of(call, owner, batch, head, like), keys_of(call, owner, batch, head, like)
    results = results_of(call, item, batch, head, like)
    if nk == 0 or broken(call, owner, nk):
        nothing = 0.0 if nk == 0 else np.nan
        for i in range(row_from, row_to):
            target = get(queries.index, i)
            put(results.softmax, 2 * target, nothing)
            put(results.softmax, 2 * target + 1, nothing)
            for c in range(0, call.value_width, LANES):
                store(results.out, target * results.out_step + c, splat(nothing, like))
            for k in range(0 if is_null(results.weights) else nk):
                put(results.weights, target * call.keys + get(keys.index, k), nothing)
        return
    widths = Widths(call.width, call.value_width, call.content_width)
    scoring, room = scoring_of(call, head, nk), room_of(call, slot, like)
    forward_rows(row_from, row_to, queries, keys, widths, scoring, room, results, like)


@jit
def fill(numbers, count, value):
    """Fill `count` numbers of a task with one value."""
    for i in range(count):
        put(numbers, i, value)


@jit
def fill_key_gradients(call, gradients, value):
    """Fill all gradients of a chunk's keys with one value, for a task."""
    fill(gradients.key_clock, call.chunk_grad_clock.numbers, value)
    fill(gradients.value, call.chunk_grad_value.numbers, value)
    fill(gradients.key_variance, call.chunk_grad_variance.numbers, value)
    fill(gradients.key_content, call.chunk_grad_content.numbers, value)


@jit
def meet_back(call, item, chunk, owner, slot, key_owner, like):
    """Phase 2 of a task, backward: the rows of one chunk of one head."""
    batch, head = item // call.heads, item % call.heads
    nq, nk = get(scratch_of(call.counts, owner, 0), 0), get(scratch_of(call.counts, owner, 0), 1)
    row_from, row_to = rows_of_chunk(call, chunk, nq)
    gradients = gradients_of(call, item, owner, key_owner, batch, head, like)
    fill_key_gradients(call, gradients, 0.0)
    if nk == 0 or row_to <= row_from:
        return
    queries, width = queries_of(call, owner, batch, head, like), call.width
    grad_scale = pointer(call.grad_scale, 0.0)
    if broken(call, owner, nk):
        fill_key_gradients(call, gradients, np.nan)
        fill(shift(queries.variance, row_from), row_to - row_from, np.nan)
        fill(shift(gradients.clock, row_from * width), (row_to - row_from) * width, np.nan)
        for i in range(row_from, row_to if call.content_width > 0 else row_from):
            fill(shift(gradients.content, get(queries.index, i) * gradients.content_step), call.content_width, np.nan)
        put(grad_scale, item * call.chunks + chunk, np.nan)
        return
    keys, results = keys_of(call, owner, batch, head, like), results_of(call, item, batch, head, like)
    widths = Widths(width, call.value_width, call.content_width)
    scoring, room, back = scoring_of(call, head, nk), room_of(call, slot, like), back_room_of(call, slot, like)
    by_scale = backward_rows(row_from, row_to, queries, keys, widths, scoring, room, back, results, gradients, like)
    put(grad_scale, item * call.chunks + chunk, by_scale)


@jit
def add_chunks(block, chunks, key_owner, like):
    """Add the results of the other chunks of a head's queries to those of the first, for a task."""
    first = scratch_of(block, key_owner, like)
    for chunk in range(1, chunks):
        more = scratch_of(block, key_owner + chunk, like)
        for i in range(0, block.numbers, LANES):
            store(first, i, load(first, i) + load(more, i))


@jit
def give_rows(rows, index, n, width, target, step):
    """Copy a task's rows of valid steps to the tensor of all steps."""
    for i in range(n):
        for c in range(0, width, LANES):
            store(target, get(index, i) * step + c, load(rows, i * width + c))


@jit
def clocks_back(call, item, owner, key_owner, like):
    """Phase 3 of a task: add up the chunks' gradients of the keys, and propagate both clocks' to their features."""
    batch, head, width = item // call.heads, item % call.heads, call.width
    nq, nk = get(scratch_of(call.counts, owner, 0), 0), get(scratch_of(call.counts, owner, 0), 1)
    if nq == 0 or nk == 0:
        return
    add_chunks(call.chunk_grad_clock, call.chunks, key_owner, like)
    add_chunks(call.chunk_grad_value, call.chunks, key_owner, like)
    add_chunks(call.chunk_grad_variance, call.chunks, key_owner, like)
    add_chunks(call.chunk_grad_content, call.chunks, key_owner, like)
    gradients = gradients_of(call, item, owner, key_owner, batch, head, like)
    query_index, key_index = scratch_of(call.query_index, owner, 0), scratch_of(call.key_index, owner, 0)
    target = of_head(call.grad_value, batch, head, like)
    give_rows(gradients.value, key_index, nk, call.value_width, target, call.grad_value.step)
    if call.content_width > 0:
        target = of_head(call.grad_content_key, batch, head, like)
        give_rows(gradients.key_content, key_index, nk, call.content_width, target, call.grad_content_key.step)
    for i in range(0, nk * width, LANES):
        store(gradients.key_clock, i, splat(0.0, like) - load(gradients.key_clock, i))

    if call.key_kind == GIVEN:
        by_key, by_query = of_head(call.grad_key, batch, head, 0.0), of_head(call.grad_query, batch, head, 0.0)
        give_clock(gradients.key_clock, key_index, nk, width, by_key, call.grad_key.step)
        give_clock(gradients.clock, query_index, nq, width, by_query, call.grad_query.step)
        give_variance(
            gradients.query_variance, query_index, nq, of_rows(call.grad_query_variance, item, call.queries, like)
        )
        give_variance(gradients.key_variance, key_index, nk, of_rows(call.grad_key_variance, item, call.keys, like))
        return
    clock = scratch_of(call.clock, owner, 0.0)
    run_clock_back(
        call.key_kind, call.phi, steps_of(call, call.key, owner, batch, head, False, like),
        trace_of(call, owner, False, like), clock, gradients.key_clock, of_head(call.grad_key, batch, head, like),
        call.grad_key.step, like,
    )  # fmt: skip
    run_clock_back(
        call.query_kind, call.phi, steps_of(call, call.query, owner, batch, head, True, like),
        trace_of(call, owner, True, like), null_like(clock), gradients.clock,
        of_head(call.grad_query, batch, head, like), call.grad_query.step, like,
    )  # fmt: skip


@jit
def give_clock(grad, index, n, width, target, step):
    """Copy a task's ∂/∂λ from working precision to the fp64 tensor it belongs to."""
    for i in range(n):
        for c in range(width):
            put(target, get(index, i) * step + c, get(grad, i * width + c))


@jit
def give_variance(grad, index, n, target):
    """Copy a task's gradients of variances to the tensor of all steps."""
    for i in range(n):
        put(target, get(index, i), get(grad, i))


@jit
def draw(call):
    """The next task of a thread: item and chunk of its queries; item −1 when there are none left."""
    task = take_ticket(pointer(call.tickets, 0))
    if task >= call.tasks:
        return -1, 0
    if call.split != 0 and call.phases == MEET:
        return task // call.chunks, task % call.chunks
    return task, 0


@jit
def run_forward(call, like):
    """Forward tasks, as run by every thread: draw one until there are none left."""
    slot = take_ticket(shift(pointer(call.tickets, 0), 1))
    item, chunk = draw(call)
    while item >= 0:
        owner = item if call.split != 0 else slot
        if call.phases & CLOCKS:
            make_clocks(call, item, owner, like)
        if call.phases & MEET:
            meet(call, item, chunk, owner, slot, like)
        item, chunk = draw(call)


@jit
def run_backward(call, like):
    """Backward tasks, as run by every thread: draw one until there are none left."""
    slot = take_ticket(shift(pointer(call.tickets, 0), 1))
    item, chunk = draw(call)
    while item >= 0:
        owner = item if call.split != 0 else slot
        key_owner = item * call.chunks if call.split != 0 else slot
        if call.phases & CLOCKS:
            make_clocks(call, item, owner, like)
        if call.phases & MEET:
            meet_back(call, item, chunk, owner, slot, key_owner + chunk, like)
        if call.phases & CLOCKS_BACK:
            clocks_back(call, item, owner, key_owner, like)
        item, chunk = draw(call)


def source_digest() -> str:
    """Hash of all compiled code, for the cache of compiled tasks; Numba's cache watches one file only."""
    folder = Path(__file__).parent
    names = ("simd.py", "table.py", "clocks.py", "tiles.py", "rows.py", "gradients.py", "tasks.py")
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def compile_entry(backward: bool, double: bool) -> Any:
    """Compile the tasks into an entry point, or read it from Numba's cache on disk, whose key includes its captures."""
    digest, like = source_digest(), np.float64(0) if double else np.float32(0)

    def forward_entry(table):
        digest  # noqa: B018
        run_forward(numba.carray(table, 1)[0], like)

    def backward_entry(table):
        digest  # noqa: B018
        run_backward(numba.carray(table, 1)[0], like)

    record = numba.from_dtype(CALL)
    signature, function = types.void(types.CPointer(record)), backward_entry if backward else forward_entry
    try:
        return numba.cfunc(signature, cache=True, error_model="numpy")(function)
    except RuntimeError as error:  # no folder for the cache
        logger.warning("the banded kernel will be compiled again in every process: %s; set NUMBA_CACHE_DIR", error)
        return numba.cfunc(signature, error_model="numpy")(function)


def run_in_python(table: np.ndarray, backward: bool, double: bool) -> None:
    """Run the tasks without a compiler, for NUMBA_DISABLE_JIT=1."""
    run, like = run_backward if backward else run_forward, np.float64(0) if double else np.float32(0)
    with np.errstate(all="ignore"):
        run(table.view(np.recarray)[0], like)
