"""HiFi-GAN's generator on the CPU: the same wave as `hifigan.Generator` in about half the time.

Nearly all of the work is convolutions from C to C channels. Two changes make them cheaper here. Time is the outer axis,
so that channels are contiguous. And wide kernels use short Fourier transforms: blocks of N outputs need R products of
C × C matrices instead of N · kernel. With 32 points and 11 taps, that is 47 instead of 242.
"""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d, leaky_relu

from clock_attention.speech.vocoder.hifigan import LAST_SLOPE, SLOPE, Generator, ResidualBlock

# oneDNN caches up to 1,024 compiled convolutions, several for every length it has seen: gigabytes after some hundred
# utterances. It reads this once, before its first convolution; a small cache is as fast, because lengths rarely repeat.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")

POINTS = 32
# Blocks per matrix product, so that intermediate results stay in the CPU cache.
BLOCKS = 64
# Measured (benchmarks/vocoder.py): below these, the transforms cost more than they save.
LEAST_KERNEL, LEAST_CHANNELS = 7, 64


def fourier_matrices(kernel: int, points: int = POINTS) -> tuple[Tensor, Tensor, Tensor]:
    """Fourier matrices for HiFi-GAN on the CPU: Σ_j w[j] x[n + j] = A [(G w) ⊙ (B x)].

    Shapes: A (N, R), G (R, kernel), B (R, points). All arithmetic is real: a complex product takes three real ones
    (Gauss), whose sums and differences are part of the matrices. The first row of B is the sum of all points.
    """
    outputs = points - kernel + 1
    frequency = torch.arange(points // 2 + 1, dtype=torch.float64)
    angle = 2 * math.pi / points * frequency[:, None] * torch.arange(points, dtype=torch.float64)
    cos, sin = angle.cos(), angle.sin()  # (bins, points)
    # x̂ = (cos - i sin) x, and ŵ conjugated, because kernels are not flipped.
    ends, inner = [0, points // 2], slice(1, points // 2)  # real bins, and complex bins
    weight = torch.full((points // 2 + 1, 1), 2 / points, dtype=torch.float64)
    weight[ends] = 1 / points
    to_re, to_im = weight * cos[:, :outputs], -weight * sin[:, :outputs]  # y = to_re Re ŷ + to_im Im ŷ
    w_re, w_im = cos[inner, :kernel], sin[inner, :kernel]
    x_re, x_im = cos[inner], -sin[inner]
    # a = w_re (x_re + x_im), b = (w_im - w_re) x_re, c = (w_re + w_im) x_im:  Re ŷ = a - c, Im ŷ = a + b
    inputs = torch.cat([cos[ends], x_re + x_im, x_re, x_im])
    weights = torch.cat([cos[ends, :kernel], w_re, w_im - w_re, w_re + w_im])
    results = torch.cat([to_re[ends], (to_re + to_im)[inner], to_im[inner], -to_re[inner]])
    return results.T.contiguous(), weights, inputs


class FourierConvolution:
    """HiFi-GAN's convolution on the CPU by Fourier transforms: leaky_relu, then a same-length convolution of (L, C)."""

    def __init__(self, layer: nn.Conv1d) -> None:
        assert layer.bias is not None
        (self.kernel,), (self.dilation,) = layer.kernel_size, layer.dilation
        a, g, b = fourier_matrices(self.kernel)
        self.a, self.b = a.to(layer.weight), b.to(layer.weight)
        taps = layer.weight.permute(2, 1, 0)  # (kernel, C, C)
        self.weight = (g.to(taps) @ taps.flatten(1)).unflatten(1, taps.shape[1:])  # (R, C, C)
        self.bias = layer.bias * POINTS  # added to the row of the sum of all points, which A divides by POINTS

    def __call__(self, x: Tensor, slope: float) -> Tensor:
        (length, channels), dilation, outputs = x.shape, self.dilation, len(self.a)
        blocks = math.ceil(length / (outputs * dilation))
        left = (self.kernel - 1) * dilation // 2
        rows = (blocks * outputs + self.kernel - 1) * dilation
        padded = x.new_empty(rows, channels)
        padded[:left], padded[left + length :] = 0, 0
        torch.ops.aten.leaky_relu.out(x, slope, out=padded[left : left + length])
        y = x.new_empty(dilation, blocks, outputs, channels)
        for phase in range(dilation):  # every dilation-th step forms a separate sequence
            for first in range(0, blocks, BLOCKS):
                count = min(BLOCKS, blocks - first)
                begin = (first * outputs * dilation + phase) * channels
                strides = (outputs * dilation * channels, dilation * channels, 1)
                overlapping = padded.as_strided((count, POINTS, channels), strides, begin)
                spectrum = torch.bmm(self.b.expand(count, -1, -1), overlapping)  # (count, R, C)
                product = torch.bmm(spectrum.transpose(0, 1), self.weight)  # (R, count, C)
                product[0] += self.bias
                target = y[phase, first : first + count]  # (count, N, C)
                torch.bmm(self.a.expand(count, -1, -1), product.transpose(0, 1), out=target)
        return y.flatten(1, 2).transpose(0, 1).reshape(-1, channels)[:length]


class DirectConvolution:
    """HiFi-GAN's direct convolution on the CPU: leaky_relu (none if slope is 1), then a plain or transposed one."""

    def __init__(self, layer: nn.Module) -> None:
        assert isinstance(layer, nn.Conv1d | nn.ConvTranspose1d)
        self.weight = layer.weight[:, :, None].contiguous(memory_format=torch.channels_last)
        self.bias = layer.bias
        self.stride, self.padding = (1, layer.stride[0]), (0, int(layer.padding[0]))
        self.dilation = (1, layer.dilation[0])
        self.transposed = layer.transposed

    def __call__(self, x: Tensor, slope: float) -> Tensor:
        image = (x if slope == 1 else leaky_relu(x, slope)).T[None, :, None]  # (1, C, 1, L), channels last in memory
        if self.transposed:
            y = conv_transpose2d(image, self.weight, self.bias, self.stride, self.padding)
        else:
            y = conv2d(image, self.weight, self.bias, self.stride, self.padding, self.dilation)
        return y[0, :, 0].T


Convolution = FourierConvolution | DirectConvolution


def convolution(layer: nn.Module) -> Convolution:
    """HiFi-GAN's convolution on the CPU, using Fourier transforms where they are faster."""
    assert isinstance(layer, nn.Conv1d)
    wide = layer.kernel_size[0] >= LEAST_KERNEL and layer.in_channels >= LEAST_CHANNELS
    # Kernels longer than half a block would leave few outputs per block.
    return FourierConvolution(layer) if wide and layer.kernel_size[0] <= POINTS // 2 else DirectConvolution(layer)


def pairs(block: nn.Module) -> list[tuple[Convolution, Convolution]]:
    """HiFi-GAN's residual block on the CPU: pairs of convolutions."""
    assert isinstance(block, ResidualBlock)
    both = zip(block.convs1, block.convs2, strict=True)
    return [(convolution(dilated), convolution(plain)) for dilated, plain in both]


class CpuGenerator:
    """HiFi-GAN's generator on the CPU: log-mel (frames, n_mels) → wave (frames · hop,), one utterance, no gradients."""

    @torch.inference_mode()
    def __init__(self, generator: Generator) -> None:
        self.kinds = generator.kinds
        self.first, self.last = DirectConvolution(generator.conv_pre), DirectConvolution(generator.conv_post)
        self.ups = [DirectConvolution(layer) for layer in generator.ups]
        self.blocks = [pairs(block) for block in generator.resblocks]

    @torch.inference_mode()
    def __call__(self, mel: Tensor) -> Tensor:
        x = self.first(mel, 1)  # (frames, C)
        for stage, up in enumerate(self.ups):
            x = up(x, SLOPE)
            total = torch.zeros_like(x)
            for block in self.blocks[stage * self.kinds : (stage + 1) * self.kinds]:
                y = x
                for dilated, plain in block:
                    y = y + plain(dilated(y, SLOPE), SLOPE)
                total += y
            x = total / self.kinds
        return torch.tanh(self.last(x, LAST_SLOPE))[:, 0]  # (frames · hop,)
