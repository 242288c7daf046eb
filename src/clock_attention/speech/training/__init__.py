"""Training: from a feature store to a trained model."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach

if TYPE_CHECKING:
    from clock_attention.speech.training.loop import train

__all__ = ["train"]

__getattr__ = attach(__name__, {"train": "loop"})
