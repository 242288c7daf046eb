"""Distances and discriminators tell a wave from another."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d

from clock_attention.speech.vocoder.losses import (
    DilatedConv,
    Discriminators,
    adversarial_loss,
    discriminator_loss,
    feature_loss,
    spectral_distance,
)


def test_distance_ignores_the_sign_and_sees_loudness_and_pitch() -> None:
    time = torch.arange(9600) / 24000
    tone = torch.sin(2 * torch.pi * 220 * time)[None]
    assert spectral_distance(tone, -tone) < 1e-4
    other = torch.sin(2 * torch.pi * 330 * time)[None]
    louder, higher = spectral_distance(tone, 2 * tone), spectral_distance(tone, other)
    assert 0.5 < louder < higher


def test_discriminators_learn_and_give_gradients() -> None:
    torch.manual_seed(0)
    judges = Discriminators(channels=4)
    optimizer = torch.optim.Adam(judges.parameters(), 5e-3)
    real, fake = 0.1 * torch.randn(2, 4800), 0.1 * torch.sin(torch.arange(4800) / 9).expand(2, -1)
    first = discriminator_loss(judges.judge(real), judges.judge(fake)).item()
    for _ in range(20):
        optimizer.zero_grad()
        discriminator_loss(judges.judge(real), judges.judge(fake)).backward()
        optimizer.step()
    assert discriminator_loss(judges.judge(real), judges.judge(fake)).item() < 0.6 * first
    made = fake.clone().requires_grad_(True)
    judged = judges.judge(made)
    (adversarial_loss(judged) + feature_loss(judges.judge(real), judged)).backward()
    assert made.grad is not None
    assert made.grad.abs().sum() > 0


@pytest.mark.parametrize("frames", [1, 2, 4])
def test_dealing_out_frames_is_dilation(frames: int) -> None:
    torch.manual_seed(0)
    layer = DilatedConv(3, (3, 5), (1, 2), (1, 2), frames=frames).double()
    x = torch.randn(2, 3, 13, 21, dtype=torch.float64)
    expected = conv2d(x, layer.weight, layer.bias, (1, 2), (frames, 2), (frames, 1))
    torch.testing.assert_close(layer(x), expected)


def test_gradients_of_speech_sized_batches_are_finite() -> None:
    """In 16 bits with channels last they were not, for the sizes of a real training."""
    torch.manual_seed(0)
    judges = Discriminators()
    judged = judges.judge(0.1 * torch.randn(2, 64 * 300))
    discriminator_loss(judged, judged).backward()
    for name, parameter in judges.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
