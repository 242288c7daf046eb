"""Targets warped in time: the best path is the best, stays within its play, and sees neither padding nor gradients."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.model.transformer_model import Prediction
from clock_attention.speech.training.batching import Batch
from clock_attention.speech.training.losses import losses, mel_error
from clock_attention.speech.training.warping import CHANGE, best_offsets, best_offsets_on_device, offset_costs, warped


def literally_best(costs: np.ndarray, frames: int) -> float:
    """Every path there is, tried."""
    slack = costs.shape[1] // 2
    found = np.inf
    for moves in product((-1, 0, 1), repeat=frames - 1):
        offsets = np.cumsum([0, *moves])
        if offsets[-1] == 0 and abs(offsets).max() <= slack:
            cost = costs[np.arange(frames), offsets + slack].sum() + CHANGE * np.abs(moves).sum()
            found = min(found, cost)
    return found


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 9))
def test_the_path_is_the_best_of_all_paths(seed: int, lengths: list[int], slack: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    frames = torch.tensor(lengths)
    predicted, mel = torch.rand(2, len(lengths), max(lengths), 2, generator=draw, dtype=torch.float64)
    costs = offset_costs(predicted, mel, frames, slack).numpy()
    offsets = best_offsets(costs, frames.numpy())
    assert np.array_equal(best_offsets_on_device(torch.from_numpy(costs), frames).numpy(), offsets)
    for item, length in enumerate(lengths):
        path = offsets[item, :length]
        assert path[0] == path[-1] == 0
        assert abs(path).max() <= slack
        assert abs(np.diff(path)).max(initial=0) <= 1
        places = np.arange(length) + path
        assert places.min() >= 0
        assert places.max() < length
        direct = np.abs(predicted[item, :length].numpy() - mel[item, places].numpy()).mean(-1).sum()
        cost = direct + CHANGE * np.abs(np.diff(path)).sum()
        assert cost == pytest.approx(literally_best(costs[item, :length], length))
        assert not offsets[item, length:].any()


def smooth(frames: int) -> torch.Tensor:
    """Something that moves all the time."""
    time = torch.arange(frames)[:, None] / 6.0
    return torch.sin(time + torch.linspace(0, 6, 20))[None]  # (1, S, M)


@pytest.mark.parametrize("late", [-5, 5])
def test_early_and_late_frames_are_compared_with_their_true_frames(late: int) -> None:
    mel = smooth(80)
    bump = late * torch.sin(torch.linspace(0, torch.pi, 80))  # right at both ends
    places = torch.arange(80) - bump
    predicted = torch.sin(places[:, None] / 6.0 + torch.linspace(0, 6, 20))[None]
    frames = torch.tensor([80])
    plain = mel_error(predicted, mel, frames)[0]
    close = mel_error(predicted, warped(predicted, mel, frames, 6), frames)[0]
    assert close < 0.25 * plain
    tight = mel_error(predicted, warped(predicted, mel, frames, 1), frames)[0]
    assert close < tight < plain


def test_padding_is_never_looked_at() -> None:
    draw = torch.Generator().manual_seed(0)
    predicted, mel = torch.rand(2, 2, 30, 4, generator=draw)
    frames = torch.tensor([30, 11])
    clean = warped(predicted, mel, frames, 8)
    predicted[1, 11:] = torch.nan
    mel[1, 11:] = torch.nan
    dirty = warped(predicted, mel, frames, 8)
    torch.testing.assert_close(dirty[0], clean[0], rtol=0, atol=0)
    torch.testing.assert_close(dirty[1, :11], clean[1, :11], rtol=0, atol=0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_predictions_that_are_no_numbers_leave_the_error_to_the_loss(value: float) -> None:
    predicted, mel = torch.rand(2, 1, 9, 4)
    predicted[0, 2:7] = value
    frames = torch.tensor([9])
    assert not mel_error(predicted, warped(predicted, mel, frames, 3), frames)[0].isfinite()


def prediction(mel: torch.Tensor, rough: torch.Tensor | None = None) -> Prediction:
    return Prediction(
        mel=mel, rough=mel if rough is None else rough, log_frames=torch.zeros(len(mel)), weights=[], end_reading=None
    )


def test_the_loss_mixes_both_and_its_gradient_is_that_of_a_fixed_target() -> None:
    draw = torch.Generator().manual_seed(1)
    predicted, rough, mel = torch.rand(3, 2, 12, 5, generator=draw, dtype=torch.float64)
    frames = torch.tensor([12, 7])
    batch = Batch(torch.zeros(2, 1).long(), torch.ones(2), mel, frames, torch.ones(2))
    sizes = {"all_frames": 19, "all_items": 2}
    predicted.requires_grad_()
    target = warped(predicted, mel, frames, 3)
    expected = (0.25 * mel_error(predicted, mel, frames)[0] + 0.75 * mel_error(predicted, target, frames)[0]) / (19 * 5)
    found = losses(prediction(predicted), batch, **sizes, warped_share=0.75, slack=3).mel
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found, predicted)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, predicted)[0])

    with_rough = losses(prediction(predicted, rough), batch, **sizes, warped_share=1.0, slack=3).mel
    halves = [mel_error(one, target, frames)[0] / (19 * 5) for one in (predicted, rough)]
    torch.testing.assert_close(with_rough, sum(halves) / 2)
    plain = losses(prediction(predicted), batch, **sizes).mel
    torch.testing.assert_close(plain, mel_error(predicted, mel, frames)[0] / (19 * 5))
