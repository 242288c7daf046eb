"""Convolution blocks over time that the aligned model is made of."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvBlock(nn.Module):
    """ConvNeXt block over time, channels last: depthwise convolution, norm, two linear layers, residual."""

    def __init__(self, width: int, expansion: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, expansion * width)
        self.outer = nn.Linear(expansion * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """x (B, L, E); keep (B, L, 1), 0 in padding, which the convolution must not see."""
        with torch.autocast(x.device.type, enabled=False):  # slower in 16 bits on a CPU
            y = self.depthwise((x * keep).transpose(1, 2)).transpose(1, 2)
        return x + self.outer(F.gelu(self.inner(self.norm(y)), approximate="tanh")) * self.scale


class ConvStack(nn.Module):
    """Linear input, ConvNeXt blocks, norm."""

    def __init__(self, inputs: int, width: int, layers: int, expansion: int, kernel: int = 7) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(ConvBlock(width, expansion, kernel) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.input(x)
        for block in self.blocks:
            x = block(x, keep)
        return self.norm(x)
