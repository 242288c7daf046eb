"""Prefetching for training: loads the next batch while the device computes the current one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from clock_attention.speech.training.batching import Batches, Plan


class Prefetch:
    """Training batches by step; the next one is prefetched in a thread.

    The contents of a batch depend only on the seed and the step, so prefetching only saves time, and a resumed run sees
    the same batches. On the CPU, loading would compete with the training step, so prefetching is off there.
    """

    def __init__(
        self, batches: Batches, rank: int, world: int, device: torch.device, *, ahead: bool | None = None
    ) -> None:
        self.batches, self.rank, self.world, self.device = batches, rank, world, device
        self.ahead = device.type != "cpu" if ahead is None else ahead
        self._pool = ThreadPoolExecutor(1, "batches") if self.ahead else None
        self._next: tuple[int, Plan, Future[Any]] | None = None

    def take(self, step: int) -> tuple[Plan, Any]:
        """The plan of the whole batch, and this process's share of it on the device."""
        if self._pool is None:
            plan = self.batches.plan(step)
            return plan, self._load(plan).to(self.device)
        if self._next is None or self._next[0] != step:
            self._next = self._start(step, self._pool.submit)
        _, plan, loading = self._next
        batch = loading.result()
        # Planning stays in this thread, because the log queries the same object for the epoch.
        self._next = self._start(step + 1, self._pool.submit)
        return plan, batch.to(self.device)

    def _start(self, step: int, submit: Callable[..., Future[Any]]) -> tuple[int, Plan, Future[Any]]:
        plan = self.batches.plan(step)
        return step, plan, submit(self._load, plan)

    def _load(self, plan: Plan) -> Any:
        batch = self.batches.load(plan.share(self.rank, self.world))
        # `non_blocking` copies only overlap with computation if memory is pinned.
        return type(batch)(*(tensor.pin_memory() for tensor in batch)) if self.device.type == "cuda" else batch

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
