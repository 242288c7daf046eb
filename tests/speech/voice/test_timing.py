"""Whole frames for every entry: what is asked for exactly, nothing skipped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.controls import Controls, Prosody, Stretch
from clock_attention.speech.voice.timing import (
    Fixed,
    PhraseTiming,
    TimingRow,
    edges,
    fit,
    paced,
    requests,
    solve,
    split,
)


def phrase(words, pause=0.0):
    """Phonemes of each word by number, with a boundary between words."""
    index = [entry for number, count in words for entry in [*[number] * count, -1]][:-1]
    natural = np.array([3.0, *(0.4 if word == -1 else 5.3 for word in index), 6.0])
    least = np.array([0, *(int(word != -1) for word in index), 0])
    return PhraseTiming(natural, least, tuple(index), pause)


@pytest.fixture
def row():
    return TimingRow([[phrase([(0, 3), (1, 2)], 26.0)], [phrase([(2, 4), (3, 1)])]], 0.01)


def frames(row, durations, word):
    start, stop = row.words[word]
    return int(durations[start:stop].sum())


def test_a_word_lasts_what_was_asked_and_the_others_keep_their_pace(row):
    plain = solve(row, paced(row, {}, 1.0), [], None)
    asked = solve(row, paced(row, {}, 1.0), requests(row, Controls(stretches=(Stretch(1, 2, 0.8),))), None)
    assert frames(row, asked, 1) == 80
    assert abs(frames(row, asked, 2) - frames(row, plain, 2)) <= 1


def test_or_the_total_stays(row):
    asked = solve(row, paced(row, {}, 1.0), requests(row, Controls(stretches=(Stretch(1, 2, 0.5),))), 110)
    assert frames(row, asked, 1) == 50
    assert asked.sum() == 110


def test_a_break_is_the_silence_between_two_words(row):
    for word, silence in ((0, 40), (1, 25), (2, 100), (2, 1), (4, 12)):
        asked = solve(row, paced(row, {}, 1.0), requests(row, Controls(breaks={word: silence / 100})), None)
        runs = row.gaps(word)
        assert sum(int(asked[start:stop].sum()) for start, stop in runs) == silence


def test_stretches_can_be_nested_and_cross_sentences(row):
    controls = Controls(stretches=(Stretch(0, 4, 3.0), Stretch(1, 3, 1.5), Stretch(2, 3, 0.31)), breaks={2: 0.5})
    asked = solve(row, paced(row, {}, 1.0), requests(row, controls), None)
    assert frames(row, asked, 2) == 31
    first, stop = row.words[1][0], row.words[2][1]
    assert asked[first:stop].sum() == 150
    assert asked[row.words[0][0] : row.words[3][1]].sum() == 300


def test_words_have_paces_of_their_own(row):
    slow = solve(row, paced(row, {0: Prosody(pace=0.5)}, 1.0), [], None)
    plain = solve(row, paced(row, {}, 1.0), [], None)
    assert abs(frames(row, slow, 0) - 2 * frames(row, plain, 0)) <= 1


def test_too_little_is_refused(row):
    with pytest.raises(ValueError, match="3 phonemes"):
        solve(row, paced(row, {}, 1.0), requests(row, Controls(stretches=(Stretch(0, 1, 0.02),))), None)
    with pytest.raises(ValueError, match="what is left"):
        solve(row, paced(row, {}, 1.0), requests(row, Controls(stretches=(Stretch(0, 1, 1.0),))), 103)
    with pytest.raises(ValueError, match="durations inside"):
        solve(row, paced(row, {}, 1.0), [Fixed(1, 4, 20, "a"), Fixed(1, 4, 30, "b")], None)


def test_a_row_is_split_back_into_phrases(row):
    durations = np.arange(len(row.natural))
    found = split(row, durations)
    assert [len(tokens) for sentence in found for tokens, _ in sentence] == [8, 8]
    assert sum(int(tokens.sum()) + pause for sentence in found for tokens, pause in sentence) == durations.sum()


@given(
    st.lists(st.tuples(st.floats(0, 60), st.booleans()), min_size=1, max_size=30),
    st.integers(0, 800),
)
def test_fitted_frames_sum_to_the_total_and_skip_nothing(entries, more):
    wanted = np.array([frames for frames, _ in entries])
    least = np.array([int(needed) for _, needed in entries])
    total = int(least.sum()) + more
    found = fit(wanted, least, total, "", 0.01)
    assert found.sum() == total
    assert (found >= least).all()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=20))
def test_edges_are_in_order_and_move_only_where_they_must(units):
    starts, ends, reached = [], [], 0
    for gap, length, _ in units:
        starts.append(reached + gap)
        reached = starts[-1] + length
        ends.append(reached)
    least = np.array([minimum for *_, minimum in units])
    total = max(reached, int(least.sum()))
    found_starts, found_ends = edges(np.array(starts), np.array(ends), least, total)
    assert (found_ends - found_starts >= least).all()
    assert (found_starts[1:] >= found_ends[:-1]).all()
    assert found_ends[-1] <= total
    if all(length >= minimum for _, length, minimum in units):
        assert found_starts.tolist() == starts
        assert found_ends.tolist() == ends
