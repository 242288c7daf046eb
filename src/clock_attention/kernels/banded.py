"""Clock attention on CPU over the band of keys that matter: fused, compiled by Numba, forward and backward.

Monotone clocks make attention banded (see `band_loops.py` for the bound). The keys left out weigh at most 2⁻²⁴ of a
row in all, less than fp32 rounding. Time norm, clocks, score, softmax and A·V of a head run in one task, memory is
O(S + T) per head, and the only thing kept for the backward pass is one number per query.

`attend` is the function; `torch.ops.clock_attention.banded` the operator behind it, which torch.compile sees whole.
"""

from __future__ import annotations

import threading

import numpy as np
import torch
from torch import Tensor

from clock_attention.clocks import ClockPair, clock_pair
from clock_attention.kernels import band_tasks as tasks
from clock_attention.kernels import clock_loops as loops
from clock_attention.kernels.interface import Attended, AttentionInputs, Content, Wanted
from clock_attention.kernels.threads import run_entry
from clock_attention.options import ClockOptions

KEPT_SCRATCH = 2**25  # bytes
memory = threading.local()
DROPPED = 2.0**-24  # of a row's weight, at most
RATES = {"rational": loops.RATIONAL, "softplus": loops.SOFTPLUS, "exp": loops.EXP}
KINDS = {"normalized": loops.TIME_NORM_NORMALIZED, "unnormalized": loops.TIME_NORM}


