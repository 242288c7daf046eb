from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.audio.crlf_repair import repaired

RATE = 16000


def speech(seed: int = 0) -> np.ndarray:
    """Smooth 16-bit samples that hold CR LF among their bytes."""
    rng = np.random.default_rng(seed)
    noise = np.convolve(rng.normal(size=2 * RATE), np.hanning(24), mode="same")
    samples = np.round(noise / np.abs(noise).max() * 5000).astype("<i2")
    samples[9000] = 0x0A0D  # the bytes 0D 0A
    samples[20000] = 0x0A0D
    return samples


def damaged(samples: np.ndarray) -> np.ndarray:
    data = samples.tobytes().replace(b"\r\n", b"\n")
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768


@pytest.mark.parametrize("seed", range(5))
def test_lost_bytes_are_put_back(seed):
    samples = speech(seed)
    broken = damaged(samples)
    assert np.abs(broken).max() > 0.9
    whole, lost = repaired(broken)
    expected = samples.astype(np.float32) / 32768
    assert lost >= 1
    count = min(len(whole), len(expected))
    different = whole[:count] != expected[:count]
    assert different.mean() < 0.01  # which of several line feeds lost its companion may be guessed wrong


def test_sound_recordings_are_left_alone():
    whole = speech().astype(np.float32) / 32768
    loud = np.round(np.random.default_rng(0).uniform(-1, 1, RATE) * 32000).astype(np.float32) / 32768
    for wave in (whole, loud, np.zeros(0, np.float32), whole * 0.3):
        same, lost = repaired(wave)
        assert lost == 0
        assert same is wave
