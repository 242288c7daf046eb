"""Resampling, and trimming silence."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.audio.wave import resample, trim_silence


def tone(seconds: float, rate: int, frequency: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.sampled_from([16000, 22050]))
def test_trimming_leaves_at_most_the_margin(lead: float, trail: float, rate: int) -> None:
    silence = [np.zeros(round(seconds * rate), np.float32) for seconds in (lead, trail)]
    speech = tone(0.3, rate)
    trimmed = trim_silence(np.concatenate([silence[0], speech, silence[1]]), rate, keep=0.05)
    expected = 0.3 + min(lead, 0.05) + min(trail, 0.05)
    assert abs(len(trimmed) / rate - expected) < 0.011


def test_trimming_keeps_quiet_ends_and_inner_pauses() -> None:
    rate = 22050
    speech = np.concatenate([tone(0.3, rate), np.zeros(rate // 2, np.float32), 0.01 * tone(0.2, rate)])  # 40 dB lower
    padded = np.concatenate([np.zeros(rate, np.float32), speech, np.zeros(rate, np.float32)])
    assert abs(len(trim_silence(padded, rate)) / rate - 1.1) < 0.011
    flat = np.zeros(1000, np.float32)
    assert len(trim_silence(flat, rate)) == 1000


def test_resampling_keeps_length_and_sound() -> None:
    wave = resample(tone(0.5, 48000), 48000, 22050)
    assert wave.dtype == np.float32
    assert abs(len(wave) - 11025) <= 1
    np.testing.assert_allclose(wave[2000:9000], tone(0.5, 22050)[2000:9000], atol=0.01)
