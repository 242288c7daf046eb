"""Vocoders of the runtime: mel to waveform with ONNX Runtime and NumPy."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.audio.wave import Wave

Mel = NDArray[np.float32]
CHUNK = 400  # mel frames per call of HiFi-GAN: bounds its memory
# Constants of the harmonic vocoder, explained in clock_attention.speech.vocoder.
RATE, FFT, HOP, LOUDEST = 24000, 1200, 300, 7.0
SPECTRUM_BINS = FFT // 2 + 1
LEAST_HERTZ, HIGHEST_HARMONIC = 40.0, 11000.0
INPUT, OUTPUT, TAPS = 160, 147, 32
SOURCE = 4


class OnnxSession(Protocol):
    """The part of an ONNX session's interface that the runtime's vocoders use."""

    def run(self, outputs: Any, inputs: dict[str, Any]) -> list[Any]: ...


class WaveVocoder:
    """An ONNX graph from mel to waveform, such as HiFi-GAN, run in chunks with enough context to leave no seams."""

    def __init__(self, session: OnnxSession, hop: int, context: int) -> None:
        self._session, self.hop, self.context = session, hop, context

    def __call__(self, mel: Mel) -> Wave:
        pieces = []
        for start in range(0, len(mel), CHUNK):
            begin, end = max(0, start - self.context), min(len(mel), start + CHUNK + self.context)
            wave = self._session.run(None, {"mel": mel[None, begin:end]})[0]
            pieces.append(wave[(start - begin) * self.hop :][: CHUNK * self.hop])
        return np.concatenate(pieces)


class OnnxHarmonicVocoder:
    """The harmonic vocoder in the runtime: an ONNX graph predicts spectra; pulses and free phases fill them."""

    def __init__(self, session: OnnxSession, hop: int, sample_rate: int) -> None:
        self._session, self.hop = session, hop
        self.ratio = HOP / RATE * sample_rate / hop  # mel frames per spectrum
        self.window = np.hanning(FFT + 1)[:-1].astype(np.float32)

    def __call__(self, mel: Mel) -> Wave:
        samples = len(mel) * self.hop
        spectra = math.ceil((math.ceil(samples / OUTPUT) * INPUT + 2 * TAPS) / HOP) + 1
        places = np.arange(spectra, dtype=np.float64) * self.ratio - 0.5
        frequency, drawn = self._session.run(None, {"mel": mel[None], "places": places})
        source = self._spectra_of_pulses(frequency)  # (N, BINS)
        loudness, turn, rest, phase = np.split(drawn, 4, axis=1)
        voice = np.exp(np.minimum(loudness, LOUDEST)) * np.exp(1j * np.pi * np.tanh(turn)) * source
        wave = self._overlapped(voice + np.exp(np.minimum(rest, LOUDEST)) * np.exp(1j * phase))
        return resampled(wave[2 * HOP :][: spectra * HOP])[:samples].clip(-1.0, 1.0)

    def _spectra_of_pulses(self, frequency: NDArray[np.float32]) -> NDArray[Any]:
        """Spectra of the pulses, in windows that begin two hops before each hop."""
        wave = np.pad(excitation(np.pad(frequency, (1, SOURCE), mode="edge")), (2 * HOP, 0))
        windows = np.lib.stride_tricks.sliding_window_view(wave, FFT)[::HOP][: len(frequency)]
        return np.fft.rfft(windows * (self.window / np.float32(FFT / 4)))

    def _overlapped(self, spectra: NDArray[Any]) -> Wave:
        quarters = np.fft.irfft(spectra, FFT) * (self.window / 1.5)
        quarters = quarters.reshape(-1, FFT // HOP, HOP)  # (N, 4, HOP)
        wave = np.zeros((len(quarters) + 3, HOP), np.float32)
        for quarter in range(4):
            wave[quarter : quarter + len(quarters)] += quarters[:, quarter]
        return wave.reshape(-1)


def excitation(frequency: NDArray[np.float32]) -> Wave:
    """NumPy version for the runtime: pulse train over the inner hops of F0 (N + 2,), 0 where unvoiced.  (N · HOP,)"""
    double = frequency.astype(np.float64)
    share = (np.arange(HOP) + 0.5) / HOP - 0.5  # distance from the middle of the hop, in hops
    near, before, after = double[1:-1, None], double[:-2, None], double[2:, None]
    hertz = near + np.abs(share) * (np.where(share < 0, before, after) - near)  # (N, HOP)
    voiced = hertz > LEAST_HERTZ
    hertz = np.maximum(hertz, LEAST_HERTZ).reshape(-1)
    cycles = np.cumsum(hertz / RATE)
    phase = ((cycles + 0.5) % 1.0 - 0.5).astype(np.float32)
    return (pulses(phase, hertz.astype(np.float32)) * voiced.reshape(-1)).astype(np.float32)


def pulses(phase: NDArray[np.float32], frequency: NDArray[np.float32]) -> NDArray[np.float32]:
    """NumPy version for the runtime: Σ cos(2π h · phase) over harmonics below the highest, the next one faded in."""
    angle = np.float32(2 * math.pi) * phase
    count = np.floor(np.float32(HIGHEST_HARMONIC) / frequency)
    below = 2 * np.sin(angle / 2)
    peak = np.abs(below) < 2e-3
    whole = np.where(peak, count + 0.5, np.sin((count + 0.5) * angle) / np.where(peak, 1.0, below)) - 0.5
    faded = (np.float32(HIGHEST_HARMONIC) / frequency - count) * np.cos((count + 1) * angle)
    return np.asarray(whole + faded, np.float32)


@cache
def resampling() -> NDArray[np.float32]:
    """Resampling matrix of the runtime (INPUT + 2 TAPS, OUTPUT): 24,000 to 22,050 Hz by a windowed sinc."""
    place = np.arange(OUTPUT)[None] * INPUT / OUTPUT + TAPS
    distance = np.arange(INPUT + 2 * TAPS)[:, None] - place
    cut = 0.97 * OUTPUT / INPUT
    window = np.where(np.abs(distance) < TAPS, np.i0(8.0 * np.sqrt(np.maximum(0, 1 - (distance / TAPS) ** 2))), 0)
    taps = np.sinc(cut * distance) * window
    return np.asarray(taps / taps.sum(0), np.float32)


def resampled(wave: Wave) -> Wave:
    """The runtime vocoder's waveform, resampled from 24,000 to 22,050 Hz."""
    samples = np.concatenate([np.zeros(TAPS, np.float32), wave])
    pieces = (len(samples) - 2 * TAPS) // INPUT
    windows = np.lib.stride_tricks.sliding_window_view(samples, INPUT + 2 * TAPS)[::INPUT][:pieces]
    return np.asarray(windows @ resampling(), np.float32).reshape(-1)
