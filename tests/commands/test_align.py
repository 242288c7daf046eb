"""`clock-attention align`: what it writes, how it goes on, and that every mistake is answered with a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile

from tests.commands.coded_recordings import OTHER, TEXT, WORDS, files, labels, printed, record
from tests.speech.aligner.coded import coded_speech
from tests.test_timestamps import assert_tiles, read_textgrid


def test_every_format_from_one_recording(align, tmp_path):
    speech = record(tmp_path / "a.wav")
    endings = ["TextGrid", "json", "srt", "vtt", "lab", "ctm"]
    result = align("a.wav", "--text", TEXT, *(f for ending in endings for f in ("-o", f"b.{ending}")))
    assert result.exit_code == 0, result.output
    assert files(tmp_path) == sorted(["a.wav", *(f"b.{ending}" for ending in endings)])
    seconds, tiers = read_textgrid((tmp_path / "b.TextGrid").read_text("utf-8"))
    assert list(tiers) == ["words", "phones"]  # MFA's names, in its order
    for tier in tiers.values():
        assert_tiles(tier, seconds)
    assert labels(tiers["words"]) == WORDS == [label for _, _, label in speech.words]
    found = [(word.start, word.end) for word in tiers["words"] if word.label]
    np.testing.assert_allclose(found, [(start, end) for start, end, _ in speech.words], atol=0.01)
    table = json.loads((tmp_path / "b.json").read_text("utf-8"))
    assert table["fits"] is True
    assert table["flags"] == []
    assert all(0 <= word["confidence"] <= 1 for word in table["tiers"]["words"])
    assert (tmp_path / "b.srt").read_text("utf-8").splitlines()[2] == TEXT
    assert (tmp_path / "b.vtt").read_text("utf-8").startswith("WEBVTT\n")
    rows = (tmp_path / "b.ctm").read_text("utf-8").splitlines()
    assert [row.split()[4] for row in rows] == WORDS
    assert (tmp_path / "b.lab").read_text("utf-8").splitlines()[0].endswith(" sil")
    assert f"b.TextGrid, b.json, b.srt, b.vtt, b.lab, b.ctm: {len(WORDS)} words in" in printed(result)


@pytest.mark.parametrize("given", [["--text-file", "words.txt"], ["--text-file", "-"], []])
def test_the_text_comes_from_a_file_standard_input_or_a_transcript_next_to_the_recording(align, tmp_path, given):
    record(tmp_path / "a.flac")
    for name in ("words.txt", "a.txt"):
        (tmp_path / name).write_text(f"\ufeff{TEXT}\r\n", encoding="utf-8")
    assert align("a.flac", *given, input=TEXT).exit_code == 0
    assert labels(read_textgrid((tmp_path / "a.TextGrid").read_text("utf-8"))[1]["words"]) == WORDS


def test_subtitles_are_lines_with_punctuation_or_words(align, tmp_path):
    text = (
        "One two three. Four, five! "
        + "And a long sentence that goes on and on, "
        + "which does not fit into one line, " * 3
    )
    record(tmp_path / "a.wav", text)
    assert align("a.wav", "--text", text, "-o", "a.srt").exit_code == 0
    lines = [block.split("\n")[2] for block in (tmp_path / "a.srt").read_text("utf-8").split("\n\n")]
    assert lines[:2] == ["One two three.", "Four, five!"]
    assert " ".join(lines).split() == text.split()
    assert max(map(len, lines)) <= 84
    assert align("a.wav", "--text", text, "-o", "a.srt", "--cues", "words").exit_code == 0
    assert (tmp_path / "a.srt").read_text("utf-8").split("\n")[2] == "One"


def test_a_picture(align, tmp_path):
    record(tmp_path / "a.wav")
    assert align("a.wav", "--text", TEXT, "-o", "a.json", "--plot", "a.svg").exit_code == 0
    picture = (tmp_path / "a.svg").read_text("utf-8")
    assert "source clock" in picture
    assert "blorptag" in picture


def test_a_picture_of_a_long_recording_shows_its_beginning(align, tmp_path):
    text = " ".join(f"Sentence number {n} is followed by another one." for n in range(40))
    record(tmp_path / "a.wav", text)
    result = align("a.wav", "--text", text, "-o", "a.json", "--plot", "a.svg")
    assert result.exit_code == 0, result.output
    assert "the beginning" in (tmp_path / "a.svg").read_text("utf-8")


def test_a_wrong_text_is_refused_and_written_only_by_force(align, tmp_path):
    record(tmp_path / "a.wav")
    result = align("a.wav", "--text", OTHER)
    assert result.exit_code == 1
    assert "the text does not fit the recording (score" in printed(result)
    assert files(tmp_path) == ["a.wav"]
    result = align("a.wav", "--text", OTHER, "--force")
    assert result.exit_code == 0
    assert "warning: the text does not fit" in printed(result)
    assert files(tmp_path) == ["a.TextGrid", "a.wav"]


def test_missing_and_extra_words_are_reported(align, tmp_path):
    record(tmp_path / "a.wav", "one two three four five six seven eight nine ten")
    result = align("a.wav", "--text", "one two three extraordinary four five six seven ten", "-o", "a.json")
    assert result.exit_code == 0, result.output
    assert "'extraordinary' is written but was not found near" in printed(result)
    assert "s is not written" in printed(result)
    kinds = {flag["kind"] for flag in json.loads((tmp_path / "a.json").read_text("utf-8"))["flags"]}
    assert kinds == {"written-not-spoken", "spoken-not-written"}


def silent(path):
    soundfile.write(path, np.zeros(16000), 16000)


def stereo(path):
    soundfile.write(path, np.stack([coded_speech(TEXT).wave] * 2, axis=1), 16000)


def telephone(path):
    soundfile.write(path, coded_speech(TEXT).wave[::2], 8000)


def noise(path):
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 80000), 16000)


MISTAKES = [
    (silent, [], "the recording is silent"),
    (lambda path: soundfile.write(path, np.zeros(0), 16000), [], "there is nothing to align"),
    (telephone, [], "sampled at 8000 Hz, expected at least 11025"),
    (stereo, [], "2 channels, expected one"),
    (noise, [], "the text does not fit the recording"),
    (record, ["--text", "Это совсем другой язык"], "cannot be read: give at least one English word"),
    (record, ["--text", "Le petit chat boit du lait dans la cuisine de sa grand-mère"], "does not fit"),
    (record, ["--text", "far more words than this " * 200], "the text is too long for the recording"),
    (record, ["--text", " "], "the text is empty"),
    (record, ["--text", "?!"], "give at least one English word"),
    (lambda path: path.write_text("no sound"), [], "cannot read a.wav as audio"),
    (lambda path: None, [], "a.wav: no such file or folder"),
    (record, ["--text", TEXT, "--text-file", "b.txt"], "choose one"),
    (record, ["--text-file", "b.txt"], "b.txt"),
    (record, ["-o", "a.doc"], "expected a name ending in .TextGrid"),
    (record, ["-o", "nowhere/a.json"], "the folder nowhere does not exist"),
    (record, ["--plot", "a.gif"], "expected a name ending in .png"),
    (record, ["--format", "doc"], "--format: got 'doc'"),
    (record, ["--cues", "letters"], "--cues: got 'letters'"),
    (record, ["--lexicon", "b.toml"], "--lexicon"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), MISTAKES)
def test_every_mistake_is_answered_with_a_sentence_and_nothing_is_written(align, tmp_path, make, arguments, message):
    make(tmp_path / "a.wav")
    before = files(tmp_path)
    text = [] if {"--text", "--text-file"} & set(arguments) else ["--text", TEXT]
    result = align("a.wav", *text, *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert message in printed(result)
    assert "Traceback" not in result.output
    assert files(tmp_path) == before


def test_a_recording_without_any_text_says_where_it_was_looked_for(align, tmp_path):
    record(tmp_path / "a.wav")
    result = align("a.wav")
    assert result.exit_code == 1
    assert "no transcript beside it, expected a.txt or a.lab; or give the text with --text" in printed(result)


def test_channels_are_mixed_when_asked(align, tmp_path):
    stereo(tmp_path / "a.wav")
    assert align("a.wav", "--text", TEXT, "--mix").exit_code == 0
