"""Measures of pitch: of an utterance, and its distance to the pitch of another reading of the same sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Contour = NDArray[np.floating[Any]]  # natural log of F0 in Hz for each frame, 0 where unvoiced
SEMITONES = 12 / np.log(2)  # per unit of the natural log
FAR = 10.0  # semitones
FEWEST = 5  # minimum number of voiced frames


@dataclass(frozen=True)
class Pitch:
    """Pitch of one utterance: mean, variation, and voiced share."""

    hertz: float  # geometric mean of the voiced frames
    spread: float  # standard deviation of the voiced frames, semitones
    voiced: float  # share of frames


@dataclass(frozen=True)
class PitchDistance:
    """Distance between two pitch contours, frame by frame along a path, where both are voiced."""

    error: float  # root mean square, semitones, after subtracting both means
    correlation: float


def pitch_measures(contour: Contour) -> Pitch:
    """Mean and variation of a pitch contour."""
    voiced = contour[contour > 0]
    if len(voiced) < FEWEST:
        return Pitch(float("nan"), float("nan"), len(voiced) / max(1, len(contour)))
    return Pitch(float(np.exp(voiced.mean())), float(SEMITONES * voiced.std()), len(voiced) / len(contour))


def pitch_distance(contour: Contour, reference: Contour, path: NDArray[np.integer[Any]]) -> PitchDistance:
    """Distance between two pitch contours along a time warp."""
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
    """Pitch at the end of an utterance: mean over its last voiced frames, in semitones above 1 Hz.

    Frames far from the median are ignored: a detector drops by an octave or more where a voice fades out.
    """
    voiced = SEMITONES * contour[contour > 0]
    near = voiced[np.abs(voiced - np.median(voiced)) < FAR][-frames:] if len(voiced) else voiced
    return float(near.mean()) if len(near) else float("nan")
