"""The table passed to the compiled code: one record of sizes, numbers, tensors and scratch memory, all by name.

Python fills it (`Call`), compiled code reads it (`call.queries`, `call.query.step`): both get their offsets from the
dtype below. A block of scratch memory belongs to a head being processed, to a thread, or to a chunk of a head's
queries, and holds a given number of values for each of them.
"""

from __future__ import annotations

import threading
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from clock_attention.kernels.banded.clocks import ANCHOR
from clock_attention.kernels.banded.gradients import AVERAGES
from clock_attention.kernels.banded.simd import LANES
from clock_attention.kernels.banded.tiles import ROWS, TILE

INTEGERS = (
    "tickets", "tasks", "phases", "split", "heads", "queries", "keys", "channels", "width", "value_width",
    "content_width", "chunks", "chunk_rows", "query_kind", "key_kind", "phi", "log_term",
)  # fmt: skip
FLOATS = ("eps", "drop", "spread")
STRIDED = (  # (B, H, L, channels): address and strides of batch, head and step; channels are contiguous
    "query", "key", "value", "content_query", "content_key", "out", "grad_out", "grad_query", "grad_key", "grad_value",
    "grad_content_query", "grad_content_key",
)  # fmt: skip
PLAIN = (  # contiguous, address 0 where there is none
    "query_valid", "key_valid", "given_query_variance", "given_key_variance", "scale", "softmax", "bands", "weights",
    "grad_weights", "grad_query_variance", "grad_key_variance", "grad_scale",
)  # fmt: skip
SCRATCH = {  # name: (who has one, type)
    # fp64 of a head: λ_t and its sums over channels, readings every ANCHOR steps, 1/total of both clocks
    "clock": ("head", "wide"), "sums": ("head", "wide"), "anchors": ("head", "wide"),
    "query_factors": ("head", "wide"), "key_factors": ("head", "wide"), "content_reach": ("head", "wide"),
    # working precision of a head
    "offsets": ("head", "work"), "query_statistics": ("head", "work"), "key_statistics": ("head", "work"),
    "query_variance": ("head", "work"), "key_variance": ("head", "work"), "grad_clock": ("head", "work"),
    # valid steps of a head
    "counts": ("head", "step"), "query_index": ("head", "step"), "key_index": ("head", "step"),
    # of a thread: the tiles of keys that are packed, and one block of queries
    "packed": ("thread", "step"), "centre": ("thread", "wide"), "key_rows": ("thread", "work"),
    "key_columns": ("thread", "work"), "query_rows": ("thread", "work"), "query_columns": ("thread", "work"),
    "content_key_columns": ("thread", "work"), "content_query_rows": ("thread", "work"),
    "content_query_columns": ("thread", "work"), "products": ("thread", "work"), "logits": ("thread", "work"),
    "peaks": ("thread", "work"), "softmax_rows": ("thread", "work"), "result": ("thread", "work"),
    # of a thread, gradients only
    "content_key_rows": ("thread", "work"), "value_columns": ("thread", "work"),
    "grad_rows": ("thread", "work"), "grad_columns": ("thread", "work"),
    "pulls": ("thread", "work"), "slopes": ("thread", "work"), "inverses": ("thread", "work"),
    "averages": ("thread", "work"), "pull_rows": ("thread", "work"),
    "pull_keys": ("thread", "work"), "deltas": ("thread", "work"), "variance_rows": ("thread", "work"),
    # of a chunk of queries, gradients only: what it adds to every key
    "chunk_grad_clock": ("chunk", "work"), "chunk_grad_value": ("chunk", "work"),
    "chunk_grad_variance": ("chunk", "work"), "chunk_grad_content": ("chunk", "work"),
}  # fmt: skip

TENSOR_RECORD = np.dtype([(name, np.int64) for name in ("address", "batch", "head", "step")])
SCRATCH_RECORD = np.dtype([(name, np.int64) for name in ("address", "numbers")])
CALL = np.dtype(
    [(name, np.int64) for name in INTEGERS]
    + [(name, np.float64) for name in FLOATS]
    + [(name, TENSOR_RECORD) for name in STRIDED]
    + [(name, np.int64) for name in PLAIN]
    + [(name, SCRATCH_RECORD) for name in SCRATCH]
)

KEPT_SCRATCH = 2**25  # bytes
WHOLE = 2 * LANES  # channels are padded to a multiple of this: a cache line of fp32
memory = threading.local()


def whole_vectors(x: Tensor) -> Tensor:
    """A tensor for the table of a call: its channels contiguous, padded with zeros to a multiple of WHOLE."""
    spare = -x.shape[-1] % WHOLE
    if spare:
        return torch.nn.functional.pad(x, (0, spare))
    return x if x.stride(-1) == 1 else x.contiguous()


def scratch_memory(size: int) -> Tensor:
    """Scratch memory of one call, in bytes. Every thread keeps a small buffer: fresh pages cost more than the work."""
    kept = getattr(memory, "scratch", None)
    if kept is not None and kept.numel() >= size:
        return kept
    fresh = torch.empty(size, dtype=torch.uint8)
    if size <= KEPT_SCRATCH:
        memory.scratch = fresh
    return fresh


