"""A discriminator of mel patches, which makes the decoder choose one sound instead of averaging over several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention.speech.bfloat16 import bfloat16_where_fast

WINDOW = 96  # frames of a patch, about a second
PATCHES = 12  # per step
LAYERS: tuple[tuple[tuple[int, int], tuple[int, ...], tuple[tuple[int, int], ...]], ...] = (
    # kernel (time, bins), channels, strides
    ((3, 5), (32, 64, 96, 96), ((1, 2), (2, 2), (2, 2), (1, 1))),
    ((5, 3), (32, 64, 96, 96), ((2, 2), (2, 2), (2, 1), (1, 1))),
    ((3, 3), (16, 32, 64, 96), ((1, 1), (1, 2), (2, 2), (1, 2))),
)


class Judge(nn.Module):
    """One sub-discriminator of the mel discriminator: convolutions over time and bins, with a score per position."""

    def __init__(self, kernel: tuple[int, int], channels: Sequence[int], strides: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        sizes = zip((2, *channels[:-1]), channels, strides, strict=True)
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(a, b, kernel, stride, padding)) for a, b, stride in sizes
        )
        self.output = nn.Conv2d(channels[-1], 1, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """x (N, 2, W, M) → scores (N, 1, w, m) and the layers' features."""
        features = []
        x = x.contiguous(memory_format=torch.channels_last)
        with bfloat16_where_fast(x):
            for layer in self.layers:
                x = F.leaky_relu(layer(x), 0.2)
                features.append(x)
            score = self.output(x)
        return score.float(), features


class MelDiscriminator(nn.Module):
    """Discriminator of mel patches: several `Judge`s, each with its own resolution in time and frequency."""

    def __init__(self) -> None:
        super().__init__()
        self.judges = nn.ModuleList(Judge(*layer) for layer in LAYERS)

    def forward(self, mel: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        """Scores and features of patches of standardised mel (N, W, M)."""
        bins = torch.linspace(-1, 1, mel.shape[-1], device=mel.device).expand_as(mel)
        x = torch.stack([mel, bins], 1)  # tells each judge the position in the spectrum
        return [judge(x) for judge in self.judges]

    def discriminator_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Least squares: 1 for patches of recordings, 0 for patches of the model."""
        pairs = zip(self(real), self(fake.detach()), strict=True)
        return torch.stack([(1 - ours[0]).square().mean() + theirs[0].square().mean() for ours, theirs in pairs]).sum()

    def generator_losses(self, real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
        """Adversarial loss of the model's patches, and their feature distance from patches of the recordings."""
        with torch.no_grad():
            expected = [features for _, features in self(real)]
        with self.frozen():
            judged = self(fake)
        adversarial = torch.stack([(1 - score).square().mean() for score, _ in judged]).sum()
        distances = [
            (theirs - ours).abs().mean(dtype=torch.float32)
            for ours_all, (_, theirs_all) in zip(expected, judged, strict=True)
            for ours, theirs in zip(ours_all, theirs_all, strict=True)
        ]
        return adversarial, torch.stack(distances).sum()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Disable gradients for the weights, which are half of the cost of a backward pass."""
        self.requires_grad_(False)
        try:
            yield
        finally:
            self.requires_grad_(True)


def patches(frames: Tensor, seed: int) -> list[tuple[int, int]]:
    """Sample mel patches for the discriminator: (item, first frame), by length; none if all items are too short."""
    long = [item for item, count in enumerate(frames.tolist()) if count >= WINDOW]
    if not long:
        return []
    draw = torch.Generator().manual_seed(seed)
    weights = frames.cpu()[long].float()
    chosen = torch.multinomial(weights, PATCHES, replacement=True, generator=draw).tolist()
    return [(long[c], int(torch.randint(0, int(frames[long[c]]) - WINDOW + 1, (1,), generator=draw))) for c in chosen]


def cut_windows(mel: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
    """Cut mel patches for the discriminator: windows (N, W, M) of a batch (B, S, M)."""
    return torch.stack([mel[item, start : start + WINDOW] for item, start in places])
