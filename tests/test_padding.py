"""Features and padding masks as they come to a module."""

import pytest
import torch

from clock_attention.padding import blanked, check_features, padding_as_bool, steps_in


def test_padding_of_any_value_becomes_zero_in_values_and_gradients():
    x = torch.randn(2, 4, 3)
    x[1, 2:] = torch.nan
    x.requires_grad_()
    padding = torch.arange(4) >= torch.tensor([[4], [2]])
    blank = blanked("query", x, padding)
    assert torch.equal(blank[0], x[0])
    assert not blank[1, 2:].any()
    blank.sum().backward()
    assert torch.equal(x.grad[..., 0], (~padding).float())
    assert blanked("query", x, None) is x


def test_additive_masks_serve_where_values_cannot_be_read():
    padding = torch.arange(4) >= torch.tensor([[3], [1]])
    additive = torch.zeros(2, 4).masked_fill(padding, -torch.inf)
    found = [
        torch.compile(padding_as_bool, fullgraph=True, backend="eager")("key", additive),
        torch.func.vmap(lambda mask: padding_as_bool("key", mask))(additive),
    ]
    assert all(torch.equal(mask, padding) for mask in found)
    assert padding_as_bool("key", additive.to("meta")).dtype == torch.bool


def test_valid_steps_are_the_opposite_of_padding():
    x, padding = torch.randn(2, 4, 3), torch.arange(4) >= torch.tensor([[3], [1]])
    assert torch.equal(steps_in("key", padding, x), ~padding)
    assert steps_in("key", None, x).all()
    with pytest.raises(ValueError, match="key"):
        steps_in("key", padding[:, :3], x)


def test_additive_masks_are_padding_only_where_they_are_minus_infinity():
    mask = torch.tensor([[0.0, 0.0, -torch.inf]])
    assert torch.equal(padding_as_bool("mask", mask), torch.tensor([[False, False, True]]))
    same = torch.tensor([[True, False]])
    assert padding_as_bool("mask", same) is same
    assert padding_as_bool("mask", None) is None
    with pytest.raises(ValueError, match="mask: got a float mask with values other than 0 and -inf"):
        padding_as_bool("mask", torch.tensor([[0.0, -1.0]]))


@pytest.mark.parametrize(
    ("x", "dimensions", "error", "message"),
    [
        (torch.zeros(2, 4, 5), 3, ValueError, r"got shape \(2, 4, 5\), expected \(batch, steps, 3\)"),
        (torch.zeros(4), 2, ValueError, r"expected \(steps, 3\), or \(batch, steps, 3\)"),
        (torch.zeros(2, 4, 3, dtype=torch.int64), 3, TypeError, "expected a floating point type"),
    ],
)
def test_wrong_features_are_named(x, dimensions, error, message):
    with pytest.raises(error, match=f"value: .*{message}"):
        check_features("value", x, dimensions, 3)
