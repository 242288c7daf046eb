"""Edges between frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.aligner.positions import crossing, ordered


@given(st.lists(st.floats(0, 50), min_size=2, max_size=20))
def test_edges_come_in_order_and_keep_their_end(places):
    edges = np.array([0.0, *places, 60.0])
    found = ordered(edges)
    assert found[-1] == 60.0
    assert (np.diff(found) >= 0.5 - 1e-9).all()
    spaced = np.arange(len(edges)) * 2.0
    assert np.array_equal(ordered(spaced), spaced)


def test_a_falling_probability_is_crossed_between_frames():
    sharp = np.array([1.0] * 50 + [0.0] * 50)
    assert crossing(sharp, 50) == (pytest.approx(50.0), 1.0)
    slow = np.clip(1 - (np.arange(100) - 30) / 40, 0, 1)
    place, confidence = crossing(slow, 45)
    assert place == pytest.approx(50.5, abs=0.01)
    assert confidence < 0.01
