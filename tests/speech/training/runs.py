"""Trainings of a moment, and what makes two of them the same."""

from __future__ import annotations

import torch

from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.progress import read_log

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=2", "feed_forward=32", "prenet_width=8"),
    *("steps=24", "batch_size=8", "warmup_steps=4", "learning_rate=5e-3", "ema=0.9", "dropout=0.1"),
    *("stretch_share=0.5", "logit_scale_rate=1.0", "short_share=1.0"),
    *("validate_every=8", "log_every=4", "pictures=0", "validation_utterances=4"),
]


def tiny(*changes):
    return load_preset("small-l1").changed([*TINY, *changes])


def same(a, b):
    """Bitwise equality of nested checkpoints."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def require_same_run(a, b):
    """Weights, optimizer, average, best value: everything but the time it took."""
    first, second = (checkpoint.read(checkpoint.latest(run)) for run in (a, b))
    for key in first.keys() - {"seconds"}:
        assert same(first[key], second[key]), key
    rows = [[(row["step"], row["train_l1"], row["valid_l1"]) for row in read_log(run / "log.csv")] for run in (a, b)]
    assert rows[0] == rows[1]
