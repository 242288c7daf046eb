"""`clock-attention dub`."""

import json

import pytest
import soundfile
from typer.testing import CliRunner

from clock_attention.commands.main import app
from tests.speech.voices import tiny_aligned_voice

SRT = "1\n00:00:00,500 --> 00:00:01,500\nHello there.\n\n2\n00:00:01,500 --> 00:00:02,100\nThis is too long for it.\n"


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return str(tiny_aligned_voice(tmp_path_factory.mktemp("voices") / "aligned"))


def run(*arguments):
    return CliRunner().invoke(app, ["dub", *map(str, arguments)])


def test_sound_report_picture_and_stems(voice, tmp_path):
    (tmp_path / "a.srt").write_text(SRT)
    result = run(
        *(
            tmp_path / "a.srt",
            "-o",
            tmp_path / "a.flac",
            "--voice",
            voice,
            "--vocoder",
            "griffin-lim",
            "--length",
            "3s",
        ),
        *(
            "--fastest",
            "1",
            "--report",
            tmp_path / "r.json",
            "--plot",
            tmp_path / "t.svg",
            "--stems",
            tmp_path / "stems",
        ),
    )
    assert result.exit_code == 0, result.output
    assert soundfile.info(tmp_path / "a.flac").frames == 3 * 22050
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["cues"] == 2
    assert (tmp_path / "t.svg").is_file()
    assert len(list((tmp_path / "stems").glob("*.wav"))) == 2
    assert "cue 2 at 0:00:01.500: needs pace" in result.output


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["missing.srt"], "cannot be read"),
        (["a.srt", "--report", "report.doc"], ".json or .txt"),
        (["a.srt", "--fastest", "0.5"], "fastest"),
        (["a.srt", "-o", "a.mp3"], ".wav or .flac"),
        (["a.srt", "--plot", "a.gif"], ".png"),
    ],
)
def test_mistakes_are_one_sentence(voice, tmp_path, monkeypatch, arguments, about):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.srt").write_text(SRT)
    result = run(*arguments, "--voice", voice)
    assert result.exit_code == 1
    assert "error: " in result.output
    assert about in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.srt"]
