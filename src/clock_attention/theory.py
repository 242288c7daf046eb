"""Noisy clocks: the variance, the meeting kernel and the simulation behind the score (paper, section II).

Everything is NumPy in fp64. Time is cut into L cells of width `step`; the mean path η and the noise live on cells,
the clock is read on the L + 1 edges s_i = i·step between them, so λ_0 = 0 and a normalized clock ends at 1. The
attention's mid-edges are cells and its steps are edges in this picture. `docs/theory/score.md` holds the derivation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RateFunction:
    """Rate function φ of the theory and its derivative φ', both elementwise on arrays; φ ≥ 0."""

    name: str
    value: Callable[[Array], Array] = field(repr=False)
    slope: Callable[[Array], Array] = field(repr=False)


def _rational(x: Array) -> Array:
    """The theory's rate function "rational", in NumPy."""
    return 0.5 * (1 + x * (1 + x + np.abs(x)) / (1 + np.abs(x)))


def _rational_slope(x: Array) -> Array:
    """The derivative of the theory's rate function "rational"."""
    bend = 1 / (1 + np.abs(x)) ** 2
    return 0.5 * np.where(x > 0, 2 - bend, bend)


RATIONAL = RateFunction("rational", _rational, _rational_slope)
SOFTPLUS = RateFunction("softplus", lambda x: np.logaddexp(0, x), lambda x: 0.5 * (1 + np.tanh(0.5 * x)))
EXP = RateFunction("exp", np.exp, np.exp)


@dataclass(frozen=True)
class WhiteNoise:
    """The theory's noise C(u, v) = intensity · δ(u − v): on cells, independent with variance intensity/step."""

    intensity: float

    def __post_init__(self) -> None:
        _require_positive("WhiteNoise.intensity", self.intensity)

    def cell_variance(self, step: float | None) -> float:
        if step is None:
            raise ValueError(
                "step: got None with WhiteNoise, expected a cell width: φ(white noise) has no continuum limit"
            )
        return self.intensity / step

    def cell_correlation(self, step: float) -> float:
        return 0.0

    def lifetime(self, orders: Array, step: float | None) -> Array:
        """∫ correlation(lag)^order d lag for cells of this width."""
        return np.full_like(orders, self.intensity / self.cell_variance(step))


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """The theory's noise C(u, v) = std² exp(−|u − v|/correlation_time), sampled at the centres of the cells."""

    std: float
    correlation_time: float

    def __post_init__(self) -> None:
        _require_positive("OrnsteinUhlenbeck.std", self.std)
        _require_positive("OrnsteinUhlenbeck.correlation_time", self.correlation_time)

    def cell_variance(self, step: float | None) -> float:
        return self.std**2

    def cell_correlation(self, step: float) -> float:
        return float(np.exp(-step / self.correlation_time))

    def lifetime(self, orders: Array, step: float | None) -> Array:
        """∫ correlation(lag)^order d lag, in continuous time where `step` is None."""
        rates = orders / self.correlation_time
        return 2 / rates if step is None else step / np.tanh(rates * step / 2)


Noise = WhiteNoise | OrnsteinUhlenbeck


