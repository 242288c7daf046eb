"""`corpus transcribe`: recordings without text become a corpus; interrupted, no clip is transcribed twice."""

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.evaluation.scoring import recognizers
from clock_attention.speech.corpus.ljspeech import read_folder


class Parrot:
    """Interrupted by the user at its second clip."""

    name = fingerprint = "parrot"
    heard = 0

    def transcribe(self, wave, sample_rate):
        type(self).heard += 1
        if self.heard == 2:
            raise KeyboardInterrupt
        return f"Sentence {self.heard}."


@pytest.fixture
def silent_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recognizers, "load_recognizer", lambda name: Parrot())
    monkeypatch.setattr(Parrot, "heard", 0)
    (tmp_path / "mine").mkdir()
    for number in range(3):
        noise = 0.1 * np.random.default_rng(number).normal(size=22050)
        soundfile.write(tmp_path / "mine" / f"{number}.wav", noise, 22050)
    return tmp_path / "mine"


def transcribe(*arguments):
    return CliRunner().invoke(app, ["corpus", "transcribe", *map(str, arguments)])


def test_interrupted_it_continues_and_transcribes_nothing_twice(silent_folder, tmp_path):
    clips = tmp_path / "clips"
    assert transcribe(silent_folder, "--out", clips).exit_code == 130
    result = transcribe(silent_folder, "--out", clips)
    assert result.exit_code == 0, result.output
    assert [row.text for row in read_folder(clips)[0]] == ["Sentence 1.", "Sentence 3.", "Sentence 4."]
    assert sorted(path.name for path in clips.iterdir()) == ["gathered.json", "left_out.jsonl", "metadata.csv", "wavs"]


def test_it_does_not_write_among_the_recordings(silent_folder):
    result = transcribe(silent_folder, "--out", silent_folder / "clips")
    assert result.exit_code == 1
    assert "is inside the folder of recordings" in result.output
