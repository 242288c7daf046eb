"""`clock-attention read`."""

import json

import soundfile
from typer.testing import CliRunner

from clock_attention.commands.main import app
from tests.speech.voices import tiny_aligned_voice


def run(*arguments):
    return CliRunner().invoke(app, ["read", *map(str, arguments)])


def test_chapters_are_listed_and_spoken(tmp_path):
    voice = tiny_aligned_voice(tmp_path / "voice")
    (tmp_path / "book.md").write_text("# One\nHello.\n\n# Two\nGood bye.\n")
    assert [line.split()[-1] for line in run(tmp_path / "book.md", "--list").output.splitlines()] == ["One", "Two"]
    result = run(
        *(tmp_path / "book.md", "-o", tmp_path / "out", "--voice", voice, "--vocoder", "griffin-lim"),
        *("--format", "wav", "--timestamps", "vtt"),
    )
    assert result.exit_code == 0, result.output
    chapters = json.loads((tmp_path / "out" / "chapters.json").read_text())["chapters"]
    assert [chapter["file"] for chapter in chapters] == ["001-one.wav", "002-two.wav"]
    assert soundfile.info(tmp_path / "out" / "002-two.wav").frames > 0
    assert (tmp_path / "out" / "002-two.vtt").read_text().startswith("WEBVTT")


def test_what_is_no_book_is_one_sentence(tmp_path):
    result = run(tmp_path / "book.pdf")
    assert result.exit_code == 1
    assert ".txt, .md, .epub" in result.output
