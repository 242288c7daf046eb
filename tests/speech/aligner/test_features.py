"""What the aligner's network sees."""

import torch

from clock_attention.speech.aligner.features import BINS, FRAME_SECONDS, HOP, RATE, features, normalised_features


def test_a_frame_is_five_milliseconds_and_centred_on_its_samples():
    wave = torch.zeros(RATE)
    wave[100 * HOP + HOP // 2] = 1.0
    found = features(wave)
    assert found.shape == (RATE // HOP, BINS)
    assert FRAME_SECONDS == 0.005
    loud = found.sum(-1)
    assert int(loud.argmax()) == 100
    torch.testing.assert_close(loud[99], loud[101], rtol=0.05, atol=0.5)


def test_neither_level_nor_tilt_matters():
    torch.manual_seed(0)
    wave = torch.randn(RATE // 2) * torch.linspace(0.01, 1, RATE // 2)
    torch.testing.assert_close(features(wave), features(0.05 * wave), rtol=1e-3, atol=1e-3)
    mel = torch.randn(50, BINS)
    tilted = mel + torch.linspace(0, 3, BINS)
    torch.testing.assert_close(normalised_features(mel), normalised_features(tilted), rtol=1e-4, atol=1e-4)


def test_silence_is_no_noise():
    assert features(torch.zeros(RATE)).abs().max() < 1e-4
