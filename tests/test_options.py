"""Options are checked once, wherever they come from."""

import dataclasses

import numpy as np
import pytest
import torch

from clock_attention.options import ClockOptions, check_pace, checkable, has_values


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


@pytest.mark.parametrize("eps", [0.0, -1e-3, float("nan"), float("inf")])
def test_eps_must_be_positive(eps):
    with pytest.raises(ValueError, match=f"eps: got {eps}, expected a small positive number"):
        ClockOptions(eps=eps)


@pytest.mark.parametrize("pace", [[1.0, 2.0], np.ones(2), "fast", None])
def test_a_pace_that_is_no_number_is_named(pace):
    with pytest.raises(TypeError, match=r"pace: got .*, expected a number, or a tensor with one for each item"):
        check_pace(pace, 2)


def test_values_are_read_only_where_there_are_any():
    x, empty = torch.ones(2), torch.ones(2, device="meta")
    assert has_values(x)
    assert checkable(x)
    assert not has_values(empty)
    assert not checkable(empty)
    assert not torch.func.vmap(lambda row: row + has_values(row))(torch.zeros(2, 1)).any()


def test_options_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClockOptions().eps = 1.0


def test_the_former_name_of_an_implementation_is_accepted_with_a_warning():
    with pytest.warns(DeprecationWarning, match="impl='cuda' is called 'triton'"):
        assert ClockOptions(impl="cuda") == ClockOptions(impl="triton")
