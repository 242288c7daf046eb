"""Token durations in the runtime: divide the frames of an encoded phrase among its tokens, in whole frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clock_attention.arrays import IntArray

Frames = NDArray[np.float32]


def fitted_durations(natural: Frames, optional: NDArray[np.bool_], frames: int) -> IntArray:
    """Durations in whole frames that sum to `frames`: the aligned model's `fitted_durations` in NumPy.  (T + 2,)

    Args:
        natural: predicted frames of the leading silence, every token and the trailing silence.
        optional: which of them may be given no frames.
    """
    least = (~optional).astype(np.float32)
    total, wanted = natural.sum(dtype=np.float32), np.float32(frames)
    fewest = least.sum(dtype=np.float32)
    if wanted >= total or wanted < fewest:  # longer than natural, or too short for one frame per phoneme
        fitted = natural * wanted / total
    else:
        hurried = np.where(optional, natural * np.minimum(wanted / total, np.float32(1)), natural)
        above = np.maximum(hurried.sum(dtype=np.float32) - fewest, np.float32(1e-6))
        fitted = least + (hurried - least) * ((wanted - fewest) / above)
    ends = np.minimum(np.floor(np.cumsum(fitted, dtype=np.float64) + 0.5), frames)
    ends[-1] = frames
    return np.diff(ends, prepend=0.0).astype(np.int64)


def paced_frames(natural: Frames, pace: float) -> int:
    """Duration of a phrase in whole frames at a pace."""
    return max(1, int(np.round(natural.sum(dtype=np.float32) / np.float32(pace))))