def refusal(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> str | None:
    """Why this call cannot be served, or None."""
    if inputs.query.device.type != "cpu":
        return f"the tensors are on {inputs.query.device}, and this implementation runs on the CPU only"
    if inputs.attn_mask is not None:
        return "attn_mask is given, and its keys need not form a band"
    if inputs.content is not None:
        return "content is given"
    if wanted.logits:
        return "logits are wanted, and only those of a band are ever computed"
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return "a torch.func transform or forward-mode differentiation is active, which it does not support"
    return None


def attend(inputs: AttentionInputs, options: ClockOptions, wanted: Wanted) -> Attended:
    """The attention over the band; see `interface`."""
    masks = inputs.query_valid, inputs.key_valid
    work = torch.promote_types(torch.promote_types(inputs.query.dtype, inputs.value.dtype), torch.float32)
    query, key = inputs.query.to(work), inputs.key.to(work)
    if serves_clocks(options) and not wanted.clocks:
        kind, scale = KINDS[options.clocks], inputs.logit_scale.reshape(-1).expand(inputs.query.shape[1])
        out, _, weights = banded(
            query, key, inputs.value.to(work), None, None, *masks, scale,
            kind, kind, RATES[str(options.phi)], False, options.eps, wanted.weights,
        )  # fmt: skip
        return out.to(inputs.value.dtype), weights if wanted.weights else None, None, None
    with torch.autocast("cpu", enabled=False):
        pair = clock_pair(query, key, inputs.valid_queries(), inputs.valid_keys(), options, inputs.pace)
    out, weights = attend_clocks(
        pair, inputs.value, masks, inputs.content, inputs.logit_scale, options, return_weights=wanted.weights
    )
    return out, weights if wanted.weights else None, None, pair if wanted.clocks else None


def attend_clocks(
    pair: ClockPair,
    value: Tensor,
    masks: tuple[Tensor | None, Tensor | None],
    content: Content | None,
    logit_scale: Tensor,
    options: ClockOptions,
    *,
    return_weights: bool,
) -> tuple[Tensor, Tensor]:
    """Output and weights (empty unless wanted) for clocks that are made already: any kind, any variance."""
    batch, heads = pair.query.shape[:2]
    work = torch.promote_types(pair.query_variance.dtype, value.dtype)
    variances = [x.to(work).expand(batch, heads, -1) for x in (pair.query_variance, pair.key_variance)]
    out, _, weights = banded(
        pair.query.double(), pair.key.double(), value.to(work), *variances, *masks,
        logit_scale.reshape(-1).expand(heads),
        loops.GIVEN, loops.GIVEN, loops.RATIONAL, options.log_variance_term, options.eps, return_weights,
    )  # fmt: skip
    return out.to(value.dtype), weights


def serves_clocks(options: ClockOptions) -> bool:
    """Whether the compiled code makes these clocks itself: not causal ones, any rate function or any variance."""
    plain = isinstance(options.phi, str) and options.variance == "surrogate" and not options.log_variance_term
    return options.clocks in KINDS and plain


def steps_first(shape: tuple[int, int, int, int], like: Tensor, zero: bool) -> Tensor:
    """(B, H, L, D) laid out as (B, L, H, D): joining the heads afterwards is free."""
    batch, heads, length, channels = shape
    make = torch.zeros if zero else torch.empty
    return make((batch, length, heads, channels), dtype=like.dtype, device=like.device).transpose(1, 2)


def whole_vectors(x: Tensor) -> Tensor:
    """Channels contiguous and padded with zeros to a multiple of 16."""
    spare = -x.shape[-1] % 16
    if spare:
        return torch.nn.functional.pad(x, (0, spare))
    return x if x.stride(-1) == 1 else x.contiguous()


def scratch_memory(size: int) -> Tensor:
    """Bytes for one call. Every Python thread keeps its own small piece: fresh pages would cost more than the work."""
    kept = getattr(memory, "scratch", None)
    if kept is not None and kept.numel() >= size:
        return kept
    fresh = torch.empty(size, dtype=torch.uint8)
    if size <= KEPT_SCRATCH:
        memory.scratch = fresh
    return fresh


class Call:
    """One call's table of addresses and sizes, and the tensors that must outlive it."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, scale: Tensor, backward: bool) -> None:
        self.table = np.zeros(len(tasks.FIELDS), np.int64)
        self.held: list[Tensor] = []
        self.work, self.backward = value.dtype, backward
        batch, heads, queries, self.channels = query.shape
        keys = key.shape[2]
        self.items, self.queries, self.threads = batch * heads, queries, torch.get_num_threads()
        self.chunks = 1
        if self.items < 4 * self.threads and self.items % self.threads:
            blocks = -(-queries // loops.ANCHOR)
            self.chunks = min(blocks, 2 * self.threads)
        chunk_rows = -(-queries // (self.chunks * loops.ANCHOR)) * loops.ANCHOR
        self.chunks = -(-queries // chunk_rows)
        self.width = self.channels + -self.channels % 16
        self.value_width = value.shape[-1] + -value.shape[-1] % 16
        self.set(
            split=self.chunks > 1, heads=heads, queries=queries, keys=keys, channels=self.channels, width=self.width,
            value_width=self.value_width, chunks=self.chunks, chunk_rows=chunk_rows,
        )  # fmt: skip
        self.strided("query", query)
        self.strided("key", key)
        self.strided("value", value)
        self.plain("scale", scale.double())
        self.scratch(queries, keys)

    def set(self, **entries: int) -> None:
        for name, entry in entries.items():
            self.table[tasks.PLACE[name]] = entry

    def hold(self, tensor: Tensor) -> Tensor:
        self.held.append(tensor)
        return tensor

    def plain(self, name: str, tensor: Tensor | None) -> None:
        """A contiguous tensor, or null."""
        self.set(**{name: 0 if tensor is None else self.hold(tensor.contiguous()).data_ptr()})

    def strided(self, name: str, tensor: Tensor) -> Tensor:
        tensor = self.hold(whole_vectors(tensor))
        place = tasks.PLACE[name]
        self.table[place : place + 4] = (tensor.data_ptr(), *tensor.stride()[:3])
        return tensor

    def scratch(self, queries: int, keys: int) -> None:
        """Uninitialised memory per head being worked on and per thread, in one piece."""
        backward, number = int(self.backward), self.work.itemsize
        wide = tasks.wide_layout.py_func(queries, keys, self.width)[-1]
        work = tasks.work_layout.py_func(queries, keys, self.width, backward)[-1]
        row = tasks.row_layout.py_func(keys, self.width, self.value_width, backward)[-1]
        key_work = tasks.key_layout.py_func(keys, self.width, self.value_width)[-1] if backward else 0
        homes = self.items if self.chunks > 1 else self.threads
        places, end = {}, 0
        for name, count, size, itemsize in (
            ("wide", homes, wide, 8),
            ("work", homes, work, number),
            ("steps", homes, 2 + queries + keys, 8),
            ("row_wide", self.threads, self.width, 8),
            ("row_work", self.threads, row, number),
            ("row_steps", self.threads, keys // 8 + 1, 8),
            ("key_work", homes * self.chunks, key_work, number),
        ):
            places[name] = end
            end += (count * size * itemsize + 63) // 64 * 64
            if name != "row_wide":
                self.set(**{f"{name}_size": size})
        start = self.hold(scratch_memory(end)).data_ptr()
        self.set(**{name: start + place for name, place in places.items()})

    def run(self, *phases: int) -> None:
        """All phases at once, head by head, or one after the other over chunks of queries."""
        steps = phases if self.chunks > 1 else (sum(phases),)
        for step in steps if self.items else ():
            count = self.items * (self.chunks if step == tasks.ROWS else 1)
            tickets = torch.zeros(2, dtype=torch.int64)
            self.set(tickets=tickets.data_ptr(), tasks=count, phases=step)
            run_entry(self.table, self.backward, self.work == torch.float64, min(self.threads, count))


@torch.library.custom_op("clock_attention::banded", mutates_args=(), device_types="cpu")
def banded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_kind: int,
    key_kind: int,
    phi: int,
    log_term: bool,
    eps: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (B, H, S, Dv), log-sum-exp (B, H, S) and weights (B, H, S, T), or an empty tensor in their place."""
    batch, heads, queries, _ = query.shape
    call = Call(query, key, value, scale, False)
    out = steps_first((batch, heads, queries, call.value_width), value, query_valid is not None)
    lse = value.new_zeros(batch, heads, queries)
    weights = value.new_zeros((batch, heads, queries, key.shape[2]) if return_weights else 0)
    describe(call, query_variance, key_variance, query_valid, key_valid, query_kind, key_kind, phi, log_term, eps)
    call.strided("out", out)
    call.plain("lse", lse)
    call.plain("weights", weights if return_weights else None)
    call.run(tasks.CLOCKS, tasks.ROWS)
    return narrow(out, value.shape[-1]), lse, weights


def describe(
    call: Call,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    query_kind: int,
    key_kind: int,
    phi: int,
    log_term: bool,
    eps: float,
) -> None:
    """What forward and backward tell the compiled code alike."""
    call.set(query_kind=query_kind, key_kind=key_kind, phi=phi, log_term=log_term)
    call.plain("query_variance", query_variance)
    call.plain("key_variance", key_variance)
    call.plain("query_valid", query_valid)
    call.plain("key_valid", key_valid)
    call.plain("numbers", torch.tensor([eps, -np.log(DROPPED)], dtype=torch.float64))


def narrow(x: Tensor, channels: int) -> Tensor:
    """Drop the padding of whole vectors, keeping the layout of `steps_first`."""
    return x if x.shape[-1] == channels else x[..., :channels].transpose(1, 2).contiguous().transpose(1, 2)


@banded.register_fake
def _(  # type: ignore[no-untyped-def]
    query, key, value, query_variance, key_variance, query_valid, key_valid, scale, query_kind, key_kind, phi, log_term,
    eps, return_weights,
):  # fmt: skip
    batch, heads, queries, _ = query.shape
    out = steps_first((batch, heads, queries, value.shape[-1]), value, False)
    weights = value.new_empty((batch, heads, queries, key.shape[2]) if return_weights else 0)
    return out, value.new_empty(batch, heads, queries), weights


@torch.library.custom_op("clock_attention::banded_backward", mutates_args=(), device_types="cpu")
def banded_backward(
    grad_out: Tensor | None,
    grad_weights: Tensor | None,
    out: Tensor,
    lse: Tensor,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_kind: int,
    key_kind: int,
    phi: int,
    log_term: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, scale and (empty if not given) both variances."""
    given = query_variance is not None
    call = Call(query, key, value, scale, True)
    describe(call, query_variance, key_variance, query_valid, key_valid, query_kind, key_kind, phi, log_term, eps)
    call.strided("out", out)
    call.plain("lse", lse)
    call.plain("weights", weights if grad_weights is not None else None)
    call.plain("grad_weights", grad_weights)
    call.strided("grad_out", torch.zeros_like(out) if grad_out is None else grad_out)
    batch, heads = query.shape[:2]
    masked = query_valid is not None or key_valid is not None  # then some gradients are never written
    grads = [
        steps_first((batch, heads, x.shape[2], width), x, masked)
        for x, width in ((query, call.width), (key, call.width), (value, call.value_width))
    ]
    for name, grad in zip(("grad_query", "grad_key", "grad_value"), grads, strict=True):
        call.strided(name, grad)
    grad_scale = torch.zeros(batch, heads, call.chunks, dtype=torch.float64)
    call.plain("grad_scale", grad_scale)
    by_variance = [value.new_zeros(x.shape[:3] if given else 0) for x in (query, key)]
    if given:
        call.plain("grad_query_variance", by_variance[0])
        call.plain("grad_key_variance", by_variance[1])
    call.run(tasks.CLOCKS, tasks.ROWS, tasks.CLOCKS_BACK)
    return (
        narrow(grads[0], call.channels), narrow(grads[1], call.channels), narrow(grads[2], value.shape[-1]),
        grad_scale.sum((0, 2)).to(scale.dtype), by_variance[0], by_variance[1],
    )  # fmt: skip


def differentiate_twice(ctx, *grads):  # type: ignore[no-untyped-def]
    raise NotImplementedError("impl='banded' has no second derivatives: use impl='portable' or 'reference' for them")


banded_backward.register_autograd(differentiate_twice)


@banded_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    grad_out, grad_weights, out, lse, weights, query, key, value, query_variance, key_variance, query_valid, key_valid,
    scale, query_kind, key_kind, phi, log_term, eps,
):  # fmt: skip
    given = query_variance is not None
    grads = [steps_first(tuple(x.shape), x, False) for x in (query, key, value)]
    by_variance = [value.new_empty(x.shape[:3] if given else 0) for x in (query, key)]
    return *grads, scale.new_empty(scale.shape), *by_variance


def remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    (query, key, value, query_variance, key_variance, query_valid, key_valid, scale, *options, _) = inputs
    out, lse, weights = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(
        out, lse, weights, query, key, value, query_variance, key_variance, query_valid, key_valid, scale
    )
    ctx.options = options


def differentiate(ctx, grad_out, grad_lse, grad_weights):  # type: ignore[no-untyped-def]
    if grad_out is None and grad_weights is None:
        return (None,) * 14
    saved = ctx.saved_tensors
    by_query, by_key, by_value, by_scale, by_query_variance, by_key_variance = banded_backward(
        grad_out, grad_weights, *saved, *ctx.options
    )
    given = saved[6] is not None
    variances = (by_query_variance, by_key_variance) if given else (None, None)
    return by_query, by_key, by_value, *variances, None, None, by_scale, *(None,) * 6


banded.register_autograd(differentiate, setup_context=remember)
