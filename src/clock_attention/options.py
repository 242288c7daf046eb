"""`ClockOptions`: how clocks are made and scored, checked once and passed on whole."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from clock_attention.rates import Phi, resolve_phi

CLOCKS = ("normalized", "unnormalized", "causal")
VARIANCES = ("surrogate", "empirical", "exact", "local")
CAUSAL_NORMS = ("none", "rms", "channel", "cumulative")
IMPLEMENTATIONS = ("auto", "reference", "portable", "banded", "triton")


@dataclass(frozen=True)
class ClockOptions:
    """All settings of an attention, apart from the tensors of one call.

    Args:
        clocks: "normalized" (both run 0 → 1; parallel decoding), "unnormalized" (as printed in the paper), or
            "causal" (source normalized, target diffusive in units of `pace`: no step sees a later one).
        phi: rate function, "rational" (the paper's), "softplus", "exp" or a callable ≥ 0.
        variance: "surrogate" (Eq. 4/5), "empirical" (K/μ² estimated from the rates) or "exact" (∫∫ J C J for white
            noise); with causal clocks the last two apply to the source and the target keeps the surrogate. "local"
            is for causal clocks only: one token, however long the sequence. None: "local" for causal clocks,
            "surrogate" for the others.
        log_variance_term: keep the −½ log Σ² that the paper drops.
        causal_norm: how causal clocks normalise the target: "none", "rms", "channel" or "cumulative".
        eps: the ε of Algorithm 1, positive.
        impl: "auto", or one of "reference", "portable", "banded" (CPU), "triton" (GPU). The environment variable
            CLOCK_ATTENTION_IMPL replaces "auto".
    """

    clocks: str = "normalized"
    phi: str | Phi = "rational"
    variance: str | None = None
    log_variance_term: bool = False
    causal_norm: str = "none"
    eps: float = 1e-6
    impl: str = "auto"

    def __post_init__(self) -> None:
        if self.impl == "cuda":
            warnings.warn("impl='cuda' is called 'triton' since version 0.3", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "impl", "triton")
        for name, choices in (("clocks", CLOCKS), ("causal_norm", CAUSAL_NORMS), ("impl", IMPLEMENTATIONS)):
            got = getattr(self, name)
            if got not in choices:
                raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(map(repr, choices))}")
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise ValueError(f"eps: got {self.eps}, expected a small positive number such as 1e-6")
        resolve_phi(self.phi)
        object.__setattr__(self, "variance", resolve_variance(self.variance, self.clocks))


def resolve_variance(variance: str | None, clocks: str) -> str:
    """Resolve the option `variance`: None selects the best one for these clocks; docs/theory/causal.md shows why."""
    if variance is None:
        return "local" if clocks == "causal" else "surrogate"
    if variance not in VARIANCES:
        raise ValueError(f"variance: got {variance!r}, expected one of {', '.join(map(repr, VARIANCES))} or None")
    if variance == "local" and clocks != "causal":
        raise ValueError(f"variance: got 'local' with clocks={clocks!r}; it is a variance of causal clocks")
    return variance


def has_values(x: Tensor) -> bool:
    """Whether an argument's values can be read for a check: not on the meta device, nor while traced or transformed."""
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return x.device.type != "meta" and not traced


def checkable(x: Tensor) -> bool:
    """Whether an argument's values can be read without waiting for a device: only those on the CPU."""
    return x.device.type == "cpu" and has_values(x)


def check_pace(pace: float | Tensor, batch: int) -> None:
    """Check the option `pace`: a positive number of target steps per source token, or one for each item."""
    if isinstance(pace, Tensor):
        if pace.shape not in ((), (batch,)):
            raise ValueError(f"pace: got shape {tuple(pace.shape)}, expected a number or ({batch},)")
        good = not checkable(pace) or bool((pace.isfinite() & (pace > 0)).all())
    else:
        try:
            good = math.isfinite(pace) and pace > 0
        except TypeError:
            raise TypeError(f"pace: got {pace!r}, expected a number, or a tensor with one for each item") from None
    if not good:
        raise ValueError(f"pace: got {pace}, expected a positive number of target steps per source token")
