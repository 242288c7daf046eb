"""The length model."""

import torch

from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.model import SpeechModel

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
    generator = torch.Generator().manual_seed(seed)
    lengths, frames = (torch.tensor(column) for column in zip(*pairs, strict=True))
    tokens = torch.randint(0, 7, (len(pairs), int(lengths.max())), generator=generator)
    mel = torch.randn(len(pairs), int(frames.max()), 5, generator=generator)
    return tokens, lengths, frames, mel


def test_without_a_length_the_length_model_decides_and_a_longer_text_is_longer():
    model = build(positions="normalized")
    tokens, lengths, *_ = inputs([(2, 1), (9, 1)])
    speech = model.synthesise(tokens, lengths)
    assert speech.frames.tolist() == [12, 54]  # untrained: the natural six frames a token


def test_the_length_model_learns_without_touching_the_encoder():
    model = build()
    memory = model.encode(*inputs([(5, 1), (3, 1)])[:2])
    model.length(memory.encoded, memory.padding).sum().backward()
    assert model.length.inner.weight.grad is not None
    assert all(p.grad is None for name, p in model.named_parameters() if not name.startswith("length."))
