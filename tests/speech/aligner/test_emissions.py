from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.aligner.emissions import OTHER_COLUMN, Emissions
from clock_attention.speech.aligner.phone_classes import STATES, state


def output(columns: list[int]) -> Emissions:
    scores = np.full((len(columns), STATES), -9.0, np.float32)
    scores[np.arange(len(columns)), columns] = -0.01
    return Emissions(scores, np.zeros(len(columns), np.float32), np.zeros(STATES))


def test_a_flap_stands_for_t_and_d_but_not_for_k():
    scores = output([state("T", 0)]).scores[0]
    assert min(scores[state("t", 0)], scores[state("d", 0)]) > -1
    assert scores[state("k", 0)] < -5


def test_other_speech_costs_more_than_the_sound_that_fits_and_less_than_one_that_does_not():
    scores = output([state("k", 0)]).scores[0]
    assert scores[state("k", 0)] > scores[OTHER_COLUMN] > scores[state("s", 0)]


def test_the_clock_counts_in_speech_only():
    clock = output([0, 0, state("k", 0), state("k", 1)]).clock
    assert (np.diff(clock) >= 0).all()
    assert clock[1] < 0.1
    assert clock[3] == pytest.approx(1.0, abs=0.1)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="expected"):
        Emissions(np.zeros((3, 2), np.float32), np.zeros(3, np.float32), np.zeros(STATES))
