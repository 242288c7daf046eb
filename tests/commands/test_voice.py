"""`clock-attention voice create` and `clock-attention voices`."""

import io
import json

import pytest
from rich.console import Console
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
    assert "consent: whose voice is it, and did they agree?" in result.output


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
    with commands_voice.StageLines() as lines:
        lines.report("gather", 0, 0)
        assert said == ["1 of 8: reading recordings"]
        lines.report("gather", 2, 3)
        lines.report("train", 0, 0)
        assert said[1:] == ["6 of 8: training"]


def test_on_a_terminal_one_bar_is_shown_at_a_time(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    said = []
    monkeypatch.setattr(commands_voice, "console", terminal)
    monkeypatch.setattr(commands_voice, "say", lambda line: said.append((line, terminal._live_stack != [])))
    with commands_voice.StageLines() as lines:
        for name in ("gather", "train", "export"):
            lines.report(name, 0, 0)
            assert (terminal._live_stack != []) == (name != "train")  # training has a bar of its own
            lines.report(name, 1, 2)
        lines.warn("the room is audible")
    assert said == [("6 of 8: training", False), ("note: the room is audible", False)]
    assert "1 of 8: reading recordings" in terminal.file.getvalue()
    assert "1/2" in terminal.file.getvalue()


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


def test_a_voice_without_weights_is_noted_and_the_others_are_listed(tmp_path):
    for name in ("ann", "bare"):
        tiny_aligned_voice(tmp_path / name)
    (tmp_path / "bare" / "model.safetensors").unlink()
    result = invoke("voices", tmp_path)
    assert result.exit_code == 0, result.output
    bare = tmp_path / "bare"
    assert f"{bare} cannot be read: {bare}: model.safetensors is missing; export the voice again" in result.output
    assert f"{tmp_path / 'ann'}: " in result.output
    assert "default" in result.output
