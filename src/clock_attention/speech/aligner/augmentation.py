"""Augmentation for training the aligner: simulated speakers, rooms and recorders, so it learns phones, not voices."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.aligner.features import BINS, MEL, RATE, normalised_features, spectrogram
from clock_attention.speech.audio.wave import Wave, resample

Rng = np.random.Generator


def augmented(wave: Wave, rng: Rng) -> tuple[Tensor, float]:
    """Augmented features (frames, bins), as from another speaker, room and recorder, and the change of length.

    The change of length is a factor by which boundary times must be multiplied. Resampling shifts pitch, formants and
    pace together; warping the mel axis shifts only the formants, so that all three vary.
    """
    speed = float(np.exp(rng.uniform(-0.2, 0.2))) if rng.random() < 0.7 else 1.0
    if speed != 1.0:
        wave = resample(wave, int(RATE * speed), RATE)
    if rng.random() < 0.25:
        wave = in_room(wave, rng)
    if rng.random() < 0.15:
        wave = quantised(wave, rng)
    power = spectrogram().linear(torch.from_numpy(np.ascontiguousarray(wave, np.float32)))
    if rng.random() < 0.5:
        power = with_noise(power, rng)
    mel = power.clamp(min=MEL.log_floor).log()
    if rng.random() < 0.8:
        mel = warped(mel, float(np.exp(rng.uniform(-0.2, 0.2))))
    if rng.random() < 0.3:
        mel = band_limited(mel, rng)
    if rng.random() < 0.5:
        tilt = np.cumsum(rng.normal(0, 0.25, BINS)) + rng.normal(0, 0.5) * np.linspace(-1, 1, BINS)
        mel = mel + torch.from_numpy(tilt.astype(np.float32))
    return masked(normalised_features(mel), rng), 1.0 / speed


def warped(mel: Tensor, factor: float) -> Tensor:
    """Augmentation with another speaker: scales the formants by `factor` on the mel axis.  (frames, bins)"""
    import librosa

    hertz = librosa.mel_frequencies(BINS + 2, fmin=MEL.f_min, fmax=MEL.f_max)[1:-1]
    knee = 0.8 * hertz[-1] / max(factor, 1.0)
    # The usual piecewise linear vocal-tract length warp: by `factor` up to a knee, then to the end of the band.
    source = np.where(hertz <= knee * factor, hertz / factor, 0.0)
    slope = (hertz[-1] - knee) / max(hertz[-1] - knee * factor, 1.0)
    source = np.where(hertz > knee * factor, knee + (hertz - knee * factor) * slope, source)
    place = np.interp(source, hertz, np.arange(BINS))
    low = np.clip(np.floor(place).astype(int), 0, BINS - 2)
    share = torch.from_numpy((place - low).astype(np.float32))
    return mel[:, low] * (1 - share) + mel[:, low + 1] * share


def in_room(wave: Wave, rng: Rng) -> Wave:
    """Augmentation with another room: convolution with decaying noise after the direct sound."""
    seconds = rng.uniform(0.05, 0.35)
    length = int(seconds * RATE)
    tail = rng.normal(size=length) * np.exp(-6.9 * np.arange(length) / length)
    tail *= rng.uniform(0.1, 0.6) / np.sqrt((tail**2).sum())
    tail[0] = 1.0
    size = 1 << (len(wave) + length).bit_length()
    spectrum = np.fft.rfft(wave, size) * np.fft.rfft(tail, size)
    return np.fft.irfft(spectrum, size)[: len(wave)].astype(np.float32)


def with_noise(power: Tensor, rng: Rng) -> Tensor:
    """Augmentation with noise of a random colour, 5 to 45 dB below the speech, added to the power in each bin."""
    colour = np.exp(rng.normal(0, 1.5) * np.linspace(-1, 1, BINS)).astype(np.float32)
    noise = torch.from_numpy(rng.standard_gamma(2.0, power.shape, dtype=np.float32) * colour)
    return power + noise * (power.mean() / noise.mean() * 10 ** (-rng.uniform(5, 45) / 10))


def quantised(wave: Wave, rng: Rng) -> Wave:
    """Augmentation by telephone-style μ-law quantisation with 5 to 8 bits."""
    levels = 2.0 ** rng.integers(4, 8)
    peak = max(float(np.abs(wave).max()), 1e-6)
    compressed = np.sign(wave) * np.log1p(255 * np.abs(wave) / peak) / np.log(256)
    compressed = np.round(compressed * levels) / levels
    return (peak * np.sign(compressed) * (256 ** np.abs(compressed) - 1) / 255).astype(np.float32)


def band_limited(mel: Tensor, rng: Rng) -> Tensor:
    """Augmentation by band limiting, as in a telephone or an old recorder."""
    floor = mel.amin()
    mel = mel.clone()
    if rng.random() < 0.7:
        mel[:, int(rng.integers(44, BINS)) :] = floor
    if rng.random() < 0.5:
        mel[:, : int(rng.integers(1, 6))] = floor
    return mel


def masked(features: Tensor, rng: Rng) -> Tensor:
    """Augmentation by masking a few bins, as in SpecAugment."""
    features = features.clone()
    for _ in range(int(rng.integers(0, 3))):
        width = int(rng.integers(1, 8))
        begin = int(rng.integers(0, BINS - width))
        features[:, begin : begin + width] = 0.0
    return features
