"""Both sequences of a call in the form that the kernels read, and the arguments that every kernel takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

import torch
import triton
from torch import Tensor

from clock_attention.kernels.triton import geometry
from clock_attention.kernels.triton.geometry import block_width
from clock_attention.kernels.triton.readings import choose_tiles, read_clock

DROPPED = 2.0**-24  # of a row's weight, at most
CHUNK = 16  # tiles processed together
FIELDS = 4  # of a query's record: variance, floor, pull, even pull


@dataclass
class Operands:
    """Arguments of the Triton operator and its gradient, in this order."""

    query_clock: Tensor  # fp64 (B, H, S, D)
    key_clock: Tensor  # fp64 (B, H, T, D)
    value: Tensor  # (B, H, T, Dv)
    query_variance: Tensor  # fp32 (B, H, S)
    key_variance: Tensor  # fp32 (B, H, T)
    query_valid: Tensor | None  # bool (B, S)
    key_valid: Tensor | None  # bool (B, T)
    scale: Tensor  # (H,)
    query_content: Tensor | None  # (B, H, S, C)
    key_content: Tensor | None  # (B, H, T, C)
    log_term: bool
    eps: float


@dataclass
class Side:
    """One sequence as the Triton kernels read it: see `readings.read_clock`."""

    steps: int
    tiles: int
    offsets: Tensor  # fp32 (B, H, D, tiles · block)
    anchors: Tensor  # fp32 (B, H, tiles, D)
    records: Tensor  # fp32 (B, H, fields, tiles · block): variance and, for queries, three more
    sums: Tensor  # fp32 (B, H, tiles · block)
    statistics: Tensor  # fp32 (B, H, tiles, 4)
    content: Tensor  # (B, H, L, C), or anything where there is none
    content_norms: Tensor  # fp32 (B, H, tiles · block)
    fill: Tensor | None  # int32 (B, L): the valid step whose reading a step shows

    def of_mask(self, other: Tensor | None) -> Tensor:
        """A pointer for the compiler where there is no mask; it is never followed."""
        return self.offsets if other is None else other


def last_dim_contiguous(x: Tensor) -> Tensor:
    """A tensor as the Triton kernels read it, its last dimension contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def valid_step_before(valid: Tensor) -> Tensor:
    """Last valid step up to each step, or the first one; 0 without any, for the Triton kernels.  int32 (B, L)"""
    places = torch.arange(valid.shape[-1], dtype=torch.int32, device=valid.device)
    last = torch.where(valid, places, -1).cummax(-1).values
    return torch.where(last < 0, valid.to(torch.uint8).argmax(-1, keepdim=True).to(torch.int32), last).contiguous()


def read_side(
    clock: Tensor, variance: Tensor, valid: Tensor | None, content: Tensor | None, block: int, fields: int
) -> Side:
    """Read one sequence for the Triton kernels: launch `read_clock` for every tile."""
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
        read_clock[(tiles, heads, batch)](
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
    """Both sequences of a Triton call as read, the chosen floors and tile ranges, and the arguments of all kernels."""

    def __init__(self, given: Operands) -> None:
        self.batch, self.heads, _, self.width = given.query_clock.shape
        self.value, self.eps, self.spread = last_dim_contiguous(given.value), given.eps, 2 * sqrt(self.width)
        self.value_width = self.value.shape[-1]
        self.content_width = 0 if given.query_content is None else given.query_content.shape[-1]
        self.cut = cut = geometry.tile_geometry(self.width, self.value_width, self.content_width, self.value.dtype)
        self.scale = given.scale.to(torch.float32).contiguous()
        self.query = read_side(
            given.query_clock, given.query_variance, given.query_valid, given.query_content, cut.queries, FIELDS
        )
        self.key = read_side(given.key_clock, given.key_variance, given.key_valid, given.key_content, cut.keys, 1)
        self.ranges = torch.empty(
            self.batch, self.heads, self.query.tiles, 2, dtype=torch.int32, device=self.value.device
        )
        self.flags: dict[str, Any] = {
            "WIDTH": self.width, "CONTENT": self.content_width, "LOG_TERM": given.log_term, "FIELDS": FIELDS,
            "BLOCK": cut.queries, "KEY_BLOCK": cut.keys,
        }  # fmt: skip
        self.products = {"CHANNELS": geometry.CHANNELS, "PRECISION": geometry.precision()}
        self.blocks = {
            "BLOCK_WIDTH": block_width(self.width), "VALUE": self.value_width,
            "BLOCK_VALUE": block_width(self.value_width), "BLOCK_CONTENT": block_width(max(self.content_width, 1)),
        }  # fmt: skip
        if self.batch * self.heads:
            self.choose_tiles(given.key_valid)

    def choose_tiles(self, key_valid: Tensor | None) -> None:
        query, key = self.query, self.key
        counts = key.offsets if key_valid is None else key_valid.sum(-1, dtype=torch.int32)
        choose_tiles[self.query_grid](
            query.offsets, query.anchors, query.records, query.sums, query.statistics, query.content_norms,
            key.offsets, key.anchors, key.records, key.sums, key.statistics, key.of_mask(key.fill), counts,
            *self.contents, self.scale, self.ranges,
            *self.sizes, self.width, self.content_width, key.steps.bit_length(), self.spread, self.eps,
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

    @property
    def clocks(self) -> tuple[Tensor, ...]:
        """The arguments every kernel starts with."""
        query, key = self.query, self.key
        return (
            query.offsets, query.anchors, query.records, self.ranges, key.offsets, key.anchors, key.records,
        )  # fmt: skip

    @property
    def operands(self) -> tuple[Any, ...]:
        """The clocks and everything that is multiplied."""
        return (*self.clocks, self.value, *self.value.stride()[:3], *self.contents, self.scale)

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The arguments every kernel ends with."""
        return (*self.sizes, self.width, self.value_width, self.content_width, self.spread, self.eps)

    @property
    def query_grid(self) -> tuple[int, int, int]:
        return (self.query.tiles, self.heads, self.batch)

    @property
    def key_grid(self) -> tuple[int, int, int]:
        return (self.key.tiles, self.heads, self.batch)
