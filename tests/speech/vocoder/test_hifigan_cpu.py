"""The generator on the CPU computes what the plain module computes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import leaky_relu

from clock_attention.speech.vocoder import hifigan_cpu
from clock_attention.speech.vocoder.hifigan import Generator, HifiganConfig
from clock_attention.speech.vocoder.hifigan_cpu import CpuGenerator, FourierConvolution


def a_mel(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(frames, 80, generator=torch.Generator().manual_seed(seed)) - 3


@given(
    length=st.integers(1, 300),
    kernel=st.sampled_from([1, 3, 7, 11, 15]),
    dilation=st.integers(1, 6),
    channels=st.integers(1, 5),
    blocks=st.integers(1, 5),
)
def test_fourier_convolution_is_the_convolution(
    length: int, kernel: int, dilation: int, channels: int, blocks: int
) -> None:
    torch.manual_seed(length)
    padding = (kernel - 1) * dilation // 2
    layer = nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=padding).double().requires_grad_(False)
    x = torch.randn(length, channels, dtype=torch.float64)
    expected = layer(leaky_relu(x, 0.1).T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hifigan_cpu, "BLOCKS", blocks)
        torch.testing.assert_close(FourierConvolution(layer)(x, 0.1), expected.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_the_whole_generator_in_double_precision(frames: int) -> None:
    torch.manual_seed(0)
    config = replace(HifiganConfig(), upsample_initial_channel=128)  # V2: one stage wide enough for Fourier transforms
    generator = Generator(config).double().requires_grad_(False)
    for parameter in generator.parameters():
        parameter.mul_(1.5)
    fast = CpuGenerator(generator)
    fourier = [sum(isinstance(one, FourierConvolution) for pair in block for one in pair) for block in fast.blocks]
    assert fourier[:6] == [0, 6, 6, 0, 0, 0]
    mel = a_mel(frames).double()
    expected = generator(mel.T[None])[0, 0]
    assert expected.std() > 1e-3
    torch.testing.assert_close(fast(mel), expected, rtol=0, atol=1e-11)
