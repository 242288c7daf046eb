"""Distance between two readings of a sentence: mel cepstra compared along the best time warp (DTW)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.evaluation.scoring.sharpness import Mel

CEPSTRA = 24


def cepstral_distance(mel: Mel, reference: Mel) -> float:
    """Mean Euclidean distance between mel cepstra 1 … 24 along the best time warp (DTW), in nepers."""
    path = warping_path(mel, reference)
    ours, theirs = cepstra(mel), cepstra(reference)
    return float(np.linalg.norm(ours[path[:, 0]] - theirs[path[:, 1]], axis=1).mean())


def warping_path(mel: Mel, reference: Mel) -> NDArray[np.integer[Any]]:
    """Dynamic time warping (DTW) of two mels by their cepstra: pairs of frames (N, 2), first to last."""
    from librosa.sequence import dtw

    _, path = dtw(cepstra(mel).T, cepstra(reference).T, metric="euclidean")
    return np.asarray(path[::-1])


def cepstra(mel: Mel) -> NDArray[np.float64]:
    """Mel cepstra 1 … 24 of each frame: the shape of the spectrum without its level."""
    from scipy.fft import dct

    return np.asarray(dct(mel.astype(np.float64), axis=1, norm="ortho")[:, 1 : CEPSTRA + 1])
