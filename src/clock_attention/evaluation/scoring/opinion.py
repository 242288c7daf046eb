"""Predicted opinion scores (MOS): what listeners would probably say of a recording's quality. Optional packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np

from clock_attention.evaluation.optional import needs
from clock_attention.speech.audio.wave import Wave, resample

RATE = 16000


class Predictor(Protocol):
    """Wave → scores on the scale from 1 to 5."""

    @property
    def fingerprint(self) -> str: ...

    def __call__(self, wave: Wave, sample_rate: int) -> dict[str, float]: ...


class Dnsmos:
    """Microsoft's DNSMOS P.835 and P.808 (package `speechmos`, weights inside): overall, signal, background.

    Made to judge noise suppression; of synthetic speech it hears the vocoder's noise rather than odd prosody.
    """

    def __init__(self) -> None:
        self._module = needs("speechmos.dnsmos", extra="mos")
        self.fingerprint = f"speechmos {version('speechmos')}"

    def __call__(self, wave: Wave, sample_rate: int) -> dict[str, float]:
        if not len(wave):
            raise ValueError("an empty recording has no quality to predict")
        samples = np.clip(resample(wave, sample_rate, RATE), -1.0, 1.0)
        scores: dict[str, Any] = self._module.run(samples, sr=RATE)
        return {name: float(scores[f"{name}_mos"]) for name in ("ovrl", "sig", "bak", "p808")}


PREDICTORS: dict[str, Callable[[], Predictor]] = {"dnsmos": Dnsmos}


def load_predictor(name: str) -> Predictor:
    if name not in PREDICTORS:
        raise ValueError(f"unknown predictor of opinion scores {name!r}; choose one of {', '.join(PREDICTORS)}")
    return PREDICTORS[name]()
