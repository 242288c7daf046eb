"""Is a mel as sharp as a recording's? Movement and variance, and the distance to a reading of the same sentence.

Averaging shows here before it is audible: a model that cannot decide between two sounds predicts their mean, which
moves less from frame to frame, from bin to bin and over the utterance. Only frames with speech count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mel = NDArray[np.floating[Any]]  # log-mel (S, M)
LOUD = 5.0  # nepers below the loudest frames' mean log-mel: what lies lower is silence
CEPSTRA = 24


@dataclass(frozen=True)
class Sharpness:
    """Of one mel; ratios of two say how much of the movement is left."""

    time: float  # mean absolute difference between neighbouring frames
    bins: float  # between neighbouring mel bins
    variance: float  # over time, mean over bins

    def ratio(self, reference: Sharpness) -> Sharpness:
        return Sharpness(self.time / reference.time, self.bins / reference.bins, self.variance / reference.variance)


def sharpness(mel: Mel) -> Sharpness:
    """Movement and variance of the frames with speech."""
    level = mel.mean(1)
    spoken = mel[level > np.percentile(level, 95) - LOUD].astype(np.float64)
    if len(spoken) < 2:
        raise ValueError(f"mel: got {len(spoken)} frames with speech of {len(mel)}, expected at least 2")
    return Sharpness(
        time=float(np.abs(np.diff(spoken, axis=0)).mean()),
        bins=float(np.abs(np.diff(spoken, axis=1)).mean()),
        variance=float(spoken.var(0).mean()),
    )


def cepstral_distance(mel: Mel, reference: Mel) -> float:
    """Mean Euclidean distance of mel cepstra 1 … 24 along the best time warp (DTW), in nepers."""
    path = warping_path(mel, reference)
    ours, theirs = cepstra(mel), cepstra(reference)
    return float(np.linalg.norm(ours[path[:, 0]] - theirs[path[:, 1]], axis=1).mean())


def warping_path(mel: Mel, reference: Mel) -> NDArray[np.integer[Any]]:
    """Pairs of frames (N, 2) along the best time warp of the cepstra, from the first to the last."""
    from librosa.sequence import dtw

    _, path = dtw(cepstra(mel).T, cepstra(reference).T, metric="euclidean")
    return np.asarray(path[::-1])


def cepstra(mel: Mel) -> NDArray[np.float64]:
    """Mel cepstra 1 … 24 of each frame: the shape of the spectrum without its level."""
    from scipy.fft import dct

    return np.asarray(dct(mel.astype(np.float64), axis=1, norm="ortho")[:, 1 : CEPSTRA + 1])
