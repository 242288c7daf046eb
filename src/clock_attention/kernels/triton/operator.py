"""Clock attention on a GPU over the band of keys that matter: `torch.ops.clock_attention.triton` and its gradient.

The inputs are clocks and variances as computed by torch; the results are the output, the softmax statistics and, on
request, weights. Only these and the inputs are kept for the backward pass, which reads the clocks and chooses the tiles
again. Nothing is read back to the host and every launch depends on shapes alone, so a CUDA graph can capture it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from clock_attention.kernels.triton import geometry
from clock_attention.kernels.triton.backward_keys import key_gradients
from clock_attention.kernels.triton.backward_queries import far_scales, query_gradients
from clock_attention.kernels.triton.forward import attend_tile, write_weights
from clock_attention.kernels.triton.meeting import CHUNK, Meeting, Operands, last_dim_contiguous

SOFTMAX = 3  # numbers of a row that the backward pass needs: largest logit, its weight, mean score
IN_SCHEMA = {"Tensor": "Tensor", "Tensor | None": "Tensor?", "bool": "bool", "float": "float"}
OPERANDS = ", ".join(f"{IN_SCHEMA[str(field.type)]} {field.name}" for field in fields(Operands))


def steps_first(batch: int, heads: int, steps: int, width: int, like: Tensor) -> Tensor:
    """Output of the Triton operator: fp32 (B, H, L, D) laid out as (B, L, H, D), so that joining the heads is free."""
    return torch.empty(batch, steps, heads, width, dtype=torch.float32, device=like.device).transpose(1, 2)


def empty_results(given: Operands, return_weights: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors for the results of the Triton operator."""
    batch, heads, queries, _ = given.query_clock.shape
    out = steps_first(batch, heads, queries, given.value.shape[-1], given.value)
    softmax = given.value.new_empty(batch, heads, SOFTMAX, queries, dtype=torch.float32)
    weights_shape = (batch, heads, queries, given.key_clock.shape[2]) if return_weights else (0,)
    return out, softmax, given.value.new_empty(weights_shape, dtype=torch.float32)


