"""Losses for training the harmonic vocoder on recordings: spectral distances and discriminators."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad, relu

from clock_attention.speech.bfloat16 import bfloat16_where_fast
from clock_attention.speech.vocoder.harmonic import RATE

# (window, mel bins): short windows resolve the energy within a period, long ones separate harmonics from noise.
DISTANCE_SIZES = ((300, 20), (600, 40), (1200, 80), (2400, 120))
DISCRIMINATOR_SIZES = (256, 512, 1024)


def short_time(wave: Tensor, size: int) -> Tensor:
    """STFT for vocoder losses, 75 % overlap: (B, samples) → (B, frames, bins); unit noise keeps unit variance."""
    window = torch.hann_window(size, device=wave.device)
    return torch.fft.rfft(wave.unfold(-1, size, size // 4) * window) / window.square().sum().sqrt()


@cache
def mel_filters(size: int, bins: int) -> Tensor:
    """Mel filters for the vocoder's spectral loss."""
    import librosa

    return torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=size, n_mels=bins, fmax=RATE / 2).T.copy())


def spectral_distance(target: Tensor, wave: Tensor) -> Tensor:
    """Spectral loss of the vocoder: L1 of log-mels plus half the relative Frobenius distance of magnitudes."""
    total = target.new_zeros(())
    for size, bins in DISTANCE_SIZES:
        spectra = [short_time(signal, size) for signal in (target, wave)]
        x, y = ((s.real.square() + s.imag.square() + 1e-10).sqrt() for s in spectra)
        filters = mel_filters(size, bins).to(x)
        logs = [(s @ filters).clamp(min=1e-5).log() for s in (x, y)]
        total = total + (logs[0] - logs[1]).abs().mean() + 0.5 * (x - y).norm() / (x.norm() + 1e-3)
    return total / len(DISTANCE_SIZES)


class DilatedConv(nn.Conv2d):
    """A layer of the vocoder's discriminators: convolution over time with a dilation of `frames`.

    The frames are distributed over the items of a larger batch. A dilated convolution would be equivalent, but its
    gradient is NaN for some sizes in 16 bits with channels last (torch 2.13 on a CPU).
    """

    def __init__(
        self, channels: int, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], frames: int
    ) -> None:
        super().__init__(channels, channels, kernel, stride, padding)
        self.frames = frames

    def forward(self, x: Tensor) -> Tensor:
        items, length = len(x), x.shape[2]
        x = pad(x, (0, 0, 0, -length % self.frames)).unflatten(2, (-1, self.frames))  # (B, C, T / d, d, F)
        x = x.permute(0, 3, 1, 2, 4).flatten(0, 1).contiguous(memory_format=torch.channels_last)
        y = super().forward(x).unflatten(0, (items, self.frames))  # (B, d, C, T / d, F)
        return y.permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, :length]


class SpectrumDiscriminator(nn.Module):
    """One of the vocoder's discriminators: the complex spectrum of one resolution → scores and features."""

    def __init__(self, size: int, channels: int) -> None:
        super().__init__()
        self.size = size
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(3, channels, (3, 7), (1, 2), (1, 3)),
                *(DilatedConv(channels, (3, 5), (1, 2), (1, 2), frames=d) for d in (1, 2, 4)),
                nn.Conv2d(channels, channels, 3, 1, 1),
            ]
        )
        self.score = nn.Conv2d(channels, 1, 3, 1, 1)
        for layer in (*self.layers, self.score):  # torch's default initialisation makes the signal fade
            nn.init.kaiming_normal_(layer.weight, 0.1, nonlinearity="leaky_relu")
            nn.init.zeros_(layer.bias)

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        spectrum = short_time(wave, self.size)
        size = (spectrum.real.square() + spectrum.imag.square() + 1e-8).sqrt()
        x = torch.stack([spectrum.real * size**-0.7, spectrum.imag * size**-0.7, size**0.3], 1)  # (B, 3, frames, bins)
        x = x.contiguous(memory_format=torch.channels_last)  # twice as fast in 16 bits on a CPU
        features = []
        for layer in self.layers:
            x = leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.score(x), features


Judgement = list[tuple[Tensor, list[Tensor]]]


class Discriminators(nn.ModuleList):
    """The vocoder's discriminators, one for each resolution."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__(SpectrumDiscriminator(size, channels) for size in DISCRIMINATOR_SIZES)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it

    def judge(self, wave: Tensor) -> Judgement:
        with bfloat16_where_fast(wave):
            judged = [discriminator(wave) for discriminator in self]
        return [(score.float(), layers) for score, layers in judged]


def discriminator_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Hinge loss of the vocoder's discriminators."""
    pairs = zip(real, fake, strict=True)
    return torch.stack([relu(1 - r).mean() + relu(1 + f).mean() for (r, _), (f, _) in pairs]).sum()


def adversarial_loss(fake: Judgement) -> Tensor:
    """Adversarial loss of the vocoder, from the discriminators' scores of generated waves."""
    return -torch.stack([score.mean() for score, _ in fake]).sum()


def feature_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Feature loss of the vocoder: relative L1 between the discriminators' features of the real and generated waves."""
    distances = [
        (r.detach() - f).abs().mean(dtype=torch.float32) / (r.detach().abs().mean(dtype=torch.float32) + 1e-4)
        for (_, reals), (_, fakes) in zip(real, fake, strict=True)
        for r, f in zip(reals, fakes, strict=True)
    ]
    return torch.stack(distances).mean()
