"""Weights of the search."""

import pytest
from pydantic import ValidationError

from clock_attention.speech.aligner.search_weights import SearchWeights


@pytest.mark.parametrize("wrong", [{"clock": -1.0}, {"sharpness": 0.0}, {"prior": float("nan")}, {"volume": 1.0}])
def test_weights_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValidationError):
        SearchWeights(**wrong)


def test_they_are_stored_with_a_model():
    weights = SearchWeights(clock=0.0, sharpness=0.5)
    assert SearchWeights.model_validate_json(weights.model_dump_json()) == weights
