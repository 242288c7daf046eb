"""The specification itself: shares nothing with what it checks, and agrees with numbers worked out by hand."""

import ast
import math
from pathlib import Path

import pytest
import torch

from clock_attention import clock_attention
from clock_attention.kernels import reference


def test_it_imports_torch_alone():
    """Imports for types only are in `if TYPE_CHECKING`, which never runs."""
    tree = ast.parse(Path(reference.__file__).read_text(encoding="utf-8"))
    names = {
        name
        for statement in tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in ([statement.module] if isinstance(statement, ast.ImportFrom) else [a.name for a in statement.names])
    }
    assert names <= {"__future__", "collections.abc", "math", "typing", "torch"}


def test_two_steps_by_hand():
    """λ = 0, 1 on both sides; pos = ¼, ¾, so A = 3/16/2 everywhere and Σ² = 3/16."""
    query = torch.tensor([0.0, 1.0], dtype=torch.float64).reshape(1, 1, 2, 1)
    key = torch.tensor([5.0, -2.0], dtype=torch.float64).reshape(1, 1, 2, 1)
    _, weights = clock_attention(query, key, key, impl="reference", eps=1e-12)
    far = math.exp(-1 / (2 * 3 / 16))
    expected = torch.tensor([[1.0, far], [far, 1.0]], dtype=torch.float64) / (1 + far)
    torch.testing.assert_close(weights[0, 0], expected, rtol=1e-9, atol=0)


def test_a_causal_target_by_hand():
    """Features 0 tick φ(0) = ½ a step; the reading is that over μ · pace · tokens, and "local" is ½/T² a side."""
    query, key = torch.zeros(1, 1, 4, 3, dtype=torch.float64), torch.zeros(1, 1, 2, 3, dtype=torch.float64)
    _, weights, clocks = clock_attention(
        query, key, key, clocks="causal", pace=1.5, impl="reference", eps=1e-12, return_clocks=True
    )
    reading = torch.arange(4, dtype=torch.float64) * 0.5 / (0.7063776 * 1.5 * 2)
    torch.testing.assert_close(clocks.query[0, 0, :, 0], reading, rtol=1e-6, atol=0)
    torch.testing.assert_close(clocks.key[0, 0, :, 0], torch.tensor([0.0, 1.0], dtype=torch.float64))
    logits = torch.stack([-3 * reading**2, -3 * (reading - 1) ** 2], -1) / (2 * 3**0.5 * 2 * 0.5 / 4)
    torch.testing.assert_close(weights[0, 0], torch.softmax(logits, -1), rtol=1e-6, atol=1e-9)


def test_mean_rate_by_another_quadrature():
    assert reference.mean_rate(reference.rational) == pytest.approx(0.7063776, abs=1e-7)
    assert reference.mean_rate(torch.exp) == pytest.approx(math.exp(0.5), rel=1e-9)


@pytest.mark.parametrize("name", sorted(reference.RATES))
def test_slopes_are_derivatives(name):
    value, slope = reference.RATES[name]
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    torch.testing.assert_close(slope(x), torch.func.jvp(value, (x,), (torch.ones_like(x),))[1])


@pytest.mark.parametrize("name", sorted(reference.RATES))
def test_slopes_have_the_right_derivative_at_zero(name):
    """Constant features are normalized to exactly 0, and the exact variance is differentiated there."""
    _, slope = reference.RATES[name]
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(slope(x), x)
    step = torch.tensor([1e-6], dtype=torch.float64)
    torch.testing.assert_close(found, (slope(step) - slope(-step)) / (2 * step), rtol=1e-5, atol=1e-8)
