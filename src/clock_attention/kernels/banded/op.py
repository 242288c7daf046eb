"""`torch.ops.clock_attention.banded`: the operator, its gradient, and the checks that keep raw memory safe."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clock_attention.kernels.banded import tasks
from clock_attention.kernels.banded.clocks import EXP, GIVEN
from clock_attention.kernels.banded.table import Call
from clock_attention.kernels.banded.threads import run_entry
from clock_attention.kernels.banded.tiles import ROWS


def largest_drop(work: torch.dtype) -> float:
    """Share of a row's weight that the operator may leave out: half a unit of precision, 2⁻²⁴ or 2⁻⁵³."""
    return torch.finfo(work).eps / 2


@torch.library.custom_op("clock_attention::banded", mutates_args=(), device_types="cpu")
def banded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    content_query: Tensor | None,
    content_key: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_kind: int,
    key_kind: int,
    phi: int,
    log_term: bool,
    eps: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The operator: output (B, H, S, Dv), softmax (B, H, S, 2) of largest logits and denominators, bands, weights."""
    operands = (query, key, value, query_variance, key_variance, content_query, content_key, query_valid, key_valid)
    check_operands(*operands, scale, query_kind, key_kind, phi)
    batch, heads, queries, _ = query.shape
    call = Call(query, key, value, pair_of(content_query, content_key), backward=False)
    out = steps_first((batch, heads, queries, call.value_width), value, query_valid is not None)
    softmax = value.new_zeros(batch, heads, queries, 2)
    bands = torch.zeros(batch, heads, -(-queries // ROWS), 2, dtype=torch.int64)
    weights = value.new_zeros((batch, heads, queries, key.shape[2]) if return_weights else 0)
    describe(call, *operands[3:5], *operands[7:], scale, query_kind, key_kind, phi, log_term, eps)
    call.strided("out", out)
    call.plain("softmax", softmax)
    call.plain("bands", bands)
    call.plain("weights", weights if return_weights else None)
    run(call, tasks.CLOCKS, tasks.MEET)
    return narrow(out, value.shape[-1]), softmax, bands, weights


def check_operands(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    content_query: Tensor | None,
    content_key: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_kind: int,
    key_kind: int,
    phi: int,
) -> None:
    """Check the operator's arguments: raise where the compiled code would read past the end of a tensor."""
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4 or 0 in (*query.shape[1:], *key.shape[1:], value.shape[3]):
        raise ValueError(
            f"clock_attention::banded: got query {tuple(query.shape)}, key {tuple(key.shape)} and value "
            f"{tuple(value.shape)}, expected (batch, heads, steps, channels), none of them empty"
        )
    if value.dtype not in (torch.float32, torch.float64) or not scale.is_floating_point():
        raise ValueError(
            f"clock_attention::banded: got value of {value.dtype} and scale of {scale.dtype}, expected float32 or "
            "float64"
        )
    batch, heads, queries, channels = query.shape
    keys, given = key.shape[2], query_kind == GIVEN
    if given != (key_kind == GIVEN) or not (0 <= query_kind <= GIVEN and 0 <= key_kind <= GIVEN and 0 <= phi <= EXP):
        raise ValueError(
            f"clock_attention::banded: got kinds {query_kind}, {key_kind} and phi {phi}, which do not exist"
        )
    if given != (query_variance is not None) or given != (key_variance is not None):
        raise ValueError("clock_attention::banded: expected variances of both sides with given clocks, and else none")
    if (content_query is None) != (content_key is None):
        raise ValueError("clock_attention::banded: got content of one side only, expected both or none")
    work, clock = value.dtype, torch.float64 if given else value.dtype
    content = 0 if content_query is None else content_query.shape[-1]
    for name, tensor, shape, dtype in (
        ("query", query, (batch, heads, queries, channels), clock),
        ("key", key, (batch, heads, keys, channels), clock),
        ("value", value, (batch, heads, keys, value.shape[3]), work),
        ("query_variance", query_variance, (batch, heads, queries), work),
        ("key_variance", key_variance, (batch, heads, keys), work),
        ("content_query", content_query, (batch, heads, queries, content), work),
        ("content_key", content_key, (batch, heads, keys, content), work),
        ("query_valid", query_valid, (batch, queries), torch.bool),
        ("key_valid", key_valid, (batch, keys), torch.bool),
        ("scale", scale, (heads,), scale.dtype),
    ):
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != dtype):
            raise ValueError(
                f"clock_attention::banded: got {name} {tuple(tensor.shape)} of {tensor.dtype}, expected {shape} of "
                f"{dtype}"
            )


