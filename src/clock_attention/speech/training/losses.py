"""Training losses: mel L1, utterance length, and the end of causal clocks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from clock_attention.speech.model.transformer_model import Prediction, past_end
from clock_attention.speech.training.batching import Batch
from clock_attention.speech.training.warping import warped


class Losses(NamedTuple):
    """Training losses: sums over one process's share, divided by the number of terms in the whole batch."""

    mel: Tensor
    length: Tensor
    end: Tensor

    def total(self, end_weight: float) -> Tensor:
        # The length model shares no parameters with the rest, so a weight would change nothing.
        return self.mel + self.length + end_weight * self.end


def losses(
    prediction: Prediction, batch: Batch, *, all_frames: int, all_items: int, warped_share: float = 0.0, slack: int = 1
) -> Losses:
    """Training losses of one process's share of a batch.

    Args:
        all_frames, all_items: of the whole batch over all processes, so that every frame has the same weight.
        warped_share: share of the L1 that is computed along the best path in time, at most `slack` frames off.
    """
    targets = [(1 - warped_share, batch.mel)]
    if warped_share:
        targets.append((warped_share, warped(prediction.mel, batch.mel, batch.frames, slack)))
    predicted = [prediction.mel]
    if prediction.rough is not prediction.mel:  # a postnet's input is compared with the target, too
        predicted.append(prediction.rough)
    errors = [share * mel_error(mel, target, batch.frames)[0] for share, target in targets for mel in predicted]
    error = torch.stack(errors).sum() / len(predicted)
    length = (prediction.log_frames.float() - batch.natural_frames.log()).abs().sum() / all_items
    end = length.new_zeros(())
    if prediction.end_reading is not None:
        end = (prediction.end_reading - 1).abs().mean((0, 2)).sum() / all_items
    return Losses(error / (all_frames * batch.mel.shape[-1]), length, end)


def mel_error(predicted: Tensor, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Training loss of the mel: Σ |difference| over valid frames, and the number of values."""
    padding = past_end(frames, mel.shape[1])[..., None]
    difference = predicted[:, : mel.shape[1]].float() - mel
    return difference.masked_fill(padding, 0.0).abs().sum(), frames.sum() * mel.shape[-1]
