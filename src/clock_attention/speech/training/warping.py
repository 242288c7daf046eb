"""Time warping for the L1 loss: matches predicted frames to true frames whose timing may be off by a few frames.

A parallel decoder knows the length of an utterance but not the position of each phoneme. Its clocks are exact at both
ends and uncertain between them, like a Brownian bridge: the longer the utterance, the larger the variance. A plain L1
loss is minimised by the median over all possible timings, which is blurred. L1 along the best monotone path rewards
sharp frames; the remaining share of plain L1 preserves the timing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.model.transformer_model import past_end

# Cost of changing the path's offset by one frame, in units of the mean absolute error of a frame.
CHANGE = 0.1


def warped(predicted: Tensor, mel: Tensor, frames: Tensor, slack: int) -> Tensor:
    """The target warped in time: frame s is the true frame s + offset(s) that the best path matches to prediction s.

    Args:
        predicted: (B, S or more, M); no gradient flows through it.
        mel: the target (B, S, M).
        frames: how many of them are valid (B,).
        slack: largest offset of a path in frames; it starts and ends with 0 and changes by at most 1 per frame.
    """
    costs = offset_costs(
        predicted.detach()[:, : mel.shape[1]].float(), mel.float(), frames, slack
    )  # (B, S, 2 slack + 1)
    if mel.device.type == "cpu":
        offsets = torch.from_numpy(best_offsets(costs.numpy(), frames.numpy()))  # (B, S); NumPy's loops are faster
    else:
        offsets = best_offsets_on_device(costs, frames)  # avoids a copy to the CPU, which every step would wait for
    places = torch.arange(mel.shape[1], device=mel.device) + offsets
    places = places.clamp(0, mel.shape[1] - 1)  # paths through NaNs are arbitrary
    return mel.gather(1, places[..., None].expand_as(mel))


def offset_costs(predicted: Tensor, mel: Tensor, frames: Tensor, slack: int) -> Tensor:
    """Costs of warping: mean absolute difference of predicted frame s and true frame s + offset; inf outside."""
    length = mel.shape[1]
    padding = past_end(frames, length)
    costs = predicted.new_full((len(mel), length, 2 * slack + 1), torch.inf)
    for offset in range(-min(slack, length - 1), min(slack, length - 1) + 1):
        first, end = max(0, -offset), min(length, length - offset)
        difference = (predicted[:, first:end] - mel[:, first + offset : end + offset]).abs().mean(-1)
        outside = padding[:, first + offset : end + offset]
        costs[:, first:end, offset + slack] = difference.masked_fill(outside, torch.inf)
    return costs


def best_offsets_on_device(costs: Tensor, frames: Tensor) -> Tensor:
    """Warping's `best_offsets` in torch operations, on the device of the costs."""
    batch, length, count = costs.shape
    slack = count // 2
    dtype = torch.float32 if costs.device.type == "mps" else torch.float64
    total = costs.new_full((batch, count + 2), torch.inf, dtype=dtype)  # one more on either side, which no path uses
    total[:, slack + 1] = costs[:, 0, slack].to(dtype)
    moves = torch.zeros(batch, length, count, dtype=torch.int64, device=costs.device)
    for s in range(1, length):
        before = torch.stack([total[:, :-2] + CHANGE, total[:, 1:-1], total[:, 2:] + CHANGE])  # offset - 1, same, + 1
        choice = before.argmin(0, keepdim=True)
        moves[:, s] = choice[0] - 1
        total[:, 1:-1] = before.gather(0, choice)[0] + costs[:, s]
    offsets = torch.zeros(batch, length, dtype=torch.int64, device=costs.device)
    offset = offsets[:, 0]
    for s in range(length - 1, 0, -1):
        inside = s < frames  # paths end with offset 0 at the last valid frame
        offset = torch.where(inside, offset, 0)
        offsets[:, s] = offset
        offset = offset + torch.where(inside, moves[:, s].gather(1, offset[:, None] + slack)[:, 0], 0)
    return offsets


def best_offsets(costs: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Warping by the cheapest path of each item (dynamic programming); 0 in the padding. (B, S, K) → (B, S)"""
    batch, length, count = costs.shape
    slack, rows = count // 2, np.arange(batch)
    total = np.full((batch, count + 2), np.inf)  # one more on either side, which no path uses
    total[:, slack + 1] = costs[:, 0, slack]
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
        offset = offset + np.where(inside, moves[rows, s, offset + slack], 0)
    return offsets
