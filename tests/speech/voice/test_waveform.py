"""Gain and exact lengths."""

import numpy as np
import pytest

from clock_attention.speech.voice.waveform import amplified, fitted


def test_decibels_are_exact_and_full_scale_is_not_exceeded():
    wave = np.full(2560, 0.2, np.float32)
    assert amplified(wave, np.full(10, -6.0), 256) == pytest.approx(0.2 * 10 ** (-6 / 20))
    assert amplified(wave, np.full(10, 6.0), 256) == pytest.approx(0.2 * 10 ** (6 / 20))
    assert 0.9 < amplified(wave, np.full(10, 20.0), 256).max() <= 1


def test_gain_changes_gradually():
    louder = amplified(np.full(2560, 0.1, np.float32), np.repeat([0.0, 6.0], 5), 256)
    assert np.abs(np.diff(louder)).max() < 0.002


@pytest.mark.parametrize("samples", [0, 1, 100, 700])
def test_waves_have_the_length_that_was_asked_for(samples):
    assert len(fitted(np.ones(500, np.float32), samples)) == samples
