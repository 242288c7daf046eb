"""The operations of `simd` in NumPy, for running the kernel without a compiler (NUMBA_DISABLE_JIT=1).

Pointers are real addresses, so the same tables of addresses serve both. Products and sums are never fused here, which
is the only difference from the compiled code.
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
    """NumPy stand-in for a typed pointer of `simd`."""

    address: int
    dtype: np.dtype


def kind_of(like: Any) -> np.dtype:
    """The dtype of a number or array, for the NumPy stand-ins of `simd`."""
    return np.asarray(like).dtype


def pointer(address: int, like: Any) -> Pointer:
    """NumPy stand-in for `simd.pointer`."""
    return Pointer(int(address), kind_of(like))


def shift(base: Pointer, count: int) -> Pointer:
    """NumPy stand-in for `simd.shift`."""
    return Pointer(base.address + int(count) * base.dtype.itemsize, base.dtype)


def is_null(base: Pointer) -> bool:
    """NumPy stand-in for `simd.is_null`."""
    return base.address == 0


def null_like(base: Pointer) -> Pointer:
    """NumPy stand-in for `simd.null_like`."""
    return Pointer(0, base.dtype)


def view(base: Pointer, index: int, count: int) -> NDArray[Any]:
    """A view of the memory, not a copy, for the NumPy stand-ins of `simd`."""
    held = (C_TYPES[base.dtype] * count).from_address(shift(base, index).address)
    return np.frombuffer(held, base.dtype)


def get(base: Pointer, index: int) -> Any:
    """NumPy stand-in for `simd.get`."""
    return view(base, index, 1)[0]


def put(base: Pointer, index: int, value: Any) -> None:
    """NumPy stand-in for `simd.put`."""
    view(base, index, 1)[0] = value


def load(base: Pointer, index: int) -> Lanes:
    """NumPy stand-in for `simd.load`."""
    return view(base, index, LANES).copy()


def prefetch(base: Pointer, index: int) -> None:
    """NumPy stand-in for `simd.prefetch`: does nothing."""
    pass


def store(base: Pointer, index: int, lanes: Lanes) -> None:
    """NumPy stand-in for `simd.store`."""
    assert lanes.dtype == base.dtype
    view(base, index, LANES)[:] = lanes


def splat(value: Any, like: Any) -> Lanes:
    """NumPy stand-in for `simd.splat`."""
    return np.full(LANES, value, kind_of(like))


def cast(lanes: Lanes, like: Any) -> Lanes:
    """NumPy stand-in for `simd.cast`."""
    return lanes.astype(kind_of(like))


def fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """NumPy stand-in for `simd.fma`, not fused."""
    return a * b + c


def add(a: Lanes, b: Lanes) -> Lanes:
    """NumPy stand-in for `simd.add`."""
    return a + b


def subtract(a: Lanes, b: Lanes) -> Lanes:
    """NumPy stand-in for `simd.subtract`."""
    return a - b


def larger(a: Lanes, b: Lanes) -> Lanes:
    """NumPy stand-in for `simd.larger`."""
    return np.where(a > b, a, b)


def smaller(a: Lanes, b: Lanes) -> Lanes:
    """NumPy stand-in for `simd.smaller`."""
    return np.where(a < b, a, b)


def absolute(a: Lanes) -> Lanes:
    """NumPy stand-in for `simd.absolute`."""
    return np.abs(a)


def root(a: Lanes) -> Lanes:
    """NumPy stand-in for `simd.root`."""
    return np.sqrt(a)


def keep_from(a: Lanes, threshold: Lanes, x: Lanes) -> Lanes:
    """NumPy stand-in for `simd.keep_from`."""
    return np.where(a >= threshold, x, x.dtype.type(0))


def keep_first(x: Lanes, count: int, fill: float) -> Lanes:
    """NumPy stand-in for `simd.keep_first`."""
    return np.where(np.arange(LANES) < count, x, x.dtype.type(fill))


def total(x: Lanes) -> Any:
    """NumPy stand-in for `simd.total`: the lanes are added in the same order."""
    for width in (4, 2, 1):
        x = x + np.roll(x, -width)
    return x[0]


def largest(x: Lanes) -> Any:
    """NumPy stand-in for `simd.largest`."""
    for width in (4, 2, 1):
        x = larger(x, np.roll(x, -width))
    return x[0]


def exponential(x: Lanes) -> Lanes:
    """NumPy stand-in for `simd.exponential`."""
    if x.dtype == np.float64:
        return np.exp(x)
    return np.where(x > -87.0, np.exp(np.minimum(x, np.float32(88.0))), np.float32(0))


def logarithm(x: Lanes) -> Lanes:
    """NumPy stand-in for `simd.logarithm`."""
    return np.log(x)


def transpose(*rows: Lanes) -> tuple[Lanes, ...]:
    """NumPy stand-in for `simd.transpose`."""
    return tuple(np.stack(rows).T.copy())


def take_ticket(counter: Pointer) -> int:
    """NumPy stand-in for `simd.take_ticket`: one thread, so nothing is atomic."""
    ticket = int(get(counter, 0))
    put(counter, 0, ticket + 1)
    return ticket
