"""The journal of an experiment: times of all attempts, and options that are compared with those of before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clock_attention.commands.experiment import as_command, journal_of
from clock_attention.evaluation.experiment.jobs import StageJob
from clock_attention.evaluation.experiment.journal import perform, read_journal, refuse_other_options, write_journal
from clock_attention.evaluation.experiment.plan import PLANS
from clock_attention.evaluation.experiment.stages import Experiment

from .test_stages import finish


def test_a_stage_without_output_ends_the_experiment(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",))
    with pytest.raises(ChildProcessError, match="corpus phrases has ended before it was complete"):
        perform(experiment, lambda job: None, say=lambda line: None)
    assert list(read_journal(tmp_path)["jobs"]) == ["corpus phrases"]


def test_experiments_of_version_0_2_can_be_continued(tmp_path: Path) -> None:
    """Their journal holds command lines."""
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",), workers=2)
    for stage in experiment.stages():
        finish(stage.name, experiment)
    commands = {stage.name: as_command(stage.job()) for stage in experiment.stages()}
    write_journal(tmp_path, {"seconds": {"sweep": 5.0}, "commands": commands})
    ran: list[StageJob] = []
    refuse_other_options(replace(experiment, threads=1), journal_of(replace(experiment, threads=1)))
    perform(replace(experiment, workers=1), ran.append, say=lambda line: None, journal=journal_of(experiment))
    assert not ran
    journal = json.loads((tmp_path / "experiment.json").read_text("utf-8"))
    assert journal["seconds"] == {"sweep": 5.0}
    assert set(journal["jobs"]) == set(commands)
    write_journal(tmp_path, {"commands": commands})
    other = replace(experiment, seed=7)
    with pytest.raises(ValueError, match="was started with other options"):
        refuse_other_options(other, journal_of(other))
