"""`clock-attention voice create` and `clock-attention voices`."""

import json

import pytest
from typer.testing import CliRunner

from clock_attention.commands import voice as commands_voice
from clock_attention.commands.main import app
from clock_attention.commands.terminal import console
from tests.speech.voices import tiny_aligned_voice


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_a_voice_of_a_person_needs_a_statement_of_consent(tmp_path):
    result = invoke("voice", "create", tmp_path, "--out", tmp_path / "me")
    assert result.exit_code == 1
    assert "--consent is missing: say whose voice it is" in result.output


@pytest.mark.parametrize(
    ("folder", "message"), [("nowhere", "there is no such folder"), ("empty", "no recordings in it")]
)
def test_wrong_folders_get_a_sentence_and_nothing_is_written(tmp_path, folder, message):
    (tmp_path / "empty").mkdir()
    result = invoke("voice", "create", tmp_path / folder, "--out", tmp_path / "me", "--consent", "mine")
    assert result.exit_code == 1
    assert message in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_every_stage_is_named_when_it_begins_where_there_is_no_terminal(monkeypatch):
    said = []
    monkeypatch.setattr(commands_voice, "say", said.append)
    with commands_voice.progress() as report:
        report("gather", 1, 3)
        assert said == ["1 of 8: reading recordings (3)"]
        report("gather", 2, 3)
        report("align", 1, 2)
        assert said[1:] == ["4 of 8: aligning (2)"]


def test_voices_of_the_package_and_of_folders_are_listed_with_what_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "width", 80)  # an ordinary terminal: no name or number is broken
    folder = tiny_aligned_voice(tmp_path / "mine" / "ann")
    card = json.loads((folder / "voice.json").read_text())
    card["measures"] = {"wer": 0.042, "distillmos": 3.71}
    card["provenance"]["start"] = "default"
    (folder / "voice.json").write_text(json.dumps(card))
    tiny_aligned_voice(tmp_path / "mine" / "duo", speakers=("cleo", "dan"))
    (tmp_path / "mine" / "broken").mkdir()
    (tmp_path / "mine" / "broken" / "voice.json").write_text("{}")
    result = invoke("voices", tmp_path / "mine")
    assert result.exit_code == 0, result.output
    for part in (
        "default",
        "attention",
        "ann",
        "CC0",
        "4.2 %",
        "3.71",
        "cleo,",
        "dan",
        str(tmp_path / "mine" / "broken"),  # paths are not broken over lines
        "fine-tuned from default",
    ):
        assert part in result.output
    assert "there is no such folder" in invoke("voices", tmp_path / "nowhere").output
