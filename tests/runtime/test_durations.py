"""The runtime divides frames as the aligned model does."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.runtime.durations import fitted_durations, paced_frames
from clock_attention.speech.model import aligned

TOKENS = st.lists(st.tuples(st.integers(1, 4000), st.booleans()), min_size=1, max_size=40)


@given(TOKENS, st.integers(1, 3000))
def test_frames_are_divided_as_with_torch(tokens, frames):
    lengths, free = (np.array(column) for column in zip(*tokens, strict=True))
    natural = (lengths / 100).astype(np.float32)
    found = fitted_durations(natural, free, frames)
    assert found.sum() == frames
    assert (found >= 0).all()
    predicted, optional = (torch.from_numpy(x)[None] for x in (natural, free))
    encoding = aligned.Encoding(predicted, predicted, predicted, torch.zeros_like(optional), optional)
    expected = aligned.fitted_durations(predicted, encoding, torch.tensor([frames]))[0].numpy()
    assert np.abs(found.cumsum() - expected.cumsum()).max() <= 1  # sums in fp32 may round another way


@pytest.mark.parametrize(("pace", "frames"), [(1.0, 10), (2.0, 5), (1e9, 1)])
def test_a_pace_divides_the_natural_length(pace, frames):
    assert paced_frames(np.full(4, 2.5, np.float32), pace) == frames
