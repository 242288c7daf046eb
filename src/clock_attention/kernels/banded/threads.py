"""Compiled entry points, and torch's own threads to run them on.

Torch keeps a team of OpenMP threads, which spin for a while after every operation. A second pool would compete with it
for the same cores, so the compiled code runs on torch's team wherever its runtime can be called (`GOMP_parallel`, in
the libgomp that torch brings along), and otherwise on a pool of Python threads.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from clock_attention.kernels.banded import tasks

logger = logging.getLogger("clock_attention")
compiling = threading.Lock()
entries: dict[tuple[bool, bool], Any] = {}


def entry(backward: bool, double: bool) -> Any:
    """The compiled code that threads run, for one direction and precision; the first use logs how long it took."""
    if (backward, double) not in entries:
        with compiling:
            if (backward, double) not in entries:
                name = f"banded kernel ({'backward' if backward else 'forward'}, float{64 if double else 32})"
                logger.info("preparing the %s: compiled once, then read from Numba's cache", name)
                start = time.perf_counter()
                compiled = without_collection(tasks.compile_entry, backward, double)
                logger.info("%s ready after %.1f s", name, time.perf_counter() - start)
                entries[backward, double] = compiled
    return entries[backward, double]


def without_collection(function: Callable, *arguments: Any) -> Any:
    """Compile without garbage collection: Numba makes millions of small objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function(*arguments)
    finally:
        if enabled:
            gc.enable()


@lru_cache(maxsize=1)
def team() -> Callable | None:
    """libgomp's entry point to the threads that torch uses, if it is loaded in this process."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


@lru_cache(maxsize=4)
def pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Pool of Python threads, used where there is no libgomp. One per process: threads do not survive a fork."""
    return ThreadPoolExecutor(threads, thread_name_prefix="clock-attention")


def run_entry(table: np.ndarray, backward: bool, double: bool, threads: int) -> None:
    """Run the compiled code on this many threads and wait; every one of them draws tasks from the table."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        tasks.run_in_python(table, backward, double)
        return
    compiled = entry(backward, double)
    if threads > 1 and (parallel := team()) is not None:
        parallel(compiled.address, table.ctypes.data, threads, 0)
        return
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled.address)
    if threads == 1:
        call(table.ctypes.data)
    else:
        list(pool(os.getpid(), threads).map(call, [table.ctypes.data] * threads))
