"""Clock attention on a GPU over the band of keys that matter: `torch.ops.clock_attention.triton` and its gradient.

Clocks and variances come in as torch computed them; out go the output, what each softmax was and, on request, weights.
Only these and the inputs are kept for the backward pass, which reads the clocks and chooses the tiles anew.
Nothing is read back to the host and every launch depends on shapes alone, so a CUDA graph can capture it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

import torch
import triton
from torch import Tensor

from clock_attention.kernels.triton import geometry
from clock_attention.kernels.triton.backward import key_gradients, query_gradients
from clock_attention.kernels.triton.forward import attend_tile, write_weights
from clock_attention.kernels.triton.geometry import Geometry, block_width
from clock_attention.kernels.triton.readings import choose_tiles, read_clock

DROPPED = 2.0**-24  # of a row's weight, at most
CHUNK = 16  # tiles looked at together
FIELDS = 3  # of a query's record: variance, floor, pull
SOFTMAX = 3  # numbers of a row that the backward pass needs: largest logit, its weight, mean score


@dataclass
class Side:
    """One sequence as the kernels read it: see `readings.read_clock`."""

    steps: int
    tiles: int
    offsets: Tensor  # fp32 (B, H, D, tiles · block)
    anchors: Tensor  # fp32 (B, H, tiles, D)
    records: Tensor  # fp32 (B, H, fields, tiles · block): variance and, of queries, two more
    sums: Tensor  # fp32 (B, H, tiles · block)
    statistics: Tensor  # fp32 (B, H, tiles, 4)
    content: Tensor  # (B, H, L, C), or anything where there is none
    content_norms: Tensor  # fp32 (B, H, tiles · block)
    fill: Tensor | None  # int32 (B, L): the valid step whose reading a step shows

    def of_mask(self, other: Tensor | None) -> Tensor:
        """A pointer for the compiler where there is no mask; it is never followed."""
        return self.offsets if other is None else other


def last_dim_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def valid_step_before(valid: Tensor) -> Tensor:
    """For each step the last valid one up to it, or the first valid one; 0 where there is none.  int32 (B, L)"""
    places = torch.arange(valid.shape[-1], dtype=torch.int32, device=valid.device)
    last = torch.where(valid, places, -1).cummax(-1).values
    return torch.where(last < 0, valid.to(torch.uint8).argmax(-1, keepdim=True).to(torch.int32), last).contiguous()


def read_side(
    clock: Tensor, variance: Tensor, valid: Tensor | None, content: Tensor | None, block: int, fields: int
) -> Side:
    """Launch `read_clock` for every tile of one sequence."""
    batch, heads, steps, width = clock.shape
    tiles = triton.cdiv(steps, block)
    clock = last_dim_contiguous(clock)
    features = clock if content is None else last_dim_contiguous(content)

    def fresh(*shape: int) -> Tensor:
        return torch.empty(batch, heads, *shape, dtype=torch.float32, device=clock.device)

    length = tiles * block
    side = Side(
        steps, tiles, fresh(width, length), fresh(tiles, width), fresh(fields, length), fresh(length), fresh(tiles, 4),
        features, fresh(length if content is not None else 1),
        None if valid is None else valid_step_before(valid),
    )  # fmt: skip
    if batch * heads:
        read_clock[(tiles * batch * heads,)](
            clock, *clock.stride()[:3], variance, *variance.stride(), features, *features.stride()[:3],
            side.of_mask(side.fill), side.offsets if valid is None else valid.to(torch.uint8).contiguous(),
            side.offsets, side.anchors, side.records, side.sums, side.statistics, side.content_norms,
            heads, steps, tiles, width, features.shape[-1],
            WIDTH=width, CONTENT=0 if content is None else content.shape[-1], MASKED=valid is not None,
            FIELDS=fields, BLOCK=block,
            **geometry.launch(geometry.READING_WARPS),
        )  # fmt: skip
    return side


class Meeting:
    """Both sides read, floors and tile ranges chosen, and the arguments that all kernels take."""

    def __init__(
        self,
        query_clock: Tensor, key_clock: Tensor, query_variance: Tensor, key_variance: Tensor,
        query_valid: Tensor | None, key_valid: Tensor | None, scale: Tensor,
        query_content: Tensor | None, key_content: Tensor | None, log_term: bool, eps: float, cut: Geometry,
    ) -> None:  # fmt: skip
        self.batch, self.heads, _, self.width = query_clock.shape
        self.cut, self.eps, self.spread = cut, eps, 2 * sqrt(self.width)
        self.scale = scale.to(torch.float32).contiguous()
        self.content = 0 if query_content is None else query_content.shape[-1]
        self.query = read_side(query_clock, query_variance, query_valid, query_content, cut.queries, FIELDS)
        self.key = read_side(key_clock, key_variance, key_valid, key_content, cut.keys, 1)
        self.ranges = torch.empty(
            self.batch, self.heads, self.query.tiles, 2, dtype=torch.int32, device=query_clock.device
        )
        self.flags: dict[str, Any] = {
            "WIDTH": self.width, "CONTENT": self.content, "LOG_TERM": log_term, "FIELDS": FIELDS,
            "BLOCK": cut.queries, "KEY_BLOCK": cut.keys,
        }  # fmt: skip
        query, key = self.query, self.key
        counts = key.offsets if key_valid is None else key_valid.sum(-1, dtype=torch.int32)
        if self.batch * self.heads:
            choose_tiles[(query.tiles * self.batch * self.heads,)](
                query.offsets, query.anchors, query.records, query.sums, query.statistics, query.content_norms,
                key.offsets, key.anchors, key.records, key.sums, key.statistics, key.of_mask(key.fill), counts,
                *self.contents, self.scale, self.ranges,
                *self.sizes, self.width, self.content, key.steps.bit_length(), self.spread, eps,
                -log(DROPPED) if DROPPED > 0 else inf,
                BLOCK_WIDTH=block_width(self.width), CHUNK=CHUNK, KEY_MASKED=key_valid is not None,
                **geometry.launch(geometry.choosing_warps(self.width)), **self.flags,
            )  # fmt: skip

    @property
    def contents(self) -> tuple[Any, ...]:
        query, key = self.query.content, self.key.content
        return query, *query.stride()[:3], key, *key.stride()[:3]

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.heads, self.query.steps, self.key.steps, self.query.tiles, self.key.tiles

    def widths(self, value: Tensor) -> tuple[int, ...]:
        return self.width, value.shape[-1], self.content

    @property
    def tiles(self) -> tuple[Any, ...]:
        """The arguments every kernel starts with."""
        query, key = self.query, self.key
        return (
            query.offsets, query.anchors, query.records, self.ranges, key.offsets, key.anchors, key.records,
        )  # fmt: skip

    @property
    def query_grid(self) -> tuple[int]:
        return (self.batch * self.heads * self.query.tiles,)

    @property
    def key_grid(self) -> tuple[int]:
        return (self.batch * self.heads * self.key.tiles,)


def steps_first(batch: int, heads: int, steps: int, width: int, like: Tensor) -> Tensor:
    """fp32 (B, H, L, D) laid out as (B, L, H, D): joining the heads afterwards is free."""
    return torch.empty(batch, steps, heads, width, dtype=torch.float32, device=like.device).transpose(1, 2)


@torch.library.custom_op("clock_attention::triton", mutates_args=())
def attend(
    query_clock: Tensor,
    key_clock: Tensor,
    value: Tensor,
    query_variance: Tensor,
    key_variance: Tensor,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_content: Tensor | None,
    key_content: Tensor | None,
    log_term: bool,
    eps: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (B, H, S, Dv), the rows' softmax (B, H, 3, S) and weights (B, H, S, T), or an empty tensor instead.

    All in fp32: the gradient takes the output off what it is multiplied by, and distances magnify its rounding.
    """
    width, value_width = query_clock.shape[-1], value.shape[-1]
    content_width = 0 if query_content is None else query_content.shape[-1]
    cut = geometry.tile_geometry(width, value_width, content_width, value.dtype)
    meeting = Meeting(
        query_clock, key_clock, query_variance, key_variance, query_valid, key_valid, scale, query_content,
        key_content, log_term, eps, cut,
    )  # fmt: skip
    batch, heads, queries, keys = meeting.batch, meeting.heads, meeting.query.steps, meeting.key.steps
    value = last_dim_contiguous(value)
    out = steps_first(batch, heads, queries, value_width, value)
    softmax = torch.empty(batch, heads, SOFTMAX, queries, dtype=torch.float32, device=value.device)
    weights = torch.empty((batch, heads, queries, keys) if return_weights else 0, device=value.device)
    if batch * heads:
        products = {"CHANNELS": geometry.CHANNELS, "PRECISION": geometry.precision()}
        attend_tile[meeting.query_grid](
            *meeting.tiles, value, *value.stride()[:3], *meeting.contents, meeting.scale, out, *out.stride()[:3],
            softmax, *meeting.sizes, *meeting.widths(value), meeting.spread, eps,
            VALUE=value_width, BLOCK_VALUE=block_width(value_width), **meeting.flags, **products,
            **geometry.launch(cut.forward_warps),
        )  # fmt: skip
        if return_weights:
            write_weights[(meeting.query_grid[0] * meeting.key.tiles,)](
                *meeting.tiles, *meeting.contents, meeting.scale, softmax, weights, *meeting.sizes,
                *meeting.widths(value), meeting.spread, eps,
                **meeting.flags, **products, **geometry.launch(cut.forward_warps),
            )  # fmt: skip
    return out, softmax, weights


