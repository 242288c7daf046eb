"""Waveforms in memory: their type, resampling, trimming silence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Wave = NDArray[np.float32]


def resample(wave: Wave, rate: int, sample_rate: int) -> Wave:
    """A waveform resampled from `rate` to `sample_rate`."""
    if rate == sample_rate or not len(wave):
        return np.ascontiguousarray(wave, dtype=np.float32)
    import soxr

    return np.asarray(soxr.resample(wave, rate, sample_rate, quality="HQ"), dtype=np.float32)


def trim_silence(wave: Wave, sample_rate: int, keep: float = 0.05, threshold_db: float = 45.0) -> Wave:
    """A waveform with the silence at both ends cut down to `keep` seconds.

    Silence is anything more than `threshold_db` below the loudest frame (10 ms windows): low enough to keep a final "f"
    or "th". Without trimming, a model spends a third of a fast utterance on silence of natural length.
    """
    frame = max(1, sample_rate // 100)
    if len(wave) < frame:
        return wave
    running = np.concatenate([[0.0], np.cumsum(np.square(wave, dtype=np.float64))])
    energy = running[frame:] - running[:-frame]  # of the window that starts at each sample
    loud = np.flatnonzero(energy > energy.max() * 10 ** (-threshold_db / 10))
    if not len(loud):
        return wave
    first, last = loud[[0, -1]] + frame // 2  # centres of the windows
    margin = round(keep * sample_rate)
    return wave[max(0, first - margin) : last + margin]
