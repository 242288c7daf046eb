"""Figures of evaluations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.image import imread

from clock_attention.evaluation.report.figures import (
    bar,
    draw_curves,
    draw_sample,
    draw_scores,
    draw_system,
    new_figure,
)
from clock_attention.evaluation.scoring.bootstrap import ConfidenceInterval
from clock_attention.evaluation.systems.systems import VoiceSystem
from clock_attention.speech.voice.voice import Voice
from tests.evaluation.evaluations import SWEEP


def test_error_bars_never_point_inwards() -> None:
    assert bar(ConfidenceInterval(0.1, 0.08, 0.15)) == pytest.approx((10, 2, 5))
    assert bar(ConfidenceInterval(0.0, 0.0, 0.0)) == (0, 0, 0)
    assert bar(ConfidenceInterval(0.1, 0.11, 0.15))[1] == 0  # percentiles of few sentences


def test_systems_with_one_length_are_lines_and_others_points(tmp_path: Path) -> None:
    axis = new_figure(4, 3).subplots()
    draw_system(axis, [one for one in SWEEP if one.system == "parallel-clock"], "ear", "wer", "C0", "o")
    draw_system(axis, [one for one in SWEEP if one.system == "causal-clock"], "ear", "wer", "C1", "o")
    assert axis.containers[0].get_label() == "parallel-clock, ear"
    assert [line.get_label() for line in axis.lines if "own length" in str(line.get_label())] == [
        "causal-clock, ear (own length)"
    ]
    draw_scores(SWEEP, tmp_path / "scores.png")
    assert imread(tmp_path / "scores.png").std() > 0


def test_portraits_of_systems_that_are_gone_are_removed(make_voice: Callable[..., Voice], tmp_path: Path) -> None:
    (tmp_path / "autoregressive.png").touch()
    assert draw_sample([VoiceSystem(make_voice(), name="a")], tmp_path) == [tmp_path / "parallel.png"]
    assert not (tmp_path / "autoregressive.png").exists()


def test_learning_curves_are_read_from_logs(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("step,valid_l1,align_focus\n100,,\n200,0.5,0.7\n400,0.4,0.8\n")
    draw_curves({"run": tmp_path}, tmp_path / "curves.png")
    assert imread(tmp_path / "curves.png").std() > 0
