"""An exponential moving average of the weights: what validation and voices use when it is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """The average follows the weights quickly at first, then with the given decay."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.average = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """After the given number of steps."""
        decay = min(self.decay, (1 + steps) / (10 + steps))
        torch._foreach_lerp_(list(self.average.values()), [p.data for p in self.parameters.values()], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with averaged weights; afterwards its own again, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def load(self, saved: dict[str, Tensor]) -> None:
        for name, tensor in self.average.items():
            tensor.copy_(saved[name])

    def _exchange(self) -> None:
        for name, parameter in self.parameters.items():
            parameter.data, self.average[name] = self.average[name], parameter.data
