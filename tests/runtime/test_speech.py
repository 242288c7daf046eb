"""Spoken text without torch."""

import json

import numpy as np
import pytest

from clock_attention.runtime.speech import RuntimeSpeech, join
from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes
from clock_attention.timestamps import Alignment, Interval


def piece(words=("One", "two")):
    """Each word has one phone of two frames; a boundary of one frame lies between."""
    tokens = ("a", WORD_BOUNDARY, "b", next(iter(PAUSES)))
    phonemes = Phonemes(tokens, (0, NO_WORD, 1, NO_WORD), words)
    alignment = Alignment(tokens, np.array([2, 1, 2, 1]), 0.1)
    return RuntimeSpeech(
        " ".join(words), np.ones(600, np.float32), 1000, phonemes, alignment, (Interval(0.0, 0.5, "s"),)
    )


def test_words_and_phones_have_their_times():
    speech = piece()
    assert [(word.label, word.start, word.end) for word in speech.words] == [
        ("One", 0.0, pytest.approx(0.2)),
        ("two", pytest.approx(0.3), pytest.approx(0.5)),
    ]
    assert [phone.label for phone in speech.tiers()["phones"]] == ["a", "", "b", ""]
    assert speech.seconds == 0.6


def test_pieces_follow_each_other(tmp_path):
    whole = join([piece(), piece(("three", "four"))], "all")
    assert whole.seconds == 1.2
    assert [word.label for word in whole.words] == ["One", "two", "three", "four"]
    assert [sentence.start for sentence in whole.sentences] == [0.0, 0.6]
    assert whole.words[2].start == pytest.approx(0.6)
    whole.save_timestamps(tmp_path / "x.json")
    tiers = json.loads((tmp_path / "x.json").read_text("utf-8"))["tiers"]
    assert set(tiers) == {"sentences", "words", "phones", "visemes"}
    whole.save(tmp_path / "x.wav")
    assert (tmp_path / "x.wav").stat().st_size > 2400
