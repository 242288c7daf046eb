"""Bandwidth of recordings."""

from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.audio.bandwidth import is_narrowband
from clock_attention.speech.audio.wave import Wave, resample

RATE = 22050


@pytest.fixture
def speech() -> Wave:
    """Noise whose spectrum falls by 12 dB per octave above 500 Hz, as that of speech does."""
    spectrum = np.fft.rfft(np.random.default_rng(0).normal(size=2 * RATE))
    frequency = np.fft.rfftfreq(2 * RATE, 1 / RATE)
    wave = np.fft.irfft(spectrum / np.maximum(1.0, frequency / 500) ** 2)
    return (0.1 * wave / np.abs(wave).max()).astype(np.float32)


@pytest.mark.parametrize(("recorded_at", "narrow"), [(8000, True), (16000, False), (22050, False)])
def test_the_rate_of_the_recording_counts_not_that_of_the_file(speech: Wave, recorded_at: int, narrow: bool) -> None:
    assert is_narrowband(resample(resample(speech, RATE, recorded_at), recorded_at, RATE), RATE) is narrow


def test_a_rate_without_high_frequencies_is_narrow(speech: Wave) -> None:
    assert is_narrowband(resample(speech, RATE, 8000), 8000)


@pytest.mark.parametrize("samples", [0, 1, 100, 1023, 1025])
def test_waves_shorter_than_a_window_are_not_narrow(speech: Wave, samples: int) -> None:
    assert not is_narrowband(speech[:samples], RATE)


def test_room_noise_at_all_frequencies_does_not_make_it_wide(speech: Wave) -> None:
    telephone = resample(resample(speech, RATE, 8000), 8000, RATE)
    hum = np.random.default_rng(1).normal(scale=1e-6, size=len(telephone)).astype(np.float32)
    assert is_narrowband(telephone + hum, RATE)
