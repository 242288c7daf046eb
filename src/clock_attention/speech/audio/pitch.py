"""Fundamental frequency of speech: SwiftF0, a small network that runs at about a hundred times real time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.wave import Wave, resample

RATE, HOP = 16000, 256  # of the network
LOWEST, HIGHEST = 55.0, 600.0  # Hz
VOICED = 0.5  # confidence; SwiftF0's own, calibrated threshold


@cache
def detector() -> Any:
    """The pitch detector SwiftF0, loaded once."""
    try:
        from swift_f0 import SwiftF0
    except ImportError:
        raise ValueError("pitch needs the package swift-f0: pip install 'clock-attention[speech]'") from None
    return SwiftF0(threads=1, spin=False)


def log_pitch(wave: Wave, mel: MelConfig) -> NDArray[np.float32]:
    """Pitch: natural log of F0 in Hz at the centre of every mel frame of `wave`, 0 where unvoiced.  (frames,)"""
    found = detector().detect(resample(wave, mel.sample_rate, RATE), RATE, LOWEST, HIGHEST)
    frames = np.arange(mel.frames(len(wave)))
    first = mel.n_fft // 2 - mel.pad  # sample at the centre of the first frame
    times = (frames * mel.hop_length + first) / mel.sample_rate
    voiced = found.confidence >= VOICED
    if not voiced.any():
        return np.zeros(len(frames), np.float32)
    contour = np.interp(times, found.timestamps[voiced], np.log(found.pitch_hz[voiced]))
    nearest = np.clip(
        np.round(times / (found.timestamps[1] if len(found.timestamps) > 1 else 1.0)).astype(int), 0, None
    )
    return np.where(voiced[np.minimum(nearest, len(voiced) - 1)], contour, 0.0).astype(np.float32)
