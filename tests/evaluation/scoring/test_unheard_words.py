"""Words that nobody heard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.scoring.unheard_words import TimedPhone, phones_heard, words_not_in

pytest.importorskip("jiwer")
pytest.importorskip("whisper_normalizer")


@pytest.mark.parametrize(
    ("words", "transcript", "missing"),
    [
        ("one one nine", "one nine", 1),
        ("the sixth sick sheep", "the sixth sheep", 1),
        ("no no no no", "no no no", 1),
        ("yes", "", 1),
        ("the F B I met", "The FBI met.", 0),
        ("call five five five now", "Call 555 now.", 0),
        ("the sheikh's sheep", "the sheikhs sheep", 0),
        ("a peck of peppers", "a pack of papers", 0),  # heard as other words, but heard
    ],
)
def test_words_are_looked_for_by_their_letters(words: str, transcript: str, missing: int) -> None:
    assert len(words_not_in(transcript, words.split())) == missing


def test_the_place_of_a_missing_word() -> None:
    assert words_not_in("the cat on the mat", ["the", "cat", "sat", "on", "the", "mat"]) == {2}


@given(st.lists(st.sampled_from(["tea", "boat", "ninety", "4", "W", "shells", "o'clock"]), min_size=1, max_size=12))
def test_a_faithful_transcript_misses_nothing(words: list[str]) -> None:
    assert words_not_in(" ".join(words), words) == set()


def phones(*names: str, step: float = 0.1) -> list[TimedPhone]:
    return [TimedPhone(name, step * place, step * (place + 1)) for place, name in enumerate(names)]


def test_phones_count_only_inside_the_interval_of_the_word() -> None:
    found = phones("S", "IH", "K", "SH", "IY", "P", "HH", "AH")
    assert phones_heard(["S", "IH", "K"], found, 0.0, 0.3)
    assert not phones_heard(["S", "IH", "K"], found, 0.65, 0.8)


def test_any_vowel_counts_as_a_vowel_and_consonants_must_be_the_same() -> None:
    found = phones("B", "AA", "T")
    assert phones_heard(["EY"], found, 0.1, 0.2)
    assert not phones_heard(["Z", "SH", "F"], found, 0.0, 0.3)


def test_a_word_without_recognized_phones_was_not_heard() -> None:
    assert not phones_heard(["AH"], [], 0.0, 0.1)


def test_phones_of_a_wave_come_in_order_and_within_it() -> None:
    pytest.importorskip("pocketsphinx")
    from clock_attention.evaluation.scoring.recognizers import PocketSphinx

    noise = np.random.default_rng(0).normal(0, 0.1, 22050).astype(np.float32)
    found = PocketSphinx(phones=True).timed_phones(noise, 22050)
    assert all(0 <= one.start < one.end <= 1.02 for one in found)
    assert [one.start for one in found] == sorted(one.start for one in found)
