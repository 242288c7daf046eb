"""Results of an alignment: intervals, flags and a score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clock_attention.arrays import Float32Array
from clock_attention.timestamps import Interval


class AlignmentError(ValueError):
    """Raised if a recording and a text cannot be aligned; the message says why."""


@dataclass(frozen=True)
class AlignedInterval(Interval):
    """A word, a phone or a silence (label ""); `confidence` is how likely both ends are within 20 ms."""

    confidence: float = 1.0


class Flag(NamedTuple):
    """A difference between recording and text, found by alignment; `word` is "" for speech that is not in the text."""

    kind: Literal["spoken-not-written", "written-not-spoken"]
    word: str
    start: float
    end: float


@dataclass(frozen=True)
class AlignedRecording:
    """Words and phones of a recording, contiguous from 0 to `duration`.

    `score` is higher the better the text fits the recording; `fits` says whether it reaches the model's threshold.
    `posterior` holds the probability of each token for every frame (of `frame_seconds`). `source_clock` counts the
    sounds along the tokens, `target_clock` the sounds detected along the frames; the clocks meet where they are equal.
    """

    duration: float
    words: tuple[AlignedInterval, ...]
    phones: tuple[AlignedInterval, ...]
    score: float
    fits: bool
    flags: list[Flag] = field(default_factory=list)
    posterior: Float32Array | None = None  # (frames, tokens)
    source_clock: Float32Array | None = None  # (tokens,)
    target_clock: Float32Array | None = None  # (frames,)
    frame_seconds: float = 0.005


@dataclass(frozen=True)
class TokenTimes:
    """Start and end of every phoneme token in seconds; boundary tokens are silences that may have zero length.

    `leading` and `trailing` are the silences before the first token and after the last, in seconds.
    """

    starts: NDArray[np.float64]  # (tokens,)
    ends: NDArray[np.float64]  # (tokens,)
    confidence: NDArray[np.float64]  # (tokens,)
    leading: float
    trailing: float
    score: float
    fits: bool
