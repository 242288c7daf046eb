"""The operations of `simd` in NumPy, for running the kernel without a compiler (NUMBA_DISABLE_JIT=1).

Pointers are real addresses, so the same tables of addresses serve both. Products and sums are never fused here, which
is the only difference to the compiled code.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 8
Lanes = NDArray[Any]
C_TYPES: dict[np.dtype, Any] = {
    np.dtype(np.float32): ctypes.c_float,
    np.dtype(np.float64): ctypes.c_double,
    np.dtype(np.int64): ctypes.c_int64,
    np.dtype(np.uint8): ctypes.c_uint8,
}
OPERATIONS = (
    "absolute", "add", "cast", "exponential", "fma", "get", "is_null", "keep_first", "keep_from", "larger", "largest",
    "load", "logarithm", "null_like", "pointer", "prefetch", "put", "root", "shift", "smaller", "splat", "store",
    "subtract", "take_ticket", "total", "transpose",
)  # fmt: skip


class Pointer(NamedTuple):
    address: int
    dtype: np.dtype


def kind_of(like: Any) -> np.dtype:
    return np.asarray(like).dtype


def pointer(address: int, like: Any) -> Pointer:
    return Pointer(int(address), kind_of(like))


def shift(base: Pointer, count: int) -> Pointer:
    return Pointer(base.address + int(count) * base.dtype.itemsize, base.dtype)


def is_null(base: Pointer) -> bool:
    return base.address == 0


def null_like(base: Pointer) -> Pointer:
    return Pointer(0, base.dtype)


def view(base: Pointer, index: int, count: int) -> NDArray[Any]:
    """Memory itself, not a copy."""
    held = (C_TYPES[base.dtype] * count).from_address(shift(base, index).address)
    return np.frombuffer(held, base.dtype)


def get(base: Pointer, index: int) -> Any:
    return view(base, index, 1)[0]


def put(base: Pointer, index: int, value: Any) -> None:
    view(base, index, 1)[0] = value


def load(base: Pointer, index: int) -> Lanes:
    return view(base, index, LANES).copy()


def prefetch(base: Pointer, index: int) -> None:
    pass


def store(base: Pointer, index: int, lanes: Lanes) -> None:
    assert lanes.dtype == base.dtype
    view(base, index, LANES)[:] = lanes


def splat(value: Any, like: Any) -> Lanes:
    return np.full(LANES, value, kind_of(like))


def cast(lanes: Lanes, like: Any) -> Lanes:
    return lanes.astype(kind_of(like))


def fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return a * b + c


def add(a: Lanes, b: Lanes) -> Lanes:
    return a + b


def subtract(a: Lanes, b: Lanes) -> Lanes:
    return a - b


def larger(a: Lanes, b: Lanes) -> Lanes:
    return np.where(a > b, a, b)


def smaller(a: Lanes, b: Lanes) -> Lanes:
    return np.where(a < b, a, b)


def absolute(a: Lanes) -> Lanes:
    return np.abs(a)


def root(a: Lanes) -> Lanes:
    return np.sqrt(a)


def keep_from(a: Lanes, threshold: Lanes, x: Lanes) -> Lanes:
    return np.where(a >= threshold, x, x.dtype.type(0))


def keep_first(x: Lanes, count: int, fill: float) -> Lanes:
    return np.where(np.arange(LANES) < count, x, x.dtype.type(fill))


def total(x: Lanes) -> Any:
    for width in (4, 2, 1):
        x = x + np.roll(x, -width)
    return x[0]


def largest(x: Lanes) -> Any:
    for width in (4, 2, 1):
        x = larger(x, np.roll(x, -width))
    return x[0]


def exponential(x: Lanes) -> Lanes:
    if x.dtype == np.float64:
        return np.exp(x)
    return np.where(x > -87.0, np.exp(np.minimum(x, np.float32(88.0))), np.float32(0))


def logarithm(x: Lanes) -> Lanes:
    return np.log(x)


def transpose(*rows: Lanes) -> tuple[Lanes, ...]:
    return tuple(np.stack(rows).T.copy())


def take_ticket(counter: Pointer) -> int:
    ticket = int(get(counter, 0))
    put(counter, 0, ticket + 1)
    return ticket
