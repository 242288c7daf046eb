"""Loudness and the distance of speech from noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.audio.loudness import HIGHEST_PEAK, LOUDNESS, loudness, speech_above_noise, with_loudness

RATE = 22050


def bursts(noise=1e-3, seconds=3.0):
    """Tones of a fifth of a second with pauses between, in a room."""
    time = np.arange(round(seconds * RATE)) / RATE
    tone = 0.3 * np.sin(2 * np.pi * 220 * time) * (time % 0.4 < 0.2)
    return (tone + noise * np.random.default_rng(0).normal(size=len(time))).astype(np.float32)


def test_a_full_scale_tone_has_the_loudness_that_the_standard_gives_it():
    tone = np.sin(2 * np.pi * 997 * np.arange(3 * 48000) / 48000).astype(np.float32)
    assert loudness(tone, 48000) == pytest.approx(-3.01, abs=0.1)


@given(st.floats(0.01, 3.0))
@settings(max_examples=10, deadline=None)
def test_recordings_of_any_level_end_at_one_loudness_without_clipping(level):
    wave = with_loudness((bursts() * level).astype(np.float32), RATE)
    assert loudness(wave, RATE) == pytest.approx(LOUDNESS, abs=0.1)
    assert np.abs(wave).max() <= HIGHEST_PEAK + 1e-6


def test_peaks_limit_the_loudness():
    wave = np.zeros(RATE, np.float32)
    wave[::4000] = 0.9
    assert np.abs(with_loudness(wave, RATE)).max() <= HIGHEST_PEAK + 1e-6


@pytest.mark.parametrize("wave", [np.zeros(RATE, np.float32), np.ones(100, np.float32)], ids=["silence", "short"])
def test_what_has_no_loudness_stays_as_it_is(wave):
    assert (with_loudness(wave, RATE) == wave).all()


def test_noise_shows_whatever_the_level():
    quiet, noisy = speech_above_noise(bursts(1e-4), RATE), speech_above_noise(bursts(3e-2), RATE)
    assert quiet > 50
    assert 10 < noisy < 25
    assert speech_above_noise(bursts(3e-2) * 0.1, RATE) == pytest.approx(noisy, abs=0.1)
    assert speech_above_noise(np.zeros(10, np.float32), RATE) == 0
