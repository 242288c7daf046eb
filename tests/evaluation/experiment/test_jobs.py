"""Jobs of an experiment: what decides their results, and processes of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clock_attention.evaluation.experiment.jobs import ExportVoice, SweepSystems, SynthesizeCorpus, run_in_process


def test_options_are_those_that_change_the_result() -> None:
    job = SweepSystems(Path("out"), systems=("a=b",), prompts=("hard",), recognizers=("moonshine",))
    assert job.options() == {"job": "SweepSystems", "out": "out", "systems": ["a=b"], "prompts": ["hard"]}
    assert replace(job, workers=4, threads=2, lists=Path("x")).options() == job.options()
    for other in (replace(job, seed=1), replace(job, mprs=("4",)), replace(job, teacher=False)):
        assert other.options() != job.options()


def test_an_experiment_makes_the_same_corpus_as_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint of a store covers its readings and settings."""
    from rich.console import Console
    from typer.testing import CliRunner

    from clock_attention.commands.main import app
    from clock_attention.evaluation.experiment import jobs
    from clock_attention.speech.corpus import prepare as preparation

    asked = []

    def planned(items, out, settings, *, source="", **_):
        asked.append((preparation.fingerprint_of(items, settings), source))
        raise ValueError("planned only")

    monkeypatch.setattr(preparation, "prepare", planned)
    monkeypatch.setattr(jobs, "prepare", planned)
    with pytest.raises(ValueError, match="planned only"):
        SynthesizeCorpus(tmp_path, hours=0.01, seed=3, speeds=(0.75, 1.0), shortest=10).run(Console(quiet=True))
    options = ["--hours", "0.01", "--seed", "3", "--speed", "0.75", "--speed", "1.0", "--shortest", "10"]
    CliRunner().invoke(app, ["corpus", "synthesize", "--out", str(tmp_path), *options])
    assert len(asked) == 2
    assert asked[0] == asked[1]


@pytest.mark.slow
def test_errors_of_another_process_are_raised_here(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run_in_process(ExportVoice(tmp_path / "voice", source=tmp_path / "nowhere"))
    assert not (tmp_path / "voice").exists()