def sample_noise(noise: Noise, rng: np.random.Generator, paths: int, cells: int, step: float) -> Array:
    """Simulated noise ξ on every cell, started in its stationary state, no discretisation error.  (paths, cells)"""
    rho = noise.cell_correlation(step)
    innovations = rng.standard_normal((paths, cells)) * np.sqrt(noise.cell_variance(step))
    innovations[:, 1:] *= np.sqrt(1 - rho**2)
    return _decayed_sum(innovations, rho)


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo average over simulated noisy clocks, and its standard error."""

    value: Array
    error: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """The normal confidence interval at this level; divide 1 − level by the number of entries read at once."""
        margin = NormalDist().inv_cdf(0.5 + level / 2) * self.error
        return self.value - margin, self.value + margin


@dataclass(frozen=True)
class ClockSample:
    """Simulated clocks, and what the linearisation predicts for the same noise."""

    clocks: Array  # λ (paths, L+1)
    linearised: Array  # mean clock + ∫ J ξ, same noise (paths, L+1)

    def variance(self) -> Estimate:
        """Var λ_s with the error that the sampled fourth moment implies: no Gaussian assumption.  (L+1,)"""
        return _average((self.clocks - self.clocks.mean(0)) ** 2)

    def excess_variance(self) -> Estimate:
        """Var λ_s beyond the linearised one, paired path by path so that the common fluctuation drops out.  (L+1,)"""
        deviation = self.clocks - self.clocks.mean(0)
        linear = self.linearised - self.linearised.mean(0)
        return _average(deviation**2 - linear**2)


@dataclass(frozen=True)
class NoisyClock:
    """A clock (Eq. 1) driven by η + ξ: mean path `eta` (…, L) on cells, Gaussian noise ξ, rate function φ.

    Unnormalized clocks are read on the dimensionless scale of Eq. 5, λ̄ = λ̃/(μ S), where μ S = ∫ φ(η) is the
    total of the noiseless clock; multiply readings by `total` and variances by `total`² for the raw λ̃.
    """

    eta: Array
    phi: RateFunction
    noise: Noise
    step: float = 1.0
    normalized: bool = True

    def __post_init__(self) -> None:
        eta = np.asarray(self.eta, dtype=np.float64)
        if eta.ndim == 0 or eta.shape[-1] == 0:
            raise ValueError(f"eta: got shape {eta.shape}, expected (…, L) with at least one cell on the last axis")
        _require_positive("step", self.step)
        object.__setattr__(self, "eta", eta)

    @property
    def positions(self) -> Array:
        """The times s_i of the readings.  (L+1,)"""
        return np.arange(self.eta.shape[-1] + 1) * self.step

    @cached_property
    def total(self) -> Array:
        """∫ φ(η) of the noiseless clock, the unit in which every clock here is read.  (…, 1)"""
        return _running(self.phi.value(self.eta) * self.step)[..., -1:]

    def mean(self) -> Array:
        """λ of the noiseless path, from 0 to 1.  (…, L+1)"""
        return _running(self.phi.value(self.eta) * self.step) / self.total

    def response(self) -> Array:
        """J_s(u): how much a unit of noise at u moves the reading at s.  Dense, (…, L+1, L)"""
        cells = self.eta.shape[-1]
        before = np.tri(cells + 1, cells, -1)  # 1{u ≤ s}
        pulled_back = self.mean()[..., None] if self.normalized else 0.0
        return (before - pulled_back) * (self.phi.slope(self.eta) / self.total)[..., None, :]

    def variance(self) -> Array:
        """A(s) = ∫∫ J_s(u) C(u, v) J_s(v) du dv, in O(L log L) with exponential and O(L) with white noise.  (…, L+1)

        J_s weighs the noise before s by 1 − λ_s and the noise after s by −λ_s, so A needs three running quantities:
        the variance of either part and their covariance, which for exponential correlations factorises at s.
        """
        rho = self.noise.cell_correlation(self.step)
        gain = self.phi.slope(self.eta) * self.step / self.total * np.sqrt(self.noise.cell_variance(self.step))
        before, reaching_right = _partial_variance(gain, rho)
        if not self.normalized:
            return before
        after, reaching_left = (side[..., ::-1] for side in _partial_variance(gain[..., ::-1], rho))
        covariance = rho * reaching_right * reaching_left
        reading = self.mean()
        exact = (1 - reading) ** 2 * before + reading**2 * after - 2 * reading * (1 - reading) * covariance
        return np.maximum(exact, 0.0)  # perfectly correlated noise cancels: rounding must leave no negative remainder

    def sample(self, rng: np.random.Generator, paths: int) -> ClockSample:
        """Clocks of `paths` independent noise paths, with the full φ and the full ratio; `eta` must be (L,)."""
        if self.eta.ndim != 1:
            raise ValueError(f"eta: got shape {self.eta.shape}, expected (L,): simulate one channel at a time")
        xi = sample_noise(self.noise, rng, paths, self.eta.shape[0], self.step)
        raw = _running(self.phi.value(self.eta + xi) * self.step)  # λ̃ (paths, L+1)
        push = _running(self.phi.slope(self.eta) * xi * self.step) / self.total
        if self.normalized:
            return ClockSample(raw / raw[:, -1:], self.mean() + push - self.mean() * push[:, -1:])
        return ClockSample(raw / self.total, self.mean() + push)


@dataclass(frozen=True)
class StationaryRate:
    """φ(η) of a stationary Gaussian η: its mean μ and integrated covariance K, the constants of Eqs. 4 and 5.

    `powers[n-1]` is the variance in the n-th Hermite component, whose correlation decays n times as fast as η's.
    """

    mean: float  # μ
    powers: Array
    noise: Noise
    step: float | None

    def covariance(self, lag: ArrayLike) -> Array:
        """Cov(φ(η_0), φ(η_lag)) for exponentially correlated noise."""
        if isinstance(self.noise, WhiteNoise):
            raise ValueError("noise: got WhiteNoise, expected OrnsteinUhlenbeck: white noise has no correlation time")
        decay = np.exp(-np.abs(np.asarray(lag, dtype=np.float64))[..., None] / self.noise.correlation_time)
        return (decay ** np.arange(1, len(self.powers) + 1)) @ self.powers

    @property
    def integrated_covariance(self) -> float:
        """K: the covariance summed over all lags that are multiples of `step`, or integrated where `step` is None."""
        orders = np.arange(1.0, len(self.powers) + 1)
        return float(np.sum(self.powers * self.noise.lifetime(orders, self.step)))

    @property
    def noise_to_rate(self) -> float:
        """K/μ²."""
        return self.integrated_covariance / self.mean**2


def stationary_rate(
    phi: RateFunction, noise: Noise, mean: float = 0.0, *, step: float | None = 1.0, terms: int = 64
) -> StationaryRate:
    """The theory's μ and K: expand φ(mean + ξ) in Hermite polynomials of ξ, in cells of `step` (None: continuous).

    The coefficients come from a fine trapezoid rule, not Gauss–Hermite nodes: rational φ has a kink in its second
    derivative, which spoils high-order quadrature but hardly affects the trapezoid rule.
    """
    nodes = np.linspace(-12.0, 12.0, 4801)
    weights = np.exp(-0.5 * nodes**2) * (nodes[1] - nodes[0]) / np.sqrt(2 * np.pi)
    weighted = weights * phi.value(mean + np.sqrt(noise.cell_variance(step)) * nodes)
    previous, current = np.zeros_like(nodes), np.ones_like(nodes)  # He_n/√n!, orthonormal under the Gaussian
    coefficients = []
    for order in range(terms + 1):
        coefficients.append(float(np.sum(weighted * current)))
        previous, current = current, (nodes * current - np.sqrt(order) * previous) / np.sqrt(order + 1)
    return StationaryRate(coefficients[0], np.square(coefficients[1:]), noise, step)


def surrogate_variance(
    position: ArrayLike, length: float, noise_to_rate: float = 1.0, *, normalized: bool = True
) -> Array:
    """The theory's variance: Eq. 4, (1/S)(K/μ²)(s/S)(1 − s/S), or Eq. 5 without the last factor."""
    fraction = np.asarray(position, dtype=np.float64) / length
    return noise_to_rate / length * fraction * ((1 - fraction) if normalized else 1.0)


