import numpy as np
import pytest

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.pitch import log_pitch


def buzz(hertz: np.ndarray, rate: int) -> np.ndarray:
    """A voice-like sum of harmonics that follows a contour of one value a sample."""
    phase = 2 * np.pi * np.cumsum(hertz) / rate
    return (0.3 * sum(np.sin(k * phase) / k for k in range(1, 12))).astype(np.float32)


@pytest.mark.parametrize("preset", ["hifigan", "paper"])
def test_a_gliding_tone_is_followed_and_silence_has_no_pitch(preset: str) -> None:
    config = MelConfig.preset(preset)
    seconds = 1.2
    samples = int(seconds * config.sample_rate)
    hertz = np.linspace(120, 200, samples)
    wave = buzz(hertz, config.sample_rate)
    wave = np.concatenate([wave, np.zeros(config.sample_rate // 2, np.float32)])
    found = log_pitch(wave, config)
    assert len(found) == config.frames(len(wave))
    inside = slice(10, int(seconds * config.frames_per_second) - 10)
    centres = (np.arange(len(found)) * config.hop_length + config.n_fft // 2 - config.pad)[inside]
    semitones = 12 / np.log(2) * np.abs(found[inside] - np.log(hertz[centres]))
    assert np.median(semitones) < 0.3
    assert (found[-25:] == 0).all()
