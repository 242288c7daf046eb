"""Long recordings in pieces."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus.cutting import TimedWord, pieces_by_level, pieces_by_words

RATE = 8000


def test_cuts_by_level_lie_in_pauses():
    speech, pause = np.random.default_rng(0).normal(size=4 * RATE).astype(np.float32) * 0.1, np.zeros(RATE, np.float32)
    wave = np.concatenate([speech, pause] * 6)
    pieces = pieces_by_level(wave, RATE, longest=12.0)
    assert pieces[0].start == 0
    assert pieces[-1].end == len(wave) / RATE
    for piece, after in itertools.pairwise(pieces):
        assert piece.end == after.start
        assert piece.end % 5 > 4, "a cut within speech"
        assert piece.end - piece.start <= 12


@given(st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(0.0, 0.8)), min_size=1, max_size=80))
def test_pieces_by_words_hold_every_word_once_in_order(lengths):
    words, time = [], 0.3
    for number, (length, pause) in enumerate(lengths):
        words.append(TimedWord(time, time + length, f"w{number}"))
        time += length + pause
    pieces = pieces_by_words(words, time + 0.2, longest=6.0)
    assert " ".join(piece.text for piece in pieces).split() == [word.text for word in words]
    assert pieces[0].start == 0
    assert pieces[-1].end == time + 0.2
    for piece, after in itertools.pairwise(pieces):
        assert piece.end == after.start
    for piece in pieces:
        inside = [word for word in words if word.text in piece.text.split()]
        assert piece.start <= inside[0].start
        assert inside[-1].end <= piece.end + 1e-9


def spoken(count, start, length=0.4):
    return [TimedWord(start + i * length, start + (i + 1) * length, f"w{i}") for i in range(count)]


def test_a_heading_before_music_is_one_clip():
    words = [TimedWord(0.44 * i, 0.44 * i + 0.4, f"heading{i}") for i in range(8)] + spoken(20, 40.0)
    heading, text = pieces_by_words(words, 50.0)
    assert heading.text == " ".join(f"heading{i}" for i in range(8))
    assert (heading.start, text.end) == (0, 50)
    assert heading.end == text.start == (words[7].end + 40) / 2


def test_a_heading_before_a_word_that_is_stretched_over_music_is_one_clip():
    words = [*spoken(8, 0.0), TimedWord(3.5, 40.0, "stretched"), *spoken(20, 40.0)]
    heading, stretched, _ = pieces_by_words(words, 50.0)
    assert heading.text == " ".join(f"w{i}" for i in range(8))
    assert stretched.text == "stretched"


@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0.2, 30)), min_size=1, max_size=12))
def test_no_clip_holds_a_pause_that_is_longer_than_clips_may_be(groups):
    words, time = [], 0.0
    for count, pause in groups:
        words += spoken(count, time)
        time = words[-1].end + pause
    numbered = [TimedWord(word.start, word.end, str(number)) for number, word in enumerate(words)]
    for piece in pieces_by_words(numbered, time, longest=6.0):
        inside = [numbered[int(number)] for number in piece.text.split()]
        assert all(after.start - word.end <= 6 for word, after in itertools.pairwise(inside))


def test_pieces_are_short_where_there_are_pauses_and_not_much_longer_where_there_are_none():
    words = [TimedWord(i, i + (0.7 if i % 3 == 2 else 1.0), f"w{i}") for i in range(60)]
    assert max(p.end - p.start for p in pieces_by_words(words, 60, longest=10.0)) <= 10
    fluent = [TimedWord(i, i + 1, f"w{i}") for i in range(60)]
    assert max(p.end - p.start for p in pieces_by_words(fluent, 60, longest=10.0)) <= 16