def sample_ito_clock(
    rng: np.random.Generator,
    paths: int,
    cells: int,
    step: float = 1.0,
    *,
    mean_rate: float,
    integrated_covariance: float,
) -> ClockSample:
    """The Itô form of section II: (μs + √K W_s)/(μS + √K W_S), linearised to the bridge s/S + √K/(μS) B_s.

    W is a standard Wiener process and B_s = W_s − (s/S) W_S.
    """
    wiener = _running(rng.standard_normal((paths, cells)) * np.sqrt(step))  # (paths, L+1)
    position = np.arange(cells + 1) * step
    fraction = position / position[-1]
    raw = mean_rate * position + np.sqrt(integrated_covariance) * wiener
    bridge = wiener - fraction * wiener[:, -1:]
    linearised = fraction + np.sqrt(integrated_covariance) / (mean_rate * position[-1]) * bridge
    return ClockSample(raw / raw[:, -1:], linearised)


def meeting_kernel(offset: ArrayLike, variance: ArrayLike) -> Array:
    """E[δ(λ^X_s − λ^Y_t)] (Eq. 2) in closed form: the density N(offset; 0, Σ²) with Σ² = A_X(s) + A_Y(t)."""
    return np.exp(meeting_score(offset, variance, log_variance_term=True)) / np.sqrt(2 * np.pi)


