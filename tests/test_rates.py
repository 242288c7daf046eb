"""Rate functions and their mean over a standard normal."""

import pytest
import torch

from clock_attention import rates as C


def test_rational_phi_is_positive_smooth_and_between_its_asymptotes():
    x = torch.linspace(-50, 50, 2001, dtype=torch.float64)
    phi = C.rational(x)
    assert (phi > 0).all()
    assert (phi.diff() > 0).all()
    torch.testing.assert_close(C.rational(torch.zeros(())), torch.tensor(0.5))
    torch.testing.assert_close(C.rational(torch.tensor(2.0)), torch.tensor(0.5 * (1 + 2 * 5 / 3)))


@pytest.mark.parametrize("phi", ["rational", "softplus", "exp"])
def test_mean_rate_is_the_expectation_over_a_standard_normal(phi):
    from scipy.integrate import quad
    from scipy.stats import norm

    def density(z: float) -> float:
        return float(C.resolve_phi(phi)(torch.tensor(z, dtype=torch.float64))) * norm.pdf(z)

    assert C.mean_rate(phi) == pytest.approx(quad(density, -12, 0)[0] + quad(density, 0, 12)[0], rel=1e-9)


def test_mean_rate_of_the_papers_phi():
    """By adaptive quadrature with a break at 0, where its second derivative jumps."""
    assert C.mean_rate("rational") == pytest.approx(0.7063776, abs=1e-7)
    assert C.mean_rate(torch.nn.functional.relu) == pytest.approx((2 * torch.pi) ** -0.5, rel=1e-9)


def test_unknown_phi_names_the_choices():
    with pytest.raises(ValueError, match=r"phi: got 'relu'.*rational"):
        C.resolve_phi("relu")