@torch.library.custom_op(
    "clock_attention::triton",
    mutates_args=(),
    schema=f"({OPERANDS}, bool return_weights) -> (Tensor, Tensor, Tensor)",
)
def attend(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The Triton operator: output (B, H, S, Dv), softmax (B, H, 3, S), weights (B, H, S, T) or an empty tensor.

    All in fp32: the gradient subtracts the output from its factor, and distances magnify its rounding.
    """
    given, return_weights = Operands(*arguments[:-1]), arguments[-1]
    meeting = Meeting(given)
    out, softmax, weights = empty_results(given, return_weights)
    launch = geometry.launch(meeting.cut.forward_warps)
    if meeting.batch * meeting.heads:
        attend_tile[meeting.query_grid](
            *meeting.operands, out, *out.stride()[:3], softmax, *meeting.numbers,
            VALUE=meeting.value_width, BLOCK_VALUE=meeting.blocks["BLOCK_VALUE"],
            **meeting.flags, **meeting.products, **launch,
        )  # fmt: skip
        if return_weights:
            write_weights[(meeting.query.tiles * meeting.key.tiles, meeting.heads, meeting.batch)](
                *meeting.clocks, *meeting.contents, meeting.scale, softmax, weights, *meeting.numbers,
                **meeting.flags, **meeting.products, **launch,
            )  # fmt: skip
    return out, softmax, weights


@attend.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    return empty_results(Operands(*arguments[:-1]), arguments[-1])


def empty_gradients(given: Operands) -> list[Tensor]:
    """Tensors for the Triton operator's gradients: clocks, value, variances, scale, contents (or empty)."""
    like = (given.query_clock, given.key_clock, given.value, given.query_variance, given.key_variance, given.scale,
            given.query_content, given.key_content)  # fmt: skip
    return [
        given.value.new_empty(0) if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in like
    ]


@torch.library.custom_op(
    "clock_attention::triton_backward",
    mutates_args=(),
    schema="(Tensor grad_out, Tensor? grad_weights, Tensor out, Tensor softmax, Tensor weights, "
    f"{OPERANDS}) -> ({', '.join(['Tensor'] * 8)})",
)
def attend_backward(
    grad_out: Tensor, grad_weights: Tensor | None, out: Tensor, softmax: Tensor, weights: Tensor, *operands: Any
) -> tuple[Tensor, ...]:
    """The Triton operator's backward: the gradients that `empty_gradients` lists."""
    given = Operands(*operands)
    meeting = Meeting(given)
    grad_out = last_dim_contiguous(grad_out)
    by_query, by_key, by_value, by_query_variance, by_key_variance, _, *by_contents = empty_gradients(given)
    by_scale = torch.empty(meeting.batch, meeting.heads, meeting.query.tiles, dtype=torch.float64, device=out.device)
    if meeting.batch * meeting.heads:
        weighed = grad_weights is not None
        pull_of_weights, grad_weights = softmax, softmax if grad_weights is None else grad_weights.contiguous()
        if weighed:
            pull_of_weights = (weights * grad_weights).sum(-1)
        flags = {**meeting.flags, **meeting.products, "WEIGHTS": weighed}
        given_out = (grad_out, *grad_out.stride()[:3], softmax)
        for part in meeting.cut.query_parts(meeting.content_width > 0):
            query_gradients[meeting.query_grid](
                *meeting.operands, out, *out.stride()[:3], *given_out, pull_of_weights, grad_weights, by_query,
                by_query_variance, by_contents[0], by_scale, *meeting.numbers,
                **part, **flags, **meeting.blocks, **geometry.launch(meeting.cut.query_warps),
            )  # fmt: skip
        # Both read what `query_gradients` left in the records; the first replaces some of its results as well.
        far_scales[meeting.query_grid](
            *meeting.operands, *given_out, grad_weights, by_scale, *meeting.numbers,
            **flags, **geometry.launch(meeting.cut.key_warps),
        )  # fmt: skip
        for part in meeting.cut.key_parts(meeting.content_width > 0):
            key_gradients[meeting.key_grid](
                *meeting.operands, *given_out, grad_weights, by_key, by_key_variance, by_value, by_contents[1],
                *meeting.numbers, CHUNK=CHUNK,
                **part, **flags, **meeting.blocks, **geometry.launch(meeting.cut.key_warps),
            )  # fmt: skip
    total = by_scale.sum((0, 2)).to(given.scale.dtype)
    return by_query, by_key, by_value, by_query_variance, by_key_variance, total, *by_contents


@attend_backward.register_fake
def _(grad_out: Tensor, grad_weights: Tensor | None, out: Tensor, softmax: Tensor, weights: Tensor, *operands: Any):  # type: ignore[no-untyped-def]
    return tuple(empty_gradients(Operands(*operands)))


def differentiate_twice(ctx, *grads):  # type: ignore[no-untyped-def]
    """Second derivatives of the Triton operator: not supported."""
    raise NotImplementedError("impl='triton' has no second derivatives: use impl='portable' or 'reference' for them")


attend_backward.register_autograd(differentiate_twice)


def remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    """Save what the backward pass of the Triton operator needs, for autograd."""
    *tensors, ctx.log_term, ctx.eps, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *tensors)


def differentiate(ctx, grad_out, grad_softmax, grad_weights):  # type: ignore[no-untyped-def]
    """Backward pass of the Triton operator, for autograd."""
    if grad_weights is not None and grad_weights.dim() != 4:
        grad_weights = None  # a compiled graph also has a gradient for the empty tensor that stands for no weights
    if grad_out is None and grad_weights is None:
        return (None,) * 13
    out, softmax, weights, *inputs = ctx.saved_tensors
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out
    *grads, by_query_content, by_key_content = attend_backward(
        grad_out, grad_weights, out, softmax, weights, *inputs, ctx.log_term, ctx.eps
    )
    by_query, by_key, by_value, by_query_variance, by_key_variance, by_scale = grads
    contents = (None, None) if inputs[8] is None else (by_query_content, by_key_content)
    return by_query, by_key, by_value, by_query_variance, by_key_variance, None, None, by_scale, *contents, *(None,) * 3


attend.register_autograd(differentiate, setup_context=remember)
