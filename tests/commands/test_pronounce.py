import json

import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app


def run(*arguments: str, text: str | None = None):
    return CliRunner().invoke(app, ["pronounce", *arguments], input=text)


def test_a_table_shows_kinds_words_and_phonemes() -> None:
    result = run("Dr. Bell paid $5.")
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if "$5" in line and "money" in line)
    assert "five dollars" in row
    assert "fˈIv dˈɑləɹz" in row


def test_json_holds_sentences_tokens_and_phonemes() -> None:
    result = run("--json", "-", text="No. 5 is out.\n\nRead [Xi](/ʃiː/).")
    first, second = json.loads(result.stdout)
    assert [token["spoken"] for token in first["tokens"]] == ["number", "five", "is", "out", "."]
    assert [first["ends_paragraph"], second["ends_paragraph"]] == [True, False]
    assert second["tokens"][1] == {"text": "Xi", "kind": "word", "spoken": "Xi", "phonemes": [["ʃ", "ˈi"]]}


def test_a_lexicon_is_applied(tmp_path) -> None:
    (tmp_path / "words.toml").write_text('Zyx = "/ˈzaɪ/"', "utf-8")
    result = run("--json", "--lexicon", str(tmp_path / "words.toml"), "Zyx")
    assert json.loads(result.stdout)[0]["phonemes"] == ["z", "ˈI"]


@pytest.mark.parametrize(("text", "fault"), [("...", "at least one English word"), ("[a](/7/)", "is no IPA symbol")])
def test_what_cannot_be_read_ends_with_one_sentence(text: str, fault: str) -> None:
    result = run(text)
    assert result.exit_code == 1
    assert fault in " ".join(result.output.split())
