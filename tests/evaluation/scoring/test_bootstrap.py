"""Bootstrap intervals against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from clock_attention.evaluation.scoring.bootstrap import bootstrap, mean_with_interval

stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")


def some_counts(seed: int, sentences: int = 150) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(3, 20, sentences)
    return draw.binomial(lengths, draw.beta(1, 8, sentences)), lengths


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_intervals_agree_with_scipy(seed: int) -> None:
    errors, lengths = some_counts(seed)
    ours = bootstrap(errors, lengths, resamples=20_000, seed=seed)
    theirs = stats.bootstrap(
        (errors, lengths),
        lambda e, n, axis: e.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        batch=2_000,
        method="percentile",
        rng=np.random.default_rng(seed + 100),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_intervals_depend_on_the_seed_only() -> None:
    errors, lengths = some_counts(0)
    assert bootstrap(errors, lengths, seed=3) == bootstrap(errors, lengths, seed=3)
    assert bootstrap(errors, lengths, seed=3) != bootstrap(errors, lengths, seed=4)


def test_intervals_of_a_mean_shrink_with_the_number_of_sentences() -> None:
    values = np.random.default_rng(0).normal(3, 1, 400)
    few, many = mean_with_interval(values[:16]), mean_with_interval(values)
    assert few[1] < few[0] < few[2]
    assert many[2] - many[1] < 0.4 * (few[2] - few[1])
    assert mean_with_interval(values) == many  # seeded
    mean, low, high = mean_with_interval(np.random.default_rng(1).normal(size=200))
    assert low < mean < high
    assert high - low == pytest.approx(4 / np.sqrt(200), rel=0.25)
