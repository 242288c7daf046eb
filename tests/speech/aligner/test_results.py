"""Intervals and recordings."""

from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording, AlignmentError
from clock_attention.timestamps import Interval


def test_an_aligned_interval_is_an_interval_with_confidence():
    word = AlignedInterval(0.5, 1.0, "word", 0.75)
    assert isinstance(word, Interval)
    shifted = word.shifted(2.0)
    assert (shifted.start, shifted.end, shifted.label) == (2.5, 3.0, "word")


def test_recordings_do_not_share_their_flags():
    first, second = (AlignedRecording(1.0, (), (), 0.0, True) for _ in range(2))
    first.flags.append("x")
    assert not second.flags


def test_errors_are_wrong_values():
    assert issubclass(AlignmentError, ValueError)