class Call:
    """The table of one call, and the tensors that must outlive it."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, content: tuple[Tensor, Tensor] | None, *, backward: bool
    ) -> None:
        self.table = np.zeros(1, CALL)
        self.held: list[Tensor] = []
        self.work, self.backward = value.dtype, backward
        batch, heads, queries, channels = query.shape
        self.items, self.threads = batch * heads, torch.get_num_threads()
        self.share_out(queries)
        widths = (channels, value.shape[-1], 0 if content is None else content[0].shape[-1])
        self.width, self.value_width, self.content_width = (width + -width % WHOLE for width in widths)
        self.set(
            split=self.chunks > 1, heads=heads, queries=queries, keys=key.shape[2], channels=channels, width=self.width,
            value_width=self.value_width, content_width=self.content_width, chunks=self.chunks,
            spread=2 * sqrt(channels),
        )  # fmt: skip
        self.strided("query", query)
        self.strided("key", key)
        self.strided("value", value)
        if content is not None:
            self.strided("content_query", content[0])
            self.strided("content_key", content[1])
        self.scratch(queries, key.shape[2])

    def share_out(self, queries: int) -> None:
        """Use whole heads as tasks, or chunks of their queries where heads are too few to keep all threads busy."""
        self.chunks = 1
        if self.items < 4 * self.threads and self.items % self.threads:
            self.chunks = min(-(-queries // ANCHOR), 2 * self.threads)
        chunk_rows = -(-queries // (self.chunks * ANCHOR)) * ANCHOR
        self.chunks = -(-queries // chunk_rows)
        self.set(chunk_rows=chunk_rows)

    def set(self, **entries: float) -> None:
        for name, entry in entries.items():
            self.table[name] = entry

    def hold(self, tensor: Tensor) -> Tensor:
        self.held.append(tensor)
        return tensor

    def plain(self, name: str, tensor: Tensor | None) -> None:
        """A contiguous tensor, or null."""
        self.set(**{name: 0 if tensor is None else self.hold(tensor.contiguous()).data_ptr()})

    def strided(self, name: str, tensor: Tensor) -> None:
        tensor = self.hold(whole_vectors(tensor))
        self.table[name] = (tensor.data_ptr(), *tensor.stride()[:3])

    def scratch(self, queries: int, keys: int) -> None:
        """Uninitialised memory for every block, in one allocation."""
        back = int(self.backward)
        key_rows, query_rows = -(-keys // TILE) * TILE, -(-queries // ROWS) * ROWS
        width, value_width, content_width = self.width, self.value_width, self.content_width
        sizes = {
            "clock": key_rows * width, "sums": key_rows, "anchors": (max(queries, keys) // ANCHOR + 1) * width,
            "query_factors": width, "key_factors": width, "content_reach": 2,
            "offsets": (max(queries, keys) + ROWS) * width, "query_statistics": 3 * width, "key_statistics": 3 * width,
            "query_variance": query_rows, "key_variance": key_rows, "grad_clock": back * query_rows * width,
            "counts": 2, "query_index": queries, "key_index": keys,
            "packed": key_rows // TILE, "centre": width, "key_rows": key_rows * width, "key_columns": key_rows * width,
            "query_rows": ROWS * width, "query_columns": ROWS * width,
            "content_key_columns": key_rows * content_width, "content_query_rows": ROWS * content_width,
            "content_query_columns": ROWS * content_width, "products": ROWS * TILE, "logits": ROWS * key_rows,
            "peaks": ROWS * LANES, "softmax_rows": 2 * ROWS, "result": ROWS * max(width, value_width, content_width),
            "content_key_rows": back * key_rows * content_width, "value_columns": back * key_rows * value_width,
            "grad_rows": back * ROWS * value_width, "grad_columns": back * ROWS * value_width,
            "pulls": back * ROWS * key_rows,
            "slopes": back * ROWS * key_rows, "inverses": back * ROWS * key_rows,
            "averages": back * AVERAGES * ROWS * LANES, "pull_rows": back * ROWS * LANES,
            "pull_keys": back * key_rows, "deltas": back * ROWS, "variance_rows": back * ROWS,
            "chunk_grad_clock": back * key_rows * width, "chunk_grad_value": back * key_rows * value_width,
            "chunk_grad_variance": back * key_rows, "chunk_grad_content": back * key_rows * content_width,
        }  # fmt: skip
        homes = self.items if self.chunks > 1 else self.threads
        owners = {"head": homes, "thread": self.threads, "chunk": homes * self.chunks}
        itemsizes = {"wide": 8, "step": 8, "work": self.work.itemsize}
        places, end = {}, 0
        for name, (owner, kind) in SCRATCH.items():
            places[name] = end
            end += -(-owners[owner] * sizes[name] * itemsizes[kind] // 64) * 64
        start = self.hold(scratch_memory(end)).data_ptr()
        for name, place in places.items():
            self.table[name] = (start + place, sizes[name])
