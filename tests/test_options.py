"""Options are checked once, wherever they come from."""

import dataclasses

import pytest

from clock_attention.options import ClockOptions


@pytest.mark.parametrize(
    ("clocks", "variance"), [("normalized", "surrogate"), ("unnormalized", "surrogate"), ("causal", "local")]
)
def test_the_variance_that_serves_the_clocks_best_is_the_default(clocks, variance):
    assert ClockOptions(clocks=clocks).variance == variance
    assert ClockOptions(clocks=clocks) == ClockOptions(clocks=clocks, variance=variance)


@pytest.mark.parametrize(
    ("name", "value"),
    [("clocks", "wall"), ("variance", "none"), ("causal_norm", "batch"), ("impl", "fast"), ("phi", "relu")],
)
def test_wrong_options_name_the_choices(name, value):
    with pytest.raises(ValueError, match=f"{name}: got '{value}', expected one of"):
        ClockOptions(**{name: value})


def test_options_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClockOptions().eps = 1.0
