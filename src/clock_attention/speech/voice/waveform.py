"""Mel frames → waveform of exactly their length: vocoder, digital silence, gain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.audio.shaping import amplified, fitted, frames_with_silence
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.model.model import Clocks
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.timestamps import Alignment

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder


def with_longer_silences(utterance: Utterance, durations: IntArray, silence: float) -> Utterance:
    """With digital silence in the middle of tokens that are to last longer than the model has spoken them."""
    source = frames_with_silence(utterance.alignment.durations, durations)
    nearest = torch.from_numpy(np.maximum.accumulate(np.maximum(source, 0)))
    mel = utterance.mel[nearest].clone()
    mel[torch.from_numpy(source < 0)] = silence
    whole = max(int(durations.sum()), 1)
    ends = durations.cumsum()
    time = torch.from_numpy((np.arange(whole) + 0.5) / whole).float()[None, :, None]
    centre = torch.from_numpy((ends - durations / 2) / whole).float()[None, :, None]
    return replace(
        utterance,
        mel=mel,
        alignment=Alignment(utterance.alignment.labels, durations, utterance.alignment.frame_seconds),
        weights=[layer[:, nearest] for layer in utterance.weights],
        clocks=[Clocks(time, centre) for _ in utterance.clocks],
        silent=tuple(np.flatnonzero(source < 0).tolist()),
    )


def sounded(utterance: Utterance, vocoder: Vocoder, hop: int, energy: FloatArray | None = None) -> Wave:
    """The waveform: what sounds goes through the vocoder, silence that was put in does not.

    `energy` is decibels of every token (T + 2,).
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
    """Decibels of each frame, changing from token to token as the attention does.  (S,)"""
    return alignment_matrix(utterance.weights) @ energy
