"""Training losses."""

import pytest
import torch

from clock_attention.speech.model.transformer_model import Prediction
from clock_attention.speech.training.losses import losses, mel_error


def test_padding_does_not_count_and_neither_do_frames_beyond_the_target():
    mel, frames = torch.zeros(2, 5, 3), torch.tensor([5, 2])
    predicted = torch.ones(2, 6, 3)
    predicted[1, 2:] = torch.nan
    predicted[:, 5:] = torch.nan
    error, count = mel_error(predicted, mel, frames)
    assert (float(error), int(count)) == (21.0, 21)


class FakeBatch:
    mel = torch.zeros(2, 4, 3)
    frames = torch.tensor([4, 3])
    natural_frames = torch.tensor([4.0, 3.0])


def prediction(mel, **options):
    fields = dict.fromkeys(Prediction._fields)
    fields |= {"mel": mel, "rough": mel, "log_frames": FakeBatch.natural_frames.log() + 0.5, **options}
    return Prediction(**fields)


def test_shares_of_a_batch_add_up_to_the_whole():
    found = losses(prediction(torch.ones(2, 4, 3)), FakeBatch, all_frames=14, all_items=4)
    assert float(found.mel) == pytest.approx(7 / 14)
    assert float(found.length) == pytest.approx(2 * 0.5 / 4)
    assert float(found.end) == 0


def test_the_input_of_a_postnet_is_held_to_the_target_too():
    found = losses(prediction(torch.zeros(2, 4, 3), rough=torch.ones(2, 4, 3)), FakeBatch, all_frames=7, all_items=2)
    assert float(found.mel) == pytest.approx(0.5)


def test_clocks_that_have_not_run_out_cost():
    reading = torch.full((3, 2, 4), 0.75)  # (layers, B, channels)
    found = losses(prediction(torch.zeros(2, 4, 3), end_reading=reading), FakeBatch, all_frames=7, all_items=2)
    assert float(found.end) == pytest.approx(0.25)
    assert float(found.total(2.0)) == pytest.approx(0.5 + 0.5)
