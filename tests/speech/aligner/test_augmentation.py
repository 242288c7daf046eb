from __future__ import annotations

import numpy as np
import pytest
import torch

from clock_attention.speech.aligner.augmentation import augmented, warped
from clock_attention.speech.aligner.features import BINS, features, spectrogram

RATE = 16000


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)).astype(np.float32)


@pytest.mark.parametrize("seed", range(12))
def test_features_are_finite_and_have_the_stated_length(seed):
    wave = tone(200) + np.random.default_rng(seed).normal(size=RATE).astype(np.float32) * 0.05
    found, factor = augmented(wave, np.random.default_rng(seed))
    assert found.isfinite().all()
    assert found.shape[1] == BINS
    assert len(found) == pytest.approx(200 * factor, abs=2)


def test_the_same_seed_gives_the_same_speech():
    first, second = (augmented(tone(300), np.random.default_rng(3)) for _ in range(2))
    assert first[1] == second[1]
    assert torch.equal(first[0], second[0])


@pytest.mark.parametrize("factor", [0.85, 1.2])
def test_a_warp_multiplies_frequencies(factor):
    moved = warped(spectrogram()(torch.from_numpy(tone(1500))), factor).mean(0).argmax()
    there = spectrogram()(torch.from_numpy(tone(1500 * factor))).mean(0).argmax()
    assert abs(int(moved) - int(there)) <= 1


def test_level_does_not_matter():
    wave = tone(200) * np.linspace(0, 1, RATE, dtype=np.float32)
    torch.testing.assert_close(
        features(torch.from_numpy(wave)), features(torch.from_numpy(wave * 0.1)), atol=1e-3, rtol=0
    )
