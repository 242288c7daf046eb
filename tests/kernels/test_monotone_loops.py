"""Numbers as mantissa and exponent: sums over paths far below the smallest double."""

import itertools
import math

import numpy as np
import pytest

from clock_attention.kernels.monotone_loops import NOTHING, add, run, settle


def value(mantissa, exponent):
    return mantissa * 2.0**exponent if exponent > NOTHING // 2 else 0.0


def test_sums_align_exponents_and_zero_is_neutral():
    assert value(*add(1.5, 4, 1.0, 3)) == 32.0
    assert value(*add(1.5, 4, 0.0, NOTHING)) == 24.0
    assert add(1.0, 0, 1.0, -5000) == (1.0, 0)  # far too small to matter
    mantissa, exponent = settle(2.0**510, 7)
    assert (math.log2(mantissa) + exponent, exponent) == (517, 507)


def every_path(cells, optional):
    """The sum over all monotone paths by enumeration."""
    steps, tokens = cells.shape
    found = 0.0
    for path in itertools.product(range(tokens), repeat=steps):
        visited = [t for t, _ in itertools.groupby(path)]
        skipped = set(range(tokens)) - set(visited)
        if visited == sorted(visited) and all(optional[t] for t in skipped):
            found += math.prod(cells[s, t] for s, t in enumerate(path))
    return found


@pytest.mark.parametrize("optional", [(False, False, False), (True, False, True), (False, True, True)])
def test_the_sum_is_that_of_all_paths(optional):
    cells = np.random.default_rng(0).random((1, 5, 3))
    flags, lengths = np.array([optional]), (np.array([5]), np.array([3]))
    sums, exponents, posterior = np.zeros(1), np.zeros(1, np.int64), np.zeros((1, 5, 3))
    run(cells, np.zeros((1, 5, 3), np.int64), flags, *lengths, sums, exponents, posterior)
    assert value(sums[0], exponents[0]) == pytest.approx(every_path(cells[0], optional))
    np.testing.assert_allclose(posterior.sum(-1), 1)
    # The posterior of a cell is the share of the paths through it.
    through = cells[0].copy()
    through[2, [0, 2]] = 0
    assert posterior[0, 2, 1] == pytest.approx(every_path(through, optional) / every_path(cells[0], optional))
