"""The page around it: errors as sentences, the command, and files that the browser gets with it."""

import pytest
from typer.testing import CliRunner

gr = pytest.importorskip("gradio", reason="needs the extra clock-attention[app]")

from clock_attention.app.page import LOOK, errors_shown  # noqa: E402


def test_mistakes_become_sentences_and_surprises_stay_in_the_terminal(caplog):
    with pytest.raises(gr.Error) as mistake, errors_shown():
        raise ValueError("nothing to say in '': give a word")
    assert mistake.value.message == "Nothing to say in '': give a word"
    with pytest.raises(gr.Error) as surprise, errors_shown():
        raise RuntimeError("secret path")
    assert "secret" not in surprise.value.message
    assert "secret path" in caplog.text


def test_scripts_and_styles_come_with_the_page_and_fetch_nothing():
    assert LOOK["head"].count("<script>") == 3
    for words in ("http:", "https:", "fetch(", "@import", "url("):
        assert words not in LOOK["head"] + LOOK["css"], words


def test_the_command_binds_to_this_machine_only_and_sends_no_telemetry(voice, monkeypatch):
    launched = {}
    monkeypatch.setattr(gr.Blocks, "launch", lambda blocks, **options: launched.update(options, page=blocks))
    runner, command = CliRunner(), command_line()
    result = runner.invoke(command, ["--voice", str(voice.path), "--vocoder", "griffin-lim"])
    assert result.exit_code == 0, result.output
    assert (launched["server_name"], launched["share"]) == ("127.0.0.1", False)
    assert launched["page"].analytics_enabled is False
    failed = runner.invoke(command, ["--voice", "nowhere"])
    assert failed.exit_code == 1
    assert "nowhere: not a voice" in failed.output
    assert "Traceback" not in failed.output


def command_line():
    import typer

    from clock_attention.commands.app import app as app_command

    alone = typer.Typer()
    alone.command()(app_command)
    return alone