@attend.register_fake
def _(  # type: ignore[no-untyped-def]
    query_clock, key_clock, value, query_variance, key_variance, query_valid, key_valid, scale, query_content,
    key_content, log_term, eps, return_weights,
):  # fmt: skip
    batch, heads, queries, _ = query_clock.shape
    softmax = value.new_empty(batch, heads, SOFTMAX, queries, dtype=torch.float32)
    weights_shape = (batch, heads, queries, key_clock.shape[2]) if return_weights else (0,)
    weights = value.new_empty(weights_shape, dtype=torch.float32)
    return steps_first(batch, heads, queries, value.shape[-1], value), softmax, weights


@torch.library.custom_op("clock_attention::triton_backward", mutates_args=())
def attend_backward(
    grad_out: Tensor,
    grad_weights: Tensor | None,
    out: Tensor,
    softmax: Tensor,
    weights: Tensor,
    query_clock: Tensor,
    key_clock: Tensor,
    value: Tensor,
    query_variance: Tensor,
    key_variance: Tensor,
    query_valid: Tensor | None,
    key_valid: Tensor | None,
    scale: Tensor,
    query_content: Tensor | None,
    key_content: Tensor | None,
    log_term: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of both clocks, the value, both variances, scale and both contents (empty where there are none)."""
    width, value_width = query_clock.shape[-1], value.shape[-1]
    content_width = 0 if query_content is None else query_content.shape[-1]
    cut = geometry.tile_geometry(width, value_width, content_width, value.dtype)
    meeting = Meeting(
        query_clock, key_clock, query_variance, key_variance, query_valid, key_valid, scale, query_content,
        key_content, log_term, eps, cut,
    )  # fmt: skip
    value, grad_out = last_dim_contiguous(value), last_dim_contiguous(grad_out)
    by_query, by_key = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (query_clock, key_clock))
    by_query_variance, by_key_variance = (
        torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (query_variance, key_variance)
    )
    by_value = torch.empty(value.shape, dtype=value.dtype, device=value.device)
    by_contents = [
        value.new_empty(0) if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for x in (query_content, key_content)
    ]
    batch, heads = meeting.batch, meeting.heads
    by_scale = value.new_empty(batch, heads, meeting.query.tiles, dtype=torch.float32)
    if batch * heads:
        flags = {
            "VALUE": value_width, "BLOCK_VALUE": block_width(value_width), "BLOCK_WIDTH": block_width(width),
            "BLOCK_CONTENT": block_width(max(content_width, 1)), "CHANNELS": geometry.CHANNELS,
            "WEIGHTS": grad_weights is not None, "PRECISION": geometry.precision(),
        }  # fmt: skip
        pull_of_weights, grad_weights = softmax, softmax if grad_weights is None else grad_weights.contiguous()
        if flags["WEIGHTS"]:
            pull_of_weights = (weights * grad_weights).sum(-1)
        shared = (*meeting.tiles, value, *value.stride()[:3], *meeting.contents, meeting.scale)
        sizes = (*meeting.sizes, *meeting.widths(value), meeting.spread, eps)
        query_gradients[meeting.query_grid](
            *shared, out, *out.stride()[:3], grad_out, *grad_out.stride()[:3], softmax, pull_of_weights,
            grad_weights, by_query, by_query_variance, by_contents[0], by_scale, *sizes,
            **flags, **meeting.flags, **geometry.launch(cut.query_warps),
        )  # fmt: skip
        for values, clocks in [(True, True)] if cut.keys_at_once else [(True, False), (False, True)]:
            key_gradients[meeting.key_grid](  # reads what the other left in the records
                *shared, grad_out, *grad_out.stride()[:3], softmax, grad_weights, by_key, by_key_variance,
                by_value, by_contents[1], *sizes, CHUNK=CHUNK, VALUES=values, CLOCKS=clocks,
                **flags, **meeting.flags, **geometry.launch(cut.key_warps),
            )  # fmt: skip
    total = by_scale.sum((0, 2)).to(scale.dtype)
    return by_query, by_key, by_value, by_query_variance, by_key_variance, total, by_contents[0], by_contents[1]


@attend_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    grad_out, grad_weights, out, softmax, weights, query_clock, key_clock, value, query_variance, key_variance,
    query_valid, key_valid, scale, query_content, key_content, log_term, eps,
):  # fmt: skip
    like = (query_clock, key_clock, value, query_variance, key_variance, scale)
    grads = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in like]
    contents = [
        value.new_empty(0) if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for x in (query_content, key_content)
    ]
    return *grads, *contents


def differentiate_twice(ctx, *grads):  # type: ignore[no-untyped-def]
    raise NotImplementedError("impl='triton' has no second derivatives: use impl='portable' or 'reference' for them")


attend_backward.register_autograd(differentiate_twice)


def remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    *tensors, ctx.log_term, ctx.eps, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *tensors)


def differentiate(ctx, grad_out, grad_softmax, grad_weights):  # type: ignore[no-untyped-def]
    if grad_weights is not None and grad_weights.dim() != 4:
        grad_weights = None  # a compiled graph has gradients also for the empty tensor that stands for no weights
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
