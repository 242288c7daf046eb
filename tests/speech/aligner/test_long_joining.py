"""Alignments of pieces, joined."""

import pytest

from clock_attention.speech.aligner.long_joining import Joined, ended, extend
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording, Flag


def piece(*words, score=-1.0, flags=()):
    """Half a second of silence, then a second a word."""
    intervals = [AlignedInterval(0.0, 0.5, "")]
    intervals += [AlignedInterval(0.5 + n, 1.5 + n, word, 0.9) for n, word in enumerate(words)]
    return AlignedRecording(0.5 + len(words), tuple(intervals), tuple(intervals), score, True, list(flags))


def test_pieces_follow_each_other_and_silence_is_one():
    joined = Joined(("a", "b", "c"), threshold=-2.0)
    joined.add(piece("a"), 0.0, 0, 1)
    joined.add_wordless(1.5, 3.0, 1, speech=False)
    joined.add(piece("b", "c", score=-2.0), 3.0, 1, 3)
    found = joined.recording(5.4)
    assert [(word.label, word.start, word.end) for word in found.words] == [
        ("", 0.0, 0.5),
        ("a", 0.5, 1.5),
        ("", 1.5, 3.5),
        ("b", 3.5, 4.5),
        ("c", 4.5, 5.4),
    ]
    assert found.score == pytest.approx((-1.0 * 1.5 - 2.0 * 2.5) / 4.0)
    assert found.fits
    assert not found.flags


def test_words_of_no_piece_are_missing_and_most_of_them_means_another_text():
    joined = Joined(("a", "b", "c"), threshold=-2.0)
    joined.add(piece("b"), 0.0, 1, 2)
    found = joined.recording(1.5)
    assert [(flag.kind, flag.word) for flag in found.flags] == [
        ("written-not-spoken", "a"),
        ("written-not-spoken", "c"),
    ]
    assert not found.fits


def test_unwritten_speech_that_goes_on_is_one_flag():
    joined = Joined(("a",), threshold=-2.0)
    joined.add(piece("a", flags=[Flag("spoken-not-written", "", 0.0, 1.5)]), 0.0, 0, 1)
    joined.add_wordless(1.5, 4.0, 1, speech=True)
    assert [(flag.start, flag.end) for flag in joined.recording(4.0).flags] == [(0.0, 4.0)]


def test_edges_are_the_same_to_the_last_digit():
    tier = []
    extend(tier, [AlignedInterval(0.0, 0.1, "a")], 0.2)
    extend(tier, [AlignedInterval(0.0, 0.1, "b")], 0.30000000000000004)
    assert tier[0].end == tier[1].start
    assert ended(tier, 0.25)[-1].end == 0.25
    assert ended([], 1.0) == ()
