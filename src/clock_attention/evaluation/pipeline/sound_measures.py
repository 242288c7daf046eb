"""Measures of an evaluation's audio without opinion scores: movement of the mel, pitch, distance to a reference.

A predictor of opinion scores can be fooled by contrast; these numbers show what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.evaluation.pipeline.evaluate import Evaluation, Result
from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.cepstra import cepstral_distance, warping_path
from clock_attention.evaluation.scoring.pitch_measures import pitch_distance, pitch_measures
from clock_attention.evaluation.scoring.sharpness import sharpness
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.pitch import log_pitch
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import Wave

Measured = dict[str, list[float]]  # mean and its 95 % bootstrap interval over sentences


def with_sound(evaluations: Sequence[Evaluation], audio: Path, mel: MelConfig) -> list[Evaluation]:
    """Add measures of the saved audio to evaluations, and to the first one its differences from the others."""
    analyst = Analyst(mel)
    analysed = [[analyst.read(audio, result) for result in one.results] for one in evaluations]
    own = [pooled([measures(utterance) for utterance in each]) for each in analysed]
    found = [replace(one, sound={"": measured}) for one, measured in zip(evaluations, own, strict=True)]
    against = {
        other.title: pooled([differences(*pair) for pair in zip(analysed[0], theirs, strict=True)])
        for other, theirs in zip(found[1:], analysed[1:], strict=True)
    }
    return [replace(found[0], sound=found[0].sound | against), *found[1:]]


class Analyst:
    """Analyses saved audio: the mel and pitch from which sound measures are computed."""

    def __init__(self, mel: MelConfig) -> None:
        self.config, self.spectrogram = mel, MelSpectrogram(mel)

    def read(self, audio: Path, result: Result) -> tuple[Any, Any]:
        return self.analyse(load_audio(audio / result.audio, self.config.sample_rate))

    def analyse(self, wave: Wave) -> tuple[Any, Any]:
        """Log-mel (frames, M) and log F0 (frames,)."""
        return self.spectrogram(wave).numpy(), log_pitch(wave, self.config)


def measures(analysed: tuple[Any, Any]) -> dict[str, float]:
    """Sound measures of a single utterance: sharpness of the mel, and pitch."""
    mel, contour = analysed
    lively, pitch = sharpness(mel), pitch_measures(contour)
    return {
        "movement in time": lively.time,
        "movement across bins": lively.bins,
        "variance": lively.variance,
        "pitch, Hz": pitch.hertz,
        "pitch spread, semitones": pitch.spread,
        "voiced share": pitch.voiced,
    }


def differences(analysed: tuple[Any, Any], reference: tuple[Any, Any]) -> dict[str, float]:
    """Sound measures of one utterance against another reading of the sentence: cepstral and pitch distance."""
    (mel, contour), (other, theirs) = analysed, reference
    ratio = sharpness(mel).ratio(sharpness(other))
    pitch = pitch_distance(contour, theirs, warping_path(mel, other))
    return {
        **{f"{name}, ratio": value for name, value in asdict(ratio).items()},
        "cepstral distance": cepstral_distance(mel, other),
        "pitch error, semitones": pitch.error,
        "pitch correlation": pitch.correlation,
    }


def pooled(rows: Sequence[dict[str, float]]) -> Measured:
    """Sound measures averaged over the sentences that have them, with intervals."""
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {
        name: mean_with_interval(values[np.isfinite(values)])
        for name, values in columns.items()
        if np.isfinite(values).any()
    }
