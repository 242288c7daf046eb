"""Distances and discriminators tell a wave from another."""

from __future__ import annotations

import torch

from clock_attention.speech.vocoder.losses import (
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


def test_discriminators_learn_to_tell_and_give_gradients() -> None:
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
