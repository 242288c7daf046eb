"""What the harmonic vocoder learns its excitation from: the pitch of a recording and the phase of its fundamental."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.wave import Wave

FloatArray = NDArray[np.floating]
LOWEST, HIGHEST = 75.0, 500.0  # Hz, of the tracker
UNVOICED = 160.0  # Hz, for a recording without any voice
SMOOTHING = 769  # samples that the fundamental is averaged over: some periods
LARGEST_CORRECTION = 0.04  # of the tracked pitch; beyond it the fundamental is too weak to be followed


@dataclass(frozen=True)
class Excitation:
    """Of a wave cut to whole frames: phase of the fundamental in cycles per sample, pitch and voicing per frame."""

    wave: Wave
    phase: FloatArray
    hertz: FloatArray
    voiced: NDArray[np.bool_]


def analyse(wave: Wave, mel: MelConfig) -> Excitation:
    """Track the pitch (probabilistic YIN), then follow the fundamental's own phase around it."""
    import librosa

    hop, rate = mel.hop_length, mel.sample_rate
    frames = len(wave) // hop
    wave = wave[: frames * hop]
    padded = np.pad(wave, mel.pad)
    tracked, _, _ = librosa.pyin(
        padded,
        fmin=LOWEST,
        fmax=HIGHEST,
        sr=rate,
        frame_length=mel.n_fft,
        hop_length=hop,
        resolution=0.2,
        center=False,
    )
    hertz, voiced = filled(tracked[:frames])
    middles = np.arange(frames) * hop + hop // 2
    phase = np.cumsum(np.interp(np.arange(len(wave)), middles, hertz)) / rate
    phase += drift(wave, phase)
    refined = (phase[np.minimum(middles + hop // 2, len(wave) - 1)] - phase[middles - hop // 2]) / hop * rate
    trusted = np.abs(refined / hertz - 1) < LARGEST_CORRECTION
    return Excitation(wave, phase % 1.0, np.where(trusted, refined, hertz), voiced)


def filled(hertz: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Pitch through unvoiced frames too, between its neighbours, and where it was measured."""
    voiced = np.nan_to_num(hertz) > 0
    if not voiced.any():
        return np.full(len(hertz), UNVOICED), voiced
    places = np.flatnonzero(voiced)
    return np.exp(np.interp(np.arange(len(hertz)), places, np.log(hertz[voiced]))), voiced


def drift(wave: Wave, phase: FloatArray) -> FloatArray:
    """Cycles by which the fundamental leads `phase`: it is turned down to zero frequency and smoothed."""
    window = np.hanning(SMOOTHING) / np.hanning(SMOOTHING).sum()
    size = 1 << (len(wave) + SMOOTHING).bit_length()
    turned = np.fft.fft(wave * np.exp(-2j * np.pi * phase), size)
    smooth = np.fft.ifft(turned * np.fft.fft(window, size))[SMOOTHING // 2 :][: len(wave)]
    return np.unwrap(np.angle(smooth)) / (2 * np.pi)
