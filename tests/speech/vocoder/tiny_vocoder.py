"""A harmonic vocoder of random weights, and sounds for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.vocoder.harmonic import HarmonicConfig, HarmonicNetwork
from clock_attention.speech.vocoder.training import write_vocoder

MEL = MelConfig.preset("hifigan")
TINY = HarmonicConfig(
    width=16,
    front_layers=1,
    middle_layers=1,
    reader_hidden=16,
    layers=2,
    hidden=16,
    pitch_width=16,
    pitch_layers=1,
)


def tiny_vocoder(folder: Path) -> Path:
    torch.manual_seed(0)
    network = HarmonicNetwork(TINY)
    with torch.no_grad():
        network.head.bias[: 2 * 601].sub_(2.0)  # not so loud that samples are clipped
    folder.mkdir(parents=True, exist_ok=True)
    write_vocoder(network, folder)
    return folder


def voiced_wave(seconds: float, hertz: float = 180.0) -> np.ndarray:
    """Harmonics that fall off, and a little noise."""
    time = np.arange(int(seconds * MEL.sample_rate)) / MEL.sample_rate
    tone = sum(np.cos(2 * np.pi * hertz * h * time) / h for h in range(1, 12))
    noise = np.random.default_rng(0).standard_normal(len(time))
    return (0.1 * tone + 0.003 * noise).astype(np.float32)
