"""Sharpness of a mel, compared with a recording's: movement from frame to frame and bin to bin, and variance.

Averaging shows here before it is audible: a model that cannot decide between two sounds predicts their mean, which
varies less from frame to frame, from bin to bin and over the utterance. Only frames with speech count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mel = NDArray[np.floating[Any]]  # log-mel (S, M)
LOUD = 5.0  # nepers below the mean log-mel of the loudest frames; anything lower is silence


@dataclass(frozen=True)
class Sharpness:
    """Movement and variance of one mel; the ratio of two shows how much of the movement is left."""

    time: float  # mean absolute difference between neighbouring frames
    bins: float  # mean absolute difference between neighbouring mel bins
    variance: float  # over time, averaged over bins

    def ratio(self, reference: Sharpness) -> Sharpness:
        return Sharpness(self.time / reference.time, self.bins / reference.bins, self.variance / reference.variance)


def sharpness(mel: Mel) -> Sharpness:
    """Sharpness of a mel: movement and variance of the frames with speech."""
    level = mel.mean(1)
    spoken = mel[level > np.percentile(level, 95) - LOUD].astype(np.float64)
    if len(spoken) < 2:
        raise ValueError(f"mel: got {len(spoken)} frames with speech of {len(mel)}, expected at least 2")
    return Sharpness(
        time=float(np.abs(np.diff(spoken, axis=0)).mean()),
        bins=float(np.abs(np.diff(spoken, axis=1)).mean()),
        variance=float(spoken.var(0).mean()),
    )
