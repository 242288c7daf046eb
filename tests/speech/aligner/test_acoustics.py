from __future__ import annotations

import numpy as np
import pytest
import torch

from clock_attention.speech.aligner.acoustics import Acoustics, at_change, at_onsets, spectral_change


def two_sounds(frames: int = 60, border: int = 33) -> np.ndarray:
    mel = np.zeros((frames, 8), np.float32)
    mel[:border, :4] = mel[border:, 4:] = 5.0
    return mel


def test_the_spectrum_changes_most_where_another_sound_begins():
    assert spectral_change(two_sounds(border=33)).argmax() == 33


def test_an_even_sound_does_not_change():
    assert not spectral_change(np.ones((20, 8), np.float32)).any()


@pytest.mark.parametrize(("border", "expected"), [(33, 33.0), (28, 28.0), (50, 30.0)])
def test_an_unsure_edge_moves_to_a_change_nearby_and_only_there(border, expected):
    before = np.clip((36 - np.arange(60)) / 12, 0, 1)  # begins anywhere from 24 to 36
    change = 3 * spectral_change(two_sounds(border=border))
    assert at_change(before, 30.0, change) == pytest.approx(expected, abs=0.7)


def test_an_edge_that_is_sure_stays():
    before = (np.arange(60) < 31).astype(float)
    assert at_change(before, 31.0, spectral_change(two_sounds(border=33))) == pytest.approx(31.0, abs=0.51)


@pytest.mark.parametrize(
    ("silence", "begins", "expected"),
    [
        (20, 26, 26.0),  # six faint frames belong to the silence
        (20, 20, 20.0),
        (20, 45, 20.0),  # nothing can be heard anywhere near: the edge stays
        (3, 26, 3.0),  # a silence too short to be more than a closure
    ],
)
def test_speech_begins_at_the_first_audible_frame(silence, begins, expected):
    level = np.where(np.arange(60) < begins, -10.0, 0.0).astype(np.float32)
    edges = np.array([0.0, silence, 50.0, 60.0])
    moved = at_onsets(edges, np.array([True, False, False]), level)
    assert moved.tolist() == [0.0, expected, 50.0, 60.0]


def test_the_first_sound_keeps_some_time():
    level = np.where(np.arange(60) < 29, -10.0, 0.0).astype(np.float32)
    moved = at_onsets(np.array([0.0, 20.0, 25.0, 60.0]), np.array([True, False, False]), level)
    assert (np.diff(moved) > 0).all()


def test_parts_joined_are_the_whole():
    whole = Acoustics.of(torch.from_numpy(two_sounds()))
    joined = Acoustics.joined([whole.part(0, 20), whole.part(20, 60)])
    np.testing.assert_array_equal(joined.level, whole.level)
    np.testing.assert_array_equal(joined.change, whole.change)
