"""Measures of pitch: of an utterance, and of how closely it follows another reading of the same sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Contour = NDArray[np.floating[Any]]  # natural log of F0 in Hz for each frame, 0 where unvoiced
SEMITONES = 12 / np.log(2)  # in one unit of the natural log
FAR = 10.0  # semitones
FEWEST = 5  # voiced frames to say anything about


@dataclass(frozen=True)
class Pitch:
    """Pitch of one utterance: mean, variation, and how much is voiced."""

    hertz: float  # geometric mean of the voiced frames
    spread: float  # their standard deviation, semitones
    voiced: float  # share of frames


@dataclass(frozen=True)
class PitchDistance:
    """Distance of two pitch contours, frame by frame along a path, where both are voiced."""

    error: float  # root mean square, semitones, after both means have been subtracted
    correlation: float


def pitch_measures(contour: Contour) -> Pitch:
    """Mean and variation of a pitch contour."""
    voiced = contour[contour > 0]
    if len(voiced) < FEWEST:
        return Pitch(float("nan"), float("nan"), len(voiced) / max(1, len(contour)))
    return Pitch(float(np.exp(voiced.mean())), float(SEMITONES * voiced.std()), len(voiced) / len(contour))


def pitch_distance(contour: Contour, reference: Contour, path: NDArray[np.integer[Any]]) -> PitchDistance:
    """Distance of two pitch contours along a time warp."""
    ours = contour[np.minimum(path[:, 0], len(contour) - 1)]
    theirs = reference[np.minimum(path[:, 1], len(reference) - 1)]
    both = (ours > 0) & (theirs > 0)
    if both.sum() < FEWEST:
        return PitchDistance(float("nan"), float("nan"))
    ours, theirs = (SEMITONES * (values[both] - values[both].mean()) for values in (ours, theirs))
    spread = float(ours.std() * theirs.std())
    correlation = float((ours * theirs).mean() / spread) if spread > 0 else float("nan")
    return PitchDistance(float(np.sqrt(np.mean((ours - theirs) ** 2))), correlation)


def final_pitch(contour: Contour, frames: int) -> float:
    """Pitch at the end of an utterance: mean of the last so many voiced frames, in semitones above 1 Hz.

    Frames far from the median do not count: a detector falls by an octave and more where a voice fades away.
    """
    voiced = SEMITONES * contour[contour > 0]
    near = voiced[np.abs(voiced - np.median(voiced)) < FAR][-frames:] if len(voiced) else voiced
    return float(near.mean()) if len(near) else float("nan")
