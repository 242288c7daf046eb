"""Tiers of timestamps of spoken text."""

import numpy as np

from clock_attention.speech.text.phonemes import NO_WORD, Phonemes
from clock_attention.speech.text.timestamp_tiers import save_speech_timestamps, spoken_tiers, word_intervals
from clock_attention.timestamps import Alignment, Interval


def test_words_last_from_their_first_token_to_their_last():
    phonemes = Phonemes(("a", "b", " ", "c"), (0, 0, NO_WORD, 1), ("ab", "c"))
    alignment = Alignment(phonemes.tokens, np.array([2, 3, 1, 4]), 0.1)
    found = [(word.label, round(word.start, 6), round(word.end, 6)) for word in word_intervals(phonemes, alignment)]
    assert found == [("ab", 0.0, 0.5), ("c", 0.6, 1.0)]


def test_pauses_have_no_label_and_marks_appear_where_there_are_some():
    phonemes = Phonemes(("b", ",", " ", "k"), (0, NO_WORD, NO_WORD, 1), ("ab", "c"))
    alignment = Alignment(phonemes.tokens, np.array([2, 3, 1, 4]), 0.1)
    sentence = Interval(0, 1, "ab, c")
    tiers = spoken_tiers(phonemes, alignment, [sentence])
    assert [phone.label for phone in tiers["phones"]] == ["b", "", "", "k"]
    assert [shape.label for shape in tiers["visemes"]] == ["PP", "sil", "kk"]
    assert "marks" not in tiers
    assert spoken_tiers(phonemes, alignment, [sentence], [Interval(0.5, 0.5, "here")])["marks"][0].label == "here"


def test_subtitles_have_readable_cues(tmp_path):
    words = [Interval(n, n + 1, "word") for n in range(20)]
    tiers = {"sentences": [Interval(0, 20, " ".join(["word"] * 20))], "words": words}
    save_speech_timestamps(tmp_path / "a.srt", tiers, 20.0)
    assert (tmp_path / "a.srt").read_text("utf-8").count("-->") == 3
