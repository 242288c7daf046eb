"""Samples and evidence of a finished experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clock_attention.evaluation.experiment.plan import PLANS
from clock_attention.evaluation.experiment.results import evaluations, record
from clock_attention.evaluation.experiment.stages import Experiment
from clock_attention.evaluation.pipeline.sweep import write_sweep
from clock_attention.speech.vocoder.vocoder import GriffinLim
from tests.evaluation.conftest import write_voice
from tests.evaluation.evaluations import SWEEP


@pytest.mark.filterwarnings("ignore:Griffin-Lim sounds metallic")
def test_samples_of_other_weights_are_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GriffinLim.__init__, "__defaults__", (1,))  # iterations
    preset = replace(PLANS["small"], teacher=False)
    experiment = Experiment(tmp_path, preset, systems=("parallel-clock",), vocoder="griffin-lim")
    write_voice(experiment.voice("parallel-clock"))
    first = record(experiment)
    assert [title for title, _ in first[0].recordings] == [
        f"parallel-clock, {length}" for length in ("natural", "MPR 3", "MPR 10")
    ]
    assert len(first[1].recordings) == 1
    paths = {path for sounds in first for _, path in sounds.recordings}
    times = {path: path.stat().st_mtime_ns for path in paths}
    assert record(experiment) == first
    assert times == {path: path.stat().st_mtime_ns for path in paths}
    write_voice(experiment.voice("parallel-clock"), seed=1)
    assert not {path for sounds in record(experiment) for _, path in sounds.recordings} & paths


def test_stages_that_were_not_done_give_no_evaluations(tmp_path: Path) -> None:
    assert evaluations(tmp_path) == []
    write_sweep(tmp_path / "sweep.json", SWEEP)
    assert evaluations(tmp_path) == SWEEP
