"""Conditional flow matching: a decoder that samples one mel instead of averaging over all likely ones.

It starts from the direct decoder's mel μ plus noise, x₀ = μ + σ ε, and follows a velocity field to a mel x₁ like those
of the recordings. The velocity learns x₁ − x₀ at x_t = (1 − t) x₀ + t x₁ (Lipman et al., 2023). Starting near the mean
keeps the path short, so that a few Euler steps are enough.

Clock-informed guidance: some items are trained with a wide clock, whose frames read the surrounding text instead of
the phoneme that they meet, and without μ. In synthesis the difference between the two velocities, which is what the
sharp clock contributes, can be amplified: v + w (v − v_wide).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clock_attention.speech.model.convolution import ConvStack

TIME_FEATURES = 16
WIDER = 6.0  # standard deviation of the wide clock, relative to the sharp one
WIDE_SHARE = 0.15  # of the items in training


class Condition(NamedTuple):
    """What the flow-matching decoder is conditioned on in each frame."""

    text: Tensor  # text read where the clocks meet, with positions, prosody and pitch (B, S, E)
    mean: Tensor  # the direct decoder's mel, standardised (B, S, M)
    present: Tensor  # 0 in padding (B, S, 1)


class FlowDecoder(nn.Module):
    """The flow-matching decoder: predicts the velocity of a mel and samples mels with it."""

    def __init__(self, inputs: int, mels: int, width: int, layers: int, expansion: int, noise: float) -> None:
        super().__init__()
        self.noise = noise
        self.steps, self.guidance = 4, 0.0  # in synthesis
        self.stack = ConvStack(inputs + 2 * mels + TIME_FEATURES, width, layers, expansion)
        self.output = nn.Linear(width, mels)
        nn.init.zeros_(self.output.weight)

    def velocity(self, condition: Condition, x: Tensor, time: Tensor) -> Tensor:
        """Velocity at x (B, S, M) and times (B,).  (B, S, M)"""
        features = time_features(time).to(x.dtype)[:, None].expand(-1, x.shape[1], -1)
        known = torch.cat([condition.text, condition.mean.to(x.dtype), x, features], -1)
        return self.output(self.stack(known, condition.present))

    def errors(self, condition: Condition, wide: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of the velocity in each frame, at random times.  (B, S)

        Args:
            wide: `condition.text` as a wide clock reads it; random items are trained with it.
            target: standardised mel (B, S, M).
        """
        mean = condition.mean.detach()
        items = len(mean)
        time = torch.rand(items, device=mean.device)
        blurred = (torch.rand(items, device=mean.device) < WIDE_SHARE)[:, None, None]
        given = Condition(torch.where(blurred, wide, condition.text), mean.masked_fill(blurred, 0.0), condition.present)
        start = mean + self.noise * torch.randn_like(mean)
        share = time[:, None, None]
        predicted = self.velocity(given, (1 - share) * start + share * target, time)
        return (predicted.float() - (target - start)).square().mean(-1)

    def sample(self, condition: Condition, wide: Tensor) -> Tensor:
        """Sample a mel by Euler steps, with torch's global random generator.  (B, S, M)"""
        x = condition.mean + self.noise * torch.randn_like(condition.mean)
        unguided = Condition(wide, torch.zeros_like(condition.mean), condition.present)
        for step in range(self.steps):
            time = x.new_full((len(x),), step / self.steps)
            velocity = self.velocity(condition, x, time)
            if self.guidance:
                velocity = velocity + self.guidance * (velocity - self.velocity(unguided, x, time))
            x = x + velocity / self.steps
        return x


def time_features(time: Tensor) -> Tensor:
    """Time features of the flow-matching decoder: sines and cosines of octaves of t (B,) → (B, TIME_FEATURES)."""
    octaves = 2.0 ** torch.arange(TIME_FEATURES // 2, device=time.device)
    angle = math.pi / 2 * time[:, None] * octaves
    return torch.cat([angle.sin(), angle.cos()], -1)
