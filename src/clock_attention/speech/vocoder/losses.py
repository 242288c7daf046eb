"""What the harmonic vocoder is trained by: a likelihood, distances between spectra, and discriminators."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, leaky_relu, pad, relu

from clock_attention.speech.vocoder.harmonic import HIGHEST_PITCH, LOWEST_PITCH, NOISE_FFT, PITCH_CLASSES
from clock_attention.speech.vocoder.harmonic_synthesis import short_time

# Short windows see where in a period the energy is, long ones tell harmonics from noise.
LIKELIHOOD_SIZES = (128, 256, 1024, 2048)
DISTANCE_SIZES = (512, 1024, 2048)
DISCRIMINATOR_SIZES = (256, 512, 1024)
EDGE = 1024  # samples at both ends of a crop that its mel does not fully see
FAINTEST = 1e-9  # variance, about that of 16-bit quantisation


def magnitude(wave: Tensor, size: int) -> Tensor:
    spectrum = short_time(wave, torch.hann_window(size, device=wave.device))
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()


def likelihood(target: Tensor, voiced: Tensor, log_noise: Tensor) -> Tensor:
    """Negative log-likelihood of the target's magnitudes, without constants: Rice's distribution.

    A spectrum of known magnitude `|voiced|` and unknown phase plus complex Gaussian noise of variance σ². Unlike a
    distance it has its optimum at the right amount of noise.
    """
    total = target.new_zeros(())
    for size in LIKELIHOOD_SIZES:
        edge = math.ceil(EDGE / (size // 4))
        inner = slice(edge, -edge)
        r, nu = magnitude(target, size)[:, inner], magnitude(voiced, size)[:, inner]
        variance = noise_variance(log_noise, size)[:, inner] + FAINTEST
        bessel = torch.special.i0e(2 * r * nu / variance).log()
        total = total + (variance.log() + (r - nu).square() / variance - bessel).mean()
    return total


def noise_variance(log_noise: Tensor, size: int) -> Tensor:
    """log σ (B, frames, bins) of windows of `NOISE_FFT` → variance in windows of another size, a power of two."""
    variance = (2 * log_noise).exp()
    steps = int(math.log2(size / NOISE_FFT))
    if steps < 0:
        variance = interpolate(variance.transpose(1, 2), scale_factor=2.0**-steps, mode="linear").transpose(1, 2)
    for _ in range(steps):
        padded = pad(variance.transpose(1, 2), (1, 1), mode="replicate").transpose(1, 2)
        near, far = padded[:, 1:-1:2] + padded[:, 2::2], padded[:, :-2:2] + padded[:, 3::2]
        variance = 0.4 * near + 0.1 * far
    return interpolate(variance, size=size // 2 + 1, mode="linear", align_corners=True)


def spectral_distance(target: Tensor, wave: Tensor) -> Tensor:
    """Relative Frobenius distance plus L1 of logarithms, averaged over resolutions (Yamamoto et al., 2020)."""
    total = target.new_zeros(())
    for size in DISTANCE_SIZES:
        x, y = magnitude(target, size), magnitude(wave, size)
        total = total + (x - y).norm() / (x.norm() + 1e-3) + ((x + 1e-4).log() - (y + 1e-4).log()).abs().mean()
    return total / len(DISTANCE_SIZES)


def pitch_loss(logits: Tensor, hertz: Tensor, voiced: Tensor) -> Tensor:
    """Cross-entropy with a bell of one class around the right one; unvoiced frames hardly count."""
    place = (hertz / LOWEST_PITCH).log() / math.log(HIGHEST_PITCH / LOWEST_PITCH) * (PITCH_CLASSES - 1)
    classes = torch.arange(PITCH_CLASSES, device=logits.device)
    wanted = (-(classes - place[..., None]).square() / 2).softmax(-1)
    weight = voiced + 0.02
    return (-(wanted * logits.log_softmax(-1)).sum(-1) * weight).sum() / weight.sum()


class SpectrumDiscriminator(nn.Module):
    """Convolutions over the compressed complex spectrum of one resolution → scores and the layers' features."""

    def __init__(self, size: int, channels: int) -> None:
        super().__init__()
        self.size = size
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(3, channels, (3, 7), (1, 2), (1, 3)),
                *(nn.Conv2d(channels, channels, (3, 5), (1, 2), (d, 2), dilation=(d, 1)) for d in (1, 2, 4)),
                nn.Conv2d(channels, channels, 3, 1, 1),
            ]
        )
        self.score = nn.Conv2d(channels, 1, 3, 1, 1)

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        spectrum = short_time(wave, torch.hann_window(self.size, device=wave.device))
        size = (spectrum.real.square() + spectrum.imag.square() + 1e-8).sqrt()
        x = torch.stack([spectrum.real * size**-0.7, spectrum.imag * size**-0.7, size**0.3], 1)  # (B, 3, frames, bins)
        features = []
        for layer in self.layers:
            x = leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.score(x), features


Judgement = list[tuple[Tensor, list[Tensor]]]


class Discriminators(nn.ModuleList):
    def __init__(self, channels: int = 16) -> None:
        super().__init__(SpectrumDiscriminator(size, channels) for size in DISCRIMINATOR_SIZES)

    def judge(self, wave: Tensor) -> Judgement:
        return [discriminator(wave) for discriminator in self]


def discriminator_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Hinge loss."""
    pairs = zip(real, fake, strict=True)
    return torch.stack([relu(1 - r).mean() + relu(1 + f).mean() for (r, _), (f, _) in pairs]).sum()


def adversarial_loss(fake: Judgement) -> Tensor:
    return -torch.stack([score.mean() for score, _ in fake]).sum()


def feature_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Relative L1 between features of the real and of the made wave."""
    distances = [
        (r.detach() - f).abs().mean() / (r.detach().abs().mean() + 1e-4)
        for (_, reals), (_, fakes) in zip(real, fake, strict=True)
        for r, f in zip(reals, fakes, strict=True)
    ]
    return torch.stack(distances).mean()
