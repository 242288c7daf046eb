"""Exponential moving average (EMA) of the weights, which validation and voices use if it is enabled."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

Tensors = tuple[Tensor, ...] | list[Tensor]


def moving_average(model: nn.Module, decay: float) -> AveragedModel:
    """EMA of the weights: it follows them quickly at first, then with the given decay."""

    def update(averages: Tensors, weights: Tensors, step: Tensor | int) -> None:
        warm_up = (1 + int(step)) / (10 + int(step))
        torch._foreach_lerp_(list(averages), list(weights), 1 - min(decay, warm_up))

    average = AveragedModel(model, multi_avg_fn=update)
    average.n_averaged.fill_(1)  # starts from the initial weights; with 0, step 1 would overwrite them
    return average.requires_grad_(False)


def average_of(average: AveragedModel) -> dict[str, Tensor]:
    """The EMA's averaged weights by name."""
    return {name: parameter.data for name, parameter in average.module.named_parameters()}


def load_average(average: AveragedModel, saved: Mapping[str, Tensor], step: int) -> None:
    """Restore the EMA after `step` steps."""
    for name, parameter in average.module.named_parameters():
        parameter.data.copy_(saved[name])
    average.n_averaged.fill_(step + 1)
