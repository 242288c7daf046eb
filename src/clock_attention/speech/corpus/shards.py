"""Run shards of work in several processes, so that an interrupted command continues where it stopped.

Work is cut into shards of consecutive items. A worker writes a shard's files and its table last, atomically; a shard
with a table is done and never repeated.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from clock_attention.processes import become_worker


@dataclass(frozen=True)
class Progress:
    """Progress after each shard, for a progress bar."""

    items: int
    rejected: int
    seconds: float
    resumed: bool


class ShardWorker(Protocol):
    """Turns shards of items into files. One per process; models are loaded once."""

    def shard(self, number: int, items: Sequence[Any]) -> Progress: ...


MakeWorker = Callable[[], ShardWorker]  # must be picklable: it is called in the worker process
Shards = Iterator[tuple[int, Sequence[Any]]]
Finish = Callable[[int, Progress], None]

_worker: ShardWorker | None = None


def run_shards(make: MakeWorker, todo: Shards, finish: Finish, workers: int) -> None:
    """Run shards in `workers` processes; `finish` is called in this process, in the order in which they end."""
    if workers <= 1:
        run_here(make, todo, finish)
    else:
        run_in_pool(make, todo, finish, workers)


def run_here(make: MakeWorker, todo: Shards, finish: Finish) -> None:
    """Run shards in this process: a single worker needs no other."""
    worker: ShardWorker | None = None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a pool: sums are split by thread, and the result must not depend on that
    try:
        for number, items in todo:
            worker = worker or make()
            finish(number, worker.shard(number, items))
    finally:
        torch.set_num_threads(threads)


def run_in_pool(make: MakeWorker, todo: Shards, finish: Finish, workers: int) -> None:
    """Run shards in a pool of processes, with few in flight."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, start_worker, (make,)) as pool:
        running: dict[Future[Progress], int] = {}
        exhausted = False
        while True:
            # Few shards in flight: a stop by `hours` or by the user should not wait for a long queue.
            while not exhausted and len(running) <= workers:
                shard = next(todo, None)
                exhausted = shard is None
                if shard is not None:
                    running[pool.submit(run_shard, *shard)] = shard[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finish(running.pop(future), future.result())


def start_worker(make: MakeWorker) -> None:
    """Create the worker in a process that runs shards."""
    global _worker
    become_worker()
    _worker = make()


def run_shard(number: int, items: Sequence[Any]) -> Progress:
    """Run one shard in a worker process."""
    assert _worker is not None
    return _worker.shard(number, items)
