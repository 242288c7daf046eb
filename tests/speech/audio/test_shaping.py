"""Waveforms of an exact length, with gain and with silence put in."""

import numpy as np
import pytest

from clock_attention.speech.audio.shaping import FADE, QUIET, amplified, fitted, frames_with_silence, with_quiet_onset


@pytest.mark.parametrize("given", [900, 1000, 1100])
def test_any_wave_becomes_as_long_as_it_should_and_fades(given):
    wave = fitted(np.ones(given, np.float32), 1000)
    assert len(wave) == 1000
    assert wave[0] == 0
    assert wave[min(given, 1000) // 2] == 1
    assert (np.diff(wave[:FADE]) >= 0).all()


def test_gain_follows_the_frames_and_never_leaves_full_scale():
    wave = np.full(400, 0.5, np.float32)
    louder = amplified(wave, np.array([0.0, 0.0, 12.0, 12.0]), 100)
    assert louder[10] == pytest.approx(0.5, abs=1e-6)
    assert 0.9 < louder[-1] <= 1.0
    softer = amplified(wave, np.full(4, -6.0206), 100)
    np.testing.assert_allclose(softer, 0.25, atol=1e-4)


def test_silence_comes_first_last_or_into_the_middle():
    found = frames_with_silence(np.array([1, 4, 2]), np.array([3, 6, 4]))
    assert found.tolist() == [-1, -1, 0, 1, 2, -1, -1, 3, 4, 5, 6, -1, -1]


def test_the_onset_is_no_louder_than_silence_and_the_rest_stays():
    mel = np.linspace(-9, 0, 40, dtype=np.float32).reshape(8, 5)
    quiet = with_quiet_onset(mel, 3, -10.0)
    assert (quiet[:3].mean(1) <= -8.7 + 1e-5).all()
    assert quiet.min() >= -10
    np.testing.assert_array_equal(quiet[3:], mel[3:])
    assert with_quiet_onset(mel, 0, -10.0) is mel


def test_what_is_silent_already_stays():
    silent = np.full((10, 80), -11.4, np.float32)
    np.testing.assert_array_equal(with_quiet_onset(silent, 3, -11.5), silent)
    loud = np.full((10, 80), -7.0, np.float32)
    assert with_quiet_onset(loud, 3, -11.5)[:3].mean() == pytest.approx(-11.5 + QUIET, abs=1e-4)


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
