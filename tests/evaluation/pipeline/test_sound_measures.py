"""Liveliness and pitch of kept audio."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clock_attention.evaluation.pipeline.chain import keep_audio
from clock_attention.evaluation.pipeline.sound_measures import pooled, with_sound
from clock_attention.speech.audio.mel import MelConfig
from tests.evaluation.evaluations import canned

RATE = 22050


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    """A buzz that swells twice a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.2 * np.sign(np.sin(2 * np.pi * hertz * time)) * (1.2 + np.sin(4 * np.pi * time))).astype(np.float32)


def test_an_evaluation_is_measured_and_compared_with_the_next(tmp_path: Path) -> None:
    pytest.importorskip("swift_f0")
    from dataclasses import replace

    found = []
    for name, hertz in (("low", 110.0), ("high", 220.0)):
        one = canned(name, None, 0)
        results = []
        for place, result in enumerate(one.results[:2]):
            keep_audio(tmp_path / f"{name}{place}.flac", tone(hertz), RATE)
            results.append(replace(result, audio=f"{name}{place}.flac"))
        found.append(replace(one, results=tuple(results)))
    low, high = with_sound(found, tmp_path, MelConfig.preset("hifigan"))
    assert low.sound[""]["pitch, Hz"][0] == pytest.approx(110, rel=0.03)
    assert high.sound[""]["pitch, Hz"][0] == pytest.approx(220, rel=0.03)
    assert list(low.sound) == ["", high.title]
    assert list(high.sound) == [""]
    assert low.sound[high.title]["cepstral distance"][0] > 0


def test_means_leave_out_what_has_no_measure() -> None:
    rows = [{"a": 1.0, "b": float("nan")}, {"a": 3.0, "b": float("nan")}, {"a": float("nan"), "b": float("nan")}]
    found = pooled(rows)
    assert found.keys() == {"a"}
    assert found["a"][0] == 2.0
