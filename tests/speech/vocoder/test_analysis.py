"""Mel, pitch and wave of a recording lie on the same time."""

from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.vocoder.harmonic import HOP, HarmonicConfig
from tests.speech.vocoder.tiny_vocoder import voiced_wave

pytest.importorskip("swift_f0")


def test_pitch_and_silence_are_found() -> None:
    from clock_attention.speech.vocoder.analysis import Analysis

    wave = np.concatenate([voiced_wave(0.6), np.zeros(11025, np.float32)])
    mel, frequency, finer = Analysis(HarmonicConfig())(wave)
    assert len(finer) == len(frequency) * HOP
    assert len(frequency) == int(len(mel) * 256 / 22050 * 80)
    np.testing.assert_allclose(frequency[6:42], 180, rtol=0.01)
    assert not frequency[56:].any()
