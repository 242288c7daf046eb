"""Acoustic refinement of the aligner's boundaries: level and spectral change of the frames.

The network was mostly trained on synthetic voices and their conventions. Human annotators put boundaries at the largest
spectral change, and the start of speech after a silence at the first audible frame: people start more softly than
synthetic voices do, and the closure of a stop after a silence is silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clock_attention.arrays import Float32Array

SIDE = 4  # frames compared on either side: 20 ms
RANGE = 12.0  # nats below the loudest cell; quieter cells do not count as a change
NEAR = 5  # frames: an edge may move to a change within 25 ms
AUDIBLE = 0.25  # audibility threshold, between the levels of silence (0) and speech (1) in decibels
QUIET, LOUD = 5, 95  # percentiles of the frames' levels that represent silence and speech
REACH = 12  # frames that the start of speech may move: 60 ms
SHORTEST_SILENCE = 6  # frames; shorter silences are closures
LEFT = 1  # minimum number of frames that remain of the first sound


@dataclass(frozen=True)
class Acoustics:
    """Level and spectral change of a recording's frames, which refine boundaries."""

    level: Float32Array  # (frames,) log power
    change: Float32Array  # (frames,) spectral difference across the frame, in standard deviations

    @classmethod
    def of(cls, mel: Tensor) -> Acoustics:
        """Acoustics of log-mel frames (frames, bins)."""
        level = mel.logsumexp(-1).numpy()
        return cls(level, spectral_change(mel.clamp(min=float(mel.max()) - RANGE).numpy()))

    @classmethod
    def joined(cls, parts: Sequence[Acoustics]) -> Acoustics:
        return cls(np.concatenate([part.level for part in parts]), np.concatenate([part.change for part in parts]))

    @classmethod
    def silence(cls, frames: int, level: float) -> Acoustics:
        return cls(np.full(frames, level, np.float32), np.zeros(frames, np.float32))

    def part(self, start: int, end: int) -> Acoustics:
        return Acoustics(self.level[start:end], self.change[start:end])


def spectral_change(mel: Float32Array) -> Float32Array:
    """Distance of the mean spectra before and after the start of each frame, in its standard deviations.  (frames,)"""
    sums = np.cumsum(np.pad(mel.astype(np.float64), ((1, 0), (0, 0))), axis=0)
    at = np.arange(1, len(mel))
    first, last = np.maximum(at - SIDE, 0), np.minimum(at + SIDE, len(mel))
    before = (sums[at] - sums[first]) / (at - first)[:, None]
    after = (sums[last] - sums[at]) / (last - at)[:, None]
    change = np.append(0.0, np.sqrt(np.square(after - before).mean(1)))
    return (change / max(float(change.std()), 1e-6)).astype(np.float32)


def at_change(before: NDArray[np.float64], place: float, change: Float32Array) -> float:
    """Refine a boundary by acoustics: the median start of a unit near `place`, weighted by spectral change.

    Args:
        before: probability that the unit has not started yet (frames,), decreasing.
        place: position in frames.
    """
    first, last = max(round(place) - NEAR, 1), min(round(place) + NEAR + 1, len(before))
    if last - first < 2:
        return place
    share = np.maximum(before[first - 1 : last - 1] - before[first:last], 1e-9) * np.exp(change[first:last])
    passed = np.cumsum(share) / share.sum()
    middle = int(np.searchsorted(passed, 0.5))
    earlier = passed[middle - 1] if middle else 0.0
    return float(first + middle - 0.5 + (0.5 - earlier) / (passed[middle] - earlier))


def at_onsets(edges: NDArray[np.float64], silent: NDArray[np.bool_], level: Float32Array) -> NDArray[np.float64]:
    """Refine boundaries (units + 1,) by the level: those from silence to sound move on to the first audible frame.

    Args:
        silent: whether each unit is a silence (units,).
        level: log power of the frames (frames,).
    """
    edges = edges.copy()
    low, high = np.percentile(level, [QUIET, LOUD])
    audible = level >= low + AUDIBLE * (high - low)
    for place in np.flatnonzero(silent[:-1] & ~silent[1:]) + 1:
        if edges[place] - edges[place - 1] < SHORTEST_SILENCE:
            continue
        first = round(edges[place])
        last = min(first + REACH, int(edges[place + 1]) - LEFT)
        sounding = np.flatnonzero(audible[first:last])
        if len(sounding) and sounding[0] > 0:
            edges[place] = first + sounding[0]
    return edges
