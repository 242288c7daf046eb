"""Which true frame each predicted frame is compared with, when timing is allowed some play.

A parallel decoder is told how long an utterance is, not where in it each phoneme lies. Its clocks are right at both
ends and uncertain between them, the more so the longer the utterance, like a Brownian bridge. Frame against frame, an
L1 loss then asks for the median over all the places where a phoneme might have been, which is a blur. Compared along
the best monotone path, it asks for sharp frames; what is left of the plain loss keeps the timing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.model.model import past_end

CHANGE = (
    0.1  # cost of a path that moves by one frame against the target, in units of the mean absolute error of a frame
)


def warped(predicted: Tensor, mel: Tensor, frames: Tensor, play: int) -> Tensor:
    """The target, warped: frame s is the true frame s + offset(s) that the best path compares prediction s with.

    Args:
        predicted: (B, S or more, M), of which no gradient is taken.
        mel: the target (B, S, M).
        frames: how many of them are valid (B,).
        play: by how many frames a path may be off; it begins and ends with 0 and moves by at most 1 a frame.
    """
    said = predicted.detach()[:, : mel.shape[1]].float()
    costs = offset_costs(said, mel.float(), frames, play)  # (B, S, 2 play + 1)
    offsets = torch.from_numpy(best_offsets(costs.cpu().numpy(), frames.cpu().numpy())).to(mel.device)  # (B, S)
    places = torch.arange(mel.shape[1], device=mel.device) + offsets
    places = places.clamp(0, mel.shape[1] - 1)  # paths through NaNs may lead anywhere
    return mel.gather(1, places[..., None].expand_as(mel))


def offset_costs(predicted: Tensor, mel: Tensor, frames: Tensor, play: int) -> Tensor:
    """Mean absolute difference of predicted frame s and true frame s + offset; infinite where there is none."""
    length = mel.shape[1]
    padding = past_end(frames, length)
    costs = predicted.new_full((len(mel), length, 2 * play + 1), torch.inf)
    for offset in range(-min(play, length - 1), min(play, length - 1) + 1):
        first, end = max(0, -offset), min(length, length - offset)
        difference = (predicted[:, first:end] - mel[:, first + offset : end + offset]).abs().mean(-1)
        outside = padding[:, first + offset : end + offset]
        costs[:, first:end, offset + play] = difference.masked_fill(outside, torch.inf)
    return costs


def best_offsets(costs: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """The cheapest path of each item, by dynamic programming; 0 in the padding. (B, S, K) → (B, S)"""
    batch, length, count = costs.shape
    play, rows = count // 2, np.arange(batch)
    total = np.full((batch, count + 2), np.inf)  # one more on either side, which no path enters
    total[:, play + 1] = costs[:, 0, play]
    moves = np.zeros((batch, length, count), np.int8)
    for s in range(1, length):
        before = np.stack([total[:, :-2] + CHANGE, total[:, 1:-1], total[:, 2:] + CHANGE])  # offset - 1, same, + 1
        choice = before.argmin(0)
        moves[:, s] = choice - 1
        total[:, 1:-1] = np.take_along_axis(before, choice[None], 0)[0] + costs[:, s]
    offsets = np.zeros((batch, length), np.int64)
    offset = np.zeros(batch, np.int64)
    for s in range(length - 1, 0, -1):
        inside = s < frames  # paths end with offset 0 at the last valid frame
        offset = np.where(inside, offset, 0)
        offsets[:, s] = offset
        offset = offset + np.where(inside, moves[rows, s, offset + play], 0)
    return offsets
