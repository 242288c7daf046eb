"""Movement and variance fall when a mel is averaged."""

import numpy as np
import pytest

from clock_attention.evaluation.scoring.sharpness import sharpness


def speech(seed: int = 0, frames: int = 120) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.normal(-4, 1, (frames, 20)).repeat(3, axis=0)


def test_smoothing_shows_in_the_direction_in_which_it_was_done():
    mel = speech()
    over_time = (mel[:-1] + mel[1:]) / 2
    across_bins = (mel[:, :-1] + mel[:, 1:]) / 2
    ratio = sharpness(over_time).ratio(sharpness(mel))
    assert ratio.bins > 0.8
    assert ratio.variance < 0.95
    assert sharpness(across_bins).ratio(sharpness(mel)).bins < 0.9
    same = sharpness(mel).ratio(sharpness(mel))
    assert (same.time, same.bins, same.variance) == (1, 1, 1)


def test_silence_does_not_count():
    mel = speech()
    quiet = np.concatenate([np.full((200, 20), -11.5), mel, np.full((300, 20), -11.5)])
    assert sharpness(quiet).variance == pytest.approx(sharpness(mel).variance)


def test_silence_alone_is_refused():
    with pytest.raises(ValueError, match="expected at least 2"):
        sharpness(np.full((1, 20), -11.5))
