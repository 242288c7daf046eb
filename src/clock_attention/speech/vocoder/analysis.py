"""Analysis of recordings for training the harmonic vocoder: mel and pitch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.audio.wave import Wave, resample
from clock_attention.speech.vocoder.harmonic import HIGHEST_PITCH, HOP, LOWEST_PITCH, RATE, HarmonicConfig

VOICED = 0.3  # minimum confidence of the pitch tracker


class Analysed(NamedTuple):
    """A recording analysed for the harmonic vocoder: mel and pitch on both grids."""

    mel: Tensor  # (T, n_mels)
    frequency: Tensor  # every HOP samples at RATE, 0 where unvoiced (N,)
    wave: Tensor  # at RATE (N · HOP,)


class Analysis:
    """Analysis of recordings for the harmonic vocoder; pitch by SwiftF0 (package `swift-f0`, weights included)."""

    def __init__(self, config: HarmonicConfig) -> None:
        from swift_f0 import SwiftF0

        self.config = config
        self.tracker = SwiftF0(threads=1, spin=False)
        self.spectrogram = MelSpectrogram(config.mel)

    def __call__(self, wave: Wave) -> Analysed:
        """Analyse a wave at the mel's sample rate."""
        rate = self.config.mel.sample_rate
        mel = self.spectrogram(wave)
        frames = int(len(mel) * self.config.mel.hop_length / rate * RATE / HOP)
        found = self.tracker.detect(wave, rate, fmin=LOWEST_PITCH, fmax=HIGHEST_PITCH)
        voiced, middles = found.confidence >= VOICED, (np.arange(frames) + 0.5) * HOP / RATE
        frequency = np.zeros(frames)
        if voiced.any():
            height = np.interp(middles, found.timestamps[voiced], np.log(found.pitch_hz[voiced]))
            frequency = np.exp(height) * (np.interp(middles, found.timestamps, voiced) > 0.5)
        finer = resample(wave, rate, RATE)[: frames * HOP]
        finer = np.pad(finer, (0, frames * HOP - len(finer)))
        return Analysed(mel, torch.from_numpy(frequency).float(), torch.from_numpy(finer))
