"""Vectors of eight numbers: the compiled operations are those of NumPy (`simd_numpy`), edge cases included."""

import numba
import numpy as np
import pytest

from clock_attention.kernels.banded import simd, simd_numpy

BINARY = ("add", "subtract", "larger", "smaller")


@numba.njit(error_model="numpy")
def compiled(source, target, like):
    """Every operation once: eight numbers of `target` each."""
    x, y = simd.pointer(source, like), simd.pointer(target, like)
    a, b = simd.load(x, 0), simd.load(x, 8)
    simd.store(y, 0, simd.absolute(a))
    simd.store(y, 8, simd.root(simd.absolute(a)))
    simd.store(y, 16, simd.exponential(a))
    simd.store(y, 24, simd.logarithm(simd.absolute(a)))
    simd.store(y, 32, simd.add(a, b))
    simd.store(y, 40, simd.subtract(a, b))
    simd.store(y, 48, simd.larger(a, b))
    simd.store(y, 56, simd.smaller(a, b))
    simd.store(y, 64, simd.keep_from(a, b, a))
    simd.store(y, 72, simd.keep_first(a, 3, -1.0))
    simd.store(y, 80, simd.splat(simd.total(a), like))
    simd.store(y, 88, simd.splat(simd.largest(b), like))
    simd.put(y, 96, simd.get(simd.shift(x, 3), 2))
    simd.put(y, 97, like if simd.is_null(simd.null_like(x)) else x[0])
    rows = simd.transpose(a, b, a, b, a, b, a, b)
    for i in range(8):
        simd.store(y, 104 + 8 * i, rows[i])


def simulate(source, dtype):
    a, b = source[:8], source[8:]
    like, address = dtype(1), simd_numpy.pointer(source.ctypes.data, source[0])
    with np.errstate(all="ignore"):
        parts = [
            simd_numpy.absolute(a),
            simd_numpy.root(simd_numpy.absolute(a)),
            simd_numpy.exponential(a),
            simd_numpy.logarithm(simd_numpy.absolute(a)),
            *(getattr(simd_numpy, name)(a, b) for name in BINARY),
            simd_numpy.keep_from(a, b, a),
            simd_numpy.keep_first(a, 3, -1.0),
            simd_numpy.splat(simd_numpy.total(a), like),
            simd_numpy.splat(simd_numpy.largest(b), like),
            np.array([simd_numpy.get(simd_numpy.shift(address, 3), 2), 1, 0, 0, 0, 0, 0, 0], dtype),
            *simd_numpy.transpose(a, b, a, b, a, b, a, b),
        ]
    return np.concatenate(parts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_operations_equal_numpy(dtype):
    generator = np.random.default_rng(0)
    for source in (
        generator.normal(size=16).astype(dtype),
        np.array([0, -0.0, 1, -1, 90, -90, 1e-30, 700] * 2, dtype)[::-1].copy(),
    ):
        target = np.zeros(168, dtype)
        compiled(source.ctypes.data, target.ctypes.data, dtype(1))
        # expf by polynomial: two units in the last place.
        np.testing.assert_allclose(target, simulate(source, dtype), rtol=4 * np.finfo(dtype).eps)


def test_every_operation_has_a_counterpart_in_numpy():
    assert all(hasattr(simd, name) and hasattr(simd_numpy, name) for name in simd_numpy.OPERATIONS)
    assert simd.LANES == simd_numpy.LANES
