"""Loudness of a recording (ITU-R BS.1770), and how far its speech is above the room noise."""

from __future__ import annotations

import numpy as np

from clock_attention.speech.audio.wave import Wave

LOUDNESS = -23.0  # LUFS that recordings are normalized to, the broadcast level
HIGHEST_PEAK = 0.98
BLOCK = 0.4  # seconds; shorter recordings have no loudness
NOISY = 30.0  # dB between speech and room noise, below which a voice learns the noise too


def loudness(wave: Wave, sample_rate: int) -> float:
    """Loudness of a wave in LUFS; minus infinity for silence, and for a wave too short to have a loudness."""
    import pyloudnorm

    if len(wave) <= BLOCK * sample_rate:
        return float("-inf")
    with np.errstate(divide="ignore"):
        return float(pyloudnorm.Meter(sample_rate).integrated_loudness(wave.astype(np.float64)))


def with_loudness(wave: Wave, sample_rate: int, target: float = LOUDNESS) -> Wave:
    """A wave scaled to a target loudness, as far as possible without clipping; silence is left unchanged."""
    found = loudness(wave, sample_rate)
    if not np.isfinite(found):
        return wave
    factor = min(10 ** ((target - found) / 20), HIGHEST_PEAK / float(np.abs(wave).max()))
    return (wave * np.float32(factor)).astype(np.float32)


def speech_above_noise(wave: Wave, sample_rate: int) -> float:
    """Signal-to-noise estimate: dB between loud frames of 20 ms (95 % are quieter) and quiet ones (5 % are)."""
    frame = max(1, sample_rate // 50)
    count = len(wave) // frame
    if count < 2:
        return 0.0
    power = np.square(wave[: count * frame].reshape(count, frame), dtype=np.float64).mean(1)
    quiet, loud = np.percentile(power, [5, 95])
    return float(10 * np.log10(max(loud, 1e-12) / max(quiet, 1e-12)))
