"""Input features of the aligner's network: log-mel frames of 5 ms, normalised over the recording."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram

RATE = 16000
HOP = 80
FRAME_SECONDS = HOP / RATE
BINS = 64
# Frame i is centred on the middle of samples 80 i … 80 i + 79, so that times are frames × 5 ms exactly.
MEL = MelConfig(
    sample_rate=RATE,
    n_fft=400,
    win_length=400,
    hop_length=HOP,
    n_mels=BINS,
    f_min=50.0,
    f_max=7600.0,
    mel_scale="slaney",
    norm="slaney",
    power=2,
    padding="hop",
    log_floor=1e-9,
)
RANGE = 16.0  # nats below the loudest cell; anything quieter counts as silence, whatever the recorder's noise


@lru_cache(maxsize=1)
def spectrogram() -> MelSpectrogram:
    """The mel spectrogram for the aligner's features, in log-mel frames of 5 ms."""
    return MelSpectrogram(MEL)


def normalised_features(mel: Tensor) -> Tensor:
    """Normalise log-mel (…, frames, bins) for the aligner: with a floor, without the recording's level and tilt."""
    loudest = mel.amax((-1, -2), keepdim=True)
    mel = torch.maximum(mel, loudest - RANGE)
    mean = mel.mean(-2, keepdim=True)
    return (mel - mean) / (mel - mean).square().mean((-1, -2), keepdim=True).sqrt().clamp(min=0.3)


def features(wave: Tensor) -> Tensor:
    """The aligner's features of samples at 16 kHz: (samples,) → (frames, bins)."""
    return normalised_features(spectrogram()(wave))
