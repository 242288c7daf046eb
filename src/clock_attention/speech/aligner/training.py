"""Training of the aligner's network: labels from boundaries, known or found by the aligner itself, and the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional as F

from clock_attention.speech.aligner.phone_classes import CLASSES, state

UNKNOWN = -100  # class of frames that are ignored in training
BLUR = 0.35  # change target of frames next to a change: boundaries are not sharper than that


@dataclass(frozen=True)
class Labels:
    """Labels for training the aligner: runs of states with their ends in seconds, and whether each starts a sound."""

    states: NDArray[np.int64]  # (runs,)
    ends: NDArray[np.float64]  # (runs,)
    begins: NDArray[np.bool_]  # (runs,)


def labels_from_phones(classes: ArrayLike, ends: ArrayLike) -> Labels:
    """Training labels from phone classes and their ends: every sound is split in the middle."""
    states: list[int] = []
    times: list[float] = []
    begins: list[bool] = []
    begin = 0.0
    for place, end in zip(np.asarray(classes).tolist(), np.asarray(ends).tolist(), strict=True):
        halves = [state(CLASSES[place], half) for half in range(2 if place else 1)]
        for half, column in enumerate(halves):
            states.append(column)
            times.append(begin + (end - begin) * (half + 1) / len(halves))
            begins.append(half == 0)
        begin = end
    return Labels(np.array(states), np.array(times), np.array(begins))


def targets(
    labels: Labels, frames: int, frame_seconds: float, begin: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Training targets of frames from `begin` on: each frame's state, and how much of a change is at its start."""
    centres = begin + (np.arange(frames) + 0.5) * frame_seconds
    runs = np.minimum(np.searchsorted(labels.ends, centres), len(labels.ends) - 1)
    states = np.where(centres < labels.ends[-1], labels.states[runs], 0)
    change = np.zeros(frames, np.float32)
    starts = np.append(0.0, labels.ends[:-1])[labels.begins]
    nearest = np.round((starts - begin) / frame_seconds).astype(int)
    for offset, share in ((-1, BLUR), (1, BLUR), (0, 1.0)):
        at = nearest + offset
        at = at[(at > 0) & (at < frames)]
        change[at] = np.maximum(change[at], share)
    return states, change


def loss(found: tuple[Tensor, Tensor], states: Tensor, change: Tensor) -> Tensor:
    """Training loss of the aligner over frames (B, frames); those with a negative state or change are ignored."""
    log_probabilities, logits = found
    states, change = states.to(logits.device), change.to(logits.device)
    known = change >= 0
    frames = F.nll_loss(log_probabilities.flatten(0, 1), states.flatten(), ignore_index=UNKNOWN)
    return frames + F.binary_cross_entropy_with_logits(logits[known], change[known])
