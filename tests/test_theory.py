"""The closed forms of section II against dense quadratic forms, known limits, the attention's code and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, optimize, special

from clock_attention import clocks as C
from clock_attention import theory
from clock_attention.theory import EXP, RATIONAL, SOFTPLUS, NoisyClock, OrnsteinUhlenbeck, WhiteNoise

PATHS = 20_000
WAVY = np.sin(np.arange(48) / 6.0) + 0.3 * np.cos(np.arange(48) / 2.0)
QUIET = [WhiteNoise(0.002), OrnsteinUhlenbeck(0.04, 5.0)]
QUIET_NAMES = ["white", "exponential"]

mean_paths = arrays(np.float64, st.integers(1, 40), elements=st.floats(-3, 3))
noises = st.one_of(
    st.builds(WhiteNoise, st.floats(0.01, 2.0)),
    st.builds(OrnsteinUhlenbeck, st.floats(0.05, 2.0), st.floats(0.05, 500.0)),
)
phis = st.sampled_from([EXP, RATIONAL, SOFTPLUS])


def dense_variance(clock: NoisyClock) -> np.ndarray:
    """∫∫ J C J spelt out in O(L³)."""
    cells = clock.eta.shape[-1]
    lag = np.abs(np.subtract.outer(np.arange(cells), np.arange(cells)))
    covariance = clock.noise.cell_variance(clock.step) * clock.noise.cell_correlation(clock.step) ** lag
    response = clock.response() * clock.step
    return np.einsum("...su,uv,...sv->...s", response, covariance, response)


def assert_inside(estimate: theory.Estimate, expected: np.ndarray, precision: float) -> None:
    """Every expected value within an interval that holds jointly with 99 %, and the interval narrow enough to tell."""
    low, high = estimate.interval(1 - 0.01 / estimate.value.size)
    assert (low <= expected).all()
    assert (expected <= high).all()
    assert (estimate.error < precision * estimate.value).all()


# --- the ingredients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [EXP, RATIONAL, SOFTPLUS], ids=lambda phi: phi.name)
def test_rate_functions_are_the_attentions_with_their_derivatives(phi):
    x = torch.linspace(-6, 6, 121, dtype=torch.float64)
    value, slope = torch.func.jvp(C.PHIS[phi.name], (x,), (torch.ones_like(x),))
    np.testing.assert_allclose(phi.value(x.numpy()), value, rtol=1e-13)
    np.testing.assert_allclose(phi.slope(x.numpy()), slope, rtol=1e-13)


def test_sampled_noise_has_the_stated_covariance_from_the_first_cell_on():
    noise = OrnsteinUhlenbeck(0.7, 4.0)
    xi = theory.sample_noise(noise, np.random.default_rng(3), PATHS, 30, 0.5)
    lag = np.abs(np.subtract.outer(np.arange(30), np.arange(30))) * 0.5
    expected = 0.49 * np.exp(-lag / 4.0)
    np.testing.assert_allclose(xi.T @ xi / PATHS, expected, atol=5 * 0.49 * np.sqrt(2 / PATHS))


def test_noise_on_a_finer_grid_averages_to_the_same_white_noise():
    xi = theory.sample_noise(WhiteNoise(0.3), np.random.default_rng(4), PATHS, 8, 0.25)
    integral = xi.sum(1) * 0.25  # over a time of 2
    assert integral.var() == pytest.approx(0.3 * 2, rel=5 * np.sqrt(2 / PATHS))


# --- the exact variance -------------------------------------------------------------------------------------------


@given(mean_paths, phis, noises, st.floats(0.1, 3.0), st.booleans())
@settings(deadline=None)
def test_fast_variance_is_the_dense_quadratic_form(eta, phi, noise, step, normalized):
    clock = NoisyClock(eta, phi, noise, step, normalized)
    scale = NoisyClock(eta, phi, noise, step, normalized=False).variance()[-1]  # what the difference cancels from
    np.testing.assert_allclose(clock.variance(), dense_variance(clock), rtol=1e-10, atol=1e-13 * scale)


@given(mean_paths, phis, noises)
@settings(deadline=None)
def test_variance_is_non_negative_and_vanishes_where_the_clock_is_pinned(eta, phi, noise):
    bridge, diffusive = (NoisyClock(eta, phi, noise, normalized=kind).variance() for kind in (True, False))
    assert (bridge >= 0).all()
    assert bridge[0] == bridge[-1] == diffusive[0] == 0
    assert (np.diff(diffusive) > 0).all()  # noise that is nowhere anticorrelated only accumulates


@given(mean_paths, phis, noises, st.floats(0.01, 100.0), st.booleans())
@settings(deadline=None)
def test_scaling_the_rates_or_the_unit_of_time_changes_nothing(eta, phi, noise, factor, normalized):
    scaled = theory.RateFunction("scaled", lambda x: factor * phi.value(x), lambda x: factor * phi.slope(x))
    if isinstance(noise, WhiteNoise):
        slower = WhiteNoise(noise.intensity * factor)
    else:
        slower = OrnsteinUhlenbeck(noise.std, noise.correlation_time * factor)
    original = NoisyClock(eta, phi, noise, 1.0, normalized)
    tolerance = 1e-12 * NoisyClock(eta, phi, noise, 1.0, False).variance()[-1]
    for changed in (
        NoisyClock(eta, scaled, noise, 1.0, normalized),
        NoisyClock(eta, phi, slower, factor, normalized),
    ):
        np.testing.assert_allclose(changed.mean(), original.mean(), rtol=1e-12)
        np.testing.assert_allclose(changed.variance(), original.variance(), rtol=1e-9, atol=tolerance)


@given(mean_paths, phis, noises)
@settings(deadline=None)
def test_a_normalized_clock_read_backwards_is_as_uncertain(eta, phi, noise):
    forward = NoisyClock(eta, phi, noise).variance()
    backward = NoisyClock(eta[::-1], phi, noise).variance()
    tolerance = 1e-12 * NoisyClock(eta, phi, noise, normalized=False).variance()[-1]
    np.testing.assert_allclose(backward[::-1], forward, rtol=1e-9, atol=tolerance)


def test_channels_are_independent():
    eta = np.random.default_rng(0).standard_normal((2, 3, 17))
    noise = OrnsteinUhlenbeck(0.3, 2.0)
    together = NoisyClock(eta, RATIONAL, noise).variance()
    assert together.shape == (2, 3, 18)
    np.testing.assert_allclose(together[1, 2], NoisyClock(eta[1, 2], RATIONAL, noise).variance(), rtol=1e-14)


def exponential_noise_on_an_even_clock(s, length, std, tau, gain):
    """The continuous-time double integral for constant η, by hand."""
    before, after = ((2 * tau * (u - tau * (1 - np.exp(-u / tau)))) for u in (s, length - s))
    across = tau**2 * (1 - np.exp(-s / tau)) * (1 - np.exp(-(length - s) / tau))
    x = s / length
    return (gain * std / length) ** 2 * ((1 - x) ** 2 * before + x**2 * after - 2 * x * (1 - x) * across)


def test_exponential_variance_converges_to_continuous_time_at_second_order():
    errors = []
    for cells in (40, 80, 160):
        clock = NoisyClock(np.full(cells, 0.4), RATIONAL, OrnsteinUhlenbeck(0.2, 3.0), 20.0 / cells)
        gain = float(RATIONAL.slope(np.array(0.4)) / RATIONAL.value(np.array(0.4)))
        limit = exponential_noise_on_an_even_clock(clock.positions, 20.0, 0.2, 3.0, gain)
        errors.append(np.abs(clock.variance() - limit).max() / limit.max())
    assert errors[-1] < 1e-3
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, rtol=0.1)


def test_short_correlations_act_as_white_noise_and_endless_ones_cancel():
    white = NoisyClock(WAVY, RATIONAL, WhiteNoise(0.5), 1.0).variance()
    short = NoisyClock(WAVY, RATIONAL, OrnsteinUhlenbeck(np.sqrt(0.5), 0.01), 1.0).variance()
    np.testing.assert_allclose(short, white, rtol=1e-12)
    # A field that shifts all rates of an even clock alike is divided away by the total.
    endless = OrnsteinUhlenbeck(1.0, 1e9)
    assert NoisyClock(np.full(48, 0.2), EXP, endless).variance().max() < 1e-8
    assert NoisyClock(np.full(48, 0.2), EXP, endless, normalized=False).variance()[-1] == pytest.approx(1.0)


# --- what the attention computes ------------------------------------------------------------------------------------


def test_mean_clock_is_the_attentions_clock_on_mid_edges():
    x = torch.randn(1, 1, 23, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    valid = torch.ones(1, 23, dtype=torch.bool)
    reading, _ = C.normalized_clock(x, valid, C.rational, "surrogate", 1e-12)
    eta = C.masked_time_norm(x, valid, 1e-12)[0, 0].T.numpy()  # (D, L)
    ours = NoisyClock(0.5 * (eta[:, :-1] + eta[:, 1:]), RATIONAL, WhiteNoise(1.0)).mean()
    np.testing.assert_allclose(ours, reading[0, 0].T, atol=1e-10)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("phi", [EXP, RATIONAL], ids=lambda phi: phi.name)
def test_attentions_exact_variance_is_unit_white_noise_read_at_step_centres(phi, normalized):
    eta = torch.randn(1, 1, 31, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = C.exact_variance(eta, torch.ones(1, 31, dtype=torch.bool), C.PHIS[phi.name], normalized=normalized)
    halves = np.repeat(eta[0, 0].T.numpy(), 2, axis=-1)  # the centre of a step is the edge between its halves
    ours = NoisyClock(halves, phi, WhiteNoise(1.0), 0.5, normalized).variance()[:, 1::2].mean(0)
    units = 1.0 if normalized else 31.0  # Algorithm 1 prints Eq. 5 without one of its two factors 1/S
    np.testing.assert_allclose(ours * units, theirs[0, 0], rtol=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
def test_attentions_surrogate_is_equation_4_and_5_with_unit_constants(normalized):
    x = torch.randn(1, 1, 12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    clock = C.normalized_clock if normalized else C.unnormalized_clock
    _, theirs = clock(x, torch.ones(1, 12, dtype=torch.bool), C.rational, "surrogate", 1e-6)
    ours = theory.surrogate_variance(np.arange(12) + 0.5, 12.0, normalized=normalized) * (1 if normalized else 12)
    np.testing.assert_allclose(ours, theirs[0, 0], rtol=1e-12)


def test_attentions_empirical_constant_estimates_the_stationary_one():
    noise = OrnsteinUhlenbeck(0.8, 1.0)
    rates = RATIONAL.value(theory.sample_noise(noise, np.random.default_rng(5), 64, 4000, 1.0))  # (D, L-1)
    estimate = C.noise_scale(torch.from_numpy(rates.T[None, None]), torch.ones(1, 4001, dtype=torch.bool), "empirical")
    # Bartlett weights at bandwidth 9 lose a known few per cent of a correlation that lives one step.
    assert float(estimate) == pytest.approx(theory.stationary_rate(RATIONAL, noise).noise_to_rate, rel=0.12)


# --- stationary rates and the surrogate -----------------------------------------------------------------------------


def test_stationary_rate_of_exp_has_its_closed_form():
    std, tau, mean = 0.9, 3.0, 0.2
    rate = theory.stationary_rate(EXP, OrnsteinUhlenbeck(std, tau), mean, step=None)
    assert rate.mean == pytest.approx(np.exp(mean + std**2 / 2), rel=1e-10)
    lags = np.array([0.0, 0.5, 4.0])
    np.testing.assert_allclose(rate.covariance(lags), rate.mean**2 * np.expm1(std**2 * np.exp(-lags / tau)), rtol=1e-9)
    closed = 2 * tau * rate.mean**2 * (special.expi(std**2) - np.euler_gamma - np.log(std**2))
    assert rate.integrated_covariance == pytest.approx(closed, rel=1e-9)


def test_stationary_rate_of_rational_agrees_with_two_dimensional_quadrature():
    noise = OrnsteinUhlenbeck(1.0, 2.0)
    rate = theory.stationary_rate(RATIONAL, noise)
    assert rate.mean == pytest.approx(C.mean_rate("rational"), rel=1e-4)  # 80 Gauss–Hermite nodes see the kink
    rho = np.exp(-1.0 / 2.0)
    x = np.linspace(-9, 9, 721)
    density = np.exp(-(x[:, None] ** 2 - 2 * rho * x[:, None] * x + x**2) / (2 * (1 - rho**2)))
    density /= density.sum()
    value = RATIONAL.value(x)
    direct = value @ density @ value - (density.sum(1) @ value) ** 2
    assert rate.covariance(1.0) == pytest.approx(direct, rel=1e-6)


def test_integrated_covariance_sums_the_covariance_over_lags():
    noise = OrnsteinUhlenbeck(1.2, 4.0)
    lags = np.arange(-200, 201) * 0.5
    stepped = theory.stationary_rate(RATIONAL, noise, 0.3, step=0.5)
    assert stepped.integrated_covariance == pytest.approx(0.5 * stepped.covariance(lags).sum(), rel=1e-9)
    continuous = theory.stationary_rate(RATIONAL, noise, 0.3, step=None)
    integral, _ = integrate.quad(lambda lag: 2 * float(continuous.covariance(lag)), 0, 200, epsabs=1e-12)
    assert continuous.integrated_covariance == pytest.approx(integral, rel=1e-9)


@pytest.mark.parametrize("phi", [EXP, RATIONAL], ids=lambda phi: phi.name)
@pytest.mark.parametrize("normalized", [True, False])
def test_surrogate_is_exact_for_an_even_clock_in_weak_white_noise(phi, normalized):
    noise = WhiteNoise(1e-8)  # so weak that K is its own linearisation
    clock = NoisyClock(np.full(50, 0.7), phi, noise, 0.4, normalized)
    constant = theory.stationary_rate(phi, noise, 0.7, step=0.4).noise_to_rate
    surrogate = theory.surrogate_variance(clock.positions, 20.0, constant, normalized=normalized)
    np.testing.assert_allclose(clock.variance(), surrogate, rtol=1e-6, atol=1e-22)


def test_surrogate_approaches_exponential_noise_as_the_sequence_outgrows_its_memory():
    noise, gaps = OrnsteinUhlenbeck(1e-3, 2.0), []
    for cells in (50, 200, 800):
        clock = NoisyClock(np.zeros(cells), RATIONAL, noise)
        constant = theory.stationary_rate(RATIONAL, noise).noise_to_rate
        surrogate = theory.surrogate_variance(clock.positions, cells, constant)
        gaps.append(abs(clock.variance()[cells // 2] / surrogate[cells // 2] - 1))
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 4.0, rtol=0.05)  # the gap is O(memory/length)
    assert gaps[-1] < 0.01


def test_surrogate_misses_where_the_mean_rate_varies():
    eta = np.where(np.arange(100) < 80, -1.5, 1.5)  # four fifths of the time pass with little of the clock
    clock = NoisyClock(eta, EXP, WhiteNoise(0.01))
    rates = np.exp(eta)
    surrogate = theory.surrogate_variance(clock.positions, 100.0, 0.01 * (rates**2).mean() / rates.mean() ** 2)
    exact = clock.variance()
    assert np.argmax(surrogate) == 50
    assert np.argmax(exact) > 80
    assert exact[50] < 0.1 * surrogate[50]
    simulated = clock.sample(np.random.default_rng(6), PATHS).variance()
    assert_inside(theory.Estimate(simulated.value[[50, 90]], simulated.error[[50, 90]]), exact[[50, 90]], 0.02)


# --- against simulation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("noise", QUIET, ids=QUIET_NAMES)
@pytest.mark.parametrize("phi", [EXP, RATIONAL], ids=lambda phi: phi.name)
def test_simulated_variance_lies_on_the_closed_form(phi, noise, normalized):
    clock = NoisyClock(WAVY, phi, noise, 0.5, normalized)
    sample = clock.sample(np.random.default_rng(7), PATHS)
    assert (sample.clocks[:, 0] == 0).all()
    assert not normalized or (sample.clocks[:, -1] == 1).all()
    assert (np.diff(sample.clocks) > 0).all()
    inner = slice(1, -1) if normalized else slice(1, None)  # the pinned ends have no variance to estimate
    simulated = sample.variance()
    assert_inside(
        theory.Estimate(simulated.value[inner], simulated.error[inner]), clock.variance()[inner], precision=0.02
    )


# Quieter still: noise also moves the mean of an unnormalized clock, which a density two deviations away feels.
@pytest.mark.parametrize("noise", [WhiteNoise(5e-6), OrnsteinUhlenbeck(0.005, 5.0)], ids=QUIET_NAMES)
@pytest.mark.parametrize("normalized", [True, False])
def test_simulated_clocks_meet_as_often_as_the_closed_form_says(noise, normalized):
    x, s, t = NoisyClock(WAVY, RATIONAL, noise, 0.5, normalized), 30, 12

    def other(tilt: float) -> NoisyClock:
        return NoisyClock(np.linspace(-tilt, tilt, 20), EXP, noise, 1.0, normalized)

    def offset_and_variance(y: NoisyClock) -> tuple[float, float]:
        return x.mean()[s] - y.mean()[t], x.variance()[s] + y.variance()[t]

    def deviations(tilt: float) -> float:
        offset, variance = offset_and_variance(other(tilt))
        return offset / np.sqrt(variance)

    rng = np.random.default_rng(8)
    x_clocks = x.sample(rng, PATHS).clocks
    for wanted in (-2.0, -1.0, 0.0, 1.0, 2.0):
        y = other(optimize.brentq(lambda tilt, wanted=wanted: deviations(tilt) - wanted, -2.0, 2.0))
        offset, variance = offset_and_variance(y)
        assert offset / np.sqrt(variance) == pytest.approx(wanted, abs=1e-6)
        bandwidth = 0.4 * np.sqrt(variance)
        estimate = theory.meeting_density(x_clocks[:, s], y.sample(rng, PATHS).clocks[:, t], bandwidth)
        assert_inside(estimate, theory.meeting_kernel(offset, variance + bandwidth**2), precision=0.04)


def test_linearisation_fails_like_the_noise_squared_and_then_altogether():
    levels, relative, errors = np.array([0.05, 0.1, 0.2, 0.4]), [], []
    middle = len(WAVY) // 2
    for level in levels:
        clock = NoisyClock(WAVY, EXP, WhiteNoise(level**2))
        excess = clock.sample(np.random.default_rng(9), PATHS).excess_variance()
        relative.append(excess.value[middle] / clock.variance()[middle])
        errors.append(excess.error[middle] / clock.variance()[middle])
    assert abs(relative[0]) < 0.01
    slope = np.polyfit(np.log(levels[1:]), np.log(np.abs(relative[1:])), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.3)
    assert abs(relative[-1]) > 10 * errors[-1]

    quiet, loud = (NoisyClock(WAVY, EXP, WhiteNoise(level**2)) for level in (0.05, 1.0))
    low, high = quiet.sample(np.random.default_rng(10), PATHS).variance().interval(0.999)
    assert low[middle] < quiet.variance()[middle] < high[middle]
    low, high = loud.sample(np.random.default_rng(10), PATHS).variance().interval(1 - 1e-9)
    assert not low[middle] < loud.variance()[middle] < high[middle]


def test_unnormalized_exp_clock_misses_by_the_lognormal_factor():
    """Independent lognormal ticks have variance (e^{σ²} − 1) e^{σ²}, of which the linearisation keeps σ²."""
    for level in (0.1, 0.5):
        clock = NoisyClock(np.zeros(40), EXP, WhiteNoise(level**2), normalized=False)
        sample = clock.sample(np.random.default_rng(11), PATHS)
        factor = np.expm1(level**2) * np.exp(level**2) / level**2
        low, high = sample.variance().interval(0.999)
        assert low[-1] < factor * clock.variance()[-1] < high[-1]
        excess = sample.excess_variance()
        assert abs(excess.value[-1] - (factor - 1) * clock.variance()[-1]) < 4 * excess.error[-1]
    assert not low[-1] < clock.variance()[-1] < high[-1]


def test_drift_outgrows_spread_in_long_unnormalized_clocks():
    """Noise speeds a convex φ up by e^{σ²/2}: a shift that grows with L, beside a spread that grows with √L."""
    shifts = []
    for cells in (50, 200):
        clock = NoisyClock(np.zeros(cells), EXP, WhiteNoise(0.2**2), normalized=False)
        last = clock.sample(np.random.default_rng(15), PATHS).clocks[:, -1]
        error = last.std() / np.sqrt(PATHS)
        assert abs(last.mean() - np.exp(0.02)) < 4 * error
        shifts.append((last.mean() - 1) / np.sqrt(clock.variance()[-1]))
    assert shifts[1] > 1.0  # more than one standard deviation, where the variance itself is 6 % off
    assert shifts[1] / shifts[0] == pytest.approx(2.0, rel=0.05)


def test_surrogate_with_the_true_constants_holds_where_the_linearised_variance_does_not():
    noise = WhiteNoise(0.6**2)
    clock = NoisyClock(np.zeros(200), EXP, noise)
    constant = theory.stationary_rate(EXP, noise).noise_to_rate
    assert constant == pytest.approx(np.expm1(0.36), rel=1e-9)
    low, high = clock.sample(np.random.default_rng(12), PATHS).variance().interval(0.9999)
    surrogate = theory.surrogate_variance(clock.positions, 200.0, constant)
    inner = np.arange(10, 191, 20)
    assert ((low < surrogate) & (surrogate < high))[inner].all()
    assert (clock.variance() < low)[inner].all()


def test_the_bridge_shape_of_an_even_clock_survives_any_noise():
    """Exchangeable ticks make Var λ_i ∝ i (L − i) exactly: loud noise spoils the amplitude only."""
    clock = NoisyClock(np.zeros(24), EXP, WhiteNoise(4.0))
    simulated = clock.sample(np.random.default_rng(13), PATHS).variance()
    shape = clock.positions * (24 - clock.positions)
    amplitude = (simulated.value / np.where(shape > 0, shape, 1))[1:-1]
    np.testing.assert_allclose(amplitude, amplitude.mean(), rtol=0.08)
    assert simulated.value[12] > 1.2 * clock.variance()[12]


# --- the Itô form ---------------------------------------------------------------------------------------------------


def test_ito_clock_is_a_bridge_with_the_surrogates_variance():
    mean_rate, covariance, cells, step = 0.6, 0.005, 40, 0.5
    sample = theory.sample_ito_clock(
        np.random.default_rng(14), PATHS, cells, step, mean_rate=mean_rate, integrated_covariance=covariance
    )
    for paths in (sample.clocks, sample.linearised):
        assert (paths[:, 0] == 0).all()
        np.testing.assert_allclose(paths[:, -1], 1.0, rtol=1e-15)
    position = np.arange(cells + 1) * step
    surrogate = theory.surrogate_variance(position, 20.0, covariance / mean_rate**2)
    simulated = sample.variance()
    assert_inside(theory.Estimate(simulated.value[1:-1], simulated.error[1:-1]), surrogate[1:-1], precision=0.02)
    deviation = (sample.linearised - position / 20.0)[:, [8, 30]]
    expected = covariance / (mean_rate * 20.0) ** 2 * (4.0 - 4.0 * 15.0 / 20.0)  # min(s, t) − st/S
    assert np.mean(deviation[:, 0] * deviation[:, 1]) == pytest.approx(expected, rel=0.1)


# --- kernel and score -----------------------------------------------------------------------------------------------


def test_meeting_kernel_is_the_fourier_integral_of_the_delta_function():
    for offset, variance in ((0.0, 0.01), (0.15, 0.01), (-0.4, 0.09)):
        half, _ = integrate.quad(
            lambda k, o=offset, v=variance: np.cos(k * o) * np.exp(-0.5 * k * k * v), 0, 12 / np.sqrt(variance)
        )
        assert theory.meeting_kernel(offset, variance) == pytest.approx(half / np.pi, rel=1e-8)


@given(st.floats(-3, 3), st.floats(1e-6, 10))
def test_score_is_the_log_kernel_up_to_the_dropped_terms(offset, variance):
    kept = theory.meeting_score(offset, variance, log_variance_term=True)
    assert theory.meeting_score(offset, variance) - kept == pytest.approx(0.5 * np.log(variance), abs=1e-9)
    assert theory.meeting_kernel(offset, variance) == pytest.approx(np.exp(kept) / np.sqrt(2 * np.pi))
    assert theory.meeting_score(0.0, variance) == 0


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WhiteNoise(-1.0), r"WhiteNoise\.intensity: got -1\.0"),
        (lambda: OrnsteinUhlenbeck(1.0, float("nan")), r"correlation_time: got nan"),
        (lambda: NoisyClock(np.zeros(0), EXP, WhiteNoise(1.0)), r"eta: got shape \(0,\)"),
        (lambda: NoisyClock(np.zeros(3), EXP, WhiteNoise(1.0), step=0.0), r"step: got 0\.0"),
        (
            lambda: NoisyClock(np.zeros((2, 3)), EXP, WhiteNoise(1.0)).sample(np.random.default_rng(0), 5),
            r"eta: got shape \(2, 3\), expected \(L,\)",
        ),
        (lambda: theory.stationary_rate(EXP, WhiteNoise(1.0), step=None), "no continuum limit"),
        (lambda: theory.stationary_rate(EXP, WhiteNoise(1.0)).covariance(1.0), "expected OrnsteinUhlenbeck"),
        (lambda: theory.meeting_kernel(0.0, [0.1, 0.0]), r"variance: smallest entry is 0\.0"),
        (lambda: theory.meeting_density(np.zeros(3), np.zeros(3), 0.0), r"bandwidth: got 0\.0"),
    ],
)
def test_errors_say_what_was_given_and_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()
