"""Rate functions φ, from a feature to a clock's non-negative speed, and the mean speed μ of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Phi = Callable[[Tensor], Tensor]


def rational(x: Tensor) -> Tensor:
    """The rate function φ(x) = ½ (1 + x (1 + x + |x|)/(1 + |x|)): like softplus, with slower tails of its gradient."""
    beyond = 1 + x.abs()
    return 0.5 * (1 + x / beyond * (beyond + x))


PHIS: dict[str, Phi] = {"rational": rational, "softplus": F.softplus, "exp": torch.exp}


def resolve_phi(phi: str | Phi) -> Phi:
    """The rate function φ by name, or any callable that maps features to values ≥ 0."""
    if callable(phi):
        return phi
    if phi not in PHIS:
        raise ValueError(f"phi: got {phi!r}, expected one of {sorted(PHIS)} or a callable returning values ≥ 0")
    return PHIS[phi]


def expected_rate(phi: Phi) -> float:
    """The mean rate E[φ(z)], z ~ N(0, 1), in fp64: Gauss–Legendre on unit intervals; kinks at integers cost nothing."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    z = (np.arange(-12, 12)[:, None] + 0.5 + 0.5 * nodes).ravel()
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * np.tile(0.5 * weights, 24)
    learned = next(phi.parameters(), None) if isinstance(phi, torch.nn.Module) else None
    with torch.no_grad():
        rates = phi(torch.from_numpy(z) if learned is None else torch.from_numpy(z).to(learned))
    return float(np.sum(density * rates.double().cpu().numpy()))


MEAN_RATES = {name: expected_rate(phi) for name, phi in PHIS.items()}  # computed before torch.compile traces a call


def mean_rate(phi: str | Phi) -> float:
    """The mean rate μ = E[φ(z)]: a clock's tick per step for standardised features; every rate function has its own."""
    return expected_rate(phi) if callable(phi) else MEAN_RATES[phi]
