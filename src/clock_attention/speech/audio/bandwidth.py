"""Bandwidth of a recording: a telephone's has no high frequencies, and neither has a voice made from it."""

from __future__ import annotations

import numpy as np

from clock_attention.speech.audio.wave import Wave

WINDOW = 1024  # samples
SPEECH, HIGH = (200.0, 3400.0), (5000.0, 7000.0)  # Hz: what a telephone transmits, and what it does not
# dB between the two bands: -38 or more in recordings of 16 kHz and above, -80 or less in those of 8 kHz, also as mp3.
NARROW = -60.0


def is_narrowband(wave: Wave, sample_rate: int) -> bool:
    """Whether a wave with speech lacks high frequencies, whatever its sample rate."""
    if sample_rate < 2 * HIGH[1]:
        return True
    spectrum = power_spectrum(wave)
    frequency = np.fft.rfftfreq(WINDOW, 1 / sample_rate)
    speech, high = (spectrum[(frequency >= low) & (frequency < top)].mean() for low, top in (SPEECH, HIGH))
    return bool(high < 10 ** (NARROW / 10) * speech)


def power_spectrum(wave: Wave) -> np.ndarray:
    """Power of a wave in each frequency band, averaged over half-overlapping windows."""
    padded = np.pad(wave, (0, max(0, WINDOW - len(wave))))
    window = np.hanning(WINDOW).astype(np.float32)
    total = np.zeros(WINDOW // 2 + 1)
    starts = range(0, len(padded) - WINDOW + 1, WINDOW // 2)
    for start in starts:  # one by one: all windows of an hour would take gigabytes
        total += np.abs(np.fft.rfft(padded[start : start + WINDOW] * window)) ** 2
    return total / len(starts)
