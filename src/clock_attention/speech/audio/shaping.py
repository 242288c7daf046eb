"""Shaping of mels and waveforms after the model: quiet onsets, inserted silence, exact lengths, gain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.audio.wave import Wave

FADE = 64  # samples at both ends of a phrase: no click where speech meets silence
QUIET = 1.3  # nepers above the floor of the mel: mean level of silence in recordings
LIMIT = 0.9  # of full scale: louder samples are compressed


def with_quiet_onset(mel: NDArray[np.float32], silence: int, floor: float) -> NDArray[np.float32]:
    """Shape a log-mel (S, M): lower its first `silence` frames to the level of silence.

    Recordings are cut close to their first word, so a model sees little silence there and predicts a breath, up to
    30 dB louder than silence.
    """
    if not silence:
        return mel
    onset = mel[:silence]
    excess = np.maximum(onset.mean(1, keepdims=True) - np.float32(floor + QUIET), 0)
    return np.concatenate([np.maximum(onset - excess, np.float32(floor)), mel[silence:]])


def frames_with_silence(short: IntArray, durations: IntArray) -> IntArray:
    """Shape a mel with inserted silence: the source frame of each frame at the `short` durations, −1 for silence.

    Silence goes into the middle of a token, but before the first one and after the last one.
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
    """Shape a wave: louder or softer, frame by frame; samples that would exceed full scale are limited smoothly."""
    centres = (np.arange(len(decibels)) + 0.5) * hop
    gain = 10 ** (np.interp(np.arange(len(wave)), centres, decibels) / 20)
    louder = wave * gain
    over = np.abs(louder) > LIMIT
    if (decibels > 0).any() and over.any():
        room = 1 - LIMIT
        louder[over] = np.sign(louder[over]) * (LIMIT + room * np.tanh((np.abs(louder[over]) - LIMIT) / room))
    return louder.astype(np.float32)


def fitted(wave: Wave, samples: int) -> Wave:
    """Shape a wave to an exact number of samples (centred mels invert to one hop less), faded in and out."""
    wave = np.pad(wave[:samples], (0, max(0, samples - len(wave))))
    ramp = np.linspace(0, 1, min(FADE, samples), dtype=np.float32)
    wave[: len(ramp)] *= ramp
    wave[-len(ramp) :] *= ramp[::-1]
    return wave
