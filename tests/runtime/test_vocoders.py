"""Mel to waveform with NumPy: as in the torch package, and without a seam between pieces."""

import numpy as np
import pytest
import torch

from clock_attention.runtime import vocoders
from clock_attention.runtime.vocoders import WaveVocoder, excitation, pulses, resampled, resampling
from clock_attention.speech.vocoder import harmonic_synthesis


class Averaging:
    """A "vocoder" whose samples depend on three frames to each side."""

    hop = 4

    def run(self, outputs, inputs):
        mel = np.pad(inputs["mel"][0, :, 0], 3)
        mean = np.lib.stride_tricks.sliding_window_view(mel, 7).mean(1)
        return [np.repeat(mean, self.hop)]


def test_pieces_of_a_long_mel_join_without_a_seam():
    mel = np.random.default_rng(0).normal(size=(2 * vocoders.CHUNK + 7, 1)).astype(np.float32)
    whole = Averaging().run(None, {"mel": mel[None]})[0]
    np.testing.assert_allclose(WaveVocoder(Averaging(), 4, context=3)(mel), whole)


def test_pulses_are_those_of_the_torch_package():
    generator = np.random.default_rng(0)
    phase, hertz = (
        generator.uniform(-0.5, 0.5, 500).astype(np.float32),
        generator.uniform(60, 400, 500).astype(np.float32),
    )
    phase[:5] = [0, 1e-6, -1e-6, 0.5, -0.5]
    expected = harmonic_synthesis.pulses(torch.from_numpy(phase), torch.from_numpy(hertz)).numpy()
    np.testing.assert_allclose(pulses(phase, hertz), expected, rtol=2e-3, atol=2e-3)


def test_excitation_is_silent_where_there_is_no_voice_and_as_high_as_the_pitch():
    hertz = np.full(42, 120.0, np.float32)
    hertz[20:] = 0
    wave = excitation(hertz)
    assert len(wave) == 40 * vocoders.HOP
    assert not wave[22 * vocoders.HOP :].any()
    spectrum = np.abs(np.fft.rfft(wave[: 18 * vocoders.HOP] * np.hanning(18 * vocoders.HOP)))
    strongest = spectrum[: len(spectrum) // 60].argmax() * vocoders.RATE / (18 * vocoders.HOP)
    assert strongest == pytest.approx(120, abs=5)


def test_resampling_keeps_a_tone():
    np.testing.assert_allclose(resampling().sum(0), 1, rtol=1e-5)
    time = np.arange(24000) / 24000
    wave = resampled(np.sin(2 * np.pi * 440 * time).astype(np.float32))
    middle = wave[1000:20000]
    expected = np.sin(2 * np.pi * 440 * np.arange(len(wave)) / 22050)[1000:20000]
    assert np.abs(middle - expected).max() < 2e-3
