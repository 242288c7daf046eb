"""A tiny acoustic model and inputs for it."""

import torch

from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel

SMALL = {
    "symbols": 7,
    "mels": 5,
    "width": 16,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 24,
    "dropout": 0.0,
}


def build(**options):
    torch.manual_seed(0)
    return SpeechModel(ModelConfig(**{**SMALL, **options})).eval()


def inputs(pairs, seed=1):
    """Tokens, lengths, frames and mel for (length, frames) of each item."""
    generator = torch.Generator().manual_seed(seed)
    lengths, frames = (torch.tensor(column) for column in zip(*pairs, strict=True))
    tokens = torch.randint(0, 7, (len(pairs), int(lengths.max())), generator=generator)
    mel = torch.randn(len(pairs), int(frames.max()), 5, generator=generator)
    return tokens, lengths, frames, mel
