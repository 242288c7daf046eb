"""Validation."""

import pytest
import torch

from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from tests.speech.corpora import tiny_store

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=2", "feed_forward=32", "prenet_width=8"),
    *("steps=24", "batch_size=8", "warmup_steps=4", "learning_rate=5e-3", "ema=0.9", "dropout=0.1"),
    *("stretch_share=0.5", "logit_scale_rate=1.0", "short_share=1.0"),
    *("validate_every=8", "log_every=4", "pictures=0", "validation_utterances=4"),
]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("tiny") / "store")


def tiny(*changes):
    return load_preset("small").changed([*TINY, *changes])


def test_pictures_are_drawn_at_validation(store, tmp_path):
    train(tiny("pictures=2"), store, tmp_path / "run", max_steps=8, quiet=True)
    pictures = list((tmp_path / "run" / "pictures").iterdir())
    assert len(pictures) == 2
    assert all(picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5000 for picture in pictures)
