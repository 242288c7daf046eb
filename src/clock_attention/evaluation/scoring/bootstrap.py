"""Percentile bootstrap intervals over the sentences of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate with its 95 % percentile bootstrap interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.estimate:.2f} % [{100 * self.low:.2f}, {100 * self.high:.2f}]"


def bootstrap(
    errors: NDArray[np.int64], lengths: NDArray[np.int64], *, resamples: int = RESAMPLES, seed: int = 0
) -> ConfidenceInterval:
    """Bootstrap interval of a pooled rate: sentences are drawn with replacement, and each resample is pooled."""
    rates = resampled_rates(errors, lengths, resamples, seed)
    return percentile_interval(float(errors.sum() / lengths.sum()), rates)


def resampled_rates(
    errors: NDArray[np.int64], lengths: NDArray[np.int64], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Pooled rates of bootstrap resamples: as many sentences as in the original list, drawn with replacement."""
    drawn = np.random.default_rng(seed).integers(0, len(errors), (resamples, len(errors)))
    rates: NDArray[np.float64] = errors[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    return rates


def percentile_interval(estimate: float, rates: NDArray[np.float64]) -> ConfidenceInterval:
    """The bootstrap interval of an estimate: percentiles of its resamples."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    return ConfidenceInterval(estimate, float(low), float(high))


def mean_with_interval(values: Sequence[float] | NDArray[Any]) -> list[float]:
    """A mean over sentences and its 95 % bootstrap interval: estimate, low, high."""
    array = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    return [float(array.mean()), *map(float, np.percentile(array[draws].mean(1), [2.5, 97.5]))]
