"""Waveforms: reading any sound file, resampling, trimming silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Wave = NDArray[np.float32]


def load_audio(path: str | Path, sample_rate: int) -> Wave:
    """Any file libsndfile reads (wav, flac, ogg, mp3), mixed to one channel and resampled."""
    import soundfile

    try:
        samples, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"cannot read {path} as audio: {error}") from error
    return resample(samples.mean(axis=1), rate, sample_rate)


def resample(wave: Wave, rate: int, sample_rate: int) -> Wave:
    if rate == sample_rate or not len(wave):
        return np.ascontiguousarray(wave, dtype=np.float32)
    import soxr

    return np.asarray(soxr.resample(wave, rate, sample_rate, quality="HQ"), dtype=np.float32)


def trim_silence(wave: Wave, sample_rate: int, keep: float = 0.05, threshold_db: float = 45.0) -> Wave:
    """Cut silence at both ends down to `keep` seconds.

    Silence is what lies more than `threshold_db` below the loudest frame (10 ms windows): low enough to
    leave a final "f" or "th" alone. Otherwise a model spends a third of a fast utterance on silence of natural length.
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