def meeting_score(offset: ArrayLike, variance: ArrayLike, *, log_variance_term: bool = False) -> Array:
    """Eq. 3, −offset²/(2Σ²), optionally with the −½ log Σ² that the paper drops."""
    sigma2 = np.asarray(variance, dtype=np.float64)
    if not (sigma2 > 0).all():
        raise ValueError(
            f"variance: smallest entry is {sigma2.min()}, expected Σ² > 0; two clocks that are both pinned at an end "
            "have no density, so read them away from the ends or at the centres of the steps, as attention does"
        )
    score = -np.square(offset) / (2 * sigma2)
    return score - 0.5 * np.log(sigma2) if log_variance_term else score


def meeting_density(x: Array, y: Array, bandwidth: float) -> Estimate:
    """Eq. 2 of the theory from simulated readings x, y (paths, …), δ widened to a Gaussian of this bandwidth.

    Widening δ adds bandwidth² to the variance, so compare with `meeting_kernel(offset, variance + bandwidth²)`:
    the two agree for Gaussian clocks at every bandwidth, without bias.
    """
    _require_positive("bandwidth", bandwidth)
    return _average(meeting_kernel(x - y, bandwidth**2))


def _require_positive(name: str, value: float) -> None:
    """Reject a simulation parameter that is not positive and finite."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name}: got {value}, expected a positive finite number")


def _average(values: Array) -> Estimate:
    """A Monte-Carlo average of the simulation with its standard error."""
    return Estimate(values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values)))


def _running(values: Array) -> Array:
    """Running integral of the simulation, up to every edge, zero at the first.  (…, L) → (…, L+1)"""
    return np.concatenate([np.zeros_like(values[..., :1]), values.cumsum(-1)], -1)


def _decayed_sum(values: Array, rho: float) -> Array:
    """Decayed sum y_i = Σ_{j≤i} ρ^{i−j} x_j, by doubling: log₂ L passes, fewer once ρ^reach is below rounding."""
    total, reach = values.copy(), 1
    while reach < values.shape[-1] and rho**reach > 1e-18:
        total[..., reach:] += rho**reach * total[..., :-reach]
        reach *= 2
    return total


def _partial_variance(gain: Array, rho: float) -> tuple[Array, Array]:
    """Var of Σ_{j<i} gain_j z_j for unit noise z with correlation ρ^{|j−k|}, and Σ_{j<i} ρ^{i−1−j} gain_j.  (…, L+1)"""
    reaching = _decayed_sum(gain, rho)
    added = gain * (2 * reaching - gain)  # gain_i² + 2 gain_i Σ_{j<i} ρ^{i−j} gain_j
    return _running(added), np.concatenate([np.zeros_like(gain[..., :1]), reaching], -1)