def pair_of(query: Tensor | None, key: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Two tensors of the operator, or None where one is missing."""
    return None if query is None or key is None else (query, key)


def describe(
    call: Call,
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
) -> None:
    """Table of one call of the operator: what both forward and backward pass to the compiled code."""
    call.set(
        query_kind=query_kind,
        key_kind=key_kind,
        phi=phi,
        log_term=log_term,
        eps=eps,
        drop=-np.log(largest_drop(call.work)),
    )
    call.plain("given_query_variance", query_variance)
    call.plain("given_key_variance", key_variance)
    call.plain("query_valid", query_valid)
    call.plain("key_valid", key_valid)
    call.plain("scale", scale.double())


def run(call: Call, *phases: int) -> None:
    """Run the operator's compiled code: all phases at once, head by head, or one by one over chunks of queries."""
    for phase in (phases if call.chunks > 1 else (sum(phases),)) if call.items else ():
        count = call.items * (call.chunks if phase == tasks.MEET else 1)
        tickets = torch.zeros(2, dtype=torch.int64)
        call.set(tickets=tickets.data_ptr(), tasks=count, phases=phase)
        run_entry(call.table, call.backward, call.work == torch.float64, min(call.threads, count))


def steps_first(shape: tuple[int, ...], like: Tensor, zero: bool) -> Tensor:
    """New output of the operator: (B, H, L, D) laid out as (B, L, H, D), so that joining the heads is free."""
    batch, heads, length, channels = shape
    make = torch.zeros if zero else torch.empty
    return make((batch, length, heads, channels), dtype=like.dtype, device=like.device).transpose(1, 2)


def narrow(x: Tensor, channels: int) -> Tensor:
    """Drop the padding to whole vectors from the operator's output, keeping the layout of `steps_first`."""
    return x if x.shape[-1] == channels else x[..., :channels].transpose(1, 2).contiguous().transpose(1, 2)


@banded.register_fake
def _(query, key, value, *operands):  # type: ignore[no-untyped-def]
    batch, heads, queries, _ = query.shape
    out = steps_first((batch, heads, queries, value.shape[-1]), value, False)
    weights = value.new_empty((batch, heads, queries, key.shape[2]) if operands[-1] else 0)
    bands = value.new_empty((batch, heads, (queries + ROWS - 1) // ROWS, 2), dtype=torch.int64)
    return out, value.new_empty(batch, heads, queries, 2), bands, weights


@torch.library.custom_op("clock_attention::banded_backward", mutates_args=(), device_types="cpu")
def banded_backward(
    grad_out: Tensor | None,
    grad_weights: Tensor | None,
    out: Tensor,
    softmax: Tensor,
    bands: Tensor,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_variance: Tensor | None,
    key_variance: Tensor | None,
    content_query: Tensor | None,
    content_key: Tensor | None,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_kind: int,
    key_kind: int,
    phi: int,
    log_term: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The operator's backward: gradients of query, key, value, scale, and variances and contents (or empty)."""
    operands = (query, key, value, query_variance, key_variance, content_query, content_key, query_valid, key_valid)
    check_operands(*operands, scale, query_kind, key_kind, phi)
    check_results(grad_out, grad_weights, out, softmax, bands, weights, query, key, value)
    call = Call(query, key, value, pair_of(content_query, content_key), backward=True)
    describe(call, *operands[3:5], *operands[7:], scale, query_kind, key_kind, phi, log_term, eps)
    call.strided("out", out)
    call.plain("softmax", softmax)
    call.plain("bands", bands)
    call.plain("weights", weights if grad_weights is not None else None)
    call.plain("grad_weights", grad_weights)
    call.strided("grad_out", torch.zeros_like(out) if grad_out is None else grad_out)
    masked = query_valid is not None or key_valid is not None  # then some gradients are never written
    widths = {"query": call.width, "key": call.width, "value": call.value_width}
    widths |= {"content_query": call.content_width, "content_key": call.content_width} if call.content_width else {}
    grads = {}
    for (name, width), x in zip(widths.items(), (query, key, value, content_query, content_key), strict=False):
        assert x is not None
        grads[name] = steps_first((*x.shape[:3], width), x, masked)
        call.strided(f"grad_{name}", grads[name])
    grad_scale = torch.zeros(*query.shape[:2], call.chunks, dtype=torch.float64)
    call.plain("grad_scale", grad_scale)
    by_variance = [value.new_zeros(x.shape[:3] if query_variance is not None else 0) for x in (query, key)]
    if query_variance is not None:
        call.plain("grad_query_variance", by_variance[0])
        call.plain("grad_key_variance", by_variance[1])
    run(call, tasks.CLOCKS, tasks.MEET, tasks.CLOCKS_BACK)
    by_content = [value.new_zeros(0), value.new_zeros(0)]
    if content_query is not None:
        by_content = [narrow(grads[name], content_query.shape[-1]) for name in ("content_query", "content_key")]
    by_query, by_key = (narrow(grads[name], query.shape[-1]) for name in ("query", "key"))
    by_value, by_scale = narrow(grads["value"], value.shape[-1]), grad_scale.sum((0, 2)).to(scale.dtype)
    return by_query, by_key, by_value, by_scale, by_variance[0], by_variance[1], by_content[0], by_content[1]


def check_results(
    grad_out: Tensor | None,
    grad_weights: Tensor | None,
    out: Tensor,
    softmax: Tensor,
    bands: Tensor,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
) -> None:
    """Check arguments of the operator's backward: raise unless they match the forward pass's results and gradients."""
    batch, heads, queries, _ = query.shape
    pairs = (batch, heads, queries, key.shape[2])
    for name, tensor, shape, dtype in (
        ("out", out, (batch, heads, queries, value.shape[3]), value.dtype),
        ("grad_out", grad_out, (batch, heads, queries, value.shape[3]), value.dtype),
        ("softmax", softmax, (batch, heads, queries, 2), value.dtype),
        ("bands", bands, (batch, heads, -(-queries // ROWS), 2), torch.int64),
        ("weights", weights if grad_weights is not None else None, pairs, value.dtype),
        ("grad_weights", grad_weights, pairs, value.dtype),
    ):
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != dtype):
            raise ValueError(
                f"clock_attention::banded_backward: got {name} {tuple(tensor.shape)} of {tensor.dtype}, expected "
                f"{shape} of {dtype}"
            )
    if bands.numel() and not (int(bands.min()) >= 0 and int(bands.max()) <= key.shape[2]):
        raise ValueError(f"clock_attention::banded_backward: got bands beyond the {key.shape[2]} keys")


def differentiate_twice(ctx, *grads):  # type: ignore[no-untyped-def]
    """Second derivatives of the banded operator: not supported."""
    raise NotImplementedError("impl='banded' has no second derivatives: use impl='portable' or 'reference' for them")


banded_backward.register_autograd(differentiate_twice)


@banded_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    grad_out, grad_weights, out, softmax, bands, weights, query, key, value, query_variance, key_variance,
    content_query, content_key, query_valid, key_valid, scale, *options,
):  # fmt: skip
    grads = [steps_first(tuple(x.shape), x, False) for x in (query, key, value)]
    by_variance = [value.new_empty(x.shape[:3] if query_variance is not None else 0) for x in (query, key)]
    by_content = [
        value.new_empty(0) if x is None else steps_first(tuple(x.shape), x, False) for x in (content_query, content_key)
    ]
    return *grads, scale.new_empty(scale.shape), *by_variance, *by_content


OPERANDS = 10  # tensors among the operator's inputs, which come first


def remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    """Save what the backward pass of the banded operator needs, for autograd."""
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*output, *inputs[:OPERANDS])
    ctx.options = inputs[OPERANDS:-1]


def differentiate(ctx, grad_out, grad_softmax, grad_bands, grad_weights):  # type: ignore[no-untyped-def]
    """Backward pass of the banded operator, for autograd."""
    saved = ctx.saved_tensors
    if saved[3].dim() != 4:  # no weights were requested: the empty tensor in their place may have an empty gradient
        grad_weights = None
    if grad_out is None and grad_weights is None:
        return (None,) * (OPERANDS + len(ctx.options) + 1)
    by_query, by_key, by_value, by_scale, *rest = banded_backward(grad_out, grad_weights, *saved, *ctx.options)
    query_variance, content_query = saved[7], saved[9]
    by_variance = rest[:2] if query_variance is not None else (None, None)
    by_content = rest[2:] if content_query is not None else (None, None)
    options = (None,) * (len(ctx.options) + 1)
    return by_query, by_key, by_value, *by_variance, *by_content, None, None, by_scale, *options


banded.register_autograd(differentiate, setup_context=remember)
