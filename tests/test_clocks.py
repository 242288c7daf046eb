"""Clocks are what the theory says they are, whatever the features."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import clocks as C

from .kernels.attention_cases import padding


def valid_mask(batch: int, length: int, seed: int) -> torch.Tensor:
    return ~padding(batch, length, seed)


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 6), st.integers(0, 99), st.sampled_from(sorted(C.PHIS)))
def test_normalized_clocks_run_from_zero_to_one_and_never_back(batch, length, width, seed, phi):
    valid = valid_mask(batch, length, seed)
    x = torch.randn(batch, 2, length, width, dtype=torch.float64)
    clock, variance = C.normalized_clock(x, valid, C.resolve_phi(phi), "surrogate", 1e-6)
    for item, steps in enumerate(valid.sum(-1).tolist()):
        reading = clock[item, :, :steps]
        assert (reading[:, 0] == 0).all()
        assert (reading.diff(dim=-2) >= 0).all()
        if steps > 1:
            torch.testing.assert_close(reading[:, -1], torch.ones_like(reading[:, -1]))
        assert (variance[item, :, :steps] > 0).all()


@given(st.integers(2, 30), st.integers(0, 99), st.floats(0.1, 50), st.floats(-100, 100))
def test_offset_and_positive_scale_of_the_features_change_nothing(length, seed, scale, offset):
    valid = valid_mask(2, length, seed)
    x = torch.randn(2, 1, length, 3, dtype=torch.float64)
    for make in (C.normalized_clock, C.unnormalized_clock):
        plain = make(x, valid, C.rational, "surrogate", 1e-12)[0]
        moved = make(x * scale + offset, valid, C.rational, "surrogate", 1e-12)[0]
        torch.testing.assert_close(moved, plain, rtol=1e-5, atol=1e-5)


def test_time_norm_ignores_padding_and_standardises_the_rest():
    x = torch.randn(2, 1, 9, 3, dtype=torch.float64)
    valid = torch.arange(9) < torch.tensor([[9], [4]])
    x[1, :, 4:] = torch.nan
    eta = C.masked_time_norm(x, valid, 0.0)
    assert (eta[1, :, 4:] == 0).all()
    torch.testing.assert_close(eta[1, :, :4].mean(-2), torch.zeros(1, 3, dtype=torch.float64))
    torch.testing.assert_close(eta[1, :, :4].std(-2, unbiased=False), torch.ones(1, 3, dtype=torch.float64))


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_cumulative_norm_is_the_norm_of_each_prefix(offset):
    x = torch.randn(1, 1, 12, 2, dtype=torch.float64) + offset
    valid = torch.ones(1, 12, dtype=torch.bool)
    running = C.cumulative_time_norm(x, valid, 1e-6)
    for s in range(12):
        prefix = C.masked_time_norm(x[..., : s + 1, :], valid[:, : s + 1], 1e-6)
        torch.testing.assert_close(running[..., s, :], prefix[..., s, :], rtol=1e-6, atol=1e-6)


def test_empirical_noise_scale_recovers_k_over_mu_squared_of_correlated_rates():
    """An AR(1) rate has K = σ² (1 + a)/(1 − a); the estimate must see the correlation, not just the variance."""
    rng = np.random.default_rng(0)
    steps, a, mu = 20_000, 0.5, 2.0
    noise = rng.standard_normal((steps, 16))
    rates = np.empty_like(noise)
    rates[0] = noise[0]
    for i in range(1, steps):
        rates[i] = a * rates[i - 1] + np.sqrt(1 - a * a) * noise[i]
    rates = torch.from_numpy(mu + 0.3 * rates)[None, None]
    scale = C.noise_scale(rates, torch.ones(1, steps + 1, dtype=torch.bool), "empirical")
    # Bartlett's window loses a tenth at this bandwidth; the plain variance would give a third of the truth.
    assert float(scale) == pytest.approx(0.3**2 / mu**2 * (1 + a) / (1 - a), rel=0.15)


@pytest.mark.parametrize("variance", ["empirical", "exact"])
@pytest.mark.parametrize("make", [C.normalized_clock, C.unnormalized_clock])
def test_variances_of_a_batch_equal_those_of_its_items(variance, make):
    valid = torch.arange(300) < torch.tensor([[300], [120], [2], [1]])
    x = torch.randn(4, 2, 300, 5, dtype=torch.float64)
    together = make(x, valid, C.rational, variance, 1e-6)[1]
    for item, steps in enumerate([300, 120, 2, 1]):
        one = slice(item, item + 1)
        alone = make(x[one, :, :steps], valid[one, :steps], C.rational, variance, 1e-6)[1]
        torch.testing.assert_close(together[one, :, :steps].expand(1, 2, steps), alone.expand(1, 2, steps))
        assert (alone > 0).all()


def test_exact_variance_equals_the_surrogate_for_an_even_rate():
    """With a constant rate the double integral is K/μ² pos (1 − pos)/n, at the same half-step positions."""
    length = 50
    eta = torch.full((1, 1, length, 3), 0.7, dtype=torch.float64)
    valid = torch.ones(1, length, dtype=torch.bool)
    exact = C.exact_variance(eta, valid, torch.exp, normalized=True)  # φ'/φ = 1, so K/μ² = 1
    pos = (torch.arange(length, dtype=torch.float64) + 0.5) / length
    torch.testing.assert_close(exact[0, 0], pos * (1 - pos) / length)


def test_causal_target_clock_reads_one_after_pace_times_tokens_at_the_mean_rate():
    """Standardised random features tick μ per step, so r·T steps bring the dimensionless clock to 1."""
    x = torch.randn(1, 1, 4001, 64, dtype=torch.float64)
    unit = torch.tensor([[[4000.0]]], dtype=torch.float64)
    valid = torch.ones(1, 4001, dtype=torch.bool)
    # Mid-edges average two neighbours, so their spread is 1/√2; doubling the scale of independent features undoes it.
    clock, variance = C.causal_target_clock(x * 2**0.5, valid, C.rational, "none", unit, C.mean_rate("rational"), 1e-6)
    assert float(clock[..., -1, :].mean()) == pytest.approx(1.0, abs=0.02)
    assert float(variance[..., -1]) == pytest.approx(4000.5 / 4000**2)


@given(st.integers(3, 12), st.integers(1, 60), st.integers(0, 99), st.sampled_from(["local", "surrogate"]))
def test_tokens_that_follow_do_not_change_the_relative_rates_of_a_causal_source(length, more, seed, variance):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 2, length + more, 3, dtype=torch.float64, generator=g)
    x[..., length:, :] += 4.0  # unlike the first: any statistic over time would tell
    readings = []
    for steps in (length, length + more):
        valid = torch.ones(1, steps, dtype=torch.bool)
        pair = C.clock_pair(
            x, x[..., :steps, :], torch.ones(1, length + more, dtype=torch.bool), valid,
            C.ClockOptions(clocks="causal", variance=variance),
        )  # fmt: skip
        increments = pair.key[..., :length, :].diff(dim=-2)
        readings.append(increments / increments[..., :1, :])
    torch.testing.assert_close(readings[1], readings[0], rtol=1e-9, atol=1e-9)
