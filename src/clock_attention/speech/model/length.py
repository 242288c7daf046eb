"""The length model: predicts the number of mel frames of an utterance."""

from __future__ import annotations

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Frames per token of unhurried English: with it, normalized positions look like the absolute ones of natural speech,
# and the length model starts from a sensible guess.
NATURAL_MPR = 6.0
MOST_MPR = 100.0  # upper bound of the average frames per token, whatever the weights predict


class LengthModel(nn.Module):
    """Length model: total frames as the sum of one duration per token, learned from totals only, so it extrapolates.

    It reads the encoder's output without a gradient, so training it does not affect the rest of the model.
    """

    def __init__(self, width: int, hidden: int = 64) -> None:
        super().__init__()
        self.inner = nn.Conv1d(width, hidden, 3, padding=1)
        self.outer = nn.Linear(hidden, 1)
        nn.init.zeros_(self.outer.weight)
        nn.init.constant_(self.outer.bias, log(NATURAL_MPR))

    def forward(self, encoded: Tensor, padding: Tensor) -> Tensor:
        """encoded (B, T, E), padding (B, T) → log of the number of frames (B,)"""
        x = encoded.detach().masked_fill(padding[..., None], 0.0).transpose(1, 2)
        duration = self.outer(F.relu(self.inner(x)).transpose(1, 2))[..., 0]  # log frames (B, T)
        return duration.masked_fill(padding, -torch.inf).logsumexp(-1)
