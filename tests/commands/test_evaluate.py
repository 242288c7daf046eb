"""The commands, with a recognizer that takes no time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.evaluation.scoring import recognizers
from clock_attention.speech.vocoder.vocoder import GriffinLim
from tests.evaluation.conftest import write_voice
from tests.speech.corpora import tiny_store

pytestmark = pytest.mark.filterwarnings("ignore:Griffin-Lim sounds metallic")


class Guessing(recognizers.BaseRecognizer):
    """Hears the same sentence in everything."""

    name = "guessing"
    fingerprint = "guessing"

    def recognize(self, samples: np.ndarray) -> str:
        return "the cat sat on the mat"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(recognizers.RECOGNIZERS, "guessing", Guessing)
    monkeypatch.setattr(GriffinLim.__init__, "__defaults__", (2,))  # iterations: nobody listens
    (tmp_path / "prompts.txt").write_text("a|The cat sat on the mat.\nb|No, no.\nc|The dog sat on the mat.\n")

    def run(*arguments: object):
        options = ["--out", tmp_path / "out", "--recognizer", "guessing", "--vocoder", "griffin-lim"]
        return CliRunner().invoke(app, [str(part) for part in [*arguments, *options]])

    return run


def test_evaluate_prints_rates_and_keeps_every_sentence(run, tmp_path: Path) -> None:
    write_voice(tmp_path / "first")
    write_voice(tmp_path / "second", seed=1)
    prompts = ["--prompts", tmp_path / "prompts.txt"]
    result = run("evaluate", tmp_path / "first", *prompts, "--mpr", "4", "--compare", tmp_path / "second")
    assert result.exit_code == 0, result.output
    assert "first, MPR 4 − second, MPR 4" in result.output
    found = [json.loads(path.read_text("utf-8")) for path in sorted((tmp_path / "out").glob("*.json"))]
    assert [(one["system"], one["length"], len(one["results"])) for one in found] == [
        ("first", "MPR 4", 3),
        ("second", "MPR 4", 3),
    ]
    assert found[0]["results"][0]["transcripts"] == {"guessing": "the cat sat on the mat"}
    assert found[0]["scores"]["guessing"]["words"]["hits"] == 11


def test_sound_is_measured_and_compared(run, tmp_path: Path) -> None:
    write_voice(tmp_path / "first")
    write_voice(tmp_path / "second", seed=1)
    prompts = ["--prompts", tmp_path / "prompts.txt", "--subset", 2]
    result = run("evaluate", tmp_path / "first", *prompts, "--sound", "--compare", tmp_path / "second")
    assert result.exit_code == 0, result.output
    assert "cepstral distance" in result.output
    found = {
        one["system"]: one["sound"]
        for one in (json.loads(path.read_text("utf-8")) for path in (tmp_path / "out").glob("*.json"))
    }
    assert set(found["first"]) == {"", "second, natural"}
    assert found["first"]["second, natural"]["cepstral distance"][0] > 0
    ratio = found["first"][""]["variance"][0] / found["second"][""]["variance"][0]
    assert found["first"]["second, natural"]["variance, ratio"][0] == pytest.approx(ratio, rel=0.3)


def test_results_of_different_settings_do_not_overwrite_each_other(run, tmp_path: Path) -> None:
    write_voice(tmp_path / "lr=3" / "voice")
    arguments = ["evaluate", tmp_path / "lr=3" / "voice", "--prompts", tmp_path / "prompts.txt"]
    for options in ([], ["--subset", "2"], ["--subset", "2", "--seed", "1"], ["--whole"], ["--mpr", "4"]):
        result = run(*arguments, *options)
        assert result.exit_code == 0, result.output
    found = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "out").glob("*.json")]
    assert len(found) == 5
    assert {one["system"] for one in found} == {"voice", "voice (whole)"}


def test_names_distinguish_systems(run, tmp_path: Path) -> None:
    for place, folder in enumerate(("a", "b")):
        write_voice(tmp_path / folder / "voice", seed=place)
    prompts = ["--prompts", tmp_path / "prompts.txt"]
    result = run("evaluate", tmp_path / "a" / "voice", *prompts, "--compare", tmp_path / "b" / "voice")
    assert result.exit_code == 1
    assert "two systems are called 'voice'" in " ".join(result.output.split())
    result = run("evaluate", tmp_path / "a" / "voice", *prompts, "--compare", f"other={tmp_path / 'b' / 'voice'}")
    assert result.exit_code == 0, result.output
    assert "voice, natural − other, natural" in result.output


def test_held_out_utterances_are_prompts_and_their_recordings_a_system(run, tmp_path: Path, monkeypatch) -> None:
    store = tiny_store(tmp_path / "store")
    result = run("evaluate", f"copy:{store.path}", "--prompts", f"valid:{store.path}", "--subset", "2")
    assert result.exit_code == 0, result.output
    assert "2 prompts" in result.output
    result = run("evaluate", f"copy:{store.path}", "--prompts", f"valid:{store.path}", "--mpr", "5")
    assert result.exit_code == 1
    assert "has the length of its recordings" in " ".join(result.output.split())


def test_sweep_writes_its_table_and_figures(run, tmp_path: Path) -> None:
    write_voice(tmp_path / "voice")
    names = [f"one={tmp_path / 'voice'}", f"two={tmp_path / 'voice'}"]
    result = run("sweep", *names, "--prompts", tmp_path / "prompts.txt", "--mpr", "3", "--no-teacher")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "sweep.json").read_text("utf-8"))["evaluations"]
    assert [(one["system"], one["length"]) for one in found] == [
        (name, length) for name in ("one", "two") for length in ("natural", "MPR 3")
    ]
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"scores.png", "parallel.png"}
    lines = sum(1 for path in (tmp_path / "out" / "cache").iterdir() for _ in path.open())
    assert lines == 2 * 2 * 3  # two names of one voice are heard once


@pytest.mark.parametrize("given", [(), ("teacher",)])
def test_the_teacher_is_there_once_and_in_the_mel_of_the_voice(run, tmp_path: Path, given: tuple[str, ...]) -> None:
    (tmp_path / "one.txt").write_text("No.\n")
    options = ["--prompts", tmp_path / "one.txt", "--mpr", "natural"]
    result = run("sweep", str(write_voice(tmp_path / "voice")), *given, *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "sweep.json").read_text("utf-8"))["evaluations"]
    assert [one["system"] for one in found] == ["voice", "teacher"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "nowhere", "--prompts", "hard"], "not a voice"),
        (["evaluate", "VOICE", "--prompts", "nowhere.txt"], "no file of prompts at nowhere.txt"),
        (["evaluate", "VOICE", "--prompts", "valid:nowhere"], "not a feature store"),
        (["evaluate", "VOICE", "--prompts", "hard", "--mpr", "5", "--pace", "1"], "not both"),
        (["evaluate", "VOICE", "--prompts", "hard", "--recognizer", "ear"], "unknown recognizer 'ear'"),
        (["sweep", "VOICE", "--prompts", "hard", "--mpr", "fast"], "expected 6, 3:10"),
        (["sweep", "VOICE", "VOICE", "--prompts", "hard", "--no-teacher"], "two systems are called 'voice'"),
        (["sweep", "VOICE", "default", "--prompts", "hard", "--no-teacher"], "different mel definitions"),
        (["sweep", "VOICE", "--prompts", "hard", "--mpr", "3:inf"], "expected 6, 3:10"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(run, tmp_path: Path, arguments: list[str], message: str) -> None:
    voice = write_voice(tmp_path / "voice")
    result = run(*(str(voice) if part == "VOICE" else part for part in arguments))
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_prompts_says_where_the_lists_are(tmp_path: Path) -> None:
    (tmp_path / "harvard.txt").write_text("The birch canoe slid on the smooth planks.\n")
    result = CliRunner().invoke(app, ["prompts", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "add --download" in result.output
    assert "1132 sentences" in result.output
