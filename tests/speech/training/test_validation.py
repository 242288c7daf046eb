"""Validation."""

from clock_attention.speech.training.loop import train
from tests.speech.training.runs import tiny


def test_pictures_are_drawn_at_validation(store, tmp_path):
    train(tiny("pictures=2"), store, tmp_path / "run", max_steps=8, quiet=True)
    pictures = list((tmp_path / "run" / "pictures").iterdir())
    assert len(pictures) == 2
    assert all(picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5000 for picture in pictures)
