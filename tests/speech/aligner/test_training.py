from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.aligner.phone_classes import CLASSES, PLACE, state
from clock_attention.speech.aligner.training import labels_from_phones, targets


def test_sounds_are_cut_in_the_middle_and_silence_is_not():
    labels = labels_from_phones([0, PLACE["t"]], [0.1, 0.2])
    assert labels.states.tolist() == [0, state("t", 0), state("t", 1)]
    np.testing.assert_allclose(labels.ends, [0.1, 0.15, 0.2])
    assert labels.begins.tolist() == [True, True, False]


def test_targets_from_the_middle_of_a_recording():
    labels = labels_from_phones([0, PLACE["t"], 0], [0.1, 0.2, 0.3])
    states, change = targets(labels, 8, 0.02, begin=0.06)
    assert states.tolist() == [0, 0, *[state("t", 0)] * 3, *[state("t", 1)] * 2, 0]
    assert change.argmax() == 2
    assert change[7] == 1.0


@given(
    st.lists(st.tuples(st.integers(0, len(CLASSES) - 1), st.floats(0.01, 0.3)), min_size=1, max_size=20),
    st.integers(1, 300),
    st.floats(0.0, 3.0),
)
def test_targets_of_anything_are_in_range(phones, frames, begin):
    labels = labels_from_phones([place for place, _ in phones], np.cumsum([length for _, length in phones]))
    states, change = targets(labels, frames, 0.005, begin)
    assert states.shape == change.shape == (frames,)
    assert set(states.tolist()) <= {0, *labels.states.tolist()}
    assert ((change >= 0) & (change <= 1)).all()
