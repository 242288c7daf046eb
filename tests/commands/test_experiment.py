"""`clock-attention experiment`: plan, mistakes, and all of it on a tiny scale."""

from __future__ import annotations

import json
import shlex
import urllib.error
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from clock_attention.commands.experiment import as_command
from clock_attention.commands.main import app
from clock_attention.evaluation.experiment.journal import perform
from clock_attention.evaluation.experiment.plan import PLANS
from clock_attention.evaluation.experiment.results import report_experiment
from clock_attention.evaluation.experiment.stages import Experiment
from clock_attention.evaluation.prompts import read_prompts
from clock_attention.evaluation.scoring import recognizers
from clock_attention.speech.vocoder.vocoder import GriffinLim

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16", "prenet_width=8", "steps=4"),
    *("batch_size=4", "validate_every=2", "pictures=0", "validation_utterances=2", "warmup_steps=1", "short_share=1.0"),
]


@pytest.mark.parametrize("preset", PLANS)
def test_a_dry_run_prints_the_plan_and_does_nothing(preset: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["experiment", "--preset", preset, "--out", str(out), "--dry-run", "--full"])
    assert result.exit_code == 0, result.output
    assert not out.exists()
    stages = Experiment(out, PLANS[preset], full=True, workers=2).stages()
    for stage in stages:
        assert stage.name in result.output
        assert f"clock-attention {shlex.join(as_command(stage.job()))}" in result.output.replace("\n", "")
    people = preset == "paper"  # who speak in its corpus
    assert ("--consent" in result.output) is people
    assert " h" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "huge"], "expected one of small, rivals, paper"),
        (["--system", "clock"], "no system 'clock' in this experiment; there are parallel-clock"),
        (["--corpus", "natural"], "expected NAME=FOLDER"),
        (["--corpus", "other=x"], "no corpus 'other'"),
        (["--corpus", "natural=nowhere", "--dry-run"], "natural=nowhere: no prepared corpus is there"),
        (["--recognizer", "whisperer", "--dry-run"], "unknown recognizer 'whisperer'"),
        (["--mpr", "3:x:", "--dry-run"], "mpr 3:x:"),
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


class Guessing(recognizers.BaseRecognizer):
    """Hears the same sentence in everything."""

    name = "guessing"
    fingerprint = "guessing"

    def recognize(self, samples: np.ndarray) -> str:
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
    preset = replace(PLANS["small"], subset=2)
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

    perform(experiment, lambda job: job.run(Console(quiet=True)), say=lambda line: None)
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
