"""Waveforms of an exact length, with gain and with silence put in."""

from __future__ import annotations

import numpy as np

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.audio.wave import Wave

FADE = 64  # samples at both ends of a phrase: no click where speech meets silence
LIMIT = 0.9  # of full scale: louder samples are compressed


def sources(short: IntArray, durations: IntArray) -> IntArray:
    """For each frame of tokens that last `durations` the one it is taken from where they last `short`, −1 for silence.

    Silence comes into the middle of a token, but before the first and after the last.
    """
    before = short // 2
    before[0], before[-1] = 0, short[-1]
    starts = np.cumsum(short) - short
    return np.concatenate(
        [
            np.r_[first : first + half, np.full(wanted - count, -1), first + half : first + count]
            for first, half, count, wanted in zip(starts, before, short, durations, strict=True)
        ]
    ).astype(np.int64)


def amplified(wave: Wave, decibels: FloatArray, hop: int) -> Wave:
    """Louder or softer, frame by frame; what would go beyond full scale is limited smoothly."""
    centres = (np.arange(len(decibels)) + 0.5) * hop
    gain = 10 ** (np.interp(np.arange(len(wave)), centres, decibels) / 20)
    louder = wave * gain
    over = np.abs(louder) > LIMIT
    if (decibels > 0).any() and over.any():
        room = 1 - LIMIT
        louder[over] = np.sign(louder[over]) * (LIMIT + room * np.tanh((np.abs(louder[over]) - LIMIT) / room))
    return louder.astype(np.float32)


def fitted(wave: Wave, samples: int) -> Wave:
    """Exactly so many samples (centred mels invert to one hop less), faded in and out."""
    wave = np.pad(wave[:samples], (0, max(0, samples - len(wave))))
    ramp = np.linspace(0, 1, min(FADE, samples), dtype=np.float32)
    wave[: len(ramp)] *= ramp
    wave[-len(ramp) :] *= ramp[::-1]
    return wave
