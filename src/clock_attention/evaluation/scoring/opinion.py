"""Predicted opinion scores (MOS), which estimate listener ratings, by optional packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch

from clock_attention.evaluation.optional_packages import needs
from clock_attention.speech.audio.wave import Wave, resample

RATE = 16000


class Predictor(Protocol):
    """A predictor of opinion scores (MOS): wave → scores on the scale from 1 to 5."""

    @property
    def fingerprint(self) -> str: ...

    def __call__(self, wave: Wave, sample_rate: int) -> dict[str, float]: ...


class Dnsmos:
    """The opinion predictor DNSMOS P.835 and P.808 (package `speechmos`, with weights): overall, signal, background.

    Designed to rate noise suppression; for synthetic speech it is sensitive to vocoder noise rather than prosody.
    """

    def __init__(self) -> None:
        self._module = needs("speechmos.dnsmos", extra="mos")
        self.fingerprint = f"speechmos {version('speechmos')}"

    def __call__(self, wave: Wave, sample_rate: int) -> dict[str, float]:
        samples = np.clip(resample(require_samples(wave), sample_rate, RATE), -1.0, 1.0)
        scores: dict[str, Any] = self._module.run(samples, sr=RATE)
        return {name: float(scores[f"{name}_mos"]) for name in ("ovrl", "sig", "bak", "p808")}


class DistillMos:
    """The opinion predictor DistillMOS (package `distillmos`, with weights): naturalness, distilled from XLS-R.

    A single predictor can be fooled: stretching every mel bin around its mean by 1.4 raised this one by 1.3 points and
    DNSMOS not at all. Report both.
    """

    def __init__(self) -> None:
        with importable("torchaudio"):  # imported by the package, used only by its command line
            module = needs("distillmos", extra="mos")
        with redirect_stdout(StringIO()):  # it prints the path of its weights
            self._model = module.ConvTransformerSQAModel().eval()
        self.fingerprint = f"distillmos {version('distillmos')}"

    def __call__(self, wave: Wave, sample_rate: int) -> dict[str, float]:
        samples = torch.from_numpy(resample(require_samples(wave), sample_rate, RATE))
        with torch.inference_mode():
            return {"mos": float(self._model(samples[None]))}


@contextmanager
def importable(name: str) -> Iterator[None]:
    """Replace a missing or broken module with an empty one while a predictor of opinion scores imports it."""
    try:
        import_module(name)
    except (ImportError, OSError):
        sys.modules[name] = ModuleType(name)
        try:
            yield
        finally:
            del sys.modules[name]
    else:
        yield


def require_samples(wave: Wave) -> Wave:
    """Refuse an empty recording, which has no opinion score."""
    if not len(wave):
        raise ValueError("an empty recording has no opinion score")
    return wave


PREDICTORS: dict[str, Callable[[], Predictor]] = {"dnsmos": Dnsmos, "distillmos": DistillMos}


def load_predictor(name: str) -> Predictor:
    """Load a predictor of opinion scores by name."""
    if name not in PREDICTORS:
        raise ValueError(f"unknown predictor of opinion scores {name!r}; choose one of {', '.join(PREDICTORS)}")
    return PREDICTORS[name]()
