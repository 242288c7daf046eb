"""Waveform of mel frames, with exactly their length: vocoder, digital silence, gain."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from clock_attention.arrays import FloatArray
from clock_attention.speech.audio.shaping import amplified, fitted
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder


def sounded(utterance: Utterance, vocoder: Vocoder, hop: int, energy: FloatArray | None = None) -> Wave:
    """The waveform of an utterance's mel; inserted digital silence bypasses the vocoder.

    `energy` is the gain of every token in decibels (T + 2,).
    """
    frames = len(utterance.mel)
    wave = np.zeros(frames * hop, np.float32)
    edges = [-1, *utterance.silent, frames]
    for before, after in pairwise(edges):
        start, stop = before + 1, after
        if stop > start:
            wave[start * hop : stop * hop] = fitted(vocoder(utterance.mel[start:stop]), (stop - start) * hop)
    return wave if energy is None else amplified(wave, frame_energy(utterance, energy), hop)


def frame_energy(utterance: Utterance, energy: FloatArray) -> FloatArray:
    """Gain of a waveform in decibels for each frame, changing from token to token as the attention does.  (S,)"""
    return alignment_matrix(utterance.weights) @ energy
