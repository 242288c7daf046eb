"""Mel frames → waveform of exactly their length: vocoder, digital silence, gain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from clock_attention.alignment import FloatArray, IntArray
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.model.model import Clocks
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.timestamps import Alignment

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder

FADE = 64  # samples at both ends of a phrase: no click where speech meets silence
LIMIT = 0.9  # of full scale: louder samples are compressed


def with_longer_silences(utterance: Utterance, durations: IntArray, silence: float) -> Utterance:
    """With digital silence in the middle of tokens that are to last longer than the model has spoken them."""
    short = utterance.alignment.durations
    before = short // 2  # frames of each token before its silence: none at the beginning, all at the end
    before[0], before[-1] = 0, short[-1]
    source = np.concatenate(  # for each frame the one it is taken from, −1 for silence
        [
            np.r_[first : first + half, np.full(wanted - count, -1), first + half : first + count]
            for first, half, count, wanted in zip(utterance.alignment.starts, before, short, durations, strict=True)
        ]
    ).astype(np.int64)
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
