"""Files of an alignment."""

import json
from pathlib import Path

import pytest

from clock_attention.speech.aligner.alignment_files import check_format, save_alignment, subtitles
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording, Flag
from clock_attention.speech.text.phonemizers import phonemizer

TEXT = "Hello, Dr. Smith. Are you there?"


@pytest.fixture
def aligned():
    """All but "you" was said, a second a word."""
    result = ["Hello", "Dr.", "Smith", "Are", "there"]
    words = tuple(AlignedInterval(float(n), n + 1.0, word) for n, word in enumerate(result))
    flags = [Flag("written-not-spoken", "you", 4.0, 4.0)]
    return AlignedRecording(5.0, words, words, -1.23456, True, flags)


def test_subtitles_are_the_text_as_written_at_the_times_of_its_words(aligned):
    found = [(cue.label, cue.start, cue.end) for cue in subtitles(aligned, TEXT, phonemizer())]
    assert found == [("Hello, Dr. Smith.", 0.0, 3.0), ("Are you there?", 3.0, 5.0)]


def test_subtitles_last_no_longer_than_can_be_read():
    text = "It went on, slowly, on and on, until nobody listened any more."
    result = [word.strip(",.") for word in text.split()]
    words = tuple(AlignedInterval(float(n), n + 1.0, word) for n, word in enumerate(result))
    aligned = AlignedRecording(float(len(result)), words, words, -1.0, True, [])
    cues = list(subtitles(aligned, text, phonemizer()))
    assert " ".join(cue.label for cue in cues) == text
    assert len(cues) > 1
    assert all(cue.end - cue.start <= 7 for cue in cues)


def test_each_format_holds_what_it_can(aligned, tmp_path):
    paths = [tmp_path / f"x.{ending}" for ending in ("TextGrid", "json", "srt")]
    save_alignment(aligned, paths, TEXT, phonemizer())
    assert "Smith" in paths[0].read_text("utf-8")
    facts = json.loads(paths[1].read_text("utf-8"))
    assert facts["score"] == -1.2346
    assert facts["flags"][0]["word"] == "you"
    assert "Are you there?" in paths[2].read_text("utf-8")
    save_alignment(aligned, [tmp_path / "words.srt"], TEXT, phonemizer(), cues="words")
    assert (tmp_path / "words.srt").read_text("utf-8").count("-->") == 5


def test_other_endings_are_refused():
    with pytest.raises(ValueError, match="expected a name ending in"):
        check_format(Path("x.doc"))
