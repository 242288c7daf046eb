"""Words lost and said again, by the alignment alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.scoring.skips_and_repeats import (
    measure_alignment,
    pooled_measures,
    word_faults,
    words_under_a_step,
)
from clock_attention.speech.text.phonemes import Phonemes

# "ab, c" as tokens: two phonemes, a pause, one phoneme.
PHONEMES = Phonemes(("a", "b", ",", "c"), (0, 0, -1, 1), ("ab", "c"))


def one_hot(path: list[int], tokens: int) -> np.ndarray:
    return np.eye(tokens)[path]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_a_path_that_never_goes_back_repeats_nothing(path: list[int]) -> None:
    skips, repeats = word_faults(sorted(path), 10)
    assert (skips, repeats) == (10 - len(set(path)), 0)


@given(st.permutations(range(6)), st.integers(1, 3))
def test_coming_back_is_a_repeat_however_long_one_stays(words: list[int], stay: int) -> None:
    path = [word for word in [*words, words[0]] for _ in range(stay)]
    assert word_faults(path, 6) == (0, 1)


@pytest.mark.parametrize(
    ("path", "skips", "repeats"),
    [
        ([0, 1, 2, 3], 0, 0),
        ([0, 0, 3, 3], 0, 0),  # a word with one phoneme visited is not skipped, and a pause may be passed over
        ([0, 1, 1, 2], 1, 0),
        ([0, 3, 1, 3], 0, 2),
        ([0, 2, 1, 3], 0, 0),  # a look at the pause is not another word
    ],
)
def test_words_are_skipped_when_none_of_their_phonemes_is_visited(path: list[int], skips: int, repeats: int) -> None:
    measures = measure_alignment(one_hot(path, 4), PHONEMES)
    assert (measures["word_skips"], measures["word_repeats"]) == (skips, repeats)
    assert measures["words"] == 2


def test_a_word_that_one_head_reads_is_not_skipped_though_the_mean_passes_over_it() -> None:
    heads = np.stack([one_hot([0, 1, 2, 2], 4), one_hot([0, 1, 2, 2], 4), one_hot([0, 1, 2, 3], 4)])
    measures = measure_alignment(heads.mean(0), PHONEMES, heads)
    assert (measures["word_skips"], measures["word_skips_in_mean"]) == (0, 1)
    measures = measure_alignment(heads.mean(0), PHONEMES, heads[:2])
    assert (measures["word_skips"], measures["word_skips_in_mean"]) == (1, 1)


def test_the_end_token_need_not_be_visited_and_is_no_word() -> None:
    assert measure_alignment(one_hot([0, 1, 3], 5), PHONEMES)["skipped"] == 0
    measures = measure_alignment(one_hot([0, 1, 3, 4, 3], 5), PHONEMES)
    assert (measures["word_skips"], measures["word_repeats"]) == (0, 0)
    assert measures["repeated"] == 1


def test_counts_add_up_and_the_rest_is_averaged() -> None:
    pooled = pooled_measures([{"word_skips": 1, "focus": 0.5}, {}, {"word_skips": 2, "focus": 0.7}])
    assert pooled == {"word_skips": 3.0, "focus": pytest.approx(0.6)}
    assert pooled_measures([{}, {}]) == {}


def test_words_are_timed_by_the_alignment() -> None:
    phonemes = Phonemes(("dh", "ax", " ", "k", "ae", "t", " ", "ey"), (0, 0, -1, 1, 1, 1, -1, 2), ("the", "cat", "a"))
    durations = np.array([1, 1, 5, 0, 0, 1, 4, 2])
    assert words_under_a_step(phonemes, durations, 2) == 1  # "cat" has one frame of the two
    assert words_under_a_step(phonemes, durations, 1) == 0
