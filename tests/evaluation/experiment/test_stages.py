"""The experiment: a plan that can be read, stages that can be repeated, and once the whole of it, very small."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.evaluation.experiment.jobs import StageJob
from clock_attention.evaluation.experiment.journal import perform, read_journal
from clock_attention.evaluation.experiment.plan import PLANS
from clock_attention.evaluation.experiment.stages import Experiment
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.progress import log_columns
from clock_attention.speech.training.recipes import AttentionRecipe

STEPS = {one.name: load_preset("small-l1").changed(one.changes).training.steps for one in PLANS["small"].contestants}


def finish(stage: str, experiment: Experiment) -> None:
    """Leave behind what a finished stage leaves."""
    kind, _, name = stage.partition(" ")
    if kind == "corpus":
        path = experiment.corpus(name) / "store.json"
    elif kind == "train":
        path = experiment.run(name) / "checkpoints" / f"step-{STEPS[name]:08d}.pt"
        path.parent.mkdir(parents=True)
        (path.parent / "best.pt").touch()
    elif kind == "export":
        path = experiment.voice(name) / "voice.json"
    else:
        folder = {"copy-synthesis": "copy", "sweep": "sweep", "hard list": "hard", "all prompts": "full"}[stage]
        path = experiment.out / folder / "sweep.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_finished_stages_are_not_repeated_and_times_add_up(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock", "causal-clock"))
    names = [stage.name for stage in experiment.stages()]
    ran: list[str] = []

    def run(job: StageJob) -> None:
        stage = next(one for one in experiment.stages() if one.job() == job)
        ran.append(stage.name)
        if len(ran) == 4:
            raise ChildProcessError("killed")
        finish(stage.name, experiment)

    with pytest.raises(ChildProcessError):
        perform(experiment, run, say=lambda line: None)
    assert ran == names[:4]
    perform(experiment, run, say=lambda line: None)
    assert ran == names[:4] + names[3:]
    assert list(read_journal(tmp_path)["seconds"]) == names
    perform(experiment, run, say=lambda line: None)
    assert len(ran) == len(names) + 1


def test_other_options_are_never_answered_with_old_results(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",))
    ran: list[str] = []

    def run(job: StageJob) -> None:
        ran.append(type(job).__name__)
        for stage in asked.stages():
            if stage.job() == job and not stage.done():
                finish(stage.name, asked)

    asked = experiment
    perform(asked, run, say=lambda line: None)
    ran.clear()
    perform(replace(asked, workers=2, threads=1), run, say=lambda line: None)
    assert not ran  # how fast it is done changes no result
    asked = replace(experiment, recognizers=("whisper:base.en",), mprs=("4",))
    for _ in range(2):
        perform(asked, run, say=lambda line: None)
    assert ran == ["SweepSystems"] * 3  # copy-synthesis, sweep and hard list, once
    assert read_journal(tmp_path)["recognizers"] == ["whisper:base.en"]
    for other in (replace(asked, changes=("learning_rate=0.1",)), replace(asked, seed=7), replace(asked, hours=1.0)):
        with pytest.raises(ValueError, match=r"was started with other options in .*choose another folder"):
            perform(other, run, say=lambda line: None)
    assert len(ran) == 3
    assert read_journal(tmp_path)["seed"] == 0
    (tmp_path / "experiment.json").unlink()  # as if every stage had been done by hand
    perform(asked, run, say=lambda line: None)
    with pytest.raises(ValueError, match="was started with other options"):
        perform(replace(asked, seed=7), run, say=lambda line: None)
    assert len(ran) == 3


def test_changed_prompts_models_and_lists_are_noticed(tmp_path: Path) -> None:
    prompts, model, lists = tmp_path / "mine.txt", tmp_path / "whisper", tmp_path / "lists"
    prompts.write_text("The cat sat.\n")
    for folder in (model, lists):
        folder.mkdir()
    (model / "model.bin").write_bytes(b"1")
    experiment = Experiment(
        tmp_path / "out",
        PLANS["small"],
        systems=("parallel-clock",),
        prompts=(str(prompts), "harvard"),
        recognizers=(f"whisper:{model}",),
        lists=lists,
    )
    ran: list[str] = []

    def run(job: StageJob) -> None:
        stage = next(one for one in experiment.stages() if one.job() == job)
        ran.append(stage.name)
        finish(stage.name, experiment)

    def again() -> list[str]:
        ran.clear()
        perform(experiment, run, say=lambda line: None)
        return list(ran)

    assert again()
    assert not again()
    prompts.write_text("The dog sat.\n")
    assert again() == ["sweep"]
    (lists / "harvard.txt").write_text("The birch canoe slid.\n")
    assert again() == ["sweep"]
    (model / "model.bin").write_bytes(b"22")
    assert again() == ["copy-synthesis", "sweep", "hard list"]
    assert not again()


def test_corpora_of_finished_trainings_are_not_made_again(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",))
    finish("train parallel-clock", experiment)
    corpora = [stage.name for stage in experiment.stages() if stage.name.startswith("corpus")]
    assert corpora == ["corpus natural"]  # for copy-synthesis


def test_a_plan_that_would_be_refused_is_not_shown(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",), workers=2)
    for stage in experiment.stages():
        finish(stage.name, experiment)
    perform(experiment, lambda job: None, say=lambda line: None)
    options = ["experiment", "--out", str(tmp_path), "--system", "parallel-clock", "--dry-run"]
    assert CliRunner().invoke(app, options).exit_code == 0
    result = CliRunner().invoke(app, [*options, "--seed", "7"])
    assert result.exit_code == 1
    assert "was started with other options" in " ".join(result.output.split())


def test_a_voice_that_was_trained_further_is_exported_and_evaluated_again(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",))
    for stage in experiment.stages():
        finish(stage.name, experiment)
    assert all(stage.done() for stage in experiment.stages())
    later = (tmp_path / "voices" / "parallel-clock" / "voice.json").stat().st_mtime + 10
    os.utime(experiment.run("parallel-clock") / "checkpoints" / "best.pt", (later, later))
    assert [stage.name for stage in experiment.stages() if not stage.done()] == ["export parallel-clock"]
    os.utime(experiment.voice("parallel-clock") / "voice.json", (later, later))
    left = [stage.name for stage in experiment.stages() if not stage.done()]
    assert left == ["copy-synthesis", "sweep", "hard list"]


def test_the_estimate_follows_the_log_of_a_run(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PLANS["small"], systems=("parallel-clock",))
    before = next(stage for stage in experiment.stages() if stage.name.startswith("train")).seconds
    run = experiment.run("parallel-clock")
    run.mkdir(parents=True)
    columns = log_columns(AttentionRecipe.columns, AttentionRecipe.measures)
    row = dict.fromkeys(columns, "") | {"step": "1000", "seconds": "500"}
    (run / "log.csv").write_text(",".join(columns) + "\n" + ",".join(row[column] for column in columns) + "\n")
    after = next(stage for stage in experiment.stages() if stage.name.startswith("train")).seconds
    assert before == STEPS["parallel-clock"] * PLANS["small"].step_seconds
    assert after == (STEPS["parallel-clock"] - 1000) * 0.5
