"""Building the acoustic model that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel

AcousticModel = SpeechModel | AlignedModel


def build_model(config: ModelConfig | AlignedConfig) -> AcousticModel:
    """Build the acoustic model that a configuration describes."""
    return AlignedModel(config) if isinstance(config, AlignedConfig) else SpeechModel(config)


def expected_weights(config: ModelConfig | AlignedConfig) -> dict[str, Tensor]:
    """Names and shapes of the weights of the model to build, on the meta device, which allocates no memory."""
    with torch.device("meta"), NoRandomNumbers():
        return build_model(config).state_dict()


class NoRandomNumbers(TorchFunctionMode):
    """Skips random initialisation while a model is built.

    On the meta device there is nothing to initialise, and trying to would load torch's compiler, which takes seconds.
    """

    RANDOM = (torch.Tensor.normal_, torch.Tensor.uniform_)

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in self.RANDOM or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
