"""The experiment: a plan that can be read, stages that can be repeated, and once the whole of it, very small."""

from __future__ import annotations

import json
import os
import shlex
import urllib.error
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.evaluation.experiment.plan import COMPARISONS, PRESETS
from clock_attention.evaluation.experiment.results import report_experiment
from clock_attention.evaluation.experiment.stages import Experiment, perform, read_journal
from clock_attention.evaluation.prompts import read_prompts
from clock_attention.evaluation.scoring import recognizers
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.progress import log_columns
from clock_attention.speech.training.recipes import AttentionRecipe
from clock_attention.speech.vocoder.vocoder import GriffinLim

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16", "prenet_width=8", "steps=4"),
    *("batch_size=4", "validate_every=2", "pictures=0", "validation_utterances=2", "warmup_steps=1", "short_share=1.0"),
]
STEPS = {one.name: load_preset("small").changed(one.changes).training.steps for one in PRESETS["small"].contestants}


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


@pytest.mark.parametrize("name", PRESETS)
def test_every_contestant_is_a_valid_change_of_its_preset(name: str) -> None:
    preset = PRESETS[name]
    configs = {one.name: load_preset(preset.training).changed(one.changes) for one in preset.contestants}
    assert len(configs) == len(preset.contestants)
    assert {one.comparison for one in preset.contestants} == set(COMPARISONS)
    assert {name for one in preset.contestants for name in one.corpora} == set(preset.corpora)
    for first, second in (("parallel-clock", "parallel-dot"), ("paper-clock", "paper-dot")):
        clock, dot = configs[first], configs[second]
        assert clock.training == dot.training
        assert clock.model.model_copy(update={"cross_attention": "dot"}) == dot.model
    paper = configs["paper-clock"]
    assert (paper.model.positions, paper.training.stretch_share) == ("absolute", 0.0)
    assert {configs[one].model.target_clocks for one in ("causal-clock", "printed-clock")} == {"causal", "unnormalized"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_dry_run_prints_the_plan_and_does_nothing(preset: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["experiment", "--preset", preset, "--out", str(out), "--dry-run", "--full"])
    assert result.exit_code == 0, result.output
    assert not out.exists()
    stages = Experiment(out, PRESETS[preset], full=True, workers=2).stages()
    for stage in stages:
        assert stage.name in result.output
        assert f"clock-attention {shlex.join(stage.command())}" in result.output.replace("\n", "")
    assert " h" in result.output


def test_finished_stages_are_not_repeated_and_times_add_up(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock", "causal-clock"))
    names = [stage.name for stage in experiment.stages()]
    ran: list[str] = []

    def run(arguments) -> None:
        stage = next(one for one in experiment.stages() if one.command() == list(arguments))
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
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock",))
    ran: list[str] = []

    def run(arguments) -> None:
        ran.append(arguments[0])
        for stage in asked.stages():
            if stage.command() == list(arguments) and not stage.done():
                finish(stage.name, asked)

    asked = experiment
    perform(asked, run, say=lambda line: None)
    ran.clear()
    perform(replace(asked, workers=2, threads=1), run, say=lambda line: None)
    assert not ran  # how fast it is done changes no result
    asked = replace(experiment, recognizers=("whisper:base.en",), mprs=("4",))
    for _ in range(2):
        perform(asked, run, say=lambda line: None)
    assert ran == ["sweep"] * 3  # copy-synthesis, sweep and hard list, once
    assert read_journal(tmp_path)["recognizers"] == ["whisper:base.en"]
    for other in (replace(asked, changes=("learning_rate=0.1",)), replace(asked, seed=7), replace(asked, hours=1.0)):
        with pytest.raises(ValueError, match=r"was begun with other options in .*choose another folder"):
            perform(other, run, say=lambda line: None)
    assert len(ran) == 3
    assert read_journal(tmp_path)["seed"] == 0
    (tmp_path / "experiment.json").unlink()  # as if every stage had been done by hand
    perform(asked, run, say=lambda line: None)
    with pytest.raises(ValueError, match="was begun with other options"):
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
        PRESETS["small"],
        systems=("parallel-clock",),
        prompts=(str(prompts), "harvard"),
        recognizers=(f"whisper:{model}",),
        lists=lists,
    )
    ran: list[str] = []

    def run(arguments) -> None:
        stage = next(one for one in experiment.stages() if one.command() == list(arguments))
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
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock",))
    finish("train parallel-clock", experiment)
    corpora = [stage.name for stage in experiment.stages() if stage.name.startswith("corpus")]
    assert corpora == ["corpus natural"]  # for copy-synthesis


def test_a_plan_that_would_be_refused_is_not_shown(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock",), workers=2)
    for stage in experiment.stages():
        finish(stage.name, experiment)
    perform(experiment, lambda arguments: None, say=lambda line: None)
    options = ["experiment", "--out", str(tmp_path), "--system", "parallel-clock", "--dry-run"]
    assert CliRunner().invoke(app, options).exit_code == 0
    result = CliRunner().invoke(app, [*options, "--seed", "7"])
    assert result.exit_code == 1
    assert "was begun with other options" in " ".join(result.output.split())


def test_a_voice_that_was_trained_further_is_exported_and_heard_again(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock",))
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
    experiment = Experiment(tmp_path, PRESETS["small"], systems=("parallel-clock",))
    before = next(stage for stage in experiment.stages() if stage.name.startswith("train")).seconds
    run = experiment.run("parallel-clock")
    run.mkdir(parents=True)
    columns = log_columns(AttentionRecipe.columns, AttentionRecipe.measures)
    row = dict.fromkeys(columns, "") | {"step": "1000", "seconds": "500"}
    (run / "log.csv").write_text(",".join(columns) + "\n" + ",".join(row[column] for column in columns) + "\n")
    after = next(stage for stage in experiment.stages() if stage.name.startswith("train")).seconds
    assert before == STEPS["parallel-clock"] * PRESETS["small"].step_seconds
    assert after == (STEPS["parallel-clock"] - 1000) * 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "huge"], "expected one of small, paper"),
        (["--system", "clock"], "no system 'clock' in this experiment; there are parallel-clock"),
        (["--corpus", "natural"], "expected NAME=FOLDER"),
        (["--corpus", "other=x"], "no corpus 'other'"),
        (["--corpus", "natural=nowhere", "--dry-run"], "natural=nowhere: no prepared corpus is there"),
        (["--recognizer", "whisperer", "--dry-run"], "unknown recognizer 'whisperer'"),
        (["--mpr", "3:x:", "--dry-run"], "--mpr 3:x:"),
        (["--mpr", "10:3", "--dry-run"], "expected 6, 3:10, 3:10:0.5 or natural"),
        (["--set", "widht=1", "--dry-run"], "there is no option 'widht'"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(options: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["experiment", "--out", str(tmp_path / "out"), *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "cannot fetch http://festvox.org"),
        (["--prompts", "mine.txt"], "mine.txt"),
        (["--prompts", "hard", "--recognizer", "whisperer"], "unknown recognizer 'whisperer'"),
        (["--prompts", "hard", "--recognizer", "guessing", "--vocoder", "no.pt"], "no.pt"),
    ],
)
def test_what_the_evaluation_needs_is_missed_before_anything_is_trained(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*arguments: object, **options: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    monkeypatch.setitem(recognizers.RECOGNIZERS, "guessing", Guessing)
    out = tmp_path / "out"
    always = ["experiment", "--out", str(out), "--lists", str(tmp_path / "lists")]
    result = CliRunner().invoke(app, [*always, *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not out.exists()


class Guessing(recognizers.Listener):
    """Hears the same sentence in everything."""

    name = "guessing"
    fingerprint = "guessing"

    def listen(self, samples: np.ndarray) -> str:
        return "the cat sat on the mat"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Griffin-Lim sounds metallic")
def test_the_whole_experiment_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setitem(recognizers.RECOGNIZERS, "guessing", Guessing)
    monkeypatch.setattr(GriffinLim.__init__, "__defaults__", (2,))  # iterations: nobody listens
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("The cat sat on the mat.\nNo, no, no.\n")
    # The real list is long.
    monkeypatch.setattr("clock_attention.evaluation.prompts.hard_prompts", lambda: read_prompts(prompts))
    preset = replace(PRESETS["small"], subset=2)
    experiment = Experiment(
        tmp_path / "out",
        preset,
        prompts=(str(prompts),),
        hours=0.02,
        recognizers=("guessing",),
        vocoder="griffin-lim",
        changes=tuple(TINY),
        mprs=("3", "6"),
        full=True,
        systems=("parallel-clock", "parallel-dot", "causal-clock", "autoregressive-dot"),
    )

    def run(arguments) -> None:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output

    perform(experiment, run, say=lambda line: None)
    markdown, page = report_experiment(experiment)
    text = markdown.read_text("utf-8")
    for one in experiment.contestants:
        assert one.name in text
    table = json.loads((tmp_path / "out" / "sweep" / "sweep.json").read_text("utf-8"))
    found = {(one["system"], one["length"]) for one in table["evaluations"]}
    assert ("parallel-dot", "MPR 3") in found
    assert ("autoregressive-dot", "MPR 7") in found
    assert ("causal-clock", "natural") in found
    assert ("teacher", "MPR 6") in found
    assert page.read_text("utf-8").count("<audio") >= 2 * len(experiment.contestants)
    calls: list[object] = []
    perform(experiment, calls.append, say=lambda line: None)
    assert not calls
