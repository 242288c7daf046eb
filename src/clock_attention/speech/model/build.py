"""The acoustic model that a configuration describes."""

from __future__ import annotations

from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.model import SpeechModel

AcousticModel = SpeechModel | AlignedModel


def build_model(config: ModelConfig | AlignedConfig) -> AcousticModel:
    return AlignedModel(config) if isinstance(config, AlignedConfig) else SpeechModel(config)
